// Sections whose rows the proxy itself understands: keys, defaults and ranges of each. They are
// ProxySQL's column names, with this product's columns after them.
#include "Config_Sections.h"

#include <array>
#include <limits>

namespace proxy {

using libconfig::Setting;

namespace {

constexpr Integer_Range kHostgroup{0, std::numeric_limits<int>::max()};
constexpr Integer_Range kAnyInt{0, std::numeric_limits<int>::max()};
constexpr Integer_Range kLong{0, std::numeric_limits<int64_t>::max()};
constexpr Integer_Range kPercent{0, 100};
constexpr int kMaxWeight = 10000000;
constexpr int kMaxLagSeconds = 126144000; // four years, ProxySQL's bound
constexpr int kMaxWaitMs = 60000;
constexpr int kMaxRetries = 1000;

// Calls read(entry) for each group of the section.
template <typename Read>
void for_each_entry(const Setting& setting, std::string_view section, Config_Faults& faults,
                    Read read) {
	if (!setting.isList()) {
		faults.error(faults.place(setting),
		             fmt::format("section {}: must be a list in parentheses", section));
		return;
	}
	for (int i = 0; i < setting.getLength(); ++i) {
		Entry_Reader entry(setting[i], section, faults);
		if (entry.is_group()) {
			read(entry);
			entry.finish();
		}
	}
}

void read_servers(const Setting& setting, Config_File_Contents& contents, Config_Faults& faults) {
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_servers", faults, [&](Entry_Reader& entry) {
		Pgsql_Server_Row row;
		row.hostname = entry.required_text({"hostname", "address"});
		row.hostgroup_id = entry.required_int({"hostgroup_id", "hostgroup"}, kHostgroup);
		row.port = entry.small_integer("port", row.port, kPort);
		row.status = entry.word<Server_Status>("status", row.status);
		row.weight = entry.integer("weight", row.weight, {0, kMaxWeight});
		row.compression = entry.small_integer("compression", row.compression, kZeroOrOne);
		row.max_connections = entry.integer("max_connections", row.max_connections, kAnyInt);
		row.max_replication_lag =
		    entry.integer("max_replication_lag", row.max_replication_lag, {0, kMaxLagSeconds});
		row.use_ssl = entry.small_integer("use_ssl", row.use_ssl, kZeroOrOne);
		row.max_latency_ms = entry.integer("max_latency_ms", row.max_latency_ms, kAnyInt);
		row.comment = entry.text("comment");
		const std::string key =
		    fmt::format("server {}:{} of hostgroup {}", row.hostname, row.port, row.hostgroup_id);
		entry.unique(seen, key, key);
		contents.servers.servers.push_back(std::move(row));
	});
}

void read_pairs(const Setting& setting, Config_File_Contents& contents,
                std::vector<Pair_Place>& places, Config_Faults& faults) {
	std::set<std::string> writers;
	std::set<std::string> readers;
	for_each_entry(setting, "pgsql_replication_hostgroups", faults, [&](Entry_Reader& entry) {
		Replication_Hostgroup_Row row;
		row.writer_hostgroup = entry.required_int("writer_hostgroup", kHostgroup);
		row.reader_hostgroup = entry.required_int("reader_hostgroup", kHostgroup);
		row.check_type = entry.word<Check_Type>("check_type", row.check_type);
		row.comment = entry.text("comment");
		row.txn_split_enabled = entry.flag("txn_split_enabled", row.txn_split_enabled);
		row.consistency_mode =
		    entry.word<Consistency_Mode>("consistency_mode", row.consistency_mode);
		row.max_lag_bytes = entry.integer("max_lag_bytes", row.max_lag_bytes,
		                                  {-1, std::numeric_limits<int64_t>::max()});
		row.lsn_wait_timeout_ms =
		    entry.integer("lsn_wait_timeout_ms", row.lsn_wait_timeout_ms, {-1, kMaxWaitMs});
		row.proxy_protocol = entry.word<Proxy_Protocol>("proxy_protocol", row.proxy_protocol);
		if (row.writer_hostgroup == row.reader_hostgroup) {
			entry.error("writer_hostgroup and reader_hostgroup must differ");
		}
		const std::string writer = std::to_string(row.writer_hostgroup);
		const std::string reader = std::to_string(row.reader_hostgroup);
		entry.unique(writers, writer, "writer_hostgroup " + writer);
		entry.unique(readers, reader, "reader_hostgroup " + reader);
		for (const int hostgroup : {row.writer_hostgroup, row.reader_hostgroup}) {
			const std::string name = std::to_string(hostgroup);
			if (row.writer_hostgroup != row.reader_hostgroup && writers.contains(name) &&
			    readers.contains(name)) {
				entry.error(fmt::format("hostgroup {} is writer of one pair and reader of another",
				                        hostgroup));
			}
		}
		places.push_back({contents.servers.replication_hostgroups.size(), entry.place()});
		contents.servers.replication_hostgroups.push_back(std::move(row));
	});
}

