// What the admin layer may do to, and read from, the running proxy. Implemented in src/ (the only
// place that knows all layers), faked in the admin unit tests.
//
// Threads: called from admin threads, one call at a time (the admin's own lock); implementations
// may block for a moment but never wait for traffic.
#pragma once

#include "base/Result.h"
#include "config/Config_Rows.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// One row of a stats table: the values in column order, as text; nullopt is NULL.
using Stats_Row = std::vector<std::optional<std::string>>;
using Stats_Rows = std::vector<Stats_Row>;

// Whether reading a stats table also zeroes its counters (the _reset twins).
enum class Stats_Read : uint8_t { keep, reset };

class Runtime_Control {
public:
	virtual ~Runtime_Control() = default;

	// LOAD ... TO RUNTIME: all or nothing; the error names every rejected row.
	virtual Result<void> load_servers(const Pgsql_Servers_Config& config) = 0;
	virtual Result<void> load_users(const std::vector<Pgsql_User_Row>& users) = 0;
	virtual Result<void> load_query_rules(const Query_Rules_Config& rules) = 0;
	// Full names with prefix ("pgsql-threads" -> "4"). Already validated by lib/config.
	virtual Result<void> load_pgsql_variables(const std::map<std::string, std::string>& values) = 0;
	virtual Result<void> load_admin_variables(const std::map<std::string, std::string>& values) = 0;

	// What runs now (runtime_ tables), including what the monitor changed.
	virtual Pgsql_Servers_Config runtime_servers() = 0;
	virtual std::vector<Pgsql_User_Row> runtime_users() = 0;
	virtual Query_Rules_Config runtime_query_rules() = 0;

	// Rows of a stats or monitor table by its name without _reset
	// ("stats_pgsql_connection_pool", "pgsql_server_ping_log"); columns as in
	// ProxySQL_Admin_Tables_Definitions. Unknown names give no rows.
	virtual Stats_Rows stats(std::string_view table, Stats_Read read) = 0;

	enum class Action : uint8_t {
		pause,
		resume,
		stop,
		start,
		shutdown,
		shutdown_slow,
		flush_logs,
		reload_tls,
	};
	virtual Result<void> act(Action action) = 0;

	// KILL PGSQL CONNECTION id; false when there is no such session.
	virtual bool kill_session(uint64_t session_id) = 0;
};

} // namespace proxy
