// The writer: contents back to a file that reads to the same contents. Every column is written,
// defaults too, so that a later change of a default does not change what the file means.
#include "Config_Sections.h"

#include <array>

namespace proxy {

namespace {

std::string quoted(std::string_view text) {
	std::string result = "\"";
	for (const char letter : text) {
		const auto byte = static_cast<unsigned char>(letter);
		constexpr unsigned char kFirstPrintable = 0x20;
		if (letter == '"' || letter == '\\') {
			result += '\\';
			result += letter;
		} else if (letter == '\n') {
			result += "\\n";
		} else if (letter == '\t') {
			result += "\\t";
		} else if (letter == '\r') {
			result += "\\r";
		} else if (byte < kFirstPrintable) {
			result += fmt::format("\\x{:02x}", byte);
		} else {
			result += letter;
		}
	}
	return result + '"';
}

// libconfig keeps numbers without the L to 32 bits.
std::string number_text(int64_t number) {
	const bool fits =
	    number >= std::numeric_limits<int>::min() && number <= std::numeric_limits<int>::max();
	return fmt::format("{}{}", number, fits ? "" : "L");
}

// One "{ ... }" entry.
class Entry_Writer {
public:
	explicit Entry_Writer(std::string& text) : text_(text) { text_ += "\t{\n"; }
	~Entry_Writer() { text_ += "\t}"; }
	Entry_Writer(const Entry_Writer&) = delete;
	Entry_Writer& operator=(const Entry_Writer&) = delete;

