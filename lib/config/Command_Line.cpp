#include "config/Command_Line.h"

#include "base/Version.def"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>

namespace proxy {

namespace {

using Options = Command_Line_Options;

// What a flag does: exactly one of the targets is set, or none for flags without effect.
struct Flag {
	std::string_view names;    // separated by spaces
	std::string_view argument; // empty: takes none
	std::string_view help;
	bool Options::*switched = nullptr;
	std::optional<std::string> Options::*text = nullptr;
	std::optional<bool> Options::*choice = nullptr;
	bool ignored = false;
};

// clang-format off
constexpr std::array kFlags{
    Flag{"-h -help --help --usage", "", "print this text and exit"},
    Flag{"-V --version", "", "print the version and exit"},
    Flag{"-n --no-start", "", "start the admin ports only, until PROXYSQL START", &Options::no_start},
    Flag{"-M --no-monitor", "", "do not watch the servers", &Options::no_monitor},
    Flag{"-f --foreground", "", "stay in the foreground, log to stderr", &Options::foreground},
    Flag{"-r --reuseport", "", "use SO_REUSEPORT", &Options::reuse_port},
    Flag{"-e --exit-on-error", "", "do not restart after a crash", &Options::exit_on_error},
    Flag{"-c --config", "PATH", "configuration file", nullptr, &Options::config_file},
    Flag{"-D --datadir", "PATH", "data directory", nullptr, &Options::datadir},
    Flag{"-d --directory", "PATH", "data directory, wins over -D"},
    Flag{"-U --uuid", "UUID", "identity of this node"},
    Flag{"--initial", "", "set the saved configuration aside and start from the file", &Options::initial},
    Flag{"--reload", "", "merge the file into the saved configuration", &Options::reload},
    Flag{"--idle-threads", "", "accepted; idle sessions need no threads", &Options::idle_threads},
    Flag{"--no-version-check", "", "accepted; there is no version check", &Options::no_version_check},
    Flag{"-S --admin-socket", "ADDRESS", "listen here instead of admin-mysql_ifaces", nullptr, &Options::admin_socket},
    Flag{"--debug", "LEVEL", "log debug lines"},
    Flag{"--pgsql-workers", "BOOL", "serve clients (true)", nullptr, nullptr, &Options::pgsql_workers},
    Flag{"--pgsql-admin", "BOOL", "serve psql on the admin port (true)", nullptr, nullptr, &Options::pgsql_admin},
    Flag{"--pgsql-monitor", "BOOL", "watch the servers (true)", nullptr, nullptr, &Options::pgsql_monitor},
    Flag{"--mysql-workers", "BOOL", "accepted, no effect", nullptr, nullptr, &Options::mysql_workers},
    Flag{"--mysql-admin", "BOOL", "serve MySQL clients on the admin port (true)", nullptr, nullptr, &Options::mysql_admin},
    Flag{"--mysql-monitor", "BOOL", "accepted, no effect", nullptr, nullptr, &Options::mysql_monitor},
    Flag{"--sqlite3-server", "", "accepted, no effect", nullptr, nullptr, nullptr, true},
    Flag{"--clickhouse-server", "", "accepted, no effect", nullptr, nullptr, nullptr, true},
};

// MySQL Group Replication can be explored by ProxySQL at start; nothing here can do that.
constexpr std::array<std::string_view, 19> kBootstrapFlags{
    "-B", "--bootstrap", "--account", "--account-create", "--account-host", "--password-retries",
    "--conf-base-port", "--conf-bind-address", "--conf-use-sockets", "--conf-skip-tcp", "--ssl-ca",
    "--ssl-capath", "--ssl-cert", "--ssl-cipher", "--ssl-crl", "--ssl-crlpath", "--ssl-key",
    "--ssl-mode", "--ssl",
};
// clang-format on

Error refused(std::string message) {
	return make_error("22023", std::move(message));
}

template <typename Visit> void for_each_name(const Flag& flag, Visit visit) {
	std::string_view names = flag.names;
	while (!names.empty()) {
		const size_t end = std::min(names.find(' '), names.size());
		visit(names.substr(0, end));
		names.remove_prefix(std::min(end + 1, names.size()));
	}
}

const Flag* find_flag(std::string_view name) {
	for (const Flag& flag : kFlags) {
		bool found = false;
		for_each_name(flag, [&](std::string_view known) { found = found || known == name; });
		if (found) {
			return &flag;
		}
	}
	return nullptr;
}

std::optional<bool> boolean_of(std::string_view text) {
	if (text == "true" || text == "TRUE" || text == "1") {
		return true;
	}
	if (text == "false" || text == "FALSE" || text == "0") {
		return false;
	}
	return std::nullopt;
}

std::optional<int> integer_of(std::string_view text) {
	int number = 0;
	const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
	const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
	return whole ? std::optional<int>(number) : std::nullopt;
}

// The argument list, a flag at a time.
class Parser {
public:
	explicit Parser(std::span<const std::string> arguments) : rest_(arguments) {}

