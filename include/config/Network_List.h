// A list of networks as a variable holds it: "10.0.0.0/8, ::1", "*" for every address, empty for
// none. A plain value.
#pragma once

#include "base/Ip_Address.h"
#include "base/Result.h"

#include <string_view>
#include <vector>

namespace proxy {

class Network_List {
public:
	static constexpr size_t kMaxNetworks = 64;

	// The error says which part is wrong, without the variable's name.
	static Result<Network_List> parse(std::string_view text);
	bool empty() const { return !all_ && networks_.empty(); }
	// `address` is numeric; anything else (a client on a Unix socket) is in no network.
	bool contains(std::string_view address) const;

private:
	bool all_ = false;
	std::vector<Ip_Network> networks_;
};

} // namespace proxy
