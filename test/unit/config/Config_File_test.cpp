#include "config/Config_File.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace proxy;

namespace {

Config_File_Contents good(const std::string& text) {
	auto result = read_config_text(text, "t.cnf");
	INFO(text);
	INFO((result.ok() ? std::string() : result.error().message));
	REQUIRE(result.ok());
	return result.take();
}

std::string bad(const std::string& text) {
	const auto result = read_config_text(text, "t.cnf");
	INFO(text);
	REQUIRE_FALSE(result.ok());
	return result.error().message;
}

bool mentions(const std::string& text, const std::string& part) {
	return text.find(part) != std::string::npos;
}

size_t line_count(const std::string& text) {
	return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

struct Fault_Case {
	const char* text;
	const char* message;
};
const Fault_Case kFaultCases[] = {
    {"a=1;\nb=\n{", "t.cnf:3: syntax error"},
    {"\ndatadir=3", "t.cnf:2: datadir must be a text in quotes"},
    {"pgsql-workers=\"yes\"", "t.cnf:1: pgsql-workers must be true or false"},
    {"restart_on_missing_heartbeats=-1", "t.cnf:1: restart_on_missing_heartbeats must be"},
    {"a=1\na=2", "t.cnf:2: duplicate setting name"},
    {"a=1\nb=\"no end\nc=\n", "t.cnf:2: a text without closing quote"},
    {"/* no end", "t.cnf:1: a comment that does not end"},
    {"pgsql_variables={\nthreads=3000000000\n}", "t.cnf:2: the number 3000000000 is too large"},
    {"x=99999999999999999999L", "t.cnf:1: the number 99999999999999999999L is too large"},
    {"x=0x80000000", "t.cnf:1: the number 0x80000000 is too large"},
    {"x=\"a\\x00b\"", "t.cnf:1: a zero byte"},
    {"pgsql_variables=3", "t.cnf:1: section pgsql_variables: must be a group"},
    {"pgsql_variables={\n\nthreads=0 }",
     "t.cnf:3: section pgsql_variables: pgsql-threads: \"0\" is out of range"},
    {"pgsql_variables={ threads=1.5 }", "t.cnf:1: section pgsql_variables: pgsql-threads must be"},
    {"pgsql_variables={ threads=\"x\" }", "pgsql-threads: \"x\" is not a whole number"},
    {"pgsql_variables={ threads=2\npgsql-threads=3 }", "t.cnf:2: section pgsql_variables: "
                                                       "pgsql-threads appears twice"},
    {"pgsql_variables={ polardb_profile=\"session_error\"\n"
     "polardb_action_read_fallback=\"primary\" }",
     "t.cnf:2: pgsql-polardb_action_read_fallback: \"primary\" contradicts"},
    {"admin_variables={\nssl_enabled=true }", "t.cnf:2: admin-ssl_enabled: needs"},
    {"\nadmin_variables={ pgsql_ifaces=\"0.0.0.0:6133\" }",
     "t.cnf:2: admin-pgsql_ifaces: 0.0.0.0:6133 collides"},
    {"pgsql_servers={}", "t.cnf:1: section pgsql_servers: must be a list"},
    {"pgsql_servers=(\n3)", "section pgsql_servers: an entry must be a group"},
    {"pgsql_servers=(\n{hostgroup=1})",
     "t.cnf:2: section pgsql_servers: hostname (or address) is missing"},
    {"pgsql_servers=(\n{address=\"a\"})", "hostgroup_id (or hostgroup) is missing"},
    {"pgsql_servers=({address=\"\" hostgroup=1})", "address is empty"},
    {"pgsql_servers=({address=\"a\" hostname=\"b\" hostgroup=1})", "are the same"},
    {"pgsql_servers=({address=\"a\" hostgroup=-1})", "hostgroup -1 is out of range"},
    {"pgsql_servers=({address=\"a\" hostgroup=1\nport=65536})",
     "t.cnf:2: section pgsql_servers: port 65536 is out of range, allowed is 0 to 65535"},
    {"pgsql_servers=({address=\"a\" hostgroup=1 port=\"5432\"})", "port must be a whole number"},
    {"pgsql_servers=({address=3 hostgroup=1})", "address must be a text in quotes"},
    {"pgsql_servers=({address=\"a\" hostgroup=1 status=\"UP\"})",
     "status \"UP\" is not one of ONLINE, SHUNNED, OFFLINE_SOFT, OFFLINE_HARD"},
    {"pgsql_servers=({address=\"a\" hostgroup=1 weight=10000001})", "weight"},
    {"pgsql_servers=({address=\"a\" hostgroup=1 use_ssl=2})", "use_ssl 2 is out of range"},
    {"pgsql_servers=({address=\"a\" hostgroup=1},\n{address=\"a\" hostgroup=1 port=5432})",
     "t.cnf:2: section pgsql_servers: server a:5432 of hostgroup 1 appears twice"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1})", "reader_hostgroup is missing"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=1})", "must differ"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2},\n"
     "{writer_hostgroup=1 reader_hostgroup=3})",
     "t.cnf:2: section pgsql_replication_hostgroups: writer_hostgroup 1 appears twice"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2},\n"
     "{writer_hostgroup=3 reader_hostgroup=2})",
     "reader_hostgroup 2 appears twice"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2},\n"
     "{writer_hostgroup=2 reader_hostgroup=3})",
     "t.cnf:2: section pgsql_replication_hostgroups: hostgroup 2 is writer of one pair and reader"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2},\n"
     "{writer_hostgroup=3 reader_hostgroup=1})",
     "t.cnf:2: section pgsql_replication_hostgroups: hostgroup 1 is writer of one pair and reader"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2 "
     "check_type=\"innodb_read_only\"})",
     "is not one of read_only, polardb"},
    {"\npgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2 "
     "txn_split_enabled=1})",
     "t.cnf:2: section pgsql_replication_hostgroups: pair of writer hostgroup 1"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2 "
     "check_type=\"polardb\" proxy_protocol=\"off\"})",
     "needs a protocol other than off"},
    {"pgsql_replication_hostgroups=({writer_hostgroup=1 reader_hostgroup=2 "
     "lsn_wait_timeout_ms=60001})",
     "lsn_wait_timeout_ms 60001 is out of range"},
    {"pgsql_users=({password=\"x\"})", "section pgsql_users: username is missing"},
    {"pgsql_users=({username=\"u\"},\n{username=\"u\"})",
     "t.cnf:2: section pgsql_users: username \"u\" appears twice"},
    {"pgsql_users=({username=\"u\" attributes=\"{\"})", "attributes is neither empty nor valid"},
    {"pgsql_users=({username=\"u\" active=2})", "active 2 is out of range"},
    {"pgsql_query_rules=({active=1})", "rule_id is missing"},
    {"pgsql_query_rules=({rule_id=1},\n{rule_id=1})", "t.cnf:2: section pgsql_query_rules: "
                                                      "rule_id 1 appears twice"},
    {"pgsql_query_rules=({rule_id=1 replace_pattern=\"x\"})", "replace_pattern needs"},
    {"pgsql_query_rules=({rule_id=1 cache_ttl=0})", "cache_ttl 0 is out of range"},
    {"pgsql_query_rules=({rule_id=1 retries=1001})", "retries 1001 is out of range"},
    {"pgsql_query_rules=({rule_id=1 rollout_pct=101})", "rollout_pct 101 is out of range"},
    {"pgsql_query_rules=({rule_id=1 replica_eligible=2})", "replica_eligible 2"},
    {"pgsql_query_rules_fast_routing=({username=\"u\" database=\"d\"})",
     "destination_hostgroup is missing"},
    {"pgsql_hostgroup_attributes=({hostgroup_id=1 free_connections_pct=101})",
     "free_connections_pct 101"},
    {"pgsql_servers_ssl_params=({port=1})", "hostname (or address) is missing"},
    {"proxysql_servers=({hostname=\"a\"})", "port is missing"},
    {"scheduler=({id=1})", "filename is missing"},
    {"scheduler=({id=1 filename=\"x\" interval_ms=99})", "interval_ms 99 is out of range"},
    {"scheduler=({id=1 filename=\"x\"},\n{id=1 filename=\"x\"})",
     "t.cnf:2: section scheduler: id \"1\" appears twice"},
    {"restapi=({id=1 method=\"GET\" uri=\"x\"})", "script is missing"},
};

