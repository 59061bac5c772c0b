// Host names to numeric addresses. Blocks: service threads only.
#pragma once

#include <string>

namespace proxy {

// A numeric IPv4 or IPv6 address.
bool is_numeric_address(const std::string& hostname);
// False for numeric addresses and socket directories.
bool needs_resolving(const std::string& hostname);
// The first address of `hostname`; empty when there is none.
std::string resolve_host(const std::string& hostname);

} // namespace proxy
