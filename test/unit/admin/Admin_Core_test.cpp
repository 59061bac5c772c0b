// Commands and layers through Admin_Core: what an administrator types, what the runtime gets.
#include "Fake_Runtime.h"
#include "admin/Admin_Core.h"

#include <catch2/catch.hpp>

using namespace proxy;
using proxy::test::admin_options;
using proxy::test::Fake_Runtime;
using proxy::test::Temporary_Directory;

namespace {
class Admin_Fixture {
public:
	Admin_Fixture() : core(std::make_unique<Admin_Core>(runtime, admin_options(directory.path))) {
		open();
	}
	void open() {
		const Result<void> opened = core->open();
		INFO((opened.ok() ? "" : opened.error().message));
		REQUIRE(opened.ok());
		const Result<void> loaded = core->load_all_to_runtime();
		INFO((loaded.ok() ? "" : loaded.error().message));
		REQUIRE(loaded.ok());
		REQUIRE(core->keep_configuration().ok());
	}
	void restart(Admin_Options options) {
		core.reset();
		core = std::make_unique<Admin_Core>(runtime, std::move(options));
		open();
	}
	void restart() { restart(admin_options(directory.path)); }

	Admin_Answer run(std::string_view sql, Admin_Role role = Admin_Role::admin) {
		Admin_Client client;
		client.role = role;
		Result<Admin_Answer> answer = core->execute(client, sql);
		INFO(sql);
		INFO((answer.ok() ? "" : answer.error().message));
		REQUIRE(answer.ok());
		return answer.take();
	}
	Error fails(std::string_view sql, Admin_Role role = Admin_Role::admin) {
		Admin_Client client;
		client.role = role;
		Result<Admin_Answer> answer = core->execute(client, sql);
		INFO(sql);
		REQUIRE_FALSE(answer.ok());
		return answer.take_error();
	}
	std::string value(std::string_view sql, Admin_Role role = Admin_Role::admin) {
		const Admin_Answer answer = run(sql, role);
		INFO(sql);
		REQUIRE(answer.result.rows.size() == 1);
		return answer.result.rows[0][0].value_or("NULL");
	}

	Temporary_Directory directory;
	Fake_Runtime runtime;
	std::unique_ptr<Admin_Core> core;
};
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
} // namespace

TEST_CASE_METHOD(Admin_Fixture, "every table has its columns in its schema, and its twin") {
	const auto columns = [&](const std::string& schema, const std::string& name) {
		std::string out;
		for (const Sql_Row& row :
		     run("SELECT name FROM pragma_table_info('" + name + "', '" + schema + "')")
		         .result.rows) {
			out += (out.empty() ? "" : ", ") + row[0].value_or("");
		}
		return out;
	};
	for (const auto& tables : {config_tables(), stats_tables(), monitor_and_history_tables()}) {
		for (const Table_Definition& table : tables) {
			const std::string name(table.name);
			INFO(name);
			CHECK_FALSE(table.doc.empty());
			const std::string expected = column_list(table);
			switch (table.place) {
			case Table_Place::config:
				CHECK(columns("main", "runtime_" + name) == expected);
				[[fallthrough]];
			case Table_Place::config_plain:
				CHECK(columns("main", name) == expected);
				CHECK(columns("disk", name) == expected);
				break;
			case Table_Place::disk:
				CHECK(columns("disk", name) == expected);
				break;
			case Table_Place::runtime:
				CHECK(columns("main", name) == expected);
				break;
			case Table_Place::stats:
				CHECK(columns("stats", name) == expected);
				if (table.reset_twin == Reset_Twin::yes) {
					CHECK(columns("stats", name + "_reset") == expected);
				}
				break;
			case Table_Place::monitor:
				CHECK(columns("monitor", name) == expected);
				break;
			case Table_Place::history:
				CHECK(columns("stats_history", name) == expected);
				break;
			}
		}
	}
}

