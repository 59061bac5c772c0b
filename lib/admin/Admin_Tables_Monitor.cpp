// The tables of the monitor (its check logs) and of the history file proxysql_stats.db.
#include "admin/ProxySQL_Admin_Tables_Definitions.h"

namespace proxy {

namespace {
constexpr Column_Null kNull = Column_Null::allowed;
constexpr Column_Null kNotNull = Column_Null::refused;

// clang-format off
constexpr Column_Definition kPgsqlServerConnectLog[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"time_start_us", "INT", kNotNull, "0"},
	{"connect_success_time_us", "INT", kNull, "0"},
	{"connect_error", "VARCHAR", kNull},
};

constexpr Column_Definition kPgsqlServerPingLog[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"time_start_us", "INT", kNotNull, "0"},
	{"ping_success_time_us", "INT", kNull, "0"},
	{"ping_error", "VARCHAR", kNull},
};

constexpr Column_Definition kPgsqlServerReadOnlyLog[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"time_start_us", "INT", kNotNull, "0"},
	{"success_time_us", "INT", kNull, "0"},
	{"read_only", "INT", kNull, "1"},
	{"error", "VARCHAR", kNull},
};

constexpr Column_Definition kPgsqlServerReplicationLagLog[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"time_start_us", "INT", kNotNull, "0"},
	{"success_time_us", "INT", kNull, "0"},
	{"repl_lag", "INT", kNull, "0"},
	{"error", "VARCHAR", kNull},
};

constexpr Column_Definition kHistoryPgsqlQueryDigest[] = {
	{"dump_time", "INT", kNull},
	{"hostgroup", "INT", kNull},
	{"schemaname", "VARCHAR", kNotNull},
	{"username", "VARCHAR", kNotNull},
	{"client_address", "VARCHAR", kNotNull},
	{"digest", "VARCHAR", kNotNull},
	{"digest_text", "VARCHAR", kNotNull},
	{"count_star", "INTEGER", kNotNull},
	{"first_seen", "INTEGER", kNotNull},
	{"last_seen", "INTEGER", kNotNull},
	{"sum_time", "INTEGER", kNotNull},
	{"min_time", "INTEGER", kNotNull},
	{"max_time", "INTEGER", kNotNull},
	{"sum_rows_affected", "INTEGER", kNotNull},
	{"sum_rows_sent", "INTEGER", kNotNull},
};

constexpr Column_Definition kHistoryPgsqlStatusVariables[] = {
	{"timestamp", "INT", kNotNull},
	{"variable_id", "INT", kNotNull},
	{"variable_value", "VARCHAR", kNotNull},
};

constexpr Column_Definition kHistoryPgsqlStatusVariablesLookup[] = {
	{"variable_id", "INTEGER", kNotNull, "", "", "PRIMARY KEY AUTOINCREMENT"},
	{"variable_name", "VARCHAR", kNotNull},
};

constexpr Column_Definition kHistoryPgsqlQueryEvents[] = {
	{"id", "INTEGER", kNotNull, "", "", "PRIMARY KEY AUTOINCREMENT"},
	{"thread_id", "INTEGER", kNull},
	{"username", "TEXT", kNull},
	{"database", "TEXT", kNull},
	{"start_time", "INTEGER", kNull},
	{"end_time", "INTEGER", kNull},
	{"query_digest", "TEXT", kNull},
	{"query", "TEXT", kNull},
	{"server", "TEXT", kNull},
	{"client", "TEXT", kNull},
	{"event_type", "INTEGER", kNull},
	{"hid", "INTEGER", kNull},
	{"extra_info", "TEXT", kNull},
	{"affected_rows", "INTEGER", kNull},
	{"rows_sent", "INTEGER", kNull},
	{"client_stmt_name", "TEXT", kNull},
	{"sqlstate", "TEXT", kNull},
	{"error", "TEXT", kNull},
};

constexpr Column_Definition kSystemCpu[] = {
	{"timestamp", "INT", kNotNull},
	{"tms_utime", "INT", kNotNull},
	{"tms_stime", "INT", kNotNull},
};

