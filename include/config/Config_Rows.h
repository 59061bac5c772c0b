// Rows of the configuration tables as plain values, in table column order. The admin layer makes
// them from SQLite or from the configuration file; the runtime takes them whole (LOAD ... TO
// RUNTIME) and gives them back (runtime_ tables). Names and defaults are ProxySQL's.
#pragma once

#include "base/Secret.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

enum class Server_Status : uint8_t { online, shunned, offline_soft, offline_hard, shunned_lag };

// pgsql_servers
struct Pgsql_Server_Row {
	int hostgroup_id = 0;
	std::string hostname;
	int port = 5432; // 0: hostname is the directory of a Unix socket
	Server_Status status = Server_Status::online;
	int64_t weight = 1;
	int compression = 0;
	int64_t max_connections = 1000;
	int64_t max_replication_lag = 0; // seconds, 0 off
	int use_ssl = 0;
	int64_t max_latency_ms = 0; // 0: pgsql-default_max_latency_ms
	std::string comment;
};

enum class Check_Type : uint8_t { read_only, polardb };
enum class Consistency_Mode : uint8_t { inherit, off, eventual, session_lsn, global_lsn };
enum class Proxy_Protocol : uint8_t { inherit, off, legacy, v15, v15_wait, automatic, stock };

// pgsql_replication_hostgroups
struct Replication_Hostgroup_Row {
	int writer_hostgroup = 0;
	int reader_hostgroup = 0;
	Check_Type check_type = Check_Type::read_only;
	std::string comment;
	// This product's columns, after ProxySQL's own.
	bool txn_split_enabled = false;
	Consistency_Mode consistency_mode = Consistency_Mode::inherit;
	int64_t max_lag_bytes = -1;       // -1 inherit, 0 off
	int64_t lsn_wait_timeout_ms = -1; // -1 inherit, 0 no bound
	Proxy_Protocol proxy_protocol = Proxy_Protocol::inherit;
};

// pgsql_hostgroup_attributes
struct Hostgroup_Attributes_Row {
	int hostgroup_id = 0;
	int64_t max_num_online_servers = 1000000;
	int autocommit = -1;
	int free_connections_pct = 10;
	std::string init_connect;
	int multiplex = 1;
	int connection_warming = 0;
	int64_t throttle_connections_per_sec = 1000000;
	std::string ignore_session_variables; // JSON or empty
	std::string hostgroup_settings;       // JSON or empty
	std::string servers_defaults;         // JSON or empty
	std::string comment;
};

// pgsql_servers_ssl_params
struct Server_Ssl_Params_Row {
	std::string hostname;
	int port = 5432;
	std::string username; // empty: any user
	std::string ssl_ca;
	std::string ssl_cert;
	std::string ssl_key;
	std::string ssl_crl;
	std::string ssl_crlpath;
	std::string ssl_protocol_version_range;
	std::string comment;
};

// What LOAD PGSQL SERVERS moves as one unit.
struct Pgsql_Servers_Config {
	std::vector<Pgsql_Server_Row> servers;
	std::vector<Replication_Hostgroup_Row> replication_hostgroups;
	std::vector<Hostgroup_Attributes_Row> hostgroup_attributes;
	std::vector<Server_Ssl_Params_Row> ssl_params;
};

// pgsql_users
struct Pgsql_User_Row {
	std::string username;
	Secret password; // plain text, md5..., or a SCRAM-SHA-256 verifier; empty: NULL
	bool active = true;
	bool use_ssl = false;
	int default_hostgroup = 0;
	bool transaction_persistent = true;
	bool fast_forward = false;
	bool backend = true;
	bool frontend = true;
	int64_t max_connections = 10000;
	std::string attributes;
	std::string comment;
};

// pgsql_query_rules; an absent value is SQL NULL.
struct Query_Rule_Row {
	std::string source; // "FILE:LINE: section ..." of a rule from a file; empty otherwise
	int64_t rule_id = 0;
	bool active = false;
	std::optional<std::string> username;
	std::optional<std::string> database;
	int64_t flag_in = 0;
	std::optional<std::string> client_addr;
	std::optional<std::string> proxy_addr;
	std::optional<int> proxy_port;
	std::optional<std::string> digest;
	std::optional<std::string> match_digest;
	std::optional<std::string> match_pattern;
	bool negate_match_pattern = false;
	std::string re_modifiers = "CASELESS";
	std::optional<int64_t> flag_out;
	std::optional<std::string> replace_pattern;
	std::optional<int> destination_hostgroup;
	std::optional<int64_t> cache_ttl;
	std::optional<int> cache_empty_result;
	std::optional<int64_t> cache_timeout;
	std::optional<int> reconnect;
	std::optional<int64_t> timeout;
	std::optional<int64_t> retries;
	std::optional<int64_t> delay;
	std::optional<int64_t> next_query_flag_in;
	std::optional<int64_t> mirror_flag_out;
	std::optional<int64_t> mirror_hostgroup;
	std::optional<std::string> error_msg;
	std::optional<std::string> ok_msg;
	std::optional<int> sticky_conn;
	std::optional<int> multiplex;
	std::optional<int> log;
	bool apply = false;
	std::string attributes;
	std::optional<std::string> comment;
	// This product's columns, after ProxySQL's own.
	int replica_eligible = -1; // 1 automatic, 0 writer, -1 the rule's hostgroup as it stands
	int rollout_pct = 100;
};

// pgsql_query_rules_fast_routing
struct Fast_Routing_Row {
	std::string username;
	std::string database;
	int64_t flag_in = 0;
	int destination_hostgroup = 0;
	std::string comment;
};

// What LOAD PGSQL QUERY RULES moves as one unit.
struct Query_Rules_Config {
	std::vector<Query_Rule_Row> rules;
	std::vector<Fast_Routing_Row> fast_routing;
};

} // namespace proxy
