#include "classify/Rule_Match.h"

#include <algorithm>

namespace proxy {

namespace {

bool like(std::string_view pattern, std::string_view text) {
	// The last % seen and how much of the text it has taken so far.
	size_t p = 0;
	size_t t = 0;
	size_t star = std::string_view::npos;
	size_t taken = 0;
	while (t < text.size()) {
		if (p < pattern.size() && pattern[p] == '%') {
			star = p++;
			taken = t;
		} else if (p < pattern.size() && (pattern[p] == '_' || pattern[p] == text[t])) {
			++p;
			++t;
		} else if (star != std::string_view::npos) {
			p = star + 1;
			t = ++taken;
		} else {
			return false;
		}
	}
	while (p < pattern.size() && pattern[p] == '%') {
		++p;
	}
	return p == pattern.size();
}

std::string_view trim(std::string_view text) {
	const size_t first = text.find_first_not_of(" \t");
	const size_t last = text.find_last_not_of(" \t");
	return first == std::string_view::npos ? std::string_view()
	                                       : text.substr(first, last - first + 1);
}

} // namespace

Result<Address_Match> Address_Match::parse(std::string_view text, bool patterns) {
	Address_Match result;
	result.text_ = text;
	if (text.find('/') == std::string_view::npos && text.find(',') == std::string_view::npos) {
		result.wildcard_ = patterns && text.find_first_of("%_") != std::string_view::npos;
		return result;
	}
	// A path of a Unix socket directory is an exact value too.
	if (!text.empty() && text.front() == '/') {
		return result;
	}
	size_t at = 0;
	while (at <= text.size()) {
		const size_t comma = std::min(text.find(',', at), text.size());
		const std::optional<Ip_Network> network =
		    Ip_Network::parse(trim(text.substr(at, comma - at)));
		if (!network) {
			return make_error("22023", "\"" + std::string(text.substr(at, comma - at)) +
			                               "\" is no address or network");
		}
		result.networks_.push_back(*network);
		at = comma + 1;
	}
	if (result.networks_.size() > kMaxNetworks) {
		return make_error("22023", "more than " + std::to_string(kMaxNetworks) + " networks");
	}
	return result;
}

bool Address_Match::matches(std::string_view address) const {
	if (networks_.empty()) {
		return wildcard_ ? like(text_, address) : text_ == address;
	}
	const std::optional<Ip_Address> parsed = Ip_Address::parse(address);
	return parsed && // not known: a client on a Unix socket
	       std::any_of(networks_.begin(), networks_.end(),
	                   [&parsed](const Ip_Network& network) { return network.contains(*parsed); });
}

} // namespace proxy