TEST_CASE("the CREATE TABLE text is ProxySQL's") {
	CHECK(
	    create_table_sql(*find_table("pgsql_servers"), "pgsql_servers") ==
	    "CREATE TABLE pgsql_servers (hostgroup_id INT CHECK (hostgroup_id>=0) NOT NULL DEFAULT 0 "
	    ", hostname VARCHAR NOT NULL , port INT CHECK (port >= 0 AND port <= 65535) NOT NULL "
	    "DEFAULT 5432 , status VARCHAR CHECK (UPPER(status) IN "
	    "('ONLINE','SHUNNED','OFFLINE_SOFT', 'OFFLINE_HARD')) NOT NULL DEFAULT 'ONLINE' , weight "
	    "INT CHECK (weight >= 0 AND weight <=10000000) NOT NULL DEFAULT 1 , compression INT CHECK "
	    "(compression IN(0,1)) NOT NULL DEFAULT 0 , max_connections INT CHECK (max_connections "
	    ">=0) NOT NULL DEFAULT 1000 , max_replication_lag INT CHECK (max_replication_lag >= 0 AND "
	    "max_replication_lag <= 126144000) NOT NULL DEFAULT 0 , use_ssl INT CHECK (use_ssl "
	    "IN(0,1)) NOT NULL DEFAULT 0 , max_latency_ms INT UNSIGNED CHECK (max_latency_ms>=0) NOT "
	    "NULL DEFAULT 0 , comment VARCHAR NOT NULL DEFAULT '' , PRIMARY KEY (hostgroup_id, "
	    "hostname, port) )");
	CHECK(create_table_sql(*find_table("global_variables"), "global_variables") ==
	      "CREATE TABLE global_variables (variable_name VARCHAR NOT NULL PRIMARY KEY , "
	      "variable_value VARCHAR NOT NULL)");
}

TEST_CASE_METHOD(Admin_Fixture, "an old INSERT without the new columns gets their defaults") {
	run("INSERT INTO pgsql_replication_hostgroups (writer_hostgroup,reader_hostgroup,comment) "
	    "VALUES (0,1,'x')");
	run("INSERT INTO pgsql_query_rules (rule_id,active,match_digest,destination_hostgroup,apply) "
	    "VALUES (1,1,'^SELECT',1,1)");
	run("LOAD PGSQL SERVERS TO RUNTIME");
	run("LOAD PGSQL QUERY RULES TO RUNTIME");
	REQUIRE(runtime.servers.replication_hostgroups.size() == 1);
	CHECK(runtime.servers.replication_hostgroups[0].max_lag_bytes == -1);
	CHECK(runtime.servers.replication_hostgroups[0].proxy_protocol == Proxy_Protocol::inherit);
	REQUIRE(runtime.rules.rules.size() == 1);
	CHECK(runtime.rules.rules[0].replica_eligible == -1);
	CHECK(runtime.rules.rules[0].rollout_pct == 100);
	CHECK(runtime.rules.rules[0].re_modifiers == "CASELESS");
	CHECK_FALSE(runtime.rules.rules[0].cache_ttl.has_value());
}

