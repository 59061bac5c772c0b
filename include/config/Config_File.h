// ProxySQL's configuration file (libconfig format), read whole into rows.
//
// Stricter than ProxySQL on purpose: any fault refuses the file, and all faults are reported at
// once. Unknown keys and variables are faults: a misspelt name would be a default in disguise.
// Unknown top-level keys, variables of other versions and the sections of other protocols only
// warn.
#pragma once

#include "base/Result.h"
#include "config/Config_Rows.h"
#include "config/Config_Variables.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// Top-level keys; read at every start, even when the saved database holds the configuration.
struct Config_File_Globals {
	std::optional<std::string> datadir;
	std::optional<std::string> errorlog;
	std::optional<std::string> pidfile;
	std::optional<std::string> uuid;
	std::optional<std::string> execute_on_exit_failure;
	int restart_on_missing_heartbeats = 10; // 0: never
	bool cluster_sync_interfaces = false;
	// Components switched on or off; absent: the command line or the default (on) decides.
	std::optional<bool> pgsql_workers;
	std::optional<bool> pgsql_admin;
	std::optional<bool> pgsql_monitor;
	std::optional<bool> mysql_workers;
	std::optional<bool> mysql_admin;
	std::optional<bool> mysql_monitor;
};

// A row of a table that this layer does not interpret: column -> value; NULL columns are absent.
using Generic_Row = std::map<std::string, std::string>;

struct Config_File_Contents {
	Config_File_Globals globals;
	// Only what the file sets, full names, stored form.
	Variable_Map variables;
	Pgsql_Servers_Config servers;
	std::vector<Pgsql_User_Row> users;
	Query_Rules_Config rules;
	// Table name -> rows: scheduler, restapi_routes, proxysql_servers, pgsql_firewall_..., ...
	std::map<std::string, std::vector<Generic_Row>> tables;
	// "FILE:LINE: ..." lines for the log.
	std::vector<std::string> warnings;
};

// globals: top-level keys only, the sections are parsed but not looked at.
enum class Config_Scope { everything, globals };

// The error message has one line a fault: "FILE:LINE: section pgsql_servers: ...".
Result<Config_File_Contents> read_config_file(const std::string& path,
                                              Config_Scope scope = Config_Scope::everything);
// The same from memory; `name` stands for the file in messages.
Result<Config_File_Contents> read_config_text(const std::string& text, const std::string& name,
                                              Config_Scope scope = Config_Scope::everything);

// The file that reads back to the same contents (SAVE CONFIG TO FILE).
std::string config_file_text(const Config_File_Contents& contents);

} // namespace proxy
