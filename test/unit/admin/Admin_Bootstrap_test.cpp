// What a start makes of database and configuration file, and what is written out again.
#include "Fake_Runtime.h"
#include "admin/Admin_Core.h"

#include <catch2/catch.hpp>
#include <fstream>

using namespace proxy;
using Catch::Matchers::Contains;
using proxy::test::admin_options;
using proxy::test::Fake_Runtime;
using proxy::test::Temporary_Directory;

TEST_CASE("the database wins over the file, unless told otherwise") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	const auto file = [](int port) {
		return "pgsql_servers = ( { address=\"10.0.0.1\" port=" + std::to_string(port) +
		       " hostgroup=3 comment=\"c\" } )\n"
		       "pgsql_users = ( { username=\"u\" password=\"p\" default_hostgroup=3 } )\n"
		       "pgsql_variables = { monitor_history=6000 }\n"
		       "scheduler = ( { id=1 active=0 interval_ms=5000 filename=\"/bin/true\" } )\n";
	};
	const auto start = [&](Admin_Options options) {
		Admin_Core core(runtime, std::move(options));
		const Result<void> opened = core.open();
		INFO((opened.ok() ? "" : opened.error().message));
		REQUIRE(opened.ok());
		REQUIRE(core.load_all_to_runtime().ok());
		REQUIRE(core.keep_configuration().ok());
	};
	start(admin_options(directory.path, file(5001)));
	REQUIRE(runtime.servers.servers.size() == 1);
	CHECK(runtime.servers.servers[0].port == 5001);
	CHECK(runtime.servers.servers[0].hostgroup_id == 3);
	CHECK(runtime.users.size() == 1);
	CHECK(runtime.pgsql_variables["pgsql-monitor_history"] == "6000");

	start(admin_options(directory.path, file(5002)));
	CHECK(runtime.servers.servers.size() == 1);
	CHECK(runtime.servers.servers[0].port == 5001);

	Admin_Options reload = admin_options(directory.path, file(5002));
	reload.reload = true;
	start(reload);
	CHECK(runtime.servers.servers.size() == 2);

	Admin_Options initial = admin_options(directory.path, file(5003));
	initial.initial = true;
	start(initial);
	REQUIRE(runtime.servers.servers.size() == 1);
	CHECK(runtime.servers.servers[0].port == 5003);
	CHECK(std::filesystem::exists(directory.path + "/proxysql.db.bak"));
}

TEST_CASE("addresses that only conflict with the defaults of the other module are fine") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	Admin_Core core(runtime, admin_options(directory.path,
	                                       "admin_variables = { pgsql_ifaces=\"0.0.0.0:6133\" }\n"
	                                       "pgsql_variables = { interfaces=\"0.0.0.0:6132\" }\n"));
	REQUIRE(core.open().ok());
	CHECK(core.load_all_to_runtime().ok());
	REQUIRE(core.keep_configuration().ok());
	Admin_Core conflict(
	    runtime,
	    admin_options(directory.path, "pgsql_variables = { interfaces=\"0.0.0.0:6132\" }\n"));
	REQUIRE(conflict.open().ok());
	Result<Admin_Answer> set =
	    conflict.execute(Admin_Client{}, "SET admin-pgsql_ifaces='0.0.0.0:6132'");
	REQUIRE(set.ok());
	CHECK_FALSE(conflict.load_all_to_runtime().ok());
}

TEST_CASE("the node keeps its uuid") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	const auto uuid = [&] {
		Admin_Core core(runtime, admin_options(directory.path));
		REQUIRE(core.open().ok());
		REQUIRE(core.keep_configuration().ok());
		return core.database().admin().value(
		    "SELECT variable_value FROM disk.global_settings WHERE variable_name='uuid'", "");
	};
	const std::string first = uuid();
	CHECK(first.size() == 36);
	CHECK(uuid() == first);
}

TEST_CASE("a database that is damaged, foreign or locked stops the start") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	std::ofstream(directory.path + "/proxysql.db") << std::string(8192, 'x');
	Admin_Core core(runtime, admin_options(directory.path));
	const Result<void> opened = core.open();
	REQUIRE_FALSE(opened.ok());
	CHECK_THAT(opened.error().message, Contains("proxysql.db") && Contains("not a database"));
	Admin_Core nowhere(runtime, admin_options(directory.path + "/no/such"));
	CHECK_FALSE(nowhere.open().ok());
}

TEST_CASE("an older proxysql.db is upgraded in place, with a copy kept") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	{
		Result<std::unique_ptr<SQLite3DB>> db = SQLite3DB::open(directory.path + "/proxysql.db");
		REQUIRE(db.ok());
		REQUIRE(
		    db.value()
		        ->execute(
		            "CREATE TABLE pgsql_replication_hostgroups (writer_hostgroup INT NOT NULL "
		            "PRIMARY KEY , reader_hostgroup INT NOT NULL , check_type VARCHAR NOT NULL "
		            "DEFAULT 'read_only' , comment VARCHAR NOT NULL DEFAULT '');"
		            "INSERT INTO pgsql_replication_hostgroups VALUES "
		            "(1,2,'innodb_read_only','old'),(3,3,'read_only','bad');"
		            "CREATE TABLE mysql_servers (hostname VARCHAR); INSERT INTO mysql_servers "
		            "VALUES ('kept');"
		            "CREATE TABLE global_variables (variable_name VARCHAR NOT NULL PRIMARY KEY , "
		            "variable_value VARCHAR NOT NULL);"
		            "INSERT INTO global_variables VALUES ('mysql-threads','4'),"
		            "('pgsql-threads','3')")
		        .ok());
	}
	Admin_Core core(runtime, admin_options(directory.path));
	REQUIRE(core.open().ok());
	REQUIRE(core.load_all_to_runtime().ok());
	REQUIRE(runtime.servers.replication_hostgroups.size() == 1);
	CHECK(runtime.servers.replication_hostgroups[0].comment == "old");
	CHECK(runtime.servers.replication_hostgroups[0].check_type == Check_Type::read_only);
	CHECK(runtime.pgsql_variables["pgsql-threads"] == "3");
	SQLite3DB& db = core.database().admin();
	CHECK(db.value("SELECT hostname FROM disk.mysql_servers", "") == "kept");
	CHECK(db.value("SELECT variable_value FROM main.global_variables WHERE variable_name = "
	               "'mysql-threads'",
	               "") == "4");
	int copies = 0;
	for (const auto& entry : std::filesystem::directory_iterator(directory.path)) {
		copies += entry.path().string().find("before-upgrade") != std::string::npos ? 1 : 0;
	}
	CHECK(copies == 1);
}

