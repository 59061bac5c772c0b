#include "config/Network_List.h"

#include "String_Checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace proxy {

Result<Network_List> Network_List::parse(std::string_view text) {
	Network_List list;
	for (const std::string_view part : split_list(text, ',')) {
		if (part == "*") {
			list.all_ = true;
			continue;
		}
		const std::optional<Ip_Network> network = Ip_Network::parse(part);
		if (!network) {
			return make_error("22023", fmt::format("\"{}\" is no address or network", part));
		}
		list.networks_.push_back(*network);
	}
	if (list.networks_.size() > kMaxNetworks) {
		return make_error("22023", fmt::format("more than {} networks", kMaxNetworks));
	}
	return list;
}

bool Network_List::contains(std::string_view address) const {
	if (empty()) {
		return false;
	}
	const std::optional<Ip_Address> parsed = Ip_Address::parse(address);
	return parsed && (all_ || std::any_of(networks_.begin(), networks_.end(),
	                                      [&parsed](const Ip_Network& network) {
		                                      return network.contains(*parsed);
	                                      }));
}

} // namespace proxy
