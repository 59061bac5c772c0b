#include "classify/Rule_Match.h"

#include <arpa/inet.h>
#include <charconv>
#include <cstring>

namespace proxy {

namespace {

// Both families in one form; IPv4 becomes ::ffff:a.b.c.d.
bool parse_address(std::string_view text, uint8_t (&bytes)[16], bool& is_v4) {
	char copy[INET6_ADDRSTRLEN + 1] = {};
	if (text.empty() || text.size() >= sizeof(copy)) {
		return false;
	}
	std::memcpy(copy, text.data(), text.size());
	is_v4 = text.find(':') == std::string_view::npos;
	if (!is_v4) {
		return inet_pton(AF_INET6, copy, bytes) == 1;
	}
	std::memset(bytes, 0, 10);
	bytes[10] = bytes[11] = 0xff;
	return inet_pton(AF_INET, copy, bytes + 12) == 1;
}

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

bool Address_Match::parse_network(std::string_view text, Network& network) {
	const size_t slash = text.find('/');
	bool is_v4 = false;
	if (!parse_address(text.substr(0, slash), network.bytes, is_v4)) {
		return false;
	}
	const int width = is_v4 ? 32 : 128;
	int bits = width;
	if (slash != std::string_view::npos) {
		const std::string_view digits = text.substr(slash + 1);
		const auto [end, error] =
		    std::from_chars(digits.data(), digits.data() + digits.size(), bits);
		if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
		    bits < 0 || bits > width) {
			return false;
		}
	}
	network.bits = bits + (128 - width);
	return true;
}

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
		Network network;
		if (!parse_network(trim(text.substr(at, comma - at)), network)) {
			return make_error("22023", "\"" + std::string(text.substr(at, comma - at)) +
			                               "\" is no address or network");
		}
		result.networks_.push_back(network);
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
	uint8_t bytes[16] = {};
	bool is_v4 = false;
	if (!parse_address(address, bytes, is_v4)) {
		return false; // unknown: a client on a Unix socket
	}
	for (const Network& network : networks_) {
		const auto whole = static_cast<size_t>(network.bits / 8);
		const int rest = network.bits % 8;
		if (std::memcmp(bytes, network.bytes, whole) != 0) {
			continue;
		}
		if (rest == 0 || ((bytes[whole] ^ network.bytes[whole]) >> (8 - rest)) == 0) {
			return true;
		}
	}
	return false;
}

} // namespace proxy