TEST_CASE_METHOD(Admin_Fixture, "constraints refuse what ProxySQL refuses") {
	const auto sql = GENERATE(
	    "INSERT INTO pgsql_servers (hostgroup_id,hostname,port) VALUES (-1,'a',1)",
	    "INSERT INTO pgsql_servers (hostgroup_id,hostname,port) VALUES (0,'a',65536)",
	    "INSERT INTO pgsql_servers (hostgroup_id,hostname,status) VALUES (0,'a','UP')",
	    "INSERT INTO pgsql_servers (hostname) VALUES ('a'),('a')",
	    "INSERT INTO pgsql_servers (hostgroup_id) VALUES (1)",
	    "INSERT INTO pgsql_replication_hostgroups VALUES "
	    "(1,1,'read_only','',0,'default',-1,-1,'off')",
	    "INSERT INTO pgsql_replication_hostgroups (writer_hostgroup,reader_hostgroup,check_type) "
	    "VALUES (1,2,'innodb_read_only')",
	    "INSERT INTO pgsql_replication_hostgroups "
	    "(writer_hostgroup,reader_hostgroup,txn_split_enabled) VALUES (1,2,1)",
	    "INSERT INTO pgsql_replication_hostgroups "
	    "(writer_hostgroup,reader_hostgroup,proxy_protocol) "
	    "VALUES (1,2,'v16')",
	    "INSERT INTO pgsql_query_rules (replace_pattern) VALUES ('x')",
	    "INSERT INTO pgsql_query_rules (replica_eligible) VALUES (2)",
	    "INSERT INTO pgsql_users (username,attributes) VALUES ('a','{')",
	    "INSERT INTO pgsql_hostgroup_attributes (hostgroup_id,multiplex) VALUES (1,2)",
	    "INSERT INTO scheduler (interval_ms,filename) VALUES (99,'x')",
	    "INSERT INTO restapi_routes (timeout_ms,method,uri,script) VALUES (100,'PUT','a','b')");
	const Error error = fails(sql);
	CHECK(error.sqlstate == "28000");
	CHECK_THAT(error.message, StartsWith("ProxySQL Admin Error: "));
	CHECK_THAT(error.message, Contains("constraint failed"));
}

TEST_CASE_METHOD(Admin_Fixture, "MEMORY, RUNTIME and DISK are three layers for every module") {
	struct Module_Sample {
		std::string module;
		std::string insert;
		std::string count; // of main; disk and runtime_ by replacement
	};
	const auto sample = GENERATE(
	    Module_Sample{"PGSQL SERVERS", "INSERT INTO {}pgsql_servers (hostname) VALUES ('h')",
	                  "pgsql_servers"},
	    Module_Sample{"PGSQL SERVERS",
	                  "INSERT INTO {}pgsql_replication_hostgroups "
	                  "(writer_hostgroup,reader_hostgroup) VALUES (1,2)",
	                  "pgsql_replication_hostgroups"},
	    Module_Sample{"PGSQL SERVERS",
	                  "INSERT INTO {}pgsql_hostgroup_attributes (hostgroup_id) VALUES (1)",
	                  "pgsql_hostgroup_attributes"},
	    Module_Sample{"PGSQL SERVERS",
	                  "INSERT INTO {}pgsql_servers_ssl_params (hostname) VALUES ('h')",
	                  "pgsql_servers_ssl_params"},
	    Module_Sample{"PGSQL USERS",
	                  "INSERT INTO {}pgsql_users (username,password,backend) VALUES ('u','p',0)",
	                  "pgsql_users"},
	    Module_Sample{"PGSQL QUERY RULES", "INSERT INTO {}pgsql_query_rules (rule_id) VALUES (5)",
	                  "pgsql_query_rules"},
	    Module_Sample{"PGSQL QUERY RULES",
	                  "INSERT INTO {}pgsql_query_rules_fast_routing VALUES ('u','d',0,1,'')",
	                  "pgsql_query_rules_fast_routing"},
	    Module_Sample{"PGSQL FIREWALL",
	                  "INSERT INTO {}pgsql_firewall_whitelist_users VALUES (1,'u','','OFF','')",
	                  "pgsql_firewall_whitelist_users"},
	    Module_Sample{"PROXYSQL SERVERS", "INSERT INTO {}proxysql_servers (hostname) VALUES ('p')",
	                  "proxysql_servers"},
	    Module_Sample{"SCHEDULER",
	                  "INSERT INTO {}scheduler (interval_ms,filename) VALUES (1000,'/bin/true')",
	                  "scheduler"},
	    Module_Sample{"RESTAPI",
	                  "INSERT INTO {}restapi_routes (timeout_ms,method,uri,script) VALUES "
	                  "(1000,'GET','u','s')",
	                  "restapi_routes"});
	const auto in_memory = [&] { return value("SELECT COUNT(*) FROM main." + sample.count); };
	const auto on_disk = [&] { return value("SELECT COUNT(*) FROM disk." + sample.count); };
	const auto running = [&] { return value("SELECT COUNT(*) FROM runtime_" + sample.count); };
	std::string insert = sample.insert;
	insert.replace(insert.find("{}"), 2, "main.");
	CAPTURE(sample.insert);

	run(insert);
	CHECK((in_memory() == "1" && on_disk() == "0" && running() == "0"));
	run("LOAD " + sample.module + " TO RUNTIME");
	CHECK((on_disk() == "0" && running() == "1"));
	run("SAVE " + sample.module + " TO DISK");
	CHECK(on_disk() == "1");
	run("DELETE FROM main." + sample.count);
	CHECK((in_memory() == "0" && on_disk() == "1" && running() == "1"));
	SECTION("back from disk") {
		run("LOAD " + sample.module + " FROM DISK");
		CHECK(in_memory() == "1");
	}
	SECTION("back from the runtime") {
		run("SAVE " + sample.module + " FROM RUNTIME");
		CHECK(in_memory() == "1");
	}
	SECTION("a restart reads the disk") {
		restart();
		CHECK((in_memory() == "1" && running() == "1"));
	}
}

