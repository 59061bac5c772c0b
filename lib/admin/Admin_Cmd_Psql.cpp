// psql's meta commands (\l, \dn, \d, \dt, \di, \dv, \d TABLE). psql asks the catalogs of PostgreSQL
// with statements of a fixed shape; each is recognised by its table and answered from SQLite's.
// No state is kept between the statements of one \d: the oid given out says which table is meant.
#include "admin/Admin_Handler.h"
#include "admin/Admin_Text.h"
#include "config/Config_Words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace proxy {

namespace {
// oid = kFirstOid + place of the schema * kOidsOfSchema + place in its sqlite_master.
constexpr int64_t kFirstOid = 16384;
constexpr int64_t kOidsOfSchema = 100'000;

bool has(std::string_view text, std::string_view part) {
	return text.find(part) != std::string_view::npos;
}

// What follows `mark` up to `end`; empty when the text has no such mark.
std::string_view between(std::string_view text, std::string_view mark, std::string_view end) {
	const size_t at = text.find(mark);
	if (at == std::string_view::npos) {
		return {};
	}
	text.remove_prefix(at + mark.size());
	return text.substr(0, text.find(end));
}

// psql sends name patterns as a regular expression, ^(pgsql_.*)$: the same as a GLOB of SQLite.
std::string glob_of(std::string_view expression) {
	std::string glob;
	for (size_t i = 0; i < expression.size(); ++i) {
		const char c = expression[i];
		if (c == '^' || c == '$' || c == '(' || c == ')' || c == '\\') {
			continue;
		}
		if (c == '.') {
			const bool any = i + 1 < expression.size() && expression[i + 1] == '*';
			glob += any ? '*' : '?';
			i += any ? 1 : 0;
			continue;
		}
		glob += c;
	}
	return glob;
}

std::string pattern_of(std::string_view line, std::string_view column) {
	const std::string mark = fmt::format("{} OPERATOR(pg_catalog.~) '", column);
	return glob_of(between(line, mark, "'"));
}

struct Schema {
	std::string name;
	int64_t place = 0;
};

Result<std::vector<Schema>> schemas(Admin_Core& core, const Admin_Client& client,
                                    std::string_view glob) {
	const std::string where =
	    glob.empty() ? "name = 'main'" : fmt::format("name GLOB {}", sql_literal(glob));
	Result<Admin_Answer> rows = core.execute_sql(
	    client, fmt::format("SELECT name, seq FROM pragma_database_list WHERE {}", where));
	if (!rows.ok()) {
		return rows.take_error();
	}
	std::vector<Schema> found;
	for (const Sql_Row& row : rows.value().result.rows) {
		Schema schema;
		schema.name = row[0].value_or("");
		const std::string place = row[1].value_or("0");
		std::from_chars(place.data(), place.data() + place.size(), schema.place);
		found.push_back(std::move(schema));
	}
	return found;
}

// `select`: the output columns; `types`: SQLite's object types as a list of literals.
Command_Outcome relations(Admin_Core& core, const Admin_Statement& statement,
                          std::string_view select, std::string_view types, std::string_view order) {
	Result<std::vector<Schema>> wanted =
	    schemas(core, statement.client, pattern_of(statement.line, "n.nspname"));
	if (!wanted.ok()) {
		return wanted.take_error();
	}
	const std::string glob = pattern_of(statement.line, "c.relname");
	const std::string named =
	    glob.empty() ? "" : fmt::format(" AND name GLOB {}", sql_literal(glob));
	std::string sql;
	for (const Schema& schema : wanted.value()) {
		sql += fmt::format("{}SELECT {} AS \"Schema\", name AS \"Name\", type AS \"Type\", "
		                   "'admin' AS \"Owner\", tbl_name AS \"Table\", {} + rowid AS oid FROM "
		                   "{}.sqlite_master WHERE type IN ({}) AND name NOT LIKE 'sqlite\\_%' "
		                   "ESCAPE '\\'{}",
		                   sql.empty() ? "" : " UNION ALL ", sql_literal(schema.name),
		                   kFirstOid + schema.place * kOidsOfSchema, sql_identifier(schema.name),
		                   types, named);
	}
	if (sql.empty()) { // no such schema
		sql = "SELECT '' AS \"Schema\", '' AS \"Name\", '' AS \"Type\", '' AS \"Owner\", "
		      "'' AS \"Table\", 0 AS oid WHERE 0";
	}
	return run_rewritten(core, statement,
	                     fmt::format("SELECT {} FROM ({}) ORDER BY {}", select, sql, order));
}

Command_Outcome list_relations(Admin_Core& core, const Admin_Statement& statement) {
	const std::string_view kinds = between(statement.line, "c.relkind IN (", ")");
	std::string types = "''";
	types += has(kinds, "'r'") ? ",'table'" : "";
	types += has(kinds, "'v'") ? ",'view'" : "";
	const bool indexes = has(kinds, "'i'");
	types += indexes ? ",'index'" : "";
	const std::string_view select = indexes ? R"("Schema", "Name", "Type", "Owner", "Table")"
	                                        : R"("Schema", "Name", "Type", "Owner")";
	return relations(core, statement, select, types, "1, 2");
}

// The table that an oid stands for, as two names for SQL; empty: none.
std::pair<std::string, std::string> table_of(Admin_Core& core, const Admin_Client& client,
                                             std::string_view oid) {
	int64_t number = 0;
	std::from_chars(oid.data(), oid.data() + oid.size(), number);
	number -= kFirstOid;
	if (number <= 0) {
		return {};
	}
	Result<std::vector<Schema>> all = schemas(core, client, "*");
	if (!all.ok()) {
		return {};
	}
	for (const Schema& schema : all.value()) {
		if (schema.place != number / kOidsOfSchema) {
			continue;
		}
		Result<Admin_Answer> answer = core.execute_sql(
		    client, fmt::format("SELECT name FROM {}.sqlite_master WHERE rowid = {}",
		                        sql_identifier(schema.name), number % kOidsOfSchema));
		if (answer.ok() && !answer.value().result.rows.empty()) {
			return {schema.name, answer.value().result.rows[0][0].value_or("")};
		}
	}
	return {};
}

// Storage, compression and the like: columns that psql asks for with \d+, which it finds by their
// place.
std::string verbose_columns(std::string_view line) {
	std::string columns;
	for (const std::string_view mark : {"a.attstorage", "a.attcompression", "attstattarget",
	                                    "attfdwoptions", "pg_catalog.col_description"}) {
		columns += !has(line, mark) ? "" : mark == "a.attstorage" ? ", 'p'" : ", ''";
	}
	return columns;
}

Command_Outcome table_columns(Admin_Core& core, const Admin_Statement& statement) {
	const auto [schema, table] =
	    table_of(core, statement.client, between(statement.line, "a.attrelid = '", "'"));
	return run_rewritten(
	    core, statement,
	    fmt::format("SELECT name AS attname, lower(type) AS format_type, dflt_value AS attrdef, "
	                "CASE WHEN \"notnull\" THEN 't' ELSE 'f' END AS attnotnull, NULL AS "
	                "attcollation, '' AS attidentity, '' AS attgenerated{} FROM "
	                "pragma_table_info({}, {}) ORDER BY cid",
	                verbose_columns(statement.line), sql_literal(table), sql_literal(schema)));
}

// One row with what pg_class says of a plain table.
Command_Outcome table_properties(Admin_Core& core, const Admin_Statement& statement) {
	const auto [schema, table] =
	    table_of(core, statement.client, between(statement.line, "c.oid = '", "'"));
	if (table.empty()) {
		return admin_error("the table is not there any more");
	}
	return run_rewritten(
	    core, statement,
	    fmt::format("SELECT 0 AS relchecks, CASE type WHEN 'view' THEN 'v' ELSE 'r' END AS "
	                "relkind, 'f' AS relhasindex, 'f' AS relhasrules, 'f' AS relhastriggers, 'f' "
	                "AS relrowsecurity, 'f' AS relforcerowsecurity, 'f' AS relhasoids, 'f' AS "
	                "relispartition, '' AS reloptions, 0 AS reltablespace, '' AS reloftype, 'p' AS "
	                "relpersistence, 'd' AS relreplident, '' AS amname FROM {}.sqlite_master WHERE "
	                "name = {} AND type IN ('table', 'view')",
	                sql_identifier(schema), sql_literal(table)));
}

Command_Outcome psql_question(Admin_Core& core, const Admin_Statement& statement) {
	// Without literals: a rule whose pattern names a catalog is no question of psql's.
	const std::string shape = without_literals(statement.line);
	if (!has(shape, " pg_catalog.pg_")) {
		return std::nullopt;
	}
	if (has(shape, "FROM pg_catalog.pg_database ")) {
		return run_rewritten(core, statement,
		                     "SELECT name AS \"Name\", 'admin' AS \"Owner\", file AS \"File\" FROM "
		                     "pragma_database_list ORDER BY seq");
	}
	if (has(shape, "FROM pg_catalog.pg_namespace n") && !has(shape, "pg_catalog.pg_class")) {
		return run_rewritten(core, statement,
		                     "SELECT name AS \"Name\", 'admin' AS \"Owner\" FROM "
		                     "pragma_database_list ORDER BY 1");
	}
	if (has(shape, "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c")) {
		return relations(core, statement, R"(oid, "Schema" AS nspname, "Name" AS relname)",
		                 "'table', 'view'", "2, 3");
	}
	if (has(shape, "SELECT c.relchecks, c.relkind,")) {
		return table_properties(core, statement);
	}
	if (has(shape, "FROM pg_catalog.pg_attribute a WHERE a.attrelid =")) {
		return table_columns(core, statement);
	}
	if (has(shape, "FROM pg_catalog.pg_class c LEFT JOIN") && has(shape, "c.relkind IN (")) {
		return list_relations(core, statement);
	}
	// Policies, statistics, publications, inheritance...: the admin's tables have none.
	return run_rewritten(core, statement, "SELECT NULL AS none WHERE 0");
}

constexpr std::array kCommands = {
    Admin_Command{"SELECT ", Command_Match::prefix, Admin_Role::stats, psql_question,
                  "psql's meta commands"},
};
} // namespace

std::span<const Admin_Command> psql_commands() {
	return kCommands;
}

} // namespace proxy