void read_attributes(const Setting& setting, Config_File_Contents& contents,
                     Config_Faults& faults) {
	constexpr int kMillion = 1000000;
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_hostgroup_attributes", faults, [&](Entry_Reader& entry) {
		Hostgroup_Attributes_Row row;
		row.hostgroup_id = entry.required_int({"hostgroup_id", "hostgroup"}, kHostgroup);
		row.max_num_online_servers =
		    entry.integer("max_num_online_servers", row.max_num_online_servers, {0, kMillion});
		row.autocommit = entry.small_integer("autocommit", row.autocommit, {-1, 1});
		row.free_connections_pct =
		    entry.small_integer("free_connections_pct", row.free_connections_pct, kPercent);
		row.init_connect = entry.text("init_connect");
		row.multiplex = entry.small_integer("multiplex", row.multiplex, kZeroOrOne);
		row.connection_warming =
		    entry.small_integer("connection_warming", row.connection_warming, kZeroOrOne);
		row.throttle_connections_per_sec = entry.integer(
		    "throttle_connections_per_sec", row.throttle_connections_per_sec, {1, kMillion});
		row.ignore_session_variables = entry.json("ignore_session_variables");
		row.hostgroup_settings = entry.json("hostgroup_settings");
		row.servers_defaults = entry.json("servers_defaults");
		row.comment = entry.text("comment");
		const std::string key = fmt::format("hostgroup_id {}", row.hostgroup_id);
		entry.unique(seen, key, key);
		contents.servers.hostgroup_attributes.push_back(std::move(row));
	});
}

void read_ssl_params(const Setting& setting, Config_File_Contents& contents,
                     Config_Faults& faults) {
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_servers_ssl_params", faults, [&](Entry_Reader& entry) {
		Server_Ssl_Params_Row row;
		row.hostname = entry.required_text({"hostname", "address"});
		row.port = entry.small_integer("port", row.port, kPort);
		row.username = entry.text("username");
		row.ssl_ca = entry.text("ssl_ca");
		row.ssl_cert = entry.text("ssl_cert");
		row.ssl_key = entry.text("ssl_key");
		row.ssl_crl = entry.text("ssl_crl");
		row.ssl_crlpath = entry.text("ssl_crlpath");
		row.ssl_protocol_version_range = entry.text("ssl_protocol_version_range");
		row.comment = entry.text("comment");
		const std::string key =
		    fmt::format("{}:{} for user \"{}\"", row.hostname, row.port, row.username);
		entry.unique(seen, key, key);
		contents.servers.ssl_params.push_back(std::move(row));
	});
}

