#include "config/Config_Variables.h"
#include "config/Config_Words.h"
#include "config/Listen_Address.h"

#include <catch2/catch.hpp>
#include <set>

using namespace proxy;

namespace {

std::string stored(const std::string& name, const std::string& text) {
	const auto result = check_variable(name, text);
	INFO(name << " = " << text << ": " << (result.ok() ? "" : result.error().message));
	REQUIRE(result.ok());
	return result.value();
}

std::string fault(const std::string& name, const std::string& text) {
	const auto result = check_variable(name, text);
	INFO(name << " = " << text);
	REQUIRE_FALSE(result.ok());
	return result.error().message;
}

Variable_Map texts_of_both() {
	Variable_Map all = variable_texts(Pgsql_Config{});
	all.merge(variable_texts(Admin_Config{}));
	return all;
}

} // namespace

TEST_CASE("every default is valid, in stored form, and the struct starts with it") {
	const Variable_Map texts = texts_of_both();
	REQUIRE(texts.size() == variable_infos().size());
	for (const Variable_Info& info : variable_infos()) {
		INFO(info.name);
		CHECK(stored(info.name, info.default_text) == info.default_text);
		CHECK(texts.at(info.name) == info.default_text);
		CHECK_FALSE(info.doc.empty());
		CHECK(info.doc.back() == '.');
	}
	CHECK(default_variables() == texts);
}

TEST_CASE("the known variables are all there") {
	// A few of each module and group; the counts guard against a row that got lost.
	for (const char* name : {"pgsql-threads", "pgsql-interfaces", "pgsql-query_cache_size_MB",
	                         "pgsql-monitor_read_only_interval", "pgsql-default_datestyle",
	                         "pgsql-polardb_split_wait_ms", "pgsql-route_shadow",
	                         "admin-admin_credentials", "admin-cluster_pgsql_users_save_to_disk"}) {
		INFO(name);
		CHECK(find_variable(name) != nullptr);
	}
	size_t pgsql = 0;
	for (const Variable_Info& info : variable_infos()) {
		pgsql += info.name.starts_with("pgsql-") ? 1 : 0;
	}
	CHECK(pgsql >= 153 + 5 + 28);
	CHECK(find_variable("pgsql-") == nullptr);
	CHECK(find_variable("mysql-threads") == nullptr);
	CHECK(find_variable("threads") == nullptr);
}

TEST_CASE("an integer takes its bounds and refuses one step beyond, naming the range") {
	for (const Variable_Info& info : variable_infos()) {
		if (info.kind != Variable_Kind::integer) {
			continue;
		}
		INFO(info.name);
		REQUIRE(info.min <= info.max);
		CHECK(stored(info.name, std::to_string(info.min)) == std::to_string(info.min));
		CHECK(stored(info.name, std::to_string(info.max)) == std::to_string(info.max));
		for (const int64_t outside : {info.min - 1, info.max + 1}) {
			const std::string message = fault(info.name, std::to_string(outside));
			CHECK(message.find(info.name) == 0);
			CHECK(message.find(std::to_string(outside)) != std::string::npos);
			CHECK(message.find(std::to_string(info.min)) != std::string::npos);
			CHECK(message.find(std::to_string(info.max)) != std::string::npos);
		}
		for (const char* garbage :
		     {"", " ", "x", "1x", "1.0", "--1", "0x10", "+-1", "99999999999999999999999999"}) {
			fault(info.name, garbage);
		}
	}
}

TEST_CASE("a boolean takes true, false, 1 and 0 in any case and nothing else") {
	for (const Variable_Info& info : variable_infos()) {
		if (info.kind != Variable_Kind::boolean) {
			continue;
		}
		INFO(info.name);
		for (const char* text : {"true", "TRUE", "True", "1"}) {
			CHECK(stored(info.name, text) == "true");
		}
		for (const char* text : {"false", "FALSE", "0"}) {
			CHECK(stored(info.name, text) == "false");
		}
		for (const char* text : {"", "2", "-1", "yes", "on", "truee"}) {
			fault(info.name, text);
		}
	}
}

TEST_CASE("a word takes each listed word in any case and refuses others, listing the words") {
	for (const Variable_Info& info : variable_infos()) {
		if (info.kind != Variable_Kind::word) {
			continue;
		}
		INFO(info.name);
		std::string word;
		for (const char letter : std::string(info.words) + "|") {
			if (letter != '|') {
				word += letter;
				continue;
			}
			CHECK(stored(info.name, word) == word);
			CHECK(stored(info.name, to_lower(word)) == word);
			CHECK(fault(info.name, "no_such_word").find(word) != std::string::npos);
			fault(info.name, word + "x");
			word.clear();
		}
		fault(info.name, "");
	}
}