TEST_CASE_METHOD(Admin_Fixture, "every spelling of LOAD and SAVE works for every module") {
	struct Spelling {
		std::string verb;
		std::string direction;
	};
	const Spelling spellings[] = {
	    {"LOAD", "TO MEMORY"},    {"LOAD", "TO MEM"},    {"LOAD", "FROM DISK"},
	    {"SAVE", "FROM MEMORY"},  {"SAVE", "FROM MEM"},  {"SAVE", "TO DISK"},
	    {"LOAD", "FROM MEMORY"},  {"LOAD", "FROM MEM"},  {"LOAD", "TO RUNTIME"},
	    {"LOAD", "TO RUN"},       {"SAVE", "TO MEMORY"}, {"SAVE", "TO MEM"},
	    {"SAVE", "FROM RUNTIME"}, {"SAVE", "FROM RUN"}};
	for (const Admin_Module& module : admin_modules()) {
		for (const auto& [verb, direction] : spellings) {
			const std::string name(module.name);
			CHECK(run(verb + " " + name + " " + direction).tag == verb);
		}
	}
	CHECK(run("  load   pgsql\n users  to runtime ; ").tag == "LOAD");
	CHECK(run("/* by hand */ -- now\n LOAD PGSQL USERS TO RUNTIME").tag == "LOAD");
	CHECK_THAT(fails("LOAD PGSQL USERS").message, Contains("near \"LOAD\": syntax error"));
	CHECK_THAT(fails("LOAD PGSQL TABLES TO RUNTIME").message, Contains("syntax error"));
	CHECK_THAT(fails("SAVE PGSQL USERS TO RUNTIME").message, Contains("syntax error"));
	CHECK_THAT(fails("LOAD PGSQL USERS FROM CONFIG").message, Contains("Config file unknown"));
}

TEST_CASE_METHOD(Admin_Fixture, "a load is all or nothing and names every rejected row") {
	SECTION("cells that are not numbers") {
		run("INSERT INTO pgsql_users (username,default_hostgroup) VALUES ('alice','one')");
		run("INSERT INTO pgsql_users (username,default_hostgroup) VALUES ('bob',2)");
		run("INSERT INTO pgsql_users (username,default_hostgroup) VALUES ('carol','3x')");
		const Error error = fails("LOAD PGSQL USERS TO RUNTIME");
		CHECK(error.sqlstate == "P0001");
		CHECK_THAT(error.message, Contains("alice") && Contains("default_hostgroup 'one'"));
		CHECK_THAT(error.message, Contains("carol") && Contains("'3x'"));
		CHECK(runtime.users.empty());
	}
	SECTION("variables") {
		run("SET pgsql-poll_timeout=5");
		run("SET pgsql-have_ssl='perhaps'");
		run("SET pgsql-max_connections=77");
		const std::string before = runtime.pgsql_variables["pgsql-max_connections"];
		const Error error = fails("LOAD PGSQL VARIABLES TO RUNTIME");
		CHECK_THAT(error.message, Contains("pgsql-poll_timeout") && Contains("pgsql-have_ssl"));
		CHECK(runtime.pgsql_variables["pgsql-max_connections"] == before);
		CHECK(value("SELECT variable_value FROM runtime_global_variables WHERE variable_name = "
		            "'pgsql-max_connections'") == before);
		// The edit stays, so that it can be repaired.
		CHECK(value("SELECT @@pgsql-max_connections") == "77");
	}
	SECTION("the runtime refuses") {
		run("INSERT INTO pgsql_query_rules (rule_id,active,match_pattern) VALUES (1,1,'(')");
		runtime.refuse = "rule 1: missing )";
		CHECK_THAT(fails("LOAD PGSQL QUERY RULES TO RUNTIME").message,
		           Contains("rule 1: missing )"));
	}
}