	Result<Options> run() {
		while (!rest_.empty()) {
			PROXY_TRY(take_flag());
		}
		if (directory_) { // -d wins wherever it stands
			options_.datadir = directory_;
		}
		return std::move(options_);
	}

private:
	Result<void> take_flag();
	Result<void> apply(const Flag& flag, std::string_view name, const std::string& argument);

	std::span<const std::string> rest_;
	Options options_;
	std::optional<std::string> directory_;
};

Result<void> Parser::take_flag() {
	std::string name = rest_.front();
	rest_ = rest_.subspan(1);
	std::optional<std::string> argument;
	if (const size_t equals = name.find('=');
	    name.starts_with("--") && equals != std::string::npos) {
		argument = name.substr(equals + 1);
		name.resize(equals);
	}
	for (const std::string_view bootstrap : kBootstrapFlags) {
		if (name == bootstrap) {
			return refused(fmt::format("{}: exploring a MySQL group is not supported", name));
		}
	}
	const Flag* flag = find_flag(name);
	if (flag == nullptr) {
		return refused(name.starts_with("-") ? fmt::format("unknown option {}", name)
		                                     : fmt::format("unexpected argument \"{}\"", name));
	}
	if (flag->argument.empty()) {
		if (argument) {
			return refused(fmt::format("{} takes no value", name));
		}
		return apply(*flag, name, "");
	}
	if (!argument) {
		if (rest_.empty()) {
			return refused(fmt::format("{} needs a value ({})", name, flag->argument));
		}
		argument = rest_.front();
		rest_ = rest_.subspan(1);
	}
	if (argument->empty()) {
		return refused(fmt::format("{} needs a value ({})", name, flag->argument));
	}
	return apply(*flag, name, *argument);
}

Result<void> Parser::apply(const Flag& flag, std::string_view name, const std::string& argument) {
	if (flag.switched != nullptr) {
		options_.*flag.switched = true;
	} else if (flag.text != nullptr) {
		options_.*flag.text = argument;
	} else if (flag.choice != nullptr) {
		const auto value = boolean_of(argument);
		if (!value) {
			return refused(fmt::format("{}: \"{}\" is neither true nor false", name, argument));
		}
		options_.*flag.choice = value;
	} else if (flag.ignored) {
		options_.warnings.push_back(fmt::format("{} has no effect", name));
	} else if (name == "-d" || name == "--directory") {
		directory_ = argument;
	} else if (name == "-U" || name == "--uuid") {
		if (is_uuid(argument)) {
			options_.uuid = argument;
		} else {
			options_.warnings.push_back(
			    fmt::format("{}: \"{}\" is not a UUID, ignored", name, argument));
		}
	} else if (name == "--debug") {
		options_.debug_level = integer_of(argument);
		if (!options_.debug_level) {
			return refused(fmt::format("{}: \"{}\" is not a number", name, argument));
		}
	} else if (options_.action == Command_Line_Action::run) { // the first of the two wins
		const bool version = name == "-V" || name == "--version";
		options_.action =
		    version ? Command_Line_Action::show_version : Command_Line_Action::show_help;
	}
	return {};
}

} // namespace

Result<Command_Line_Options> parse_command_line(const std::vector<std::string>& arguments) {
	return Parser(arguments).run();
}

std::string usage_text(std::string_view program) {
	std::string text =
	    fmt::format("High performance proxy for PostgreSQL, with ProxySQL's interface"
	                "\n\nUSAGE: {} [OPTIONS]\n\nOPTIONS:\n\n",
	                program);
	for (const Flag& flag : kFlags) {
		std::string names;
		for_each_name(flag, [&names](std::string_view name) {
			names += names.empty() ? "" : ", ";
			names += name;
		});
		if (!flag.argument.empty()) {
			names += ' ';
			names += flag.argument;
		}
		text += fmt::format("  {:<34} {}\n", names, flag.help);
	}
	text += "\nWithout -c the first of ./proxysql.cnf, ./proxysql.cfg, /etc/proxysql.cnf and\n"
	        "/etc/proxysql.cfg is read. The command line wins over the file.\n";
	return text;
}

std::string version_text() {
	return fmt::format("ProxySQL version {}, codename {}\n", POLAR_PROXY_VERSION,
	                   POLAR_PROXY_CODENAME);
}

std::optional<std::string> find_config_file(const std::string& working_directory) {
	const std::array<std::string, 4> candidates{working_directory + "/proxysql.cnf",
	                                            working_directory + "/proxysql.cfg",
	                                            "/etc/proxysql.cnf", "/etc/proxysql.cfg"};
	for (const std::string& candidate : candidates) {
		std::error_code ignored;
		if (std::filesystem::is_regular_file(candidate, ignored)) {
			return candidate;
		}
	}
	return std::nullopt;
}

bool is_uuid(std::string_view text) {
	constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	if (text.size() != kForm.size()) {
		return false;
	}
	for (size_t i = 0; i < text.size(); ++i) {
		const char letter = text[i];
		const bool hex = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f') ||
		                 (letter >= 'A' && letter <= 'F');
		if (kForm[i] == '-' ? letter != '-' : !hex) {
			return false;
		}
	}
	return true;
}

} // namespace proxy