TEST_CASE("a text keeps to its longest length and holds no zero byte") {
	for (const Variable_Info& info : variable_infos()) {
		if (info.kind != Variable_Kind::text || info.when == Variable_When::fixed) {
			continue;
		}
		INFO(info.name);
		REQUIRE(info.max > 0);
		fault(info.name, std::string(static_cast<size_t>(info.max) + 1, 'a'));
		fault(info.name, std::string("a\0b", 3));
		if (info.check == String_Check::any || info.check == String_Check::nullable) {
			const std::string longest(static_cast<size_t>(info.max), 'a');
			CHECK(stored(info.name, longest) == longest);
		}
		if (info.check == String_Check::nonempty) {
			fault(info.name, "");
			fault(info.name, "  ");
		}
	}
	CHECK(stored("pgsql-init_connect", "(null)").empty());
	CHECK(stored("pgsql-init_connect", "(NULL)").empty());
}

TEST_CASE("names are found in any case and listed as declared") {
	CHECK(find_variable("PGSQL-QUERY_CACHE_SIZE_mb")->name == "pgsql-query_cache_size_MB");
	CHECK(stored("Pgsql-Threads", "7") == "7");
	const auto built = build_pgsql_config({{"PGSQL-threads", "7"}}, Pgsql_Config{});
	REQUIRE(built.ok());
	CHECK(built.value().config->threads == 7);
}

TEST_CASE("each text check") {
	struct Case {
		const char* name;
		const char* text;
		bool good;
	};
	const Case cases[] = {
	    {"pgsql-interfaces", "0.0.0.0:6133;[::1]:6134;/tmp/a.sock", true},
	    {"pgsql-interfaces", "127.0.0.1:0;127.0.0.1:0", true},
	    {"pgsql-interfaces", "localhost:1;", true},
	    {"pgsql-interfaces", "", false},
	    {"pgsql-interfaces", ";", false},
	    {"pgsql-interfaces", "127.0.0.1", false},
	    {"pgsql-interfaces", "127.0.0.1:", false},
	    {"pgsql-interfaces", "127.0.0.1:65536", false},
	    {"pgsql-interfaces", "127.0.0.1:-1", false},
	    {"pgsql-interfaces", "127.0.0.1:1x", false},
	    {"pgsql-interfaces", ":6133", false},
	    {"pgsql-interfaces", "::1:6133", false},
	    {"pgsql-interfaces", "[::g]:6133", false},
	    {"pgsql-interfaces", "1.1.1.1:5;1.1.1.1:5", false},
	    {"admin-admin_credentials", "a:b;c:d", true},
	    {"admin-admin_credentials", "a:b:c", true},
	    {"admin-admin_credentials", "", false},
	    {"admin-admin_credentials", "a", false},
	    {"admin-admin_credentials", "a:", false},
	    {"admin-admin_credentials", ":b", false},
	    {"admin-admin_credentials", "a:b;a:c", false},
	    {"pgsql-server_encoding", "SQL_ASCII", true},
	    {"pgsql-server_encoding", "utf-8", true},
	    {"pgsql-server_encoding", "latin17", false},
	    {"pgsql-server_encoding", "", false},
	    {"pgsql-default_datestyle", "SQL, DMY", true},
	    {"pgsql-default_datestyle", "ymd,iso", true},
	    {"pgsql-default_datestyle", "ISO", false},
	    {"pgsql-default_datestyle", "MDY", false},
	    {"pgsql-default_datestyle", "ISO, SQL, MDY", false},
	    {"pgsql-default_datestyle", "ISO, XYZ", false},
	    {"pgsql-eventslog_filename", "", true},
	    {"pgsql-eventslog_filename", "events", true},
	    {"pgsql-eventslog_filename", "/tmp/events", true},
	    {"pgsql-eventslog_filename", "events/", false},
	    {"pgsql-eventslog_filename", "/no/such/directory/events", false},
	    {"pgsql-polardb_proxy_identity_host", "", true},
	    {"pgsql-polardb_proxy_identity_host", "10.0.0.1", true},
	    {"pgsql-polardb_proxy_identity_host", "fe80::1", true},
	    {"pgsql-polardb_proxy_identity_host", "0.0.0.0", false},
	    {"pgsql-polardb_proxy_identity_host", "::", false},
	    {"pgsql-polardb_proxy_identity_host", "::ffff:0.0.0.0", false},
	    {"pgsql-polardb_proxy_identity_host", "::ffff:1.0.0.0", true},
	    {"pgsql-polardb_proxy_identity_host", "example.org", false},
	    {"pgsql-proxy_protocol_networks", "", true},
	    {"pgsql-proxy_protocol_networks", "*", true},
	    {"pgsql-proxy_protocol_networks", "10.0.0.0/8, ::1 ,192.0.2.1", true},
	    {"pgsql-proxy_protocol_networks", "10.0.0.0/33", false},
	    {"pgsql-proxy_protocol_networks", "balancer", false},
	    {"pgsql-proxy_protocol_networks", "10.0.0.0/8;::1", false},
	    {"pgsql-unix_socket_permissions", "0777", true},
	    {"pgsql-unix_socket_permissions", "770", true},
	    {"pgsql-unix_socket_permissions", "", false},
	    {"pgsql-unix_socket_permissions", "0778", false},
	    {"pgsql-unix_socket_permissions", "1777", false},
	    {"pgsql-unix_socket_permissions", "rwx", false},
	};
	for (const Case& one : cases) {
		const auto result = check_variable(one.name, one.text);
		INFO(one.name << " = '" << one.text << "'");
		CHECK(result.ok() == one.good);
		if (!result.ok()) {
			CHECK(result.error().message.find(one.name) == 0);
		}
	}
	CHECK(stored("pgsql-server_encoding", "utf8") == "UTF8");
}