TEST_CASE_METHOD(Admin_Fixture, "variables: SET, SELECT @@, unknown names, restart-only ones") {
	CHECK(run("SET pgsql-monitor_history=5000").tag == "UPDATE 1");
	CHECK(run("set PGSQL-monitor_password = 'se''cret;'").tag == "UPDATE 1");
	CHECK(value("SELECT @@pgsql-monitor_history") == "5000");
	CHECK(value("SELECT @@PGSQL-MONITOR_PASSWORD") == "se'cret;");
	CHECK(runtime.pgsql_variables["pgsql-monitor_history"] == "7200000");
	run("LOAD PGSQL VARIABLES TO RUNTIME");
	CHECK(runtime.pgsql_variables["pgsql-monitor_history"] == "5000");
	CHECK(runtime.pgsql_variables["pgsql-monitor_password"] == "se'cret;");

	const Admin_Answer unknown = run("SET pgsql-no_such=1");
	REQUIRE(unknown.notices.size() == 1);
	CHECK(unknown.notices[0] == "ERROR: Unknown global variable: 'pgsql-no_such'.");
	CHECK(run("SET extra_float_digits = 3").notices.empty());
	CHECK(run("SET NAMES utf8").tag == "SET");

	run("INSERT INTO global_variables VALUES ('pgsql-from_the_future','1')");
	CHECK_FALSE(run("LOAD PGSQL VARIABLES TO RUNTIME").notices.empty());
	CHECK(run("SELECT 1 FROM global_variables WHERE variable_name='pgsql-from_the_future'")
	          .result.rows.empty());

	run("SET pgsql-threads=9");
	CHECK_FALSE(run("LOAD PGSQL VARIABLES TO RUNTIME").notices.empty());
	CHECK(runtime.pgsql_variables["pgsql-threads"] == "4");
	CHECK(value("SELECT @@pgsql-threads") == "9");
	run("SAVE PGSQL VARIABLES TO DISK");
	restart();
	CHECK(runtime.pgsql_variables["pgsql-threads"] == "9");
	CHECK(value("SELECT @@pgsql-monitor_history") == "5000");
}