constexpr Column_Definition kSystemCpuHour[] = {
	{"timestamp", "INT", kNotNull},
	{"tms_utime", "INT", kNotNull},
	{"tms_stime", "INT", kNotNull},
};

constexpr Column_Definition kSystemCpuDay[] = {
	{"timestamp", "INT", kNotNull},
	{"tms_utime", "INT", kNotNull},
	{"tms_stime", "INT", kNotNull},
};

constexpr Column_Definition kSystemMemory[] = {
	{"timestamp", "INT", kNotNull},
	{"allocated", "INT", kNotNull},
	{"resident", "INT", kNotNull},
	{"active", "INT", kNotNull},
	{"mapped", "INT", kNotNull},
	{"metadata", "INT", kNotNull},
	{"retained", "INT", kNotNull},
};

constexpr Column_Definition kSystemMemoryHour[] = {
	{"timestamp", "INT", kNotNull},
	{"allocated", "INT", kNotNull},
	{"resident", "INT", kNotNull},
	{"active", "INT", kNotNull},
	{"mapped", "INT", kNotNull},
	{"metadata", "INT", kNotNull},
	{"retained", "INT", kNotNull},
};

constexpr Column_Definition kSystemMemoryDay[] = {
	{"timestamp", "INT", kNotNull},
	{"allocated", "INT", kNotNull},
	{"resident", "INT", kNotNull},
	{"active", "INT", kNotNull},
	{"mapped", "INT", kNotNull},
	{"metadata", "INT", kNotNull},
	{"retained", "INT", kNotNull},
};

constexpr Table_Definition kMonitorAndHistoryTables[] = {
	{"pgsql_server_connect_log", Table_Place::monitor, kPgsqlServerConnectLog, "PRIMARY KEY (hostname, port, time_start_us)", "connect checks"},
	{"pgsql_server_ping_log", Table_Place::monitor, kPgsqlServerPingLog, "PRIMARY KEY (hostname, port, time_start_us)", "ping checks"},
	{"pgsql_server_read_only_log", Table_Place::monitor, kPgsqlServerReadOnlyLog, "PRIMARY KEY (hostname, port, time_start_us)", "role checks"},
	{"pgsql_server_replication_lag_log", Table_Place::monitor, kPgsqlServerReplicationLagLog, "PRIMARY KEY (hostname, port, time_start_us)", "replay lag checks"},
	{"history_pgsql_query_digest", Table_Place::history, kHistoryPgsqlQueryDigest, "", "saved stats_pgsql_query_digest"},
	{"history_pgsql_status_variables", Table_Place::history, kHistoryPgsqlStatusVariables, "PRIMARY KEY (timestamp, variable_id)", "saved counters"},
	{"history_pgsql_status_variables_lookup", Table_Place::history, kHistoryPgsqlStatusVariablesLookup, "UNIQUE (variable_name)", "names of saved counters"},
	{"history_pgsql_query_events", Table_Place::history, kHistoryPgsqlQueryEvents, "", "saved stats_pgsql_query_events"},
	{"system_cpu", Table_Place::history, kSystemCpu, "PRIMARY KEY (timestamp)", "processor time of the process"},
	{"system_cpu_hour", Table_Place::history, kSystemCpuHour, "PRIMARY KEY (timestamp)", "system_cpu by hour"},
	{"system_cpu_day", Table_Place::history, kSystemCpuDay, "PRIMARY KEY (timestamp)", "system_cpu by day"},
	{"system_memory", Table_Place::history, kSystemMemory, "PRIMARY KEY (timestamp)", "memory of the process"},
	{"system_memory_hour", Table_Place::history, kSystemMemoryHour, "PRIMARY KEY (timestamp)", "system_memory by hour"},
	{"system_memory_day", Table_Place::history, kSystemMemoryDay, "PRIMARY KEY (timestamp)", "system_memory by day"},
};
// clang-format on
} // namespace

std::span<const Table_Definition> monitor_and_history_tables() {
	return kMonitorAndHistoryTables;
}

} // namespace proxy