TEST_CASE("a socket path too long for the kernel is refused") {
	fault("pgsql-interfaces", "/" + std::string(200, 'x'));
}

TEST_CASE("older spellings of words and numbers are understood") {
	CHECK(stored("pgsql-polardb_consistency_mode", "3") == "eventual");
	CHECK(stored("pgsql-polardb_consistency_mode", "lsn") == "session_lsn");
	fault("pgsql-polardb_consistency_mode", "default");
	CHECK(stored("admin-ssl_verify_client", "2") == "REQUIRED");
	CHECK(stored("pgsql-default_standard_conforming_strings", "TRUE") == "on");
	CHECK(stored("admin-stats_mysql_connections", "61") == "120");
	CHECK(stored("admin-stats_system_cpu", "301") == "600");
	CHECK(stored("pgsql-threads", " +8 ") == "8");
}

TEST_CASE("messages keep secrets to themselves") {
	CHECK(fault("admin-admin_credentials", "hunter2").find("hunter2") == std::string::npos);
	CHECK(fault("admin-admin_credentials", "x:hunter2;x:y").find("hunter2") == std::string::npos);
	const std::string too_long = "hunter2" + std::string(5000, 'x');
	CHECK(fault("pgsql-monitor_password", too_long).find("hunter2") == std::string::npos);
	CHECK(is_secret_variable("PGSQL-monitor_password"));
	CHECK_FALSE(is_secret_variable("pgsql-monitor_username"));
}

TEST_CASE("a fixed variable shows its value and takes no other") {
	const std::string version = default_variables().at("admin-version");
	CHECK(stored("admin-version", version) == version);
	fault("admin-version", "3.0.9");
	const auto built = build_admin_config({{"admin-version", "3.0.9"}});
	REQUIRE(built.ok()); // the row of an older database does not stop the start
	CHECK(built.value().config->version == version);
}

TEST_CASE("a configuration is built whole or not at all, and every bad row is named") {
	const auto bad = build_pgsql_config({{"pgsql-threads", "0"},
	                                     {"pgsql-have_ssl", "maybe"},
	                                     {"pgsql-max_connections", "17"},
	                                     {"admin-web_port", "x"}},
	                                    Pgsql_Config{});
	REQUIRE_FALSE(bad.ok());
	const std::string& message = bad.error().message;
	CHECK(message.find("pgsql-threads: \"0\"") != std::string::npos);
	CHECK(message.find("pgsql-have_ssl: \"maybe\"") != std::string::npos);
	CHECK(message.find("max_connections") == std::string::npos);
	CHECK(message.find("admin-web_port") == std::string::npos); // the other module's business

	const auto good = build_pgsql_config({{"pgsql-max_connections", "17"}}, Pgsql_Config{});
	REQUIRE(good.ok());
	CHECK(good.value().config->max_connections == 17);
	CHECK(good.value().config->threads == 4);
	CHECK(good.value().warnings.empty());
}

TEST_CASE("every variable survives the way into the struct and back") {
	Variable_Map changed;
	for (const Variable_Info& info : variable_infos()) {
		if (info.kind == Variable_Kind::integer) {
			changed[info.name] = stored(info.name, std::to_string(info.max));
		} else if (info.kind == Variable_Kind::boolean) {
			changed[info.name] = info.default_text == "true" ? "false" : "true";
		} else {
			changed[info.name] = info.default_text;
		}
	}
	changed["pgsql-polardb_profile"] = "custom";
	changed["pgsql-polardb_proxy_identity_host"] = "10.1.2.3";
	changed["admin-ssl_key"] = "k";
	changed["admin-ssl_cert"] = "c";
	const auto pgsql = build_pgsql_config(changed, Pgsql_Config{});
	const auto admin = build_admin_config(changed);
	REQUIRE(pgsql.ok());
	REQUIRE(admin.ok());
	Variable_Map back = variable_texts(*pgsql.value().config);
	back.merge(variable_texts(*admin.value().config));
	CHECK(back == changed);
}