TEST_CASE_METHOD(Admin_Fixture, "SHOW forms") {
	CHECK(run("SHOW TABLES").result.columns == std::vector<std::string>{"tables"});
	CHECK(run("SHOW TABLES FROM disk").result.rows.size() > 10);
	CHECK(run("SHOW TABLES IN stats_history").result.rows.size() > 5);
	CHECK(run("SHOW TABLES LIKE 'pgsql_serv%'").result.rows.size() == 2);
	CHECK_THAT(fails("SHOW TABLES FROM nowhere").message, Contains("nowhere"));
	CHECK(run("SHOW DATABASES").tag == "PRAGMA");
	CHECK(run("SHOW SCHEMAS").result.rows.size() == 5);
	const Admin_Answer create = run("SHOW CREATE TABLE `disk`.`pgsql_users`");
	REQUIRE(create.result.rows.size() == 1);
	CHECK(create.result.columns == std::vector<std::string>{"table", "Create Table"});
	CHECK_THAT(*create.result.rows[0][1], StartsWith("CREATE TABLE pgsql_users (\n    username "));
	CHECK(run("SHOW CREATE TABLE stats_pgsql_global").result.rows.size() == 1);
	CHECK(run("SHOW PGSQL VARIABLES").result.rows.size() > 100);
	CHECK(run("SHOW ADMIN VARIABLES").result.rows.size() > 50);
	CHECK(run("SHOW VARIABLES LIKE 'pgsql-threads'").result.rows.size() == 1);
	CHECK(run("SHOW GLOBAL VARIABLES LIKE 'version'").result.rows.size() == 1);
	CHECK(run("SHOW VARIABLES WHERE Variable_name IN ('pgsql-threads','admin-read_only')")
	          .result.rows.size() == 2);
	for (const Sql_Row& row : run("SHOW VARIABLES").result.rows) {
		CHECK_THAT(row[1].value_or(""), !Contains("admin:admin"));
	}
	CHECK(run("SHOW PGSQL PROCESSLIST").result.columns.size() == 9);
	CHECK(run("SHOW FULL PGSQL PROCESSLIST").result.columns.size() == 22);
	CHECK(run("SHOW PROCESSLIST").result.columns.size() == 9);
	CHECK(run("show full processlist").result.columns.size() == 22);
	CHECK(run("SHOW FULL PGSQL ACTIVITY").result.columns.size() == 18);
	CHECK(run("SHOW TRANSACTION ISOLATION LEVEL").tag == "SHOW");
	CHECK(run("SHOW FIELDS FROM `pgsql_servers`").result.rows.size() == 11);
	CHECK_THAT(fails("SHOW PGSQL THINGS").message, Contains("syntax error"));
	CHECK_THAT(value("SELECT version()"), Contains("polar"));
	CHECK(value("SELECT @@version") == value("SELECT version()"));
}

TEST_CASE_METHOD(Admin_Fixture, "dynamic tables show the present, _reset zeroes") {
	runtime.stats_rows["stats_pgsql_global"] = {{"ProxySQL_Uptime", "5"}};
	CHECK(value("SELECT Variable_Value FROM stats.stats_pgsql_global WHERE "
	            "Variable_Name='ProxySQL_Uptime'") == "5");
	CHECK(value("SELECT @@ProxySQL_Uptime") == "5");
	CHECK(run("SHOW PGSQL STATUS").result.rows.size() == 2); // with SQLite3_memory_bytes
	Sql_Row digest(14, "1");
	runtime.stats_rows["stats_pgsql_query_digest"] = {digest};
	runtime.asked.clear();
	CHECK(value("SELECT COUNT(*) FROM stats_pgsql_query_digest_reset") == "1");
	REQUIRE(runtime.asked.size() == 1);
	CHECK(runtime.asked[0].second == Stats_Read::reset);
	CHECK(value("SELECT COUNT(*) FROM \"stats_pgsql_query_digest\"") == "1");
	CHECK(runtime.asked[1].second == Stats_Read::keep);
	// A name inside a text is no mention.
	runtime.asked.clear();
	run("SELECT 'stats_pgsql_query_digest_reset'");
	CHECK(runtime.asked.empty());
	// A row with too few cells is filled up; NULL in a NOT NULL column does not stop the others.
	runtime.stats_rows["stats_pgsql_connection_pool"] = {{"0", "h", "5432"}};
	CHECK(value("SELECT COUNT(*) FROM stats_pgsql_connection_pool") == "1");
	CHECK(run("TRUNCATE TABLE stats.stats_pgsql_query_digest").tag == "TRUNCATE");
	CHECK(run("SAVE PGSQL DIGEST TO DISK").result.changes == 1);
	CHECK(value("SELECT COUNT(*) FROM history_pgsql_query_digest") == "1");
	CHECK_THAT(fails("DELETE FROM stats.stats_pgsql_stat_activity").message,
	           Contains("cannot modify stats_pgsql_stat_activity because it is a view"));
}

