// The configuration modules and how each moves between disk, memory, runtime and the
// configuration file.
#include "admin/Admin_Core.h"
#include "admin/Config_Rows_Sql.h"
#include "auth/Auth_Flow.h"
#include "auth/Scram_Md5.h"
#include "base/Clock.h"
#include "base/Log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace proxy {

namespace {
constexpr std::string_view kServerTables[] = {
    "pgsql_servers",
    "pgsql_replication_hostgroups",
    "pgsql_hostgroup_attributes",
    "pgsql_servers_ssl_params",
};
constexpr std::string_view kUserTables[] = {"pgsql_users"};
constexpr std::string_view kRuleTables[] = {"pgsql_query_rules", "pgsql_query_rules_fast_routing"};
constexpr std::string_view kVariableTables[] = {"global_variables"};
constexpr std::string_view kFirewallTables[] = {
    "pgsql_firewall_whitelist_users",
    "pgsql_firewall_whitelist_rules",
    "pgsql_firewall_whitelist_sqli_fingerprints",
};
constexpr std::string_view kLdapTables[] = {"pgsql_ldap_mapping"};
constexpr std::string_view kPeerTables[] = {"proxysql_servers"};
constexpr std::string_view kSchedulerTables[] = {"scheduler"};
constexpr std::string_view kRestTables[] = {"restapi_routes"};

// In the order of a load at start: the servers' check needs the variables.
constexpr Admin_Module kModules[] = {
    {"ADMIN VARIABLES", Module_Kind::admin_variables, kVariableTables, "admin_variables",
     "variable_name LIKE 'admin-%'"},
    {"PGSQL VARIABLES", Module_Kind::pgsql_variables, kVariableTables, "pgsql_variables",
     "variable_name LIKE 'pgsql-%'"},
    {"PGSQL SERVERS", Module_Kind::servers, kServerTables, "pgsql_servers"},
    {"PGSQL USERS", Module_Kind::users, kUserTables, "pgsql_users"},
    {"PGSQL QUERY RULES", Module_Kind::query_rules, kRuleTables, "pgsql_query_rules"},
    {"PGSQL FIREWALL", Module_Kind::plain, kFirewallTables},
    {"LDAP MAPPING", Module_Kind::plain, kLdapTables},
    {"PROXYSQL SERVERS", Module_Kind::plain, kPeerTables, "proxysql_servers"},
    {"SCHEDULER", Module_Kind::plain, kSchedulerTables},
    {"RESTAPI", Module_Kind::plain, kRestTables},
};

std::string in_schema(std::string_view schema, std::string_view prefix, std::string_view table) {
	return fmt::format("{}.{}{}", schema, prefix, table);
}

// One text of a module's rows, for its checksum: every cell with its length, so that no two
// different contents give one text.
std::string canonical_text(const std::vector<Sql_Row>& rows) {
	std::string out;
	for (const Sql_Row& row : rows) {
		for (const Sql_Value& cell : row) {
			out += cell ? fmt::format("{}:{},", cell->size(), *cell) : "N,";
		}
		out += '\n';
	}
	return out;
}

std::string hex_hash(std::string_view text) {
	return fmt::format("0x{:016X}", XXH3_64bits(text.data(), text.size()));
}

std::vector<Sql_Row> to_sql(const Table_Definition& table, const std::vector<Generic_Row>& rows) {
	std::vector<Sql_Row> out;
	for (const Generic_Row& row : rows) {
		Sql_Row cells;
		for (const Column_Definition& column : table.columns) {
			const auto cell = row.find(std::string(column.name));
			cells.push_back(cell == row.end() ? Sql_Value() : Sql_Value(cell->second));
		}
		out.push_back(std::move(cells));
	}
	return out;
}

std::vector<Generic_Row> to_generic(const Table_Definition& table,
                                    const std::vector<Sql_Row>& rows) {
	std::vector<Generic_Row> out(rows.size());
	for (size_t at = 0; at < rows.size(); ++at) {
		for (size_t i = 0; i < rows[at].size(); ++i) {
			if (rows[at][i]) {
				out[at].emplace(table.columns[i].name, *rows[at][i]);
			}
		}
	}
	return out;
}
} // namespace

std::span<const Admin_Module> admin_modules() {
	return kModules;
}

Result<void> Admin_Core::disk_to_memory(const Admin_Module& module) {
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	for (const std::string_view table : module.tables) {
		PROXY_TRY(database_->copy_table(*find_table(table), in_schema("disk", "", table),
		                                in_schema("main", "", table), module.where));
	}
	return transaction.commit();
}

Result<void> Admin_Core::memory_to_disk(const Admin_Module& module) {
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	for (const std::string_view table : module.tables) {
		PROXY_TRY(database_->copy_table(*find_table(table), in_schema("main", "", table),
		                                in_schema("disk", "", table), module.where));
	}
	return transaction.commit();
}

