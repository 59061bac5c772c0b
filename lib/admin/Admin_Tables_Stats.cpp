// The stats tables: filled when a statement names them.
#include "admin/ProxySQL_Admin_Tables_Definitions.h"

namespace proxy {

namespace {
constexpr Column_Null kNull = Column_Null::allowed;
constexpr Column_Null kNotNull = Column_Null::refused;

// clang-format off
constexpr Column_Definition kStatsPgsqlGlobal[] = {
	{"Variable_Name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"Variable_Value", "VARCHAR", kNotNull},
};

constexpr Column_Definition kStatsPgsqlConnectionPool[] = {
	{"hostgroup", "INT", kNull},
	{"srv_host", "VARCHAR", kNull},
	{"srv_port", "INT", kNull},
	{"status", "VARCHAR", kNull},
	{"ConnUsed", "INT", kNull},
	{"ConnFree", "INT", kNull},
	{"ConnOK", "INT", kNull},
	{"ConnERR", "INT", kNull},
	{"MaxConnUsed", "INT", kNull},
	{"Queries", "INT", kNull},
	{"Bytes_data_sent", "INT", kNull},
	{"Bytes_data_recv", "INT", kNull},
	{"Latency_us", "INT", kNull},
};

constexpr Column_Definition kStatsPgsqlFreeConnections[] = {
	{"fd", "INT", kNotNull},
	{"hostgroup", "INT", kNotNull},
	{"srv_host", "VARCHAR", kNotNull},
	{"srv_port", "INT", kNotNull},
	{"user", "VARCHAR", kNotNull},
	{"database", "VARCHAR", kNull},
	{"init_connect", "VARCHAR", kNull},
	{"time_zone", "VARCHAR", kNull},
	{"sql_mode", "VARCHAR", kNull},
	{"idle_ms", "INT", kNull},
	{"statistics", "VARCHAR", kNull},
	{"pgsql_info", "VARCHAR", kNull},
};

constexpr Column_Definition kStatsPgsqlUsers[] = {
	{"username", "VARCHAR", kNull, "", "", "PRIMARY KEY"},
	{"frontend_connections", "INT", kNotNull},
	{"frontend_max_connections", "INT", kNotNull},
};

constexpr Column_Definition kStatsPgsqlProcesslist[] = {
	{"ThreadID", "INT", kNotNull},
	{"SessionID", "INTEGER", kNotNull, "", "", "PRIMARY KEY"},
	{"user", "VARCHAR", kNull},
	{"database", "VARCHAR", kNull},
	{"cli_host", "VARCHAR", kNull},
	{"cli_port", "INT", kNull},
	{"hostgroup", "INT", kNull},
	{"l_srv_host", "VARCHAR", kNull},
	{"l_srv_port", "INT", kNull},
	{"srv_host", "VARCHAR", kNull},
	{"srv_port", "INT", kNull},
	{"backend_pid", "INT", kNull},
	{"backend_state", "VARCHAR", kNull},
	{"command", "VARCHAR", kNull},
	{"time_ms", "INT", kNotNull},
	{"info", "VARCHAR", kNull},
	{"status_flags", "INT", kNull},
	{"extended_info", "VARCHAR", kNull},
	{"pin_reasons", "VARCHAR", kNull, "", "", "", "why the session keeps its backend connection; NULL: it does not"},
	{"route_reason", "VARCHAR", kNull, "", "", "", "why the last statement went where it went"},
	{"reader_srv_host", "VARCHAR", kNull, "", "", "", "replica held for reads of the transaction"},
	{"reader_srv_port", "INT", kNull, "", "", "", "its port"},
};

constexpr Column_Definition kStatsPgsqlErrors[] = {
	{"hostgroup", "INT", kNotNull},
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"username", "VARCHAR", kNotNull},
	{"client_address", "VARCHAR", kNotNull},
	{"database", "VARCHAR", kNotNull},
	{"sqlstate", "VARCHAR", kNotNull},
	{"count_star", "INTEGER", kNotNull},
	{"first_seen", "INTEGER", kNotNull},
	{"last_seen", "INTEGER", kNotNull},
	{"last_error", "VARCHAR", kNotNull, "''"},
};

constexpr Column_Definition kStatsPgsqlClientHostCache[] = {
	{"client_address", "VARCHAR", kNotNull},
	{"error_count", "INT", kNotNull},
	{"last_updated", "BIGINT", kNotNull},
};

constexpr Column_Definition kStatsPgsqlQueryRules[] = {
	{"rule_id", "INTEGER", kNotNull, "", "", "PRIMARY KEY"},
	{"hits", "INT", kNotNull},
};

constexpr Column_Definition kStatsPgsqlCommandsCounters[] = {
	{"Command", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"Total_Time_us", "INT", kNotNull},
	{"Total_cnt", "INT", kNotNull},
	{"cnt_100us", "INT", kNotNull},
	{"cnt_500us", "INT", kNotNull},
	{"cnt_1ms", "INT", kNotNull},
	{"cnt_5ms", "INT", kNotNull},
	{"cnt_10ms", "INT", kNotNull},
	{"cnt_50ms", "INT", kNotNull},
	{"cnt_100ms", "INT", kNotNull},
	{"cnt_500ms", "INT", kNotNull},
	{"cnt_1s", "INT", kNotNull},
	{"cnt_5s", "INT", kNotNull},
	{"cnt_10s", "INT", kNotNull},
	{"cnt_INFs", "", kNull},
};

constexpr Column_Definition kStatsPgsqlQueryDigest[] = {
	{"hostgroup", "INT", kNull},
	{"database", "VARCHAR", kNotNull},
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

constexpr Column_Definition kStatsPgsqlPreparedStatementsInfo[] = {
	{"global_stmt_id", "INT", kNotNull},
	{"database", "VARCHAR", kNotNull},
	{"username", "VARCHAR", kNotNull},
	{"digest", "VARCHAR", kNotNull},
	{"ref_count_client", "INT", kNotNull},
	{"ref_count_server", "INT", kNotNull},
	{"num_param_types", "INT", kNotNull},
	{"query", "VARCHAR", kNotNull},
};

constexpr Column_Definition kStatsPgsqlQueryEvents[] = {
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

constexpr Column_Definition kStatsPgsqlRouteReasons[] = {
	{"hostgroup", "INT", kNotNull, "", "", "", "hostgroup the statement was sent to"},
	{"reason", "VARCHAR", kNotNull, "", "", "", "short name of the reason"},
	{"description", "VARCHAR", kNotNull, "", "", "", "the reason in words"},
	{"count_star", "INTEGER", kNotNull, "", "", "", "statements routed so since start"},
};

constexpr Column_Definition kStatsMemoryMetrics[] = {
	{"Variable_Name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"Variable_Value", "VARCHAR", kNotNull},
};

constexpr Column_Definition kStatsProxysqlServersClientsStatus[] = {
	{"uuid", "VARCHAR", kNotNull},
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull},
	{"admin_mysql_ifaces", "VARCHAR", kNotNull},
	{"last_seen_at", "INT", kNotNull},
};

constexpr Column_Definition kStatsProxysqlServersStatus[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull, "6032"},
	{"weight", "INT", kNotNull, "0", "weight >= 0"},
	{"master", "VARCHAR", kNotNull},
	{"global_version", "INT", kNotNull},
	{"check_age_us", "INT", kNotNull},
	{"ping_time_us", "INT", kNotNull},
	{"checks_OK", "INT", kNotNull},
	{"checks_ERR", "INT", kNotNull},
};

constexpr Column_Definition kStatsProxysqlServersMetrics[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull, "6032"},
	{"weight", "INT", kNotNull, "0", "weight >= 0"},
	{"comment", "VARCHAR", kNotNull, "''"},
	{"response_time_ms", "INT", kNotNull},
	{"Uptime_s", "INT", kNotNull},
	{"last_check_ms", "INT", kNotNull},
	{"Queries", "INT", kNotNull},
	{"Client_Connections_connected", "INT", kNotNull},
	{"Client_Connections_created", "INT", kNotNull},
};

constexpr Column_Definition kStatsProxysqlServersChecksums[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull, "6032"},
	{"name", "VARCHAR", kNotNull},
	{"version", "INT", kNotNull},
	{"epoch", "INT", kNotNull},
	{"checksum", "VARCHAR", kNotNull},
	{"changed_at", "INT", kNotNull},
	{"updated_at", "INT", kNotNull},
	{"diff_check", "INT", kNotNull},
};

constexpr Column_Definition kStatsProxysqlMessageMetrics[] = {
	{"message_id", "VARCHAR", kNotNull},
	{"filename", "VARCHAR", kNotNull},
	{"line", "INT", kNotNull, "0", "line >= 0"},
	{"func", "VARCHAR", kNotNull},
	{"count_star", "INTEGER", kNotNull},
	{"first_seen", "INTEGER", kNotNull},
	{"last_seen", "INTEGER", kNotNull},
};

constexpr Column_Definition kStatsProxysqlGlobal[] = {
	{"Variable_Name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"Variable_Value", "VARCHAR", kNotNull},
};

constexpr Column_Definition kStatsTlsCertificates[] = {
	{"cert_type", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"file_path", "VARCHAR", kNotNull},
	{"subject_cn", "VARCHAR", kNull},
	{"issuer_cn", "VARCHAR", kNull},
	{"serial_number", "VARCHAR", kNull},
	{"not_before", "VARCHAR", kNull},
	{"not_after", "VARCHAR", kNull},
	{"days_until_expiry", "INT", kNull},
	{"sha256_fingerprint", "VARCHAR", kNull},
	{"loaded_at", "INT", kNotNull, "0"},
};

constexpr Column_Definition kGlobalVariablesStats[] = {
	{"variable_name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"variable_value", "VARCHAR", kNotNull},
};

constexpr Table_Definition kStatsTables[] = {
	{"stats_pgsql_global", Table_Place::stats, kStatsPgsqlGlobal, "", "counters of the whole process"},
	{"stats_pgsql_connection_pool", Table_Place::stats, kStatsPgsqlConnectionPool, "", "connections and traffic by server", Reset_Twin::yes},
	{"stats_pgsql_free_connections", Table_Place::stats, kStatsPgsqlFreeConnections, "", "idle backend connections"},
	{"stats_pgsql_users", Table_Place::stats, kStatsPgsqlUsers, "", "client connections by user"},
	{"stats_pgsql_processlist", Table_Place::stats, kStatsPgsqlProcesslist, "", "client sessions"},
	{"stats_pgsql_errors", Table_Place::stats, kStatsPgsqlErrors, "PRIMARY KEY (hostgroup, hostname, port, username, database, sqlstate)", "errors by server, user and SQLSTATE", Reset_Twin::yes},
	{"stats_pgsql_client_host_cache", Table_Place::stats, kStatsPgsqlClientHostCache, "", "failed logins by client address", Reset_Twin::yes},
	{"stats_pgsql_query_rules", Table_Place::stats, kStatsPgsqlQueryRules, "", "hits by rule"},
	{"stats_pgsql_commands_counters", Table_Place::stats, kStatsPgsqlCommandsCounters, "", "statements and their time by kind"},
	{"stats_pgsql_query_digest", Table_Place::stats, kStatsPgsqlQueryDigest, "PRIMARY KEY (hostgroup, database, username, client_address, digest)", "statements by digest", Reset_Twin::yes},
	{"stats_pgsql_prepared_statements_info", Table_Place::stats, kStatsPgsqlPreparedStatementsInfo, "", "prepared statements known to the proxy"},
	{"stats_pgsql_query_events", Table_Place::stats, kStatsPgsqlQueryEvents, "", "logged statements"},
	{"stats_pgsql_route_reasons", Table_Place::stats, kStatsPgsqlRouteReasons, "PRIMARY KEY (hostgroup, reason)", "why statements went where they went"},
	{"stats_memory_metrics", Table_Place::stats, kStatsMemoryMetrics, "", "memory by use"},
	{"stats_proxysql_servers_clients_status", Table_Place::stats, kStatsProxysqlServersClientsStatus, "PRIMARY KEY (uuid, hostname, port)", "cluster peers that connected here"},
	{"stats_proxysql_servers_status", Table_Place::stats, kStatsProxysqlServersStatus, "PRIMARY KEY (hostname, port)", "state of cluster peers"},
	{"stats_proxysql_servers_metrics", Table_Place::stats, kStatsProxysqlServersMetrics, "PRIMARY KEY (hostname, port)", "load of cluster peers"},
	{"stats_proxysql_servers_checksums", Table_Place::stats, kStatsProxysqlServersChecksums, "PRIMARY KEY (hostname, port, name)", "checksums of cluster peers"},
	{"stats_proxysql_message_metrics", Table_Place::stats, kStatsProxysqlMessageMetrics, "PRIMARY KEY (filename, line, func)", "logged messages by place", Reset_Twin::yes},
	{"stats_proxysql_global", Table_Place::stats, kStatsProxysqlGlobal, "", "process state shared by all protocols"},
	{"stats_tls_certificates", Table_Place::stats, kStatsTlsCertificates, "", "certificates in use"},
	{"global_variables", Table_Place::stats, kGlobalVariablesStats, "", "one row some client drivers ask for"},
};
// clang-format on

constexpr View_Definition kViews[] = {
    {"stats_pgsql_stat_activity",
     "SELECT ThreadID AS thread_id, database AS datname, SessionID AS pid, user AS usename, "
     "cli_host AS client_addr, cli_port AS client_port, hostgroup, l_srv_host, l_srv_port, "
     "srv_host, "
     "srv_port, backend_pid, backend_state AS state, command, time_ms AS duration_ms, info AS "
     "query, "
     "status_flags, extended_info FROM stats_pgsql_processlist",
     "client sessions under PostgreSQL's column names"},
};
} // namespace

std::span<const Table_Definition> stats_tables() {
	return kStatsTables;
}

std::span<const View_Definition> stats_views() {
	return kViews;
}

} // namespace proxy