TEST_CASE("unknown and retired names are dropped with a warning") {
	const auto built = build_pgsql_config({{"pgsql-no_such_thing", "1"},
	                                       {"pgsql-server_capabilities", "569866"},
	                                       {"mysql-threads", "4"}},
	                                      Pgsql_Config{});
	REQUIRE(built.ok());
	REQUIRE(built.value().warnings.size() == 2);
	CHECK(built.value().warnings[0].find("pgsql-no_such_thing") == 0);
	CHECK(built.value().warnings[1].find("pgsql-server_capabilities") == 0);
}

TEST_CASE("restart variables keep what runs") {
	Pgsql_Config running;
	Pgsql_Config next;
	next.threads = 9;
	next.max_connections = 9;
	CHECK(keep_restart_values(next, running) == std::vector<std::string>{"pgsql-threads"});
	CHECK(next.threads == 4);
	CHECK(next.max_connections == 9);
	CHECK(keep_restart_values(next, running).empty());
}

TEST_CASE("listeners of different modules may not collide") {
	Pgsql_Config pgsql;
	Admin_Config admin;
	CHECK(check_listeners(pgsql, admin).ok());
	admin.pgsql_ifaces = "127.0.0.1:6133";
	const auto wildcard = check_listeners(pgsql, admin);
	REQUIRE_FALSE(wildcard.ok());
	CHECK(wildcard.error().message.find("admin-pgsql_ifaces") == 0);
	CHECK(wildcard.error().message.find("pgsql-interfaces") != std::string::npos);
	admin.pgsql_ifaces = "[::1]:6133;127.0.0.1:6134;/tmp/x";
	CHECK(check_listeners(pgsql, admin).ok());
	admin.mysql_ifaces = "/tmp/x";
	CHECK_FALSE(check_listeners(pgsql, admin).ok());
	pgsql.interfaces = "127.0.0.1:0";
	admin.mysql_ifaces = admin.pgsql_ifaces = "127.0.0.1:0";
	CHECK(check_listeners(pgsql, admin).ok());
}

TEST_CASE("listen addresses are parsed and printed alike") {
	const std::string text = "10.0.0.1:6133;[::1]:6134;/tmp/a.sock";
	const auto parsed = parse_listen_list(text);
	REQUIRE(parsed.ok());
	REQUIRE(parsed.value().size() == 3);
	CHECK(parsed.value()[0].host == "10.0.0.1");
	CHECK(parsed.value()[1].host == "::1");
	CHECK(parsed.value()[1].port == 6134);
	CHECK(parsed.value()[2].is_unix());
	CHECK(parsed.value()[0].text() + ";" + parsed.value()[1].text() + ";" +
	          parsed.value()[2].text() ==
	      text);
}

TEST_CASE("a list of networks contains addresses, and nothing else") {
	struct Case {
		const char* list;
		const char* address;
		bool inside;
	};
	for (const Case& one :
	     {Case{"", "10.0.0.1", false}, Case{"*", "10.0.0.1", true}, Case{"*", "2001:db8::1", true},
	      Case{"*", "", false}, Case{"*", "localhost", false}, Case{"10.0.0.0/8", "10.0.0.1", true},
	      Case{"10.0.0.0/8", "11.0.0.1", false}, Case{"11.0.0.0/8,10.0.0.0/8", "10.0.0.1", true},
	      Case{"0.0.0.0/0", "", false}, Case{"::1", "::1", true}}) {
		INFO(one.list << " " << one.address);
		CHECK(Network_List::parse(one.list).value().contains(one.address) == one.inside);
	}
	std::string many;
	for (size_t i = 0; i <= Network_List::kMaxNetworks; ++i) {
		many += "10.0.0.1,";
	}
	CHECK_FALSE(Network_List::parse(many).ok());
}

TEST_CASE("the networks of a configuration follow its text") {
	const auto built =
	    build_pgsql_config({{"pgsql-proxy_protocol_networks", "192.0.2.0/24"}}, Pgsql_Config{});
	REQUIRE(built.ok());
	CHECK(built.value().config->proxy_networks.contains("192.0.2.77"));
	CHECK_FALSE(built.value().config->proxy_networks.contains("127.0.0.1"));
	CHECK(Pgsql_Config{}.proxy_networks.empty());
}