void read_users(const Setting& setting, Config_File_Contents& contents, Config_Faults& faults) {
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_users", faults, [&](Entry_Reader& entry) {
		Pgsql_User_Row row;
		row.username = entry.required_text("username");
		row.password = Secret(entry.text("password"));
		row.active = entry.flag("active", row.active);
		row.use_ssl = entry.flag("use_ssl", row.use_ssl);
		row.default_hostgroup =
		    entry.small_integer("default_hostgroup", row.default_hostgroup, kHostgroup);
		row.transaction_persistent =
		    entry.flag("transaction_persistent", row.transaction_persistent);
		row.fast_forward = entry.flag("fast_forward", row.fast_forward);
		row.backend = entry.flag("backend", row.backend);
		row.frontend = entry.flag("frontend", row.frontend);
		row.max_connections = entry.integer("max_connections", row.max_connections, kAnyInt);
		row.attributes = entry.json("attributes");
		row.comment = entry.text("comment");
		// One row a user and side: the table's two keys.
		const std::string name = fmt::format("username \"{}\"", row.username);
		entry.unique(seen, fmt::format("backend {} {}", row.backend, row.username), name);
		if (row.backend) { // otherwise the line above has said it
			seen.insert(fmt::format("frontend {} {}", row.frontend, row.username));
		} else {
			entry.unique(seen, fmt::format("frontend {} {}", row.frontend, row.username), name);
		}
		contents.users.push_back(std::move(row));
	});
}

// The matching half of a rule.
void read_rule_match(Entry_Reader& entry, Query_Rule_Row& row) {
	row.rule_id = entry.required_integer("rule_id", kAnyInt);
	row.active = entry.flag("active", true); // on in a file, off in the table
	row.username = entry.optional_text("username");
	row.database = entry.optional_text("database");
	row.flag_in = entry.integer("flagIN", row.flag_in, kAnyInt);
	row.client_addr = entry.optional_text("client_addr");
	row.proxy_addr = entry.optional_text("proxy_addr");
	row.proxy_port = entry.optional_int("proxy_port", kPort);
	row.digest = entry.optional_text("digest");
	row.match_digest = entry.optional_text("match_digest");
	row.match_pattern = entry.optional_text("match_pattern");
	row.negate_match_pattern = entry.flag("negate_match_pattern", row.negate_match_pattern);
	row.re_modifiers = entry.text("re_modifiers", row.re_modifiers);
}

// What a matching rule does.
void read_rule_action(Entry_Reader& entry, Query_Rule_Row& row) {
	row.flag_out = entry.optional_integer("flagOUT", kAnyInt);
	row.replace_pattern = entry.optional_text("replace_pattern");
	row.destination_hostgroup = entry.optional_int("destination_hostgroup", kHostgroup);
	row.cache_ttl = entry.optional_integer("cache_ttl", {1, kLong.max});
	row.cache_empty_result = entry.optional_int("cache_empty_result", kZeroOrOne);
	row.cache_timeout = entry.optional_integer("cache_timeout", kLong);
	row.reconnect = entry.optional_int("reconnect", kZeroOrOne);
	row.timeout = entry.optional_integer("timeout", kLong);
	row.retries = entry.optional_integer("retries", {0, kMaxRetries});
	row.delay = entry.optional_integer("delay", kLong);
	row.next_query_flag_in = entry.optional_integer("next_query_flagIN", kAnyInt);
	row.mirror_flag_out = entry.optional_integer("mirror_flagOUT", kAnyInt);
	row.mirror_hostgroup = entry.optional_integer("mirror_hostgroup", kHostgroup);
	row.error_msg = entry.optional_text("error_msg");
	row.ok_msg = entry.optional_text("OK_msg");
	row.sticky_conn = entry.optional_int("sticky_conn", kZeroOrOne);
	row.multiplex = entry.optional_int("multiplex", {0, 2});
	row.log = entry.optional_int("log", kZeroOrOne);
	row.apply = entry.flag("apply", row.apply);
	row.attributes = entry.json("attributes");
	row.comment = entry.optional_text("comment");
	row.replica_eligible = entry.small_integer("replica_eligible", row.replica_eligible, {-1, 1});
	row.rollout_pct = entry.small_integer("rollout_pct", row.rollout_pct, kPercent);
}

