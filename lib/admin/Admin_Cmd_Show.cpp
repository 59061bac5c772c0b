// SHOW and the SELECTs that are not SQL of SQLite's (SELECT @@name, SELECT version()).
#include "admin/Admin_Handler.h"
#include "admin/Admin_Text.h"
#include "base/Version.def"
#include "config/Config_Variables.h"
#include "config/Config_Words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace proxy {

namespace {
constexpr std::string_view kVariableColumns =
    "variable_name AS Variable_name, variable_value AS Value";

std::string_view after(std::string_view line, std::string_view prefix) {
	line.remove_prefix(std::min(line.size(), prefix.size()));
	while (!line.empty() && line.front() == ' ') {
		line.remove_prefix(1);
	}
	return line;
}

// A pattern or name as ProxySQL takes it: quotes, backticks and backslashes dropped.
std::string plain(std::string_view text) {
	std::string out;
	for (const char c : text) {
		if (c != '\'' && c != '"' && c != '`' && c != '\\' && c != ';') {
			out += c;
		}
	}
	return out;
}

// Schemas a client may name; a stats user's own schema is called main in SQLite.
std::string schema_for(const Admin_Statement& statement, std::string_view name) {
	const std::string wanted = to_lower(name);
	const bool stats_user = statement.client.role == Admin_Role::stats;
	for (const std::string_view schema : {"main", "disk", "stats", "monitor", "stats_history"}) {
		if (wanted == schema) {
			return stats_user && (schema == "stats" || schema == "disk") ? "main" : wanted;
		}
	}
	return {};
}

Command_Outcome tables_of(Admin_Core& core, const Admin_Statement& statement,
                          std::string_view schema, std::string_view pattern) {
	const std::string known = schema_for(statement, schema);
	if (known.empty()) {
		return admin_error(fmt::format("unknown database {}", schema));
	}
	const std::string like = pattern.empty() ? "" : " AND name LIKE " + sql_literal(plain(pattern));
	return run_rewritten(core, statement,
	                     fmt::format("SELECT name AS tables FROM {}.sqlite_master WHERE type = "
	                                 "'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'{} ORDER "
	                                 "BY name",
	                                 known, like));
}

Command_Outcome show_tables(Admin_Core& core, const Admin_Statement& statement) {
	return tables_of(core, statement, "main", "");
}
Command_Outcome show_tables_in(Admin_Core& core, const Admin_Statement& statement) {
	const std::string_view rest = after(statement.line, "SHOW TABLES FROM ");
	return tables_of(core, statement, plain(after(rest, "")), "");
}
Command_Outcome show_tables_in_short(Admin_Core& core, const Admin_Statement& statement) {
	return tables_of(core, statement, plain(after(statement.line, "SHOW TABLES IN ")), "");
}
Command_Outcome show_tables_like(Admin_Core& core, const Admin_Statement& statement) {
	return tables_of(core, statement, "main", after(statement.line, "SHOW TABLES LIKE "));
}

Command_Outcome show_databases(Admin_Core& core, const Admin_Statement& statement) {
	Command_Outcome outcome =
	    run_rewritten(core, statement, "SELECT seq, name, file FROM pragma_database_list");
	if (outcome->ok()) {
		outcome->value().tag = "PRAGMA";
	}
	return outcome;
}

// "schema.table" or "table", with or without quotes; the schema defaults to where the name is
// found first.
Command_Outcome show_create_table(Admin_Core& core, const Admin_Statement& statement) {
	std::string name = plain(after(statement.line, "SHOW CREATE TABLE "));
	std::string schema;
	if (const size_t dot = name.find('.'); dot != std::string::npos) {
		schema = schema_for(statement, name.substr(0, dot));
		if (schema.empty()) {
			return admin_error(fmt::format("unknown database {}", name.substr(0, dot)));
		}
		name.erase(0, dot + 1);
	}
	const std::string shown = "REPLACE(REPLACE(sql, ' , ', ',' || X'0A20202020'), name || ' (', "
	                          "name || ' (' || X'0A20202020')";
	const bool stats_user = statement.client.role == Admin_Role::stats;
	std::string sql;
	for (const std::string_view candidate : {"main", "disk", "stats", "monitor", "stats_history"}) {
		const bool attached = !stats_user || (candidate != "disk" && candidate != "stats");
		if (!attached || (!schema.empty() && schema != candidate)) {
			continue;
		}
		sql += sql.empty() ? "" : " UNION ALL ";
		sql += fmt::format("SELECT name AS 'table', {} AS 'Create Table' FROM {}.sqlite_master "
		                   "WHERE type IN ('table', 'view') AND name = {} COLLATE NOCASE",
		                   shown, candidate, sql_literal(name));
	}
	return run_rewritten(core, statement, sql + " LIMIT 1");
}

Command_Outcome show_fields(Admin_Core& core, const Admin_Statement& statement) {
	const std::string name = plain(after(statement.line, "SHOW FIELDS FROM "));
	Command_Outcome outcome = run_rewritten(
	    core, statement,
	    fmt::format(
	        "SELECT name AS Field, type AS Type, CASE WHEN \"notnull\" THEN 'NO' ELSE 'YES' "
	        "END AS 'Null', CASE WHEN pk THEN 'PRI' ELSE '' END AS 'Key', dflt_value AS "
	        "'Default', '' AS Extra FROM pragma_table_info({})",
	        sql_literal(name)));
	if (outcome->ok()) {
		outcome->value().tag = "SHOW";
	}
	return outcome;
}

Command_Outcome show_table_status(Admin_Core& core, const Admin_Statement& statement) {
	const std::string name = plain(after(statement.line, "SHOW TABLE STATUS LIKE "));
	Command_Outcome outcome = run_rewritten(
	    core, statement,
	    fmt::format("SELECT name AS Name, 'SQLite' AS Engine, '10' AS Version, 'Dynamic' AS "
	                "Row_format, NULL AS \"Rows\", '' AS Comment FROM sqlite_master WHERE type = "
	                "'table' AND name LIKE {}",
	                sql_literal(name)));
	if (outcome->ok()) {
		outcome->value().tag = "SHOW";
	}
	return outcome;
}

// Secrets are readable where they are edited (global_variables), not in a listing that ends up in
// a ticket.
Command_Outcome variables_where(Admin_Core& core, const Admin_Statement& statement,
                                std::string_view condition) {
	Command_Outcome outcome =
	    run_rewritten(core, statement,
	                  fmt::format("SELECT {} FROM global_variables {} ORDER BY variable_name",
	                              kVariableColumns, condition));
	if (outcome->ok()) {
		for (Sql_Row& row : outcome->value().result.rows) {
			if (row[0] && row[1] && !row[1]->empty() && is_secret_variable(*row[0])) {
				row[1] = "********";
			}
		}
	}
	return outcome;
}

Command_Outcome show_variables(Admin_Core& core, const Admin_Statement& statement) {
	return variables_where(core, statement, "");
}
// A stats user's global_variables has none of these: an empty answer would look like a proxy
// without a configuration.
Command_Outcome variables_of(Admin_Core& core, const Admin_Statement& statement,
                             std::string_view pattern) {
	if (statement.client.role == Admin_Role::stats) {
		return admin_error("Command not allowed: variables are for administrators");
	}
	return variables_where(core, statement, fmt::format("WHERE variable_name LIKE '{}'", pattern));
}
Command_Outcome show_admin_variables(Admin_Core& core, const Admin_Statement& statement) {
	return variables_of(core, statement, "admin-%");
}
Command_Outcome show_pgsql_variables(Admin_Core& core, const Admin_Statement& statement) {
	return variables_of(core, statement, "pgsql-%");
}
Command_Outcome show_mysql_variables(Admin_Core& core, const Admin_Statement& statement) {
	return variables_where(core, statement, "WHERE variable_name LIKE 'mysql-%'");
}
Command_Outcome show_variables_like(Admin_Core& core, const Admin_Statement& statement) {
	const size_t at = statement.upper.find(" LIKE ");
	const std::string_view pattern =
	    at == std::string::npos ? "" : after(std::string_view(statement.line).substr(at), " LIKE ");
	const std::string text = unquote(pattern);
	if (equal_ignoring_case(text, "version")) {
		Admin_Answer answer = one_value("Variable_name", "version");
		answer.result.columns.emplace_back("Value");
		answer.result.rows[0].emplace_back(POLAR_PROXY_VERSION);
		return answer;
	}
	if (equal_ignoring_case(text, "read_only")) {
		Admin_Answer answer = one_value("Variable_name", "read_only");
		answer.result.columns.emplace_back("Value");
		answer.result.rows[0].emplace_back(core.read_only() ? "ON" : "OFF");
		return answer;
	}
	return variables_where(core, statement, "WHERE variable_name LIKE " + sql_literal(text));
}
Command_Outcome show_variables_where(Admin_Core& core, const Admin_Statement& statement) {
	const size_t at = statement.upper.find("WHERE ");
	if (at == std::string::npos) {
		return std::nullopt;
	}
	return variables_where(core, statement, std::string_view(statement.line).substr(at));
}

Command_Outcome show_status(Admin_Core& core, const Admin_Statement& statement) {
	return run_rewritten(core, statement,
	                     "SELECT Variable_Name AS Variable_name, Variable_Value AS Value FROM "
	                     "stats_pgsql_global ORDER BY Variable_Name");
}
Command_Outcome show_processlist(Admin_Core& core, const Admin_Statement& statement) {
	return run_rewritten(core, statement,
	                     "SELECT SessionID, user, database, hostgroup, backend_pid, "
	                     "backend_state, command, time_ms, info FROM stats_pgsql_processlist");
}
Command_Outcome show_full_processlist(Admin_Core& core, const Admin_Statement& statement) {
	return run_rewritten(core, statement, "SELECT * FROM stats_pgsql_processlist");
}
Command_Outcome show_activity(Admin_Core& core, const Admin_Statement& statement) {
	return run_rewritten(core, statement,
	                     "SELECT datname, pid, usename, hostgroup, backend_pid, state, command, "
	                     "duration_ms, query FROM stats_pgsql_stat_activity");
}
Command_Outcome show_full_activity(Admin_Core& core, const Admin_Statement& statement) {
	return run_rewritten(core, statement, "SELECT * FROM stats_pgsql_stat_activity");
}

// mysqldump asks for these; there is nothing to tell.
Command_Outcome show_nothing(Admin_Core&, const Admin_Statement&) {
	Admin_Answer answer = done("SHOW");
	answer.result.columns.emplace_back("Name");
	return answer;
}

// Parameters that PostgreSQL drivers ask for when they connect.
Command_Outcome show_parameter(Admin_Core& core, const Admin_Statement& statement) {
	const std::pair<std::string_view, std::string_view> known[] = {
	    {"TRANSACTION ISOLATION LEVEL", "read committed"},
	    {"TRANSACTION_ISOLATION", "read committed"},
	    {"TRANSACTION_READ_ONLY", core.read_only() ? "on" : "off"},
	    {"DEFAULT_TRANSACTION_READ_ONLY", core.read_only() ? "on" : "off"},
	    {"STANDARD_CONFORMING_STRINGS", "on"},
	    {"CLIENT_ENCODING", "UTF8"},
	    {"SERVER_ENCODING", "UTF8"},
	    {"SERVER_VERSION", core.pgsql_config().server_version},
	    {"DATESTYLE", "ISO, MDY"},
	    {"INTEGER_DATETIMES", "on"},
	    {"TIMEZONE", "GMT"},
	    {"TIME ZONE", "GMT"},
	    {"SEARCH_PATH", "main"},
	    {"IS_SUPERUSER", "on"},
	    {"EXTRA_FLOAT_DIGITS", "1"},
	};
	const std::string_view name = after(statement.upper, "SHOW ");
	for (const auto& [parameter, value] : known) {
		if (name == parameter) {
			std::string column = to_lower(parameter);
			std::replace(column.begin(), column.end(), ' ', '_');
			Admin_Answer answer = one_value(column, value);
			answer.tag = "SHOW";
			return answer;
		}
	}
	return std::nullopt;
}

// --- SELECTs ---
Command_Outcome select_version(Admin_Core&, const Admin_Statement&) {
	return one_value("version", POLAR_PROXY_VERSION);
}
Command_Outcome select_version_comment(Admin_Core&, const Admin_Statement&) {
	return one_value("@@version_comment", "(ProxySQL Admin Module)");
}
Command_Outcome select_database(Admin_Core&, const Admin_Statement& statement) {
	return one_value(after(statement.line, "SELECT "),
	                 statement.client.role == Admin_Role::admin ? "admin" : "stats");
}

// SELECT @@name: a variable, or a counter of stats_pgsql_global.
Command_Outcome select_variable(Admin_Core& core, const Admin_Statement& statement) {
	std::string_view name = after(statement.line, "SELECT @@");
	size_t length = 0;
	while (length < name.size() &&
	       (std::isalnum(static_cast<unsigned char>(name[length])) != 0 || name[length] == '_' ||
	        name[length] == '-' || name[length] == '.')) {
		++length;
	}
	name = name.substr(0, length);
	if (equal_ignoring_case(name, "version")) {
		return one_value("@@version", POLAR_PROXY_VERSION);
	}
	if (equal_ignoring_case(name, "global.read_only") || equal_ignoring_case(name, "read_only")) {
		return one_value(fmt::format("@@{}", name), core.read_only() ? "1" : "0");
	}
	if (equal_ignoring_case(name, "max_allowed_packet")) {
		name = "mysql-max_allowed_packet";
	}
	const std::string column = sql_identifier(fmt::format("@@{}", name));
	const std::string literal = sql_literal(name);
	// The stats database has both tables too, so one text serves both roles.
	return run_rewritten(
	    core, statement,
	    fmt::format("SELECT variable_value AS {0} FROM global_variables WHERE variable_name = {1} "
	                "COLLATE NOCASE UNION ALL SELECT Variable_Value AS {0} FROM "
	                "stats_pgsql_global WHERE Variable_Name = {1} COLLATE NOCASE",
	                column, literal));
}

constexpr Command_Match kPrefix = Command_Match::prefix;
constexpr Command_Match kExact = Command_Match::exact;
constexpr Admin_Role kAll = Admin_Role::stats;

constexpr Admin_Command kCommands[] = {
    {"SHOW TABLES", kExact, kAll, show_tables, "tables of main"},
    {"SHOW TABLES FROM ", kPrefix, kAll, show_tables_in, "tables of a schema"},
    {"SHOW TABLES IN ", kPrefix, kAll, show_tables_in_short, "tables of a schema"},
    {"SHOW TABLES LIKE ", kPrefix, kAll, show_tables_like, "tables of main by pattern"},
    {"SHOW DATABASES", kExact, kAll, show_databases, "schemas and their files"},
    {"SHOW SCHEMAS", kExact, kAll, show_databases, "schemas and their files"},
    {"SHOW CREATE TABLE ", kPrefix, kAll, show_create_table, "definition of a table"},
    {"SHOW FIELDS FROM ", kPrefix, kAll, show_fields, "columns of a table"},
    {"SHOW TABLE STATUS LIKE ", kPrefix, kAll, show_table_status, "MySQL-shaped table list"},
    {"SHOW VARIABLES", kExact, kAll, show_variables, "all variables"},
    {"SHOW GLOBAL VARIABLES", kExact, kAll, show_variables, "all variables"},
    {"SHOW ALL VARIABLES", kExact, kAll, show_variables, "all variables"},
    {"SHOW ADMIN VARIABLES", kExact, kAll, show_admin_variables, "the admin variables"},
    {"SHOW PGSQL VARIABLES", kExact, kAll, show_pgsql_variables, "the pgsql variables"},
    {"SHOW MYSQL VARIABLES", kExact, kAll, show_mysql_variables, "kept mysql variables"},
    {"SHOW VARIABLES LIKE ", kPrefix, kAll, show_variables_like, "variables by pattern"},
    {"SHOW GLOBAL VARIABLES LIKE ", kPrefix, kAll, show_variables_like, "variables by pattern"},
    {"SHOW VARIABLES WHERE ", kPrefix, kAll, show_variables_where, "variables by condition"},
    {"SHOW GLOBAL VARIABLES WHERE ", kPrefix, kAll, show_variables_where, "variables by condition"},
    {"SHOW PGSQL STATUS", kExact, kAll, show_status, "counters of stats_pgsql_global"},
    {"SHOW PGSQL PROCESSLIST", kExact, kAll, show_processlist, "client sessions"},
    {"SHOW FULL PGSQL PROCESSLIST", kExact, kAll, show_full_processlist,
     "client sessions, all columns"},
    {"SHOW PROCESSLIST", kExact, kAll, show_processlist, "client sessions"},
    {"SHOW FULL PROCESSLIST", kExact, kAll, show_full_processlist, "client sessions, all columns"},
    {"SHOW PGSQL ACTIVITY", kExact, kAll, show_activity, "client sessions"},
    {"SHOW FULL PGSQL ACTIVITY", kExact, kAll, show_full_activity, "client sessions, all columns"},
    {"SHOW MASTER STATUS", kExact, kAll, show_nothing, "nothing"},
    {"SHOW BINARY LOG STATUS", kExact, kAll, show_nothing, "nothing"},
    {"SHOW FUNCTION STATUS", kPrefix, kAll, show_nothing, "nothing"},
    {"SHOW PROCEDURE STATUS", kPrefix, kAll, show_nothing, "nothing"},
    {"SHOW TRIGGERS", kPrefix, kAll, show_nothing, "nothing"},
    {"SHOW EVENTS", kPrefix, kAll, show_nothing, "nothing"},
    {"SHOW ", kPrefix, kAll, show_parameter, "parameters that drivers ask for"},
    {"SELECT @@VERSION_COMMENT", kPrefix, kAll, select_version_comment, "name of the product"},
    {"SELECT @@", kPrefix, kAll, select_variable, "one variable or counter"},
    {"SELECT VERSION()", kPrefix, kAll, select_version, "version of the product"},
    {"SELECT PG_CATALOG.VERSION()", kPrefix, kAll, select_version, "version of the product"},
    {"SELECT DATABASE()", kPrefix, kAll, select_database, "admin or stats"},
    {"SELECT CURRENT_DATABASE()", kPrefix, kAll, select_database, "admin or stats"},
    {"SELECT CURRENT_USER", kExact, kAll, select_database, "admin or stats"},
    {"SELECT CURRENT_USER()", kExact, kAll, select_database, "admin or stats"},
    {"SELECT SESSION_USER", kExact, kAll, select_database, "admin or stats"},
    {"SELECT USER()", kExact, kAll, select_database, "admin or stats"},
};
} // namespace

std::span<const Admin_Command> show_commands() {
	return kCommands;
}

} // namespace proxy
