// The pgsql- and admin- variables as data: list, check one, build a whole configuration.
//
// Names are full names with prefix ("pgsql-threads"), in any case. Pure functions over values; any
// thread, used by startup and by the admin layer, never by a worker.
#pragma once

#include "base/Result.h"
#include "config/Admin_Config.h"
#include "config/Config_Rows.h"
#include "config/Pgsql_Config.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

enum class Variable_Kind : uint8_t { integer, boolean, text, word };
enum class Variable_When : uint8_t { runtime, restart, fixed };

// What a text variable must look like.
enum class String_Check : uint8_t {
	any,
	nonempty,
	nullable, // "(null)" is another way to write the empty text
	listen_list,
	credentials,
	encoding,  // a PostgreSQL encoding name; stored in upper case
	datestyle, // a format and an order
	log_path,  // no trailing slash; the directory of an absolute path exists
	identity_host,
	database_limits, // database=number, ...
	network_list,
	file_mode, // up to 0777, octal
};

struct Variable_Info {
	std::string name; // as listed: "pgsql-query_cache_size_MB"
	Variable_Kind kind = Variable_Kind::integer;
	std::string default_text;
	int64_t min = 0;
	int64_t max = 0;        // text: longest length in bytes
	std::string_view words; // word: "a|b|c"
	String_Check check = String_Check::any;
	std::string_view unit; // empty: a plain number
	Variable_When when = Variable_When::runtime;
	std::string_view doc;
};

using Variable_Map = std::map<std::string, std::string>; // full name -> text

// All variables, pgsql- first, in the order of the .def files. Lives as long as the process.
std::span<const Variable_Info> variable_infos();
// nullptr: no such variable.
const Variable_Info* find_variable(std::string_view full_name);
// A name that older or newer ProxySQL versions know and this one drops with a warning.
bool is_retired_variable(std::string_view full_name);

// The stored form of a value (booleans true/false, numbers plain, words as listed). The error names
// variable, value and what is allowed; values of secret variables are not repeated.
Result<std::string> check_variable(std::string_view full_name, std::string_view text);
// True for passwords and credentials: never log the value.
bool is_secret_variable(std::string_view full_name);

// SHOW form of every variable of a configuration.
Variable_Map variable_texts(const Pgsql_Config& config);
Variable_Map variable_texts(const Admin_Config& config);
// All defaults, both modules.
Variable_Map default_variables();

template <typename T> struct Built_Config {
	std::shared_ptr<const T> config;
	// For the log: dropped names, half-configured settings, a profile that became custom.
	std::vector<std::string> warnings;
};

// Where the texts come from, which says which of them a person touched.
//   table  the variables table, compared with what runs (LOAD PGSQL VARIABLES TO RUNTIME)
//   saved  the variables table as the disk gave it at startup; nothing ran before
//   file   a configuration file: every value it holds was written on purpose
enum class Variable_Source : uint8_t { table, saved, file };

// The whole configuration from its texts; names missing in `values` keep their default, names of
// the other module are skipped. All or nothing: the error has a line for each bad value.
//
// `running` is what runs now (a default-constructed value at startup). It decides what a
// profile means: a changed profile rewrites the settings it owns; a changed owned setting turns a
// named profile into custom; both at once, contradicting each other, is an error.
Result<Built_Config<Pgsql_Config>>
build_pgsql_config(const Variable_Map& values, const Pgsql_Config& running,
                   Variable_Source source = Variable_Source::table);
Result<Built_Config<Admin_Config>> build_admin_config(const Variable_Map& values);

// Replaces, in `next`, the values of restart variables by the running ones; returns the names that
// differed. For LOAD PGSQL VARIABLES TO RUNTIME after the workers have started.
std::vector<std::string> keep_restart_values(Pgsql_Config& next, const Pgsql_Config& running);

// The rules that need variables and hostgroup pairs together; checked in both load orders. The
// error has a line for each bad pair.
Result<void> check_consistency_policy(const Pgsql_Config& config,
                                      const std::vector<Replication_Hostgroup_Row>& pairs);
// No two listeners on one address.
Result<void> check_listeners(const Pgsql_Config& pgsql, const Admin_Config& admin);

} // namespace proxy