TEST_CASE_METHOD(Admin_Fixture, "runtime tables show what runs, also what the monitor changed") {
	run("INSERT INTO pgsql_servers (hostgroup_id,hostname,comment) VALUES (1,'h','c')");
	run("LOAD PGSQL SERVERS TO RUNTIME");
	const std::string version =
	    value("SELECT version FROM runtime_checksums_values WHERE name='pgsql_servers'");
	runtime.servers.servers[0].hostgroup_id = 0;
	runtime.servers.servers[0].status = Server_Status::shunned_lag;
	CHECK(value("SELECT hostgroup_id || status FROM runtime_pgsql_servers") == "0SHUNNED");
	CHECK(value("SELECT hostgroup_id FROM pgsql_servers") == "1");
	CHECK(value("SELECT version FROM runtime_checksums_values WHERE name='pgsql_servers'") !=
	      version);
	run("SAVE PGSQL SERVERS TO MEMORY");
	CHECK(value("SELECT hostgroup_id || comment FROM pgsql_servers") == "0c");

	run("INSERT INTO pgsql_users (username,password) VALUES ('u','p')");
	run("LOAD PGSQL USERS TO RUNTIME");
	CHECK(value("SELECT COUNT(*) FROM runtime_pgsql_users") == "2");
	run("SAVE PGSQL USERS FROM RUNTIME");
	CHECK(value("SELECT COUNT(*) FROM pgsql_users WHERE frontend AND backend") == "1");
}

TEST_CASE_METHOD(Admin_Fixture, "PROXYSQL commands reach the runtime") {
	using Action = Runtime_Control::Action;
	const std::pair<const char*, Action> expected[] = {
	    {"PROXYSQL PAUSE", Action::pause},
	    {"PROXYSQL RESUME", Action::resume},
	    {"PROXYSQL STOP", Action::stop},
	    {"PROXYSQL START", Action::start},
	    {"PROXYSQL SHUTDOWN", Action::shutdown},
	    {"PROXYSQL KILL", Action::shutdown},
	    {"PROXYSQL SHUTDOWN SLOW", Action::shutdown_slow},
	    {"PROXYSQL FLUSH LOGS", Action::flush_logs},
	    {"proxysql reload tls;", Action::reload_tls}};
	for (const auto& [command, action] : expected) {
		runtime.actions.clear();
		CHECK(run(command).tag == "PROXYSQL");
		CHECK(runtime.actions == std::vector<Action>{action});
	}
	CHECK(run("KILL PGSQL CONNECTION 7").tag == "KILL");
	CHECK(fails("KILL CONNECTION 8").sqlstate == "P0001");
	CHECK(runtime.killed == 8);
	fails("KILL CONNECTION x");
	CHECK(run("PROXYSQL FLUSH PGSQL QUERY CACHE").tag == "DELETE 0");
	CHECK(run("PROXYSQL FLUSH CONFIGDB").tag == "PROXYSQL");
	CHECK(run("SAVE PGSQL USERS TO DISK").tag == "SAVE");
	CHECK_THAT(fails("PROXYSQL SET CONFIG FILE /does/not/exist").message,
	           Contains("Invalid config file"));
	CHECK_THAT(fails("PROXYSQL DANCE").message, Contains("syntax error"));
}

TEST_CASE_METHOD(Admin_Fixture, "read-only mode refuses SQL writes, not LOAD and SAVE") {
	run("PROXYSQL READONLY");
	CHECK_THAT(fails("INSERT INTO pgsql_servers (hostname) VALUES ('a')").message,
	           Contains("attempt to write a readonly database"));
	fails("SET pgsql-threads=5");
	run("LOAD PGSQL SERVERS TO RUNTIME");
	run("SAVE PGSQL SERVERS TO DISK");
	CHECK(value("SELECT COUNT(*) FROM runtime_pgsql_servers") == "0");
	run("PROXYSQL READWRITE");
	run("INSERT INTO pgsql_servers (hostname) VALUES ('a')");
}

