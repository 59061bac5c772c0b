// What stands in pgsql_hostgroup_attributes.hostgroup_settings. Pure.
#pragma once

#include "base/Result.h"

#include <cstdint>
#include <string>

namespace proxy {

struct Hostgroup_Settings {
	int64_t default_query_timeout_ms = 0; // 0: not set
};

// `json`: an object, or empty. Names it does not know are left alone: ProxySQL has some that have
// no meaning here. An error names the value that cannot be.
Result<Hostgroup_Settings> parse_hostgroup_settings(const std::string& json);

} // namespace proxy
