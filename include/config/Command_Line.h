// ProxySQL's command line, so that existing units and scripts work unchanged.
#pragma once

#include "base/Result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// What the program was asked to do.
enum class Command_Line_Action { run, show_help, show_version };

struct Command_Line_Options {
	Command_Line_Action action = Command_Line_Action::run;
	bool no_start = false;      // -n: admin only, until PROXYSQL START
	bool no_monitor = false;    // -M
	bool foreground = false;    // -f
	bool reuse_port = false;    // -r
	bool exit_on_error = false; // -e: the supervising process does not restart the proxy
	std::optional<std::string> config_file;
	std::optional<std::string> datadir; // -D, then -d
	std::optional<std::string> uuid;    // valid when present
	bool initial = false;
	bool reload = false;
	bool idle_threads = false; // accepted; idle sessions need no thread of their own
	bool no_version_check = false;
	std::optional<std::string> admin_socket;
	std::optional<int> debug_level;
	// Components; absent: the configuration file or the default (on) decides.
	std::optional<bool> pgsql_workers;
	std::optional<bool> pgsql_admin;
	std::optional<bool> pgsql_monitor;
	std::optional<bool> mysql_workers;
	std::optional<bool> mysql_admin;
	std::optional<bool> mysql_monitor;
	// For the log: flags that are accepted without effect, values that are ignored.
	std::vector<std::string> warnings;
};

// `arguments` without the program's name. The error is one line for stderr; exit code 1.
Result<Command_Line_Options> parse_command_line(const std::vector<std::string>& arguments);

// Text for --help, and for --version (ends with a newline).
std::string usage_text(std::string_view program);
std::string version_text();

// The configuration file used without -c: the first regular file of ProxySQL's search list,
// relative to `working_directory` where the list says so. nullopt: none exists.
std::optional<std::string> find_config_file(const std::string& working_directory);

// True for the 8-4-4-4-12 form.
bool is_uuid(std::string_view text);

} // namespace proxy