TEST_CASE("the configuration written out reads back to the same rows") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	Admin_Core core(runtime, admin_options(directory.path));
	REQUIRE(core.open().ok());
	REQUIRE(core.load_all_to_runtime().ok());
	const std::string path = directory.path + "/out.cnf";
	for (const std::string& sql : std::vector<std::string>{
	         "INSERT INTO pgsql_servers (hostgroup_id,hostname,port,comment) VALUES "
	         "(1,'h',1,'a\"b')",
	         "INSERT INTO pgsql_users (username,password) VALUES ('u','p\\x')",
	         "INSERT INTO pgsql_query_rules (rule_id,match_digest) VALUES (3,'^SELECT \\d')",
	         "INSERT INTO scheduler (id,interval_ms,filename) VALUES (2,1000,'/bin/true')",
	         "SELECT CONFIG INTO OUTFILE " + path, "PROXYSQL SET CONFIG FILE " + path,
	         "DELETE FROM pgsql_servers", "DELETE FROM pgsql_users",
	         "DELETE FROM pgsql_query_rules", "DELETE FROM scheduler",
	         "LOAD PGSQL SERVERS FROM CONFIG", "LOAD PGSQL USERS FROM CONFIG",
	         "LOAD PGSQL QUERY RULES FROM CONFIG", "LOAD SCHEDULER FROM CONFIG",
	         "LOAD PGSQL VARIABLES FROM CONFIG"}) {
		const Result<Admin_Answer> answer = core.execute(Admin_Client{}, sql);
		INFO(sql);
		INFO((answer.ok() ? "" : answer.error().message));
		REQUIRE(answer.ok());
	}
	SQLite3DB& db = core.database().admin();
	CHECK(db.value("SELECT comment FROM pgsql_servers", "") == "a\"b");
	CHECK(db.value("SELECT password FROM pgsql_users", "") == "p\\x");
	CHECK(db.value("SELECT match_digest FROM pgsql_query_rules WHERE rule_id=3", "") ==
	      "^SELECT \\d");
	CHECK(db.value("SELECT filename FROM scheduler WHERE id=2", "") == "/bin/true");
	CHECK_FALSE(core.execute(Admin_Client{}, "SELECT CONFIG INTO OUTFILE").ok());
}

TEST_CASE("a start that is refused leaves the disk as it was") {
	Temporary_Directory directory;
	Fake_Runtime runtime;
	const auto files = [&] {
		std::map<std::string, std::string> found;
		for (const auto& entry : std::filesystem::directory_iterator(directory.path)) {
			if (entry.path().filename().string().starts_with("proxysql.db")) {
				std::ifstream file(entry.path(), std::ios::binary);
				found[entry.path().filename()] =
				    std::string(std::istreambuf_iterator<char>(file), {});
			}
		}
		return found;
	};
	const auto with_port = [&](int port) {
		return admin_options(directory.path, "pgsql_servers = ( { address=\"10.0.0.1\" port=" +
		                                         std::to_string(port) + " hostgroup=3 } )\n");
	};
	const auto refuse = [&](Admin_Options options) {
		Admin_Core core(runtime, std::move(options));
		REQUIRE(core.open().ok());
		runtime.refuse = "no";
		CHECK_FALSE(core.load_all_to_runtime().ok());
		runtime.refuse.clear();
	};
	// The first start of all: the file counts again at the next one.
	refuse(with_port(5001));
	CHECK(files().empty());
	{
		Admin_Core core(runtime, with_port(5002));
		REQUIRE(core.open().ok());
		REQUIRE(core.load_all_to_runtime().ok());
		REQUIRE(core.keep_configuration().ok());
		// The handle is on the file of that name, not on one that was renamed.
		REQUIRE(core.execute(Admin_Client{}, "SAVE PGSQL SERVERS TO DISK").ok());
	}
	const auto before = files();
	CHECK(before.size() == 1);
	for (const bool initial : {true, false}) {
		Admin_Options options = with_port(5003);
		options.initial = initial;
		options.reload = !initial;
		options.uuid = "00000000-0000-4000-8000-000000000000";
		refuse(options);
		CHECK(files() == before);
	}
	Admin_Core core(runtime, with_port(5004));
	REQUIRE(core.open().ok());
	REQUIRE(core.load_all_to_runtime().ok());
	REQUIRE(runtime.servers.servers.size() == 1);
	CHECK(runtime.servers.servers[0].port == 5002);
}