Result<void> Admin_Core::memory_to_runtime(const Admin_Module& module,
                                           std::vector<std::string>& notices) {
	SQLite3DB& db = database_->admin();
	switch (module.kind) {
	case Module_Kind::servers: {
		Result<Pgsql_Servers_Config> config = read_servers(db, "main");
		if (!config.ok()) {
			return config.take_error();
		}
		PROXY_TRY(check_consistency_policy(*pgsql_, config.value().replication_hostgroups));
		PROXY_TRY(control_.load_servers(config.value()));
		break;
	}
	case Module_Kind::users: {
		Result<std::vector<Pgsql_User_Row>> users = read_users(db, "main");
		if (!users.ok()) {
			return users.take_error();
		}
		PROXY_TRY(control_.load_users(users.value()));
		note_md5_users(users.value(), notices);
		break;
	}
	case Module_Kind::query_rules: {
		Result<Query_Rules_Config> rules = read_query_rules(db, "main");
		if (!rules.ok()) {
			return rules.take_error();
		}
		PROXY_TRY(control_.load_query_rules(rules.value()));
		break;
	}
	case Module_Kind::pgsql_variables:
		PROXY_TRY(load_pgsql_variables(notices));
		break;
	case Module_Kind::admin_variables:
		PROXY_TRY(load_admin_variables(notices));
		break;
	case Module_Kind::plain: {
		Sql_Transaction transaction(db);
		PROXY_TRY(transaction.begin());
		for (const std::string_view table : module.tables) {
			PROXY_TRY(database_->copy_table(*find_table(table), in_schema("main", "", table),
			                                in_schema("main", "runtime_", table)));
		}
		PROXY_TRY(transaction.commit());
		break;
	}
	}
	note_loaded(module);
	return {};
}

// An MD5 hash cannot prove anything in SCRAM. To the client it is a wrong password, as everything
// that fails is, so the reason is said here.
void Admin_Core::note_md5_users(const std::vector<Pgsql_User_Row>& users,
                                std::vector<std::string>& notices) const {
	if (static_cast<Auth_Method>(pgsql_->authentication_method) != Auth_Method::scram_sha_256) {
		return;
	}
	constexpr size_t kMaxNamed = 10;
	size_t count = 0;
	std::string names;
	for (const Pgsql_User_Row& user : users) {
		if (!user.active || !user.frontend ||
		    classify_secret(user.password.reveal()) != Secret_Type::md5_hash) {
			continue;
		}
		if (++count <= kMaxNamed) {
			names += (names.empty() ? "" : ", ") + user.username;
		}
	}
	if (count > 0) {
		notices.push_back(
		    fmt::format("{} users have an MD5 hash as password and cannot log in while "
		                "pgsql-authentication_method is 3 (SCRAM-SHA-256): {}{}. Set it to 2, or "
		                "store the password or a SCRAM-SHA-256 verifier",
		                count, names, count > kMaxNamed ? ", ..." : ""));
	}
}

Result<void> Admin_Core::runtime_to_memory(const Admin_Module& module) {
	switch (module.kind) {
	case Module_Kind::pgsql_variables:
		return store_variables(variable_texts(*pgsql_));
	case Module_Kind::admin_variables:
		return store_variables(variable_texts(*admin_));
	case Module_Kind::users:
		// As loaded: the runtime table would split each user into two rows.
		return database_->replace_rows(*find_table("pgsql_users"), "main.pgsql_users",
		                               proxy::to_sql(control_.runtime_users()));
	case Module_Kind::servers:
	case Module_Kind::query_rules:
		for (const std::string_view table : module.tables) {
			PROXY_TRY(refresh_runtime_table(table));
		}
		break;
	case Module_Kind::plain:
		break;
	}
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	for (const std::string_view table : module.tables) {
		PROXY_TRY(database_->copy_table(*find_table(table), in_schema("main", "runtime_", table),
		                                in_schema("main", "", table)));
	}
	return transaction.commit();
}

Result<int64_t> Admin_Core::config_to_memory(const Admin_Module& module) {
	if (options_.config_path.empty()) {
		return make_error("P0001", "Config file unknown");
	}
	Result<Config_File_Contents> contents = read_config_file(options_.config_path);
	if (!contents.ok()) {
		return make_error("P0001", "Unable to open or parse config file " + options_.config_path +
		                               ": " + contents.error().message);
	}
	int64_t rows = 0;
	PROXY_TRY(apply_config(contents.value(), module, rows));
	return rows;
}

