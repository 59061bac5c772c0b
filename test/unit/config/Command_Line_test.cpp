#include "base/Version.def"
#include "config/Command_Line.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace proxy;

namespace {

Command_Line_Options good(const std::vector<std::string>& arguments) {
	const auto result = parse_command_line(arguments);
	INFO((result.ok() ? std::string() : result.error().message));
	REQUIRE(result.ok());
	return result.value();
}

std::string bad(const std::vector<std::string>& arguments) {
	const auto result = parse_command_line(arguments);
	REQUIRE_FALSE(result.ok());
	return result.error().message;
}

} // namespace

TEST_CASE("no argument runs with defaults") {
	const Command_Line_Options options = good({});
	CHECK(options.action == Command_Line_Action::run);
	CHECK_FALSE(options.foreground);
	CHECK_FALSE(options.config_file.has_value());
	CHECK_FALSE(options.pgsql_workers.has_value());
	CHECK(options.warnings.empty());
}

TEST_CASE("every form of help and version") {
	for (const char* flag : {"-h", "-help", "--help", "--usage"}) {
		CHECK(good({flag}).action == Command_Line_Action::show_help);
	}
	for (const char* flag : {"-V", "--version"}) {
		CHECK(good({flag}).action == Command_Line_Action::show_version);
	}
	CHECK(version_text() == "ProxySQL version " POLAR_PROXY_VERSION ", codename " //
	      POLAR_PROXY_CODENAME "\n");
}

TEST_CASE("switches, short and long") {
	struct Case {
		const char* brief;
		const char* full;
		bool Command_Line_Options::*member;
	};
	const Case cases[] = {
	    {"-n", "--no-start", &Command_Line_Options::no_start},
	    {"-M", "--no-monitor", &Command_Line_Options::no_monitor},
	    {"-f", "--foreground", &Command_Line_Options::foreground},
	    {"-r", "--reuseport", &Command_Line_Options::reuse_port},
	    {"-e", "--exit-on-error", &Command_Line_Options::exit_on_error},
	    {"--initial", "--initial", &Command_Line_Options::initial},
	    {"--reload", "--reload", &Command_Line_Options::reload},
	    {"--idle-threads", "--idle-threads", &Command_Line_Options::idle_threads},
	    {"--no-version-check", "--no-version-check", &Command_Line_Options::no_version_check},
	};
	for (const Case& one : cases) {
		INFO(one.full);
		CHECK(good({one.brief}).*one.member);
		CHECK(good({one.full}).*one.member);
		CHECK_FALSE(good({}).*one.member);
		CHECK(bad({std::string(one.full) + "=1"}).find("takes no value") != std::string::npos);
	}
}

TEST_CASE("the way the systemd unit starts it") {
	const auto options = good({"--idle-threads", "-c", "/etc/proxysql.cnf", "--initial"});
	CHECK(options.config_file == "/etc/proxysql.cnf");
	CHECK(options.idle_threads);
	CHECK(options.initial);
}

TEST_CASE("values follow their flag, or an equals sign") {
	CHECK(good({"-c", "x"}).config_file == "x");
	CHECK(good({"--config", "x"}).config_file == "x");
	CHECK(good({"--config=x=y"}).config_file == "x=y");
	CHECK(good({"-D", "x"}).datadir == "x");
	CHECK(good({"--datadir", "x"}).datadir == "x");
	CHECK(good({"-d", "y", "-D", "x"}).datadir == "y"); // -d wins wherever it stands
	CHECK(good({"-D", "x", "--directory", "y"}).datadir == "y");
	CHECK(good({"-S", "127.0.0.1:1"}).admin_socket == "127.0.0.1:1");
	CHECK(good({"--debug", "7"}).debug_level == 7);
	CHECK(bad({"--debug", "x"}).find("--debug") == 0);
	CHECK(bad({"-c"}).find("-c needs a value") == 0);
	CHECK(bad({"--config="}).find("--config needs a value") == 0);
	CHECK(bad({"-c", ""}).find("-c needs a value") == 0);
}

TEST_CASE("components are switched by true and false") {
	CHECK(good({"--pgsql-workers", "false"}).pgsql_workers == false);
	CHECK(good({"--pgsql-admin=true"}).pgsql_admin == true);
	CHECK(good({"--pgsql-monitor", "0"}).pgsql_monitor == false);
	CHECK(good({"--mysql-workers", "1"}).mysql_workers == true);
	CHECK(good({"--mysql-admin", "TRUE"}).mysql_admin == true);
	CHECK(good({"--mysql-monitor", "false"}).mysql_monitor == false);
	CHECK(bad({"--pgsql-workers", "maybe"}).find("maybe") != std::string::npos);
	bad({"--pgsql-workers"});
}

TEST_CASE("a wrong uuid is ignored with a warning, a right one is taken") {
	const char* right = "0123abCD-0000-4000-8000-0123456789ab";
	CHECK(good({"-U", right}).uuid == right);
	const auto options = good({"--uuid", "nonsense"});
	CHECK_FALSE(options.uuid.has_value());
	CHECK(options.warnings.size() == 1);
	CHECK_FALSE(is_uuid("0123abCD-0000-4000-8000-0123456789a"));
	CHECK_FALSE(is_uuid("0123abCD-0000-4000-8000-0123456789ag"));
	CHECK_FALSE(is_uuid("0123abCD-0000-4000_8000-0123456789ab"));
}

TEST_CASE("what is unknown or cannot be done is refused") {
	CHECK(bad({"--no-such"}) == "unknown option --no-such");
	CHECK(bad({"-x"}) == "unknown option -x");
	CHECK(bad({"-fc"}) == "unknown option -fc");
	CHECK(bad({"stray"}) == "unexpected argument \"stray\"");
	CHECK(bad({"-f", ""}) == "unexpected argument \"\"");
	for (const char* flag : {"-B", "--bootstrap", "--account", "--conf-base-port", "--ssl-mode"}) {
		CHECK(bad({flag, "x"}).find("not supported") != std::string::npos);
	}
}

TEST_CASE("modules this product lacks are accepted with a warning") {
	CHECK(good({"--sqlite3-server"}).warnings.size() == 1);
	CHECK(good({"--clickhouse-server"}).warnings.size() == 1);
}

TEST_CASE("the help names every flag") {
	const std::string text = usage_text("proxysql");
	CHECK(text.find("USAGE: proxysql") != std::string::npos);
	for (const char* flag : {"--help", "--version", "--no-start", "--config PATH", "-D, --datadir",
	                         "--initial", "--reload", "--pgsql-workers BOOL"}) {
		INFO(flag);
		CHECK(text.find(flag) != std::string::npos);
	}
}

TEST_CASE("without -c the first file of the search list is taken") {
	std::string directory = "/tmp/command_line_test.XXXXXX";
	REQUIRE(mkdtemp(directory.data()) != nullptr);
	const auto none = find_config_file(directory);
	CHECK((!none || none->starts_with("/etc/proxysql.")));
	std::filesystem::create_directory(directory + "/proxysql.cnf"); // not a regular file
	std::ofstream(directory + "/proxysql.cfg") << "";
	CHECK(find_config_file(directory) == directory + "/proxysql.cfg");
	std::filesystem::remove(directory + "/proxysql.cnf");
	std::ofstream(directory + "/proxysql.cnf") << "";
	CHECK(find_config_file(directory) == directory + "/proxysql.cnf");
	std::filesystem::remove_all(directory);
}