// A file in the style of the packages' /etc/proxysql.cnf.
const char* const kWholeFile = R"cnf(
# comment
datadir="/var/lib/proxysql"
errorlog="/var/lib/proxysql/proxysql.log"
pgsql-monitor=false

admin_variables=
{
	admin_credentials="admin:secret"
#	mysql_ifaces="127.0.0.1:6032"
	pgsql_ifaces="127.0.0.1:6132"
}

mysql_variables=
{
	threads=4
}

pgsql_variables=
{
	threads=2
	interfaces="127.0.0.1:6133;/tmp/proxysql.sock"
	have_ssl=true
	pgsql-max_connections=2048 // with its prefix
	Default_Query_Timeout=36000000
}

pgsql_servers =
(
	{ address="10.0.0.1", port=5433, hostgroup=0, max_connections=200 },
	{ hostname="10.0.0.2" hostgroup_id=1 status="offline_soft" weight=0 comment="a \"b\"\n" }
)

pgsql_replication_hostgroups =
(
	{ writer_hostgroup=0; reader_hostgroup=1; check_type="polardb"; txn_split_enabled=1;
	  consistency_mode="global_lsn"; max_lag_bytes=30000000000L; lsn_wait_timeout_ms=5;
	  proxy_protocol="v15_wait"; comment="c" },
	{ writer_hostgroup=2; reader_hostgroup=3; }
)