	void text(const char* key, std::string_view value) { line(key, quoted(value)); }
	void number(const char* key, int64_t value) { line(key, number_text(value)); }
	void flag(const char* key, bool value) { line(key, value ? "1" : "0"); }
	void maybe(const char* key, const std::optional<std::string>& value) {
		if (value) {
			text(key, *value);
		}
	}
	template <typename Number> void maybe(const char* key, const std::optional<Number>& value) {
		if (value) {
			number(key, *value);
		}
	}

private:
	void line(const char* key, const std::string& value) {
		text_ += fmt::format("\t\t{} = {}\n", key, value);
	}
	std::string& text_;
};

template <typename Row, typename Write>
void write_list(std::string& text, std::string_view section, const std::vector<Row>& rows,
                Write write) {
	if (rows.empty()) {
		return;
	}
	text += fmt::format("\n{} =\n(\n", section);
	bool first = true;
	for (const Row& row : rows) {
		text += first ? "" : ",\n";
		first = false;
		Entry_Writer entry(text);
		write(entry, row);
	}
	text += "\n)\n";
}

void write_server(Entry_Writer& entry, const Pgsql_Server_Row& row) {
	entry.text("hostname", row.hostname);
	entry.number("port", row.port);
	entry.number("hostgroup_id", row.hostgroup_id);
	// A lag shun is the monitor's momentary finding, not configuration.
	const bool online = row.status == Server_Status::shunned_lag;
	entry.text("status", word_of(online ? Server_Status::online : row.status));
	entry.number("weight", row.weight);
	entry.number("compression", row.compression);
	entry.number("max_connections", row.max_connections);
	entry.number("max_replication_lag", row.max_replication_lag);
	entry.number("use_ssl", row.use_ssl);
	entry.number("max_latency_ms", row.max_latency_ms);
	entry.text("comment", row.comment);
}

void write_pair(Entry_Writer& entry, const Replication_Hostgroup_Row& row) {
	entry.number("writer_hostgroup", row.writer_hostgroup);
	entry.number("reader_hostgroup", row.reader_hostgroup);
	entry.text("check_type", word_of(row.check_type));
	entry.flag("txn_split_enabled", row.txn_split_enabled);
	entry.text("consistency_mode", word_of(row.consistency_mode));
	entry.number("max_lag_bytes", row.max_lag_bytes);
	entry.number("lsn_wait_timeout_ms", row.lsn_wait_timeout_ms);
	entry.text("proxy_protocol", word_of(row.proxy_protocol));
	entry.text("comment", row.comment);
}

void write_attributes(Entry_Writer& entry, const Hostgroup_Attributes_Row& row) {
	entry.number("hostgroup_id", row.hostgroup_id);
	entry.number("max_num_online_servers", row.max_num_online_servers);
	entry.number("autocommit", row.autocommit);
	entry.number("free_connections_pct", row.free_connections_pct);
	entry.text("init_connect", row.init_connect);
	entry.number("multiplex", row.multiplex);
	entry.number("connection_warming", row.connection_warming);
	entry.number("throttle_connections_per_sec", row.throttle_connections_per_sec);
	entry.text("ignore_session_variables", row.ignore_session_variables);
	entry.text("hostgroup_settings", row.hostgroup_settings);
	entry.text("servers_defaults", row.servers_defaults);
	entry.text("comment", row.comment);
}

void write_ssl_params(Entry_Writer& entry, const Server_Ssl_Params_Row& row) {
	entry.text("hostname", row.hostname);
	entry.number("port", row.port);
	entry.text("username", row.username);
	entry.text("ssl_ca", row.ssl_ca);
	entry.text("ssl_cert", row.ssl_cert);
	entry.text("ssl_key", row.ssl_key);
	entry.text("ssl_crl", row.ssl_crl);
	entry.text("ssl_crlpath", row.ssl_crlpath);
	entry.text("ssl_protocol_version_range", row.ssl_protocol_version_range);
	entry.text("comment", row.comment);
}

void write_user(Entry_Writer& entry, const Pgsql_User_Row& row) {
	entry.text("username", row.username);
	entry.text("password", row.password.reveal());
	entry.flag("active", row.active);
	entry.flag("use_ssl", row.use_ssl);
	entry.number("default_hostgroup", row.default_hostgroup);
	entry.flag("transaction_persistent", row.transaction_persistent);
	entry.flag("fast_forward", row.fast_forward);
	entry.flag("backend", row.backend);
	entry.flag("frontend", row.frontend);
	entry.number("max_connections", row.max_connections);
	entry.text("attributes", row.attributes);
	entry.text("comment", row.comment);
}

void write_rule(Entry_Writer& entry, const Query_Rule_Row& row) {
	entry.number("rule_id", row.rule_id);
	entry.flag("active", row.active);
	entry.maybe("username", row.username);
	entry.maybe("database", row.database);
	entry.number("flagIN", row.flag_in);
	entry.maybe("client_addr", row.client_addr);
	entry.maybe("proxy_addr", row.proxy_addr);
	entry.maybe("proxy_port", row.proxy_port);
	entry.maybe("digest", row.digest);
	entry.maybe("match_digest", row.match_digest);
	entry.maybe("match_pattern", row.match_pattern);
	entry.flag("negate_match_pattern", row.negate_match_pattern);
	entry.text("re_modifiers", row.re_modifiers);
	entry.maybe("flagOUT", row.flag_out);
	entry.maybe("replace_pattern", row.replace_pattern);
	entry.maybe("destination_hostgroup", row.destination_hostgroup);
	entry.maybe("cache_ttl", row.cache_ttl);
	entry.maybe("cache_empty_result", row.cache_empty_result);
	entry.maybe("cache_timeout", row.cache_timeout);
	entry.maybe("reconnect", row.reconnect);
	entry.maybe("timeout", row.timeout);
	entry.maybe("retries", row.retries);
	entry.maybe("delay", row.delay);
	entry.maybe("next_query_flagIN", row.next_query_flag_in);
	entry.maybe("mirror_flagOUT", row.mirror_flag_out);
	entry.maybe("mirror_hostgroup", row.mirror_hostgroup);
	entry.maybe("error_msg", row.error_msg);
	entry.maybe("OK_msg", row.ok_msg);
	entry.maybe("sticky_conn", row.sticky_conn);
	entry.maybe("multiplex", row.multiplex);
	entry.maybe("log", row.log);
	entry.flag("apply", row.apply);
	entry.text("attributes", row.attributes);
	entry.maybe("comment", row.comment);
	entry.number("replica_eligible", row.replica_eligible);
	entry.number("rollout_pct", row.rollout_pct);
}

void write_fast_routing(Entry_Writer& entry, const Fast_Routing_Row& row) {
	entry.text("username", row.username);
	entry.text("database", row.database);
	entry.number("flagIN", row.flag_in);
	entry.number("destination_hostgroup", row.destination_hostgroup);
	entry.text("comment", row.comment);
}

void write_generic(std::string& text, const Config_File_Contents& contents) {
	for (const Generic_Section& section : generic_sections()) {
		const auto found = contents.tables.find(section.table);
		if (found == contents.tables.end()) {
			continue;
		}
		write_list(text, section.section, found->second,
		           [&section](Entry_Writer& entry, const Generic_Row& row) {
			           for (const Generic_Column& column : section.columns) {
				           const auto value = row.find(column.name);
				           if (value == row.end()) {
					           continue;
				           }
				           const bool is_text = column.type == Generic_Column::Type::text ||
				                                column.type == Generic_Column::Type::required_text;
				           if (is_text) {
					           entry.text(column.name, value->second);
				           } else {
					           entry.number(column.name, std::stoll(value->second));
				           }
			           }
		           });
	}
}

void write_variables(std::string& text, const Config_File_Contents& contents,
                     const std::string& module) {
	std::string lines;
	for (const auto& [name, value] : contents.variables) {
		const Variable_Info* info = find_variable(name);
		if (info == nullptr || !name.starts_with(module + "-") ||
		    info->when == Variable_When::fixed) {
			continue;
		}
		const bool plain =
		    info->kind == Variable_Kind::integer || info->kind == Variable_Kind::boolean;
		lines += fmt::format("\t{} = {}\n", name.substr(module.size() + 1),
		                     plain ? value : quoted(value));
	}
	if (!lines.empty()) {
		text += fmt::format("\n{}_variables =\n{{\n{}}}\n", module, lines);
	}
}

void write_globals(std::string& text, const Config_File_Globals& globals) {
	const auto text_line = [&text](const char* key, const std::optional<std::string>& value) {
		if (value) {
			text += fmt::format("{} = {}\n", key, quoted(*value));
		}
	};
	const auto flag_line = [&text](const char* key, const std::optional<bool>& value) {
		if (value) {
			text += fmt::format("{} = {}\n", key, *value);
		}
	};
	text_line("datadir", globals.datadir);
	text_line("errorlog", globals.errorlog);
	text_line("pidfile", globals.pidfile);
	text_line("uuid", globals.uuid);
	text_line("execute_on_exit_failure", globals.execute_on_exit_failure);
	text +=
	    fmt::format("restart_on_missing_heartbeats = {}\n", globals.restart_on_missing_heartbeats);
	text += fmt::format("cluster_sync_interfaces = {}\n", globals.cluster_sync_interfaces);
	flag_line("pgsql-workers", globals.pgsql_workers);
	flag_line("pgsql-admin", globals.pgsql_admin);
	flag_line("pgsql-monitor", globals.pgsql_monitor);
	flag_line("mysql-workers", globals.mysql_workers);
	flag_line("mysql-admin", globals.mysql_admin);
	flag_line("mysql-monitor", globals.mysql_monitor);
}

} // namespace

std::string config_file_text(const Config_File_Contents& contents) {
	std::string text;
	write_globals(text, contents.globals);
	write_variables(text, contents, "admin");
	write_variables(text, contents, "pgsql");
	write_list(text, "pgsql_servers", contents.servers.servers, write_server);
	write_list(text, "pgsql_replication_hostgroups", contents.servers.replication_hostgroups,
	           write_pair);
	write_list(text, "pgsql_hostgroup_attributes", contents.servers.hostgroup_attributes,
	           write_attributes);
	write_list(text, "pgsql_servers_ssl_params", contents.servers.ssl_params, write_ssl_params);
	write_list(text, "pgsql_users", contents.users, write_user);
	write_list(text, "pgsql_query_rules", contents.rules.rules, write_rule);
	write_list(text, "pgsql_query_rules_fast_routing", contents.rules.fast_routing,
	           write_fast_routing);
	write_generic(text, contents);
	return text;
}

} // namespace proxy