TEST_CASE_METHOD(Admin_Fixture, "a stats user looks and changes nothing") {
	const Admin_Role stats = Admin_Role::stats;
	runtime.stats_rows["stats_pgsql_global"] = {{"ProxySQL_Uptime", "5"}};
	CHECK(value("SELECT Variable_Value FROM stats.stats_pgsql_global WHERE Variable_Name = "
	            "'ProxySQL_Uptime'",
	            stats) == "5");
	CHECK(run("SHOW TABLES", stats).result.rows.size() > 20);
	CHECK(run("SHOW DATABASES", stats).result.rows.size() == 3);
	CHECK(run("SELECT * FROM monitor.pgsql_server_ping_log", stats).result.rows.empty());
	CHECK_THAT(fails("SELECT * FROM pgsql_users", stats).message, Contains("no such table"));
	CHECK_THAT(fails("SELECT * FROM disk.pgsql_users", stats).message, Contains("no such table"));
	CHECK_THAT(fails("DELETE FROM stats_pgsql_global", stats).message, Contains("readonly"));
	CHECK_THAT(fails("LOAD PGSQL USERS TO RUNTIME", stats).message, Contains("syntax error"));
	CHECK_THAT(fails("PROXYSQL SHUTDOWN", stats).message, Contains("syntax error"));
	CHECK_THAT(fails("SELECT CONFIG FILE", stats).message, Contains("no such column"));
	CHECK_THAT(fails("PRAGMA query_only=0", stats).message, Contains("Command not allowed"));
	CHECK_THAT(fails("/**/ATTACH DATABASE '/etc/passwd' AS x", stats).message,
	           Contains("Command not allowed"));
	CHECK_THAT(fails("EXPLAIN QUERY PLAN PRAGMA query_only=0", stats).message,
	           Contains("Command not allowed"));
	CHECK(run("SET extra_float_digits=3", stats).tag == "SET");
	CHECK(run("SHOW PROCESSLIST", stats).result.columns.size() == 9);
	for (const char* listing : {"SHOW PGSQL VARIABLES", "show admin variables"}) {
		CHECK_THAT(fails(listing, stats).message, Contains("variables are for administrators"));
	}
}

TEST_CASE_METHOD(Admin_Fixture, "users whose MD5 hash cannot log in are named") {
	const std::string hash = "md5" + std::string(32, 'a');
	run("INSERT INTO pgsql_users (username, password) VALUES ('old', '" + hash +
	    "'), ('new', 'p')");
	const Admin_Answer loaded = run("LOAD PGSQL USERS TO RUNTIME");
	REQUIRE(loaded.notices.size() == 1);
	CHECK_THAT(loaded.notices[0],
	           Contains("old") && !Contains("new") && Contains("pgsql-authentication_method"));
	run("SET pgsql-authentication_method=2");
	CHECK(run("LOAD PGSQL VARIABLES TO RUNTIME").notices.empty());
	CHECK(run("LOAD PGSQL USERS TO RUNTIME").notices.empty());
	run("SET pgsql-authentication_method=3");
	CHECK(run("LOAD PGSQL VARIABLES TO RUNTIME").notices.size() == 1);
}

TEST_CASE_METHOD(Admin_Fixture, "transactions and savepoints have no effect") {
	CHECK(run("BEGIN").tag == "BEGIN");
	run("SAVEPOINT a");
	run("INSERT INTO pgsql_servers (hostname) VALUES ('a')");
	run("ROLLBACK TO SAVEPOINT a");
	run("ROLLBACK");
	CHECK(value("SELECT COUNT(*) FROM pgsql_servers") == "1");
}

TEST_CASE_METHOD(Admin_Fixture, "a runaway query ends when it is cancelled") {
	std::atomic<bool> cancelled{true};
	Admin_Client client;
	client.cancelled = &cancelled;
	const Result<Admin_Answer> answer = core->execute(
	    client,
	    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT COUNT(*) FROM n");
	REQUIRE_FALSE(answer.ok());
	CHECK(answer.error().sqlstate == "57014");
}