pgsql_users:
(
	{ username = "u" , password = "p" , default_hostgroup = 0 , active = 1 },
	{ username = "v"  transaction_persistent=0 use_ssl=1 attributes="{\"a\":1}" }
)

pgsql_query_rules:
(
	{ rule_id=1 match_digest="^SELECT .* FOR UPDATE$" destination_hostgroup=0 apply=1 },
	{ rule_id=2 active=0 match_pattern="a" replace_pattern="b" destination_hostgroup=-1
	  flagIN=3 flagOUT=4 replica_eligible=1 rollout_pct=10 re_modifiers="GLOBAL" OK_msg="ok" }
)

pgsql_query_rules_fast_routing = ( { username="u" database="d" destination_hostgroup=5 } )
pgsql_hostgroup_attributes = ( { hostgroup_id=0 free_connections_pct=20 servers_defaults="{}" } )
pgsql_servers_ssl_params = ( { hostname="10.0.0.1" port=5433 ssl_ca="/ca.pem" } )
proxysql_servers = ( { hostname="10.0.0.9" port=6032 } )
scheduler = ( { id=1 filename="/bin/true" arg1="x" } )
restapi = ( { id=1 method="GET" uri="u" script="/s" interval_ms=500 } )
)cnf";

} // namespace

TEST_CASE("a whole file is read into rows") {
	const Config_File_Contents contents = good(kWholeFile);
	CHECK(contents.globals.datadir == "/var/lib/proxysql");
	CHECK(contents.globals.pgsql_monitor == false);
	CHECK_FALSE(contents.globals.pgsql_workers.has_value());
	CHECK(contents.globals.restart_on_missing_heartbeats == 10);

	CHECK(contents.variables == Variable_Map{
	                                {"admin-admin_credentials", "admin:secret"},
	                                {"admin-pgsql_ifaces", "127.0.0.1:6132"},
	                                {"pgsql-threads", "2"},
	                                {"pgsql-interfaces", "127.0.0.1:6133;/tmp/proxysql.sock"},
	                                {"pgsql-have_ssl", "true"},
	                                {"pgsql-max_connections", "2048"},
	                                {"pgsql-default_query_timeout", "36000000"},
	                            });

	REQUIRE(contents.servers.servers.size() == 2);
	CHECK(contents.servers.servers[0].hostname == "10.0.0.1");
	CHECK(contents.servers.servers[0].port == 5433);
	CHECK(contents.servers.servers[0].max_connections == 200);
	CHECK(contents.servers.servers[1].hostgroup_id == 1);
	CHECK(contents.servers.servers[1].port == 5432);
	CHECK(contents.servers.servers[1].status == Server_Status::offline_soft);
	CHECK(contents.servers.servers[1].weight == 0);
	CHECK(contents.servers.servers[1].comment == "a \"b\"\n");

	REQUIRE(contents.servers.replication_hostgroups.size() == 2);
	const auto& pair = contents.servers.replication_hostgroups[0];
	CHECK(pair.check_type == Check_Type::polardb);
	CHECK(pair.txn_split_enabled);
	CHECK(pair.consistency_mode == Consistency_Mode::global_lsn);
	CHECK(pair.max_lag_bytes == 30000000000);
	CHECK(pair.lsn_wait_timeout_ms == 5);
	CHECK(pair.proxy_protocol == Proxy_Protocol::v15_wait);
	CHECK(contents.servers.replication_hostgroups[1].check_type == Check_Type::read_only);

	REQUIRE(contents.users.size() == 2);
	CHECK(contents.users[0].password.reveal() == "p");
	CHECK(contents.users[1].password.empty());
	CHECK_FALSE(contents.users[1].transaction_persistent);
	CHECK(contents.users[1].backend);

	REQUIRE(contents.rules.rules.size() == 2);
	CHECK(contents.rules.rules[0].active); // on unless the file says otherwise
	CHECK(contents.rules.rules[0].destination_hostgroup == 0);
	CHECK(contents.rules.rules[0].re_modifiers == "CASELESS");
	CHECK_FALSE(contents.rules.rules[0].match_pattern.has_value());
	CHECK_FALSE(contents.rules.rules[1].active);
	CHECK_FALSE(contents.rules.rules[1].destination_hostgroup.has_value()); // -1 is NULL
	CHECK(contents.rules.rules[1].flag_out == 4);
	CHECK(contents.rules.rules[1].replica_eligible == 1);
	CHECK(contents.rules.rules[1].rollout_pct == 10);
	CHECK(contents.rules.rules[1].ok_msg == "ok");

	REQUIRE(contents.rules.fast_routing.size() == 1);
	CHECK(contents.rules.fast_routing[0].destination_hostgroup == 5);
	REQUIRE(contents.servers.hostgroup_attributes.size() == 1);
	CHECK(contents.servers.hostgroup_attributes[0].free_connections_pct == 20);
	REQUIRE(contents.servers.ssl_params.size() == 1);
	CHECK(contents.tables.at("proxysql_servers")[0].at("weight") == "0");
	CHECK(contents.tables.at("scheduler")[0] == Generic_Row{{"id", "1"},
	                                                        {"active", "1"},
	                                                        {"interval_ms", "10000"},
	                                                        {"filename", "/bin/true"},
	                                                        {"arg1", "x"},
	                                                        {"comment", ""}});
	CHECK(contents.tables.at("restapi_routes")[0].at("timeout_ms") == "500");

	REQUIRE(contents.warnings.size() == 1);
	CHECK(mentions(contents.warnings[0], "t.cnf:14: section mysql_variables"));
}