Result<void> Admin_Core::apply_config(const Config_File_Contents& contents,
                                      const Admin_Module& module, int64_t& rows) {
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	const auto insert = [&](std::string_view name, const std::vector<Sql_Row>& cells) {
		rows += static_cast<int64_t>(cells.size());
		return database_->insert_rows(*find_table(name), in_schema("main", "", name), cells,
		                              Row_Conflict::replace);
	};
	switch (module.kind) {
	case Module_Kind::servers:
		PROXY_TRY(insert("pgsql_servers", proxy::to_sql(contents.servers.servers)));
		PROXY_TRY(insert("pgsql_replication_hostgroups",
		                 proxy::to_sql(contents.servers.replication_hostgroups)));
		PROXY_TRY(insert("pgsql_hostgroup_attributes",
		                 proxy::to_sql(contents.servers.hostgroup_attributes)));
		PROXY_TRY(insert("pgsql_servers_ssl_params", proxy::to_sql(contents.servers.ssl_params)));
		break;
	case Module_Kind::users:
		PROXY_TRY(insert("pgsql_users", proxy::to_sql(contents.users)));
		break;
	case Module_Kind::query_rules:
		PROXY_TRY(insert("pgsql_query_rules", proxy::to_sql(contents.rules.rules)));
		PROXY_TRY(
		    insert("pgsql_query_rules_fast_routing", proxy::to_sql(contents.rules.fast_routing)));
		break;
	case Module_Kind::pgsql_variables:
	case Module_Kind::admin_variables: {
		const std::string_view prefix =
		    module.kind == Module_Kind::pgsql_variables ? "pgsql-" : "admin-";
		std::vector<Sql_Row> cells;
		for (const auto& [name, value] : contents.variables) {
			if (name.starts_with(prefix)) {
				cells.push_back({name, value});
			}
		}
		PROXY_TRY(insert("global_variables", cells));
		break;
	}
	case Module_Kind::plain:
		for (const std::string_view table : module.tables) {
			if (const auto found = contents.tables.find(std::string(table));
			    found != contents.tables.end()) {
				PROXY_TRY(insert(table, to_sql(*find_table(table), found->second)));
			}
		}
		break;
	}
	return transaction.commit();
}

Result<Config_File_Contents> Admin_Core::memory_as_config() {
	Config_File_Contents contents;
	SQLite3DB& db = database_->admin();
	for (const std::string_view prefix : {"admin-", "pgsql-"}) {
		Result<Variable_Map> values = variables_in("main", prefix);
		if (!values.ok()) {
			return values.take_error();
		}
		contents.variables.merge(values.value());
	}
	Result<Pgsql_Servers_Config> servers = read_servers(db, "main");
	if (!servers.ok()) {
		return servers.take_error();
	}
	Result<std::vector<Pgsql_User_Row>> users = read_users(db, "main");
	if (!users.ok()) {
		return users.take_error();
	}
	Result<Query_Rules_Config> rules = read_query_rules(db, "main");
	if (!rules.ok()) {
		return rules.take_error();
	}
	contents.servers = servers.take();
	contents.users = users.take();
	contents.rules = rules.take();
	for (const Admin_Module& module : kModules) {
		if (module.kind != Module_Kind::plain) {
			continue;
		}
		for (const std::string_view name : module.tables) {
			const Table_Definition& table = *find_table(name);
			Result<Sql_Result> cells =
			    db.run("SELECT " + column_list(table) + " FROM " + in_schema("main", "", name));
			if (!cells.ok()) {
				return cells.take_error();
			}
			if (!cells.value().rows.empty()) {
				contents.tables.emplace(name, to_generic(table, cells.value().rows));
			}
		}
	}
	return contents;
}

Result<std::string> Admin_Core::checksum_of(const Admin_Module& module) {
	std::string text;
	switch (module.kind) {
	case Module_Kind::servers: {
		const Pgsql_Servers_Config config = control_.runtime_servers();
		text = canonical_text(proxy::to_sql(config.servers)) + "#" +
		       canonical_text(proxy::to_sql(config.replication_hostgroups)) + "#" +
		       canonical_text(proxy::to_sql(config.hostgroup_attributes)) + "#" +
		       canonical_text(proxy::to_sql(config.ssl_params));
		break;
	}
	case Module_Kind::users:
		text = canonical_text(proxy::to_sql(control_.runtime_users()));
		break;
	case Module_Kind::query_rules: {
		const Query_Rules_Config rules = control_.runtime_query_rules();
		text = canonical_text(proxy::to_sql(rules.rules)) + "#" +
		       canonical_text(proxy::to_sql(rules.fast_routing));
		break;
	}
	case Module_Kind::pgsql_variables:
	case Module_Kind::admin_variables: {
		const Variable_Map values = module.kind == Module_Kind::pgsql_variables
		                                ? variable_texts(*pgsql_)
		                                : variable_texts(*admin_);
		for (const auto& [name, value] : values) {
			// Listeners belong to one node, not to the cluster.
			if (!name.ends_with("interfaces") && !name.ends_with("ifaces")) {
				text += fmt::format("{}={}:{}\n", name, value.size(), value);
			}
		}
		break;
	}
	case Module_Kind::plain:
		for (const std::string_view table : module.tables) {
			Result<Sql_Result> rows = database_->admin().run(
			    "SELECT * FROM " + in_schema("main", "runtime_", table) + " ORDER BY 1, 2");
			if (!rows.ok()) {
				return rows.take_error();
			}
			text += canonical_text(rows.value().rows);
		}
		break;
	}
	return hex_hash(text);
}

void Admin_Core::note_loaded(const Admin_Module& module) {
	if (module.checksum.empty()) {
		return;
	}
	Result<std::string> checksum = checksum_of(module);
	if (!checksum.ok()) {
		log_error("checksum of {}: {}", module.name, checksum.error().message);
		return;
	}
	Module_Checksum& entry = checksums_[std::string(module.checksum)];
	entry.checksum = checksum.take();
	entry.epoch_s = unix_time_s();
	++entry.version;
}

} // namespace proxy
