// The admin, stats, monitor and history tables as data. One row of the lists in
// lib/admin/Admin_Tables_*.cpp declares a table; everything else (CREATE TABLE text, runtime_ and
// _reset twins, upgrades, documentation) is derived from it.
//
// The CREATE TABLE text follows ProxySQL's style, because ProxySQL compares it byte for byte with
// what it finds in proxysql.db: columns joined by " , ", CHECK before NOT NULL before DEFAULT.
// Columns of this product come after ProxySQL's own, so that INSERTs with a column list and
// copies of old tables keep working.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

enum class Column_Null : uint8_t { allowed, refused };

struct Column_Definition {
	std::string_view name = {};
	std::string_view type = {}; // may be empty: SQLite allows a column without one
	Column_Null null = Column_Null::allowed;
	std::string_view default_value = {}; // SQL text; empty: none
	std::string_view check = {};         // expression; empty: none
	std::string_view key = {};           // "PRIMARY KEY", "PRIMARY KEY AUTOINCREMENT" or empty
	std::string_view doc = {};
	// Upgrade: expression over the old table that gives this column's value; empty: the column of
	// the same name, or the default when the old table has none.
	std::string_view upgrade = {};
};

enum class Table_Place : uint8_t {
	config,       // main, disk and runtime_ in main
	config_plain, // main and disk
	disk,         // disk only
	runtime,      // main only, shows what runs
	stats,
	monitor,
	history,
};

// Whether a stats table has a twin that zeroes the counters when read.
enum class Reset_Twin : uint8_t { no, yes };

struct Table_Definition {
	std::string_view name = {}; // without runtime_ and _reset
	Table_Place place = Table_Place::config;
	std::span<const Column_Definition> columns = {};
	std::string_view constraint = {}; // table constraint, e.g. "PRIMARY KEY (a, b)"; empty: none
	std::string_view doc = {};
	Reset_Twin reset_twin = Reset_Twin::no;
};

struct View_Definition {
	std::string_view name; // in the stats schema
	std::string_view select;
	std::string_view doc = {};
};

std::span<const Table_Definition> config_tables();
std::span<const Table_Definition> stats_tables();
std::span<const Table_Definition> monitor_and_history_tables();
std::span<const View_Definition> stats_views();

// nullptr: no such table. `name` without schema, runtime_ or _reset.
const Table_Definition* find_table(std::string_view name);

// "CREATE TABLE name (...)" for the table under `name` (which may carry runtime_ or _reset).
std::string create_table_sql(const Table_Definition& table, std::string_view name);

// "a, b, c"
std::string column_list(const Table_Definition& table);

} // namespace proxy