TEST_CASE("what was read is written, and reads back the same") {
	const Config_File_Contents contents = good(kWholeFile);
	const std::string text = config_file_text(contents);
	const Config_File_Contents again = good(text);
	CHECK(config_file_text(again) == text);
	CHECK(again.variables == contents.variables);
	CHECK(again.tables == contents.tables);
	CHECK(again.servers.servers[1].comment == "a \"b\"\n");
	CHECK(again.servers.replication_hostgroups[0].max_lag_bytes == 30000000000);
	CHECK(again.rules.rules[1].replace_pattern == "b");
	CHECK(again.warnings.empty());
}

TEST_CASE("an empty file is a configuration of defaults") {
	CHECK(good("").variables.empty());
	CHECK(good("# nothing\n").servers.servers.empty());
}

TEST_CASE("each fault is told with file, line, section and key") {
	for (const Fault_Case& one : kFaultCases) {
		const std::string message = bad(one.text);
		INFO(one.text << "\n--> " << message);
		CHECK(mentions(message, one.message));
		CHECK(line_count(message) == 1);
		CHECK(message.starts_with("t.cnf:"));
	}
}

TEST_CASE("all faults are told at once") {
	const std::string message = bad("pgsql_variables={ threads=0\nhave_ssl=7 }\n"
	                                "pgsql_servers=({hostgroup=x1},\n{})");
	CHECK(mentions(message, "syntax error")); // a syntax error ends the reading

	const std::string many = bad("pgsql_variables={ threads=0\nhave_ssl=7 }\n"
	                             "pgsql_servers=({hostgroup=1 port=-1},\n{})\n"
	                             "pgsql_users=({})");
	CHECK(line_count(many) == 7);
	CHECK(mentions(many, "t.cnf:2: section pgsql_variables: pgsql-have_ssl"));
	CHECK(mentions(many, "t.cnf:4: section pgsql_servers: hostname"));
	CHECK(mentions(many, "t.cnf:5: section pgsql_users"));
}

TEST_CASE("a name that nobody knows is a fault, not a default in disguise") {
	CHECK(mentions(bad("pgsql_variables={ no_such=1 }"), "there is no variable pgsql-no_such"));
	CHECK(mentions(bad("pgsql_servers=({address=\"a\" hostgroup=1 max_conections=3})"),
	               "t.cnf:1: section pgsql_servers: unknown key max_conections"));
	CHECK(mentions(bad("pgsql_servers=({address=\"a\" hostgroup=1 Port=1})"),
	               "unknown key Port, is port meant?"));
}

