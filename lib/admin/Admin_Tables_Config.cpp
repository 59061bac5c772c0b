// The configuration tables: main, disk and their runtime_ twins.
#include "admin/ProxySQL_Admin_Tables_Definitions.h"

namespace proxy {

namespace {
constexpr Column_Null kNull = Column_Null::allowed;
constexpr Column_Null kNotNull = Column_Null::refused;

// clang-format off
constexpr Column_Definition kPgsqlServers[] = {
	{"hostgroup_id", "INT", kNotNull, "0", "hostgroup_id>=0", "", "hostgroup the server belongs to"},
	{"hostname", "VARCHAR", kNotNull, "", "", "", "address, or a directory of Unix sockets when port is 0"},
	{"port", "INT", kNotNull, "5432", "port >= 0 AND port <= 65535", "", "port, 0 for a Unix socket"},
	{"status", "VARCHAR", kNotNull, "'ONLINE'", "UPPER(status) IN ('ONLINE','SHUNNED','OFFLINE_SOFT', 'OFFLINE_HARD')", "", "configured state"},
	{"weight", "INT", kNotNull, "1", "weight >= 0 AND weight <=10000000", "", "share of the traffic; 0 takes the server out of reader selection"},
	{"compression", "INT", kNotNull, "0", "compression IN(0,1)", "", "accepted for compatibility, no effect"},
	{"max_connections", "INT", kNotNull, "1000", "max_connections >=0", "", "most connections the proxy opens to this server"},
	{"max_replication_lag", "INT", kNotNull, "0", "max_replication_lag >= 0 AND max_replication_lag <= 126144000", "", "seconds of replay lag after which the monitor shuns the server; 0 off"},
	{"use_ssl", "INT", kNotNull, "0", "use_ssl IN(0,1)", "", "1: connect with TLS"},
	{"max_latency_ms", "INT UNSIGNED", kNotNull, "0", "max_latency_ms>=0", "", "skip the server when its ping takes longer; 0: pgsql-default_max_latency_ms"},
	{"comment", "VARCHAR", kNotNull, "''", "", "", "free text"},
};

constexpr Column_Definition kPgsqlUsers[] = {
	{"username", "VARCHAR", kNotNull, "", "", "", "role name"},
	{"password", "VARCHAR", kNull, "", "", "", "plain text, md5 hash or SCRAM-SHA-256 verifier"},
	{"active", "INT", kNotNull, "1", "active IN (0,1)", "", "0: the user cannot log in"},
	{"use_ssl", "INT", kNotNull, "0", "use_ssl IN (0,1)", "", "1: the client must use TLS"},
	{"default_hostgroup", "INT", kNotNull, "0", "", "", "hostgroup of statements that no rule routes"},
	{"transaction_persistent", "INT", kNotNull, "1", "transaction_persistent IN (0,1)", "", "1: a transaction stays on one hostgroup"},
	{"fast_forward", "INT", kNotNull, "0", "fast_forward IN (0,1)", "", "1: no query processing, one backend per client"},
	{"backend", "INT", kNotNull, "1", "backend IN (0,1)", "", "the row describes the login to servers"},
	{"frontend", "INT", kNotNull, "1", "frontend IN (0,1)", "", "the row describes the login to the proxy"},
	{"max_connections", "INT", kNotNull, "10000", "max_connections >=0", "", "most client connections of this user"},
	{"attributes", "VARCHAR", kNotNull, "''", "JSON_VALID(attributes) OR attributes = ''", "", "JSON object or empty"},
	{"comment", "VARCHAR", kNotNull, "''", "", "", "free text"},
};

constexpr Column_Definition kPgsqlQueryRules[] = {
	{"rule_id", "INTEGER", kNotNull, "", "", "PRIMARY KEY AUTOINCREMENT", "rules are tried in this order"},
	{"active", "INT", kNotNull, "0", "active IN (0,1)", "", "0: the rule is not loaded"},
	{"username", "VARCHAR", kNull, "", "", "", "match: client user"},
	{"database", "VARCHAR", kNull, "", "", "", "match: client database"},
	{"flagIN", "INT", kNotNull, "0", "flagIN >= 0", "", "match: the flag set by an earlier rule"},
	{"client_addr", "VARCHAR", kNull, "", "", "", "match: client address, % as wildcard at the end"},
	{"proxy_addr", "VARCHAR", kNull, "", "", "", "match: address the client connected to"},
	{"proxy_port", "INT", kNull, "", "proxy_port >= 0 AND proxy_port <= 65535", "", "match: port the client connected to"},
	{"digest", "VARCHAR", kNull, "", "", "", "match: digest of the statement"},
	{"match_digest", "VARCHAR", kNull, "", "", "", "match: regular expression over the digest text"},
	{"match_pattern", "VARCHAR", kNull, "", "", "", "match: regular expression over the statement"},
	{"negate_match_pattern", "INT", kNotNull, "0", "negate_match_pattern IN (0,1)", "", "1: match when the expression does not"},
	{"re_modifiers", "VARCHAR", kNull, "'CASELESS'", "", "", "CASELESS, GLOBAL"},
	{"flagOUT", "INT", kNull, "", "flagOUT >= 0", "", "on match: go on with rules of this flagIN"},
	{"replace_pattern", "VARCHAR", kNull, "", "CASE WHEN replace_pattern IS NULL THEN 1 WHEN replace_pattern IS NOT NULL AND match_pattern IS NOT NULL THEN 1 ELSE 0 END", "", "on match: rewrite the statement"},
	{"destination_hostgroup", "INT", kNull, "NULL", "", "", "on match: route to this hostgroup"},
	{"cache_ttl", "INT", kNull, "", "cache_ttl > 0", "", "on match: keep the result this many milliseconds"},
	{"cache_empty_result", "INT", kNull, "NULL", "cache_empty_result IN (0,1)", "", "cache results without rows"},
	{"cache_timeout", "INT", kNull, "", "cache_timeout >= 0", "", "accepted for compatibility, no effect"},
	{"reconnect", "INT", kNull, "NULL", "reconnect IN (0,1)", "", "accepted for compatibility, no effect"},
	{"timeout", "INT UNSIGNED", kNull, "", "timeout >= 0", "", "on match: most milliseconds the statement may run"},
	{"retries", "INT", kNull, "", "retries>=0 AND retries <=1000", "", "on match: how often a failed statement is retried"},
	{"delay", "INT UNSIGNED", kNull, "", "delay >=0", "", "on match: wait this many milliseconds first"},
	{"next_query_flagIN", "INT UNSIGNED", kNull, "", "", "", "on match: flagIN of the next statement"},
	{"mirror_flagOUT", "INT UNSIGNED", kNull, "", "", "", "on match: flag of the mirrored statement"},
	{"mirror_hostgroup", "INT UNSIGNED", kNull, "", "", "", "on match: send a copy here"},
	{"error_msg", "VARCHAR", kNull, "", "", "", "on match: answer with this error"},
	{"OK_msg", "VARCHAR", kNull, "", "", "", "on match: answer with success"},
	{"sticky_conn", "INT", kNull, "", "sticky_conn IN (0,1)", "", "accepted for compatibility, no effect"},
	{"multiplex", "INT", kNull, "", "multiplex IN (0,1,2)", "", "0 keeps the backend connection, 1 gives it back, 2 leaves it as it is"},
	{"log", "INT", kNull, "", "log IN (0,1)", "", "1: write to the events log"},
	{"apply", "INT", kNotNull, "0", "apply IN (0,1)", "", "1: no further rule is tried"},
	{"attributes", "VARCHAR", kNotNull, "''", "JSON_VALID(attributes) OR attributes = ''", "", "JSON object or empty"},
	{"comment", "VARCHAR", kNull, "", "", "", "free text"},
	{"replica_eligible", "INT", kNotNull, "-1", "replica_eligible IN (-1,0,1)", "", "1: the read/write split decides, 0: the writer, -1: the hostgroup of this rule as it stands"},
	{"rollout_pct", "INT", kNotNull, "100", "rollout_pct >= 0 AND rollout_pct <= 100", "", "percent of matching statements the rule applies to"},
};

constexpr Column_Definition kPgsqlQueryRulesFastRouting[] = {
	{"username", "VARCHAR", kNotNull, "", "", "", "match: client user"},
	{"database", "VARCHAR", kNotNull, "", "", "", "match: client database"},
	{"flagIN", "INT", kNotNull, "0", "", "", "match: flag"},
	{"destination_hostgroup", "INT", kNotNull, "", "destination_hostgroup >= 0", "", "where the statement goes"},
	{"comment", "VARCHAR", kNotNull, "", "", "", "free text"},
};

constexpr Column_Definition kPgsqlReplicationHostgroups[] = {
	{"writer_hostgroup", "INT", kNotNull, "", "writer_hostgroup>=0", "PRIMARY KEY", "hostgroup of the primary"},
	{"reader_hostgroup", "INT", kNotNull, "", "reader_hostgroup<>writer_hostgroup AND reader_hostgroup>=0", "", "hostgroup of its replicas"},
	{"check_type", "VARCHAR", kNotNull, "'read_only'", "LOWER(check_type) IN ('read_only','polardb')", "", "read_only: role by pg_is_in_recovery(); polardb: the same, and the columns below apply", "CASE WHEN LOWER(check_type) = 'polardb' THEN 'polardb' ELSE 'read_only' END"},
	{"comment", "VARCHAR", kNotNull, "''", "", "", "free text"},
	{"txn_split_enabled", "INT", kNotNull, "0", "txn_split_enabled IN (0,1) AND (txn_split_enabled = 0 OR LOWER(check_type) = 'polardb')", "", "1: reads inside a transaction may run on a replica"},
	{"consistency_mode", "VARCHAR", kNotNull, "'default'", "LOWER(consistency_mode) IN ('default','off','eventual','session_lsn','global_lsn')", "", "consistency of reads on replicas; default: pgsql-polardb_consistency_mode", "CASE LOWER(consistency_mode) WHEN 'lsn' THEN 'session_lsn' WHEN 'session' THEN 'session_lsn' WHEN 'global' THEN 'global_lsn' WHEN 'lsn_global' THEN 'global_lsn' WHEN 'primary' THEN 'off' ELSE LOWER(consistency_mode) END"},
	{"max_lag_bytes", "INT", kNotNull, "-1", "max_lag_bytes >= -1", "", "most bytes a reader may be behind; -1: the variable, 0: no bound"},
	{"lsn_wait_timeout_ms", "INT", kNotNull, "-1", "lsn_wait_timeout_ms >= -1 AND lsn_wait_timeout_ms <= 60000", "", "how long a reader is waited for; -1: the variable, 0: no bound"},
	{"proxy_protocol", "VARCHAR", kNotNull, "'default'", "LOWER(proxy_protocol) IN ('default','v15_wait','v15','legacy','off','auto','stock')", "", "how the server tells its log position; default: the variable"},
};

constexpr Column_Definition kPgsqlHostgroupAttributes[] = {
	{"hostgroup_id", "INT", kNotNull, "", "", "PRIMARY KEY", "hostgroup these settings are for"},
	{"max_num_online_servers", "INT", kNotNull, "1000000", "max_num_online_servers>=0 AND max_num_online_servers <= 1000000", "", "most servers of the hostgroup used at a time"},
	{"autocommit", "INT", kNotNull, "-1", "autocommit IN (-1, 0, 1)", "", "accepted for compatibility, no effect"},
	{"free_connections_pct", "INT", kNotNull, "10", "free_connections_pct >= 0 AND free_connections_pct <= 100", "", "idle connections kept, in percent of max_connections"},
	{"init_connect", "VARCHAR", kNotNull, "''", "", "", "statement sent on each new connection"},
	{"multiplex", "INT", kNotNull, "1", "multiplex IN (0, 1)", "", "0: a client keeps its connection"},
	{"connection_warming", "INT", kNotNull, "0", "connection_warming IN (0, 1)", "", "1: open connections ahead of need"},
	{"throttle_connections_per_sec", "INT", kNotNull, "1000000", "throttle_connections_per_sec >= 1 AND throttle_connections_per_sec <= 1000000", "", "most new connections a second"},
	{"ignore_session_variables", "VARCHAR", kNotNull, "''", "JSON_VALID(ignore_session_variables) OR ignore_session_variables = ''", "", "JSON list of variables that are not tracked"},
	{"hostgroup_settings", "VARCHAR", kNotNull, "''", "JSON_VALID(hostgroup_settings) OR hostgroup_settings = ''", "", "JSON object or empty"},
	{"servers_defaults", "VARCHAR", kNotNull, "''", "JSON_VALID(servers_defaults) OR servers_defaults = ''", "", "JSON object with defaults for servers the monitor adds"},
	{"comment", "VARCHAR", kNotNull, "''", "", "", "free text"},
};

constexpr Column_Definition kPgsqlServersSslParams[] = {
	{"hostname", "VARCHAR", kNotNull, "", "", "", "server address"},
	{"port", "INT", kNotNull, "5432", "port >= 0 AND port <= 65535", "", "server port"},
	{"username", "VARCHAR", kNotNull, "''", "", "", "user these settings are for; empty: any"},
	{"ssl_ca", "VARCHAR", kNotNull, "''", "", "", "file of trusted certificates"},
	{"ssl_cert", "VARCHAR", kNotNull, "''", "", "", "client certificate file"},
	{"ssl_key", "VARCHAR", kNotNull, "''", "", "", "its key file"},
	{"ssl_crl", "VARCHAR", kNotNull, "''", "", "", "revocation list file"},
	{"ssl_crlpath", "VARCHAR", kNotNull, "''", "", "", "directory of revocation lists"},
	{"ssl_protocol_version_range", "VARCHAR", kNotNull, "''", "", "", "TLS versions, e.g. TLSv1.2-TLSv1.3"},
	{"comment", "VARCHAR", kNotNull, "''", "", "", "free text"},
};

constexpr Column_Definition kPgsqlLdapMapping[] = {
	{"priority", "INTEGER", kNotNull, "", "priority >= 1 AND priority <= 1000000", "PRIMARY KEY"},
	{"frontend_entity", "VARCHAR", kNotNull},
	{"backend_entity", "VARCHAR", kNotNull},
	{"comment", "VARCHAR", kNotNull, "''"},
};

constexpr Column_Definition kPgsqlFirewallWhitelistUsers[] = {
	{"active", "INT", kNotNull, "1", "active IN (0,1)"},
	{"username", "VARCHAR", kNotNull},
	{"client_address", "VARCHAR", kNotNull},
	{"mode", "VARCHAR", kNotNull, "('OFF')", "mode IN ('OFF','DETECTING','PROTECTING')"},
	{"comment", "VARCHAR", kNotNull},
};

constexpr Column_Definition kPgsqlFirewallWhitelistRules[] = {
	{"active", "INT", kNotNull, "1", "active IN (0,1)"},
	{"username", "VARCHAR", kNotNull},
	{"client_address", "VARCHAR", kNotNull},
	{"database", "VARCHAR", kNotNull},
	{"flagIN", "INT", kNotNull, "0"},
	{"digest", "VARCHAR", kNotNull},
	{"comment", "VARCHAR", kNotNull},
};

constexpr Column_Definition kPgsqlFirewallWhitelistSqliFingerprints[] = {
	{"active", "INT", kNotNull, "1", "active IN (0,1)"},
	{"fingerprint", "VARCHAR", kNotNull},
};

constexpr Column_Definition kGlobalVariables[] = {
	{"variable_name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY", "module prefix and name"},
	{"variable_value", "VARCHAR", kNotNull, "", "", "", "value as text"},
};

constexpr Column_Definition kProxysqlServers[] = {
	{"hostname", "VARCHAR", kNotNull},
	{"port", "INT", kNotNull, "6032"},
	{"weight", "INT", kNotNull, "0", "weight >= 0"},
	{"comment", "VARCHAR", kNotNull, "''"},
};

constexpr Column_Definition kScheduler[] = {
	{"id", "INTEGER", kNotNull, "", "", "PRIMARY KEY AUTOINCREMENT"},
	{"active", "INT", kNotNull, "1", "active IN (0,1)"},
	{"interval_ms", "INTEGER", kNotNull, "", "interval_ms>=100 AND interval_ms<=100000000"},
	{"filename", "VARCHAR", kNotNull},
	{"arg1", "VARCHAR", kNull},
	{"arg2", "VARCHAR", kNull},
	{"arg3", "VARCHAR", kNull},
	{"arg4", "VARCHAR", kNull},
	{"arg5", "VARCHAR", kNull},
	{"comment", "VARCHAR", kNotNull, "''"},
};

constexpr Column_Definition kRestapiRoutes[] = {
	{"id", "INTEGER", kNotNull, "", "", "PRIMARY KEY AUTOINCREMENT"},
	{"active", "INT", kNotNull, "1", "active IN (0,1)"},
	{"timeout_ms", "INTEGER", kNotNull, "", "timeout_ms>=100 AND timeout_ms<=100000000"},
	{"method", "VARCHAR", kNotNull, "", "UPPER(method) IN ('GET','POST')"},
	{"uri", "VARCHAR", kNotNull},
	{"script", "VARCHAR", kNotNull},
	{"comment", "VARCHAR", kNotNull, "''"},
};

constexpr Column_Definition kGlobalSettings[] = {
	{"variable_name", "VARCHAR", kNotNull, "", "", "PRIMARY KEY"},
	{"variable_value", "VARCHAR", kNotNull},
};

constexpr Column_Definition kRuntimeChecksumsValues[] = {
	{"name", "VARCHAR", kNotNull},
	{"version", "INT", kNotNull},
	{"epoch", "INT", kNotNull},
	{"checksum", "VARCHAR", kNotNull},
};

constexpr Table_Definition kConfigTables[] = {
	{"pgsql_servers", Table_Place::config, kPgsqlServers, "PRIMARY KEY (hostgroup_id, hostname, port)", "PostgreSQL servers by hostgroup"},
	{"pgsql_users", Table_Place::config, kPgsqlUsers, "PRIMARY KEY (username, backend) , UNIQUE (username, frontend)", "users, for clients and for the login to servers"},
	{"pgsql_query_rules", Table_Place::config, kPgsqlQueryRules, "", "ordered rules over statements"},
	{"pgsql_query_rules_fast_routing", Table_Place::config, kPgsqlQueryRulesFastRouting, "PRIMARY KEY (username, database, flagIN)", "routing by user, database and flag, looked up after the rules"},
	{"pgsql_replication_hostgroups", Table_Place::config, kPgsqlReplicationHostgroups, "UNIQUE (reader_hostgroup)", "pairs of a writer and a reader hostgroup whose roles the monitor keeps"},
	{"pgsql_hostgroup_attributes", Table_Place::config, kPgsqlHostgroupAttributes, "", "settings of a hostgroup"},
	{"pgsql_servers_ssl_params", Table_Place::config, kPgsqlServersSslParams, "PRIMARY KEY (hostname, port, username)", "TLS files for single servers and users"},
	{"pgsql_ldap_mapping", Table_Place::config, kPgsqlLdapMapping, "UNIQUE (frontend_entity)", "accepted for compatibility: no LDAP module"},
	{"pgsql_firewall_whitelist_users", Table_Place::config, kPgsqlFirewallWhitelistUsers, "PRIMARY KEY (username, client_address)", "firewall: mode by user"},
	{"pgsql_firewall_whitelist_rules", Table_Place::config, kPgsqlFirewallWhitelistRules, "PRIMARY KEY (username, client_address, database, flagIN, digest)", "firewall: allowed digests"},
	{"pgsql_firewall_whitelist_sqli_fingerprints", Table_Place::config, kPgsqlFirewallWhitelistSqliFingerprints, "PRIMARY KEY (fingerprint)", "firewall: allowed injection fingerprints"},
	{"global_variables", Table_Place::config, kGlobalVariables, "", "variables of all modules"},
	{"proxysql_servers", Table_Place::config, kProxysqlServers, "PRIMARY KEY (hostname, port)", "cluster peers"},
	{"scheduler", Table_Place::config, kScheduler, "", "programs to run at an interval"},
	{"restapi_routes", Table_Place::config, kRestapiRoutes, "", "scripts behind HTTP routes"},
	{"global_settings", Table_Place::disk, kGlobalSettings, "", "settings of this node, such as its uuid"},
	{"runtime_checksums_values", Table_Place::runtime, kRuntimeChecksumsValues, "PRIMARY KEY (name)", "checksum, version and time of the last load of each module"},
};
// clang-format on
} // namespace

std::span<const Table_Definition> config_tables() {
	return kConfigTables;
}

} // namespace proxy
