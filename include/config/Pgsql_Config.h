// The pgsql- variables as one plain struct, a member a row of pgsql_variables.def.
//
// Built by build_pgsql_config() (Config_Variables.h), then published through Config_Store as
// shared_ptr<const Pgsql_Config>: immutable from there on, so any thread reads it without a lock.
// A default-constructed value holds the defaults.
#pragma once

#include "config/Config_Rows.h"
#include "config/Database_Limits.h"
#include "config/Network_List.h"
#include "config/Polardb_Policy.h"

#include <cstdint>
#include <memory>
#include <string>

namespace proxy {

// C++ types of the rows' type column.
using Variable_Int = int64_t;
using Variable_Bool = bool;
using Variable_String = std::string;
using Variable_Word = std::string;

struct Pgsql_Config {
#define X(name, type, default_value, min, max, unit, when, doc)                                    \
	Variable_##type name = default_value;
#include "config/pgsql_variables.def"
#undef X

	// The polardb_ words above as enums, so that no worker compares text. Filled by
	// build_pgsql_config(); agrees with the defaults when default-constructed.
	Polardb_Policy policy;
	Database_Limits database_limits; // of max_connections_per_database
	// proxy_protocol_networks, likewise.
	Network_List proxy_networks;
};

// TLS towards a server without a row of its own in pgsql_servers_ssl_params: pgsql-ssl_p2s_*.
std::shared_ptr<const Server_Ssl_Params_Row> default_ssl_params(const Pgsql_Config& config);

} // namespace proxy