TEST_CASE("what is only odd warns") {
	const Config_File_Contents contents = good("frobnicate=1\n"
	                                           "mysql_servers=()\n"
	                                           "sqlite3_plugin=\"x.so\"\n"
	                                           "pgsql_variables={ server_capabilities=3\n"
	                                           "polardb_action_read_fallback=\"error\" }\n"
	                                           "admin_variables={ version=\"3.0.9\" }\n"
	                                           "pgsql_servers=({address=\"a\" hostgroup=1})\n");
	REQUIRE(contents.warnings.size() == 6);
	CHECK(mentions(contents.warnings[0], "t.cnf:1: unknown key frobnicate"));
	CHECK(mentions(contents.warnings[1], "t.cnf:2: section mysql_servers is ignored"));
	CHECK(mentions(contents.warnings[2], "t.cnf:3: sqlite3_plugin"));
	CHECK(mentions(contents.warnings[3], "pgsql-server_capabilities is ignored: this version"));
	CHECK(mentions(contents.warnings[4], "admin-version is ignored: it cannot be set"));
	CHECK(mentions(contents.warnings[5], "now \"custom\""));
	CHECK(contents.servers.servers[0].port == 5432);
}

TEST_CASE("the saved database wins: only the top-level keys are looked at") {
	const std::string text = "datadir=\"/d\"\npgsql_variables={ threads=0 }\nmysql_users=()";
	bad(text);
	const auto globals = read_config_text(text, "t.cnf", Config_Scope::globals);
	REQUIRE(globals.ok());
	CHECK(globals.value().globals.datadir == "/d");
	CHECK(globals.value().variables.empty());
	CHECK(globals.value().warnings.empty());
	CHECK_FALSE(read_config_text("datadir=3", "t.cnf", Config_Scope::globals).ok());
	CHECK_FALSE(read_config_text("datadir=", "t.cnf", Config_Scope::globals).ok());
}

TEST_CASE("numbers that fit are left alone, wherever they stand") {
	good("x=2147483647 y=-2147483648 z=0x7FFFFFFF w=9223372036854775807L f=1.5e300\n"
	     "# 99999999999\n// 99999999999\n/* 99999999999\n*/ n99999999999=1 s=\"99999999999 \\\" "
	     "#\"");
	bad("x=-2147483649");
	bad("s=\"\\\\\" x=99999999999");
}

TEST_CASE("a user may have one row for each side, and no more") {
	const Config_File_Contents contents =
	    good("pgsql_users=({username=\"u\" backend=1 frontend=0},\n"
	         "{username=\"u\" backend=0 frontend=1})");
	CHECK(contents.users.size() == 2);
	bad("pgsql_users=({username=\"u\" backend=1 frontend=1},\n{username=\"u\" backend=0})");
}

TEST_CASE("files: missing, a directory, faults in an included one") {
	std::string pattern = "/tmp/config_file_test.XXXXXX";
	REQUIRE(mkdtemp(pattern.data()) != nullptr);
	const std::string path = pattern + "/main.cnf";
	const std::string included = pattern + "/part.cnf";

	const auto missing = read_config_file(path);
	REQUIRE_FALSE(missing.ok());
	CHECK(missing.error().message == path + ": cannot be read: No such file or directory");
	const auto directory = read_config_file(pattern);
	REQUIRE_FALSE(directory.ok());
	CHECK(mentions(directory.error().message, "cannot be read: Is a directory"));

	std::ofstream(path) << "datadir=\"/d\"\n@include \"" << included << "\"\n";
	const auto no_part = read_config_file(path);
	REQUIRE_FALSE(no_part.ok());
	CHECK(mentions(no_part.error().message, path + ":2: cannot open include file"));
	CHECK(mentions(no_part.error().message, "\"" + included + "\""));

	std::ofstream(included) << "\npgsql_variables={ threads=0 }\n";
	const auto bad_part = read_config_file(path);
	REQUIRE_FALSE(bad_part.ok());
	CHECK(mentions(bad_part.error().message, included + ":2: section pgsql_variables"));

	std::ofstream(included) << "\n\nx=99999999999\n";
	const auto big_part = read_config_file(path);
	REQUIRE_FALSE(big_part.ok());
	CHECK(big_part.error().message == included + ":3: the number 99999999999 is too large");

	std::ofstream(included) << "pgsql_variables={ threads=3 }\n";
	const auto whole = read_config_file(path);
	REQUIRE(whole.ok());
	CHECK(whole.value().variables.at("pgsql-threads") == "3");
	std::filesystem::remove_all(pattern);
}