void read_rules(const Setting& setting, Config_File_Contents& contents, Config_Faults& faults) {
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_query_rules", faults, [&](Entry_Reader& entry) {
		Query_Rule_Row row;
		read_rule_match(entry, row);
		read_rule_action(entry, row);
		if (row.replace_pattern && !row.match_pattern) {
			entry.error("replace_pattern needs match_pattern");
		}
		const std::string key = fmt::format("rule_id {}", row.rule_id);
		row.source = entry.where();
		entry.unique(seen, key, key);
		contents.rules.rules.push_back(std::move(row));
	});
}

void read_fast_routing(const Setting& setting, Config_File_Contents& contents,
                       Config_Faults& faults) {
	std::set<std::string> seen;
	for_each_entry(setting, "pgsql_query_rules_fast_routing", faults, [&](Entry_Reader& entry) {
		Fast_Routing_Row row;
		row.username = entry.text("username");
		row.database = entry.text("database");
		row.flag_in = entry.integer("flagIN", row.flag_in, kAnyInt);
		row.destination_hostgroup = entry.required_int("destination_hostgroup", kHostgroup);
		row.comment = entry.text("comment");
		const std::string key = fmt::format("username \"{}\", database \"{}\", flagIN {}",
		                                    row.username, row.database, row.flag_in);
		entry.unique(seen, key, key);
		contents.rules.fast_routing.push_back(std::move(row));
	});
}

} // namespace

bool read_row_section(const Setting& setting, std::string_view section,
                      Config_File_Contents& contents, std::vector<Pair_Place>& pairs,
                      Config_Faults& faults) {
	if (section == "pgsql_replication_hostgroups") {
		read_pairs(setting, contents, pairs, faults);
		return true;
	}
	using Reader = void (*)(const Setting&, Config_File_Contents&, Config_Faults&);
	struct Section {
		std::string_view name;
		Reader read;
	};
	constexpr std::array<Section, 6> kSections{{
	    {"pgsql_servers", read_servers},
	    {"pgsql_hostgroup_attributes", read_attributes},
	    {"pgsql_servers_ssl_params", read_ssl_params},
	    {"pgsql_users", read_users},
	    {"pgsql_query_rules", read_rules},
	    {"pgsql_query_rules_fast_routing", read_fast_routing},
	}};
	for (const Section& known : kSections) {
		if (known.name == section) {
			known.read(setting, contents, faults);
			return true;
		}
	}
	return false;
}

bool read_generic_section(const Setting& setting, std::string_view section,
                          Config_File_Contents& contents, Config_Faults& faults) {
	for (const Generic_Section& known : generic_sections()) {
		if (known.section != section) {
			continue;
		}
		std::set<std::string> seen;
		auto& rows = contents.tables[known.table];
		for_each_entry(setting, section, faults, [&](Entry_Reader& entry) {
			Generic_Row row;
			for (const Generic_Column& column : known.columns) {
				const Config_Key key(column.name, column.alias);
				std::optional<std::string> value;
				switch (column.type) {
				case Generic_Column::Type::text:
					value = entry.optional_text(key);
					break;
				case Generic_Column::Type::required_text:
					value = entry.required_text(key);
					break;
				case Generic_Column::Type::integer:
					if (const auto number = entry.optional_integer(key, column.range)) {
						value = std::to_string(*number);
					}
					break;
				case Generic_Column::Type::required_integer:
					value = std::to_string(entry.required_integer(key, column.range));
					break;
				}
				if (value || column.default_text != nullptr) {
					row[column.name] = value ? *value : column.default_text;
				}
			}
			std::string key;
			for (const char* column : known.key) {
				key += fmt::format("{}{} \"{}\"", key.empty() ? "" : ", ", column, row[column]);
			}
			entry.unique(seen, key, key);
			rows.push_back(std::move(row));
		});
		return true;
	}
	return false;
}

} // namespace proxy
