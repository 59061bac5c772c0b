// What is derived from the table lists: lookup and CREATE TABLE text.
#include "admin/ProxySQL_Admin_Tables_Definitions.h"

namespace proxy {

namespace {
void append_column(std::string& out, const Column_Definition& column) {
	out += column.name;
	if (!column.type.empty()) {
		out += ' ';
		out += column.type;
	}
	// SQLite wants AUTOINCREMENT right behind the type; ProxySQL writes other keys last.
	const bool counts = column.key.ends_with("AUTOINCREMENT");
	if (counts) {
		out += ' ';
		out += column.key;
	}
	if (!column.check.empty()) {
		out += " CHECK (";
		out += column.check;
		out += ')';
	}
	if (column.null == Column_Null::refused) {
		out += " NOT NULL";
	}
	if (!column.default_value.empty()) {
		out += " DEFAULT ";
		out += column.default_value;
	}
	if (!column.key.empty() && !counts) {
		out += ' ';
		out += column.key;
	}
}
} // namespace

const Table_Definition* find_table(std::string_view name) {
	for (const auto& tables : {config_tables(), stats_tables(), monitor_and_history_tables()}) {
		for (const Table_Definition& table : tables) {
			if (table.name == name) {
				return &table;
			}
		}
	}
	return nullptr;
}

std::string create_table_sql(const Table_Definition& table, std::string_view name) {
	std::string out = "CREATE TABLE ";
	out += name;
	out += " (";
	bool first = true;
	for (const Column_Definition& column : table.columns) {
		if (!first) {
			out += " , ";
		}
		first = false;
		append_column(out, column);
	}
	if (!table.constraint.empty()) {
		out += " , ";
		out += table.constraint;
		out += ' ';
	}
	out += ')';
	return out;
}

std::string column_list(const Table_Definition& table) {
	std::string out;
	for (const Column_Definition& column : table.columns) {
		if (!out.empty()) {
			out += ", ";
		}
		out += column.name;
	}
	return out;
}

} // namespace proxy
