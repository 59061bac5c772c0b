// Profiles, and what consistency modes need from policies and protocols.
#include "config/Config_Variables.h"
#include "config/Config_Words.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {

Pgsql_Config built(const Variable_Map& values, const Pgsql_Config& running = {},
                   Variable_Source source = Variable_Source::table) {
	const auto result = build_pgsql_config(values, running, source);
	INFO((result.ok() ? std::string() : result.error().message));
	REQUIRE(result.ok());
	return *result.value().config;
}

std::string fault(const Variable_Map& values, const Pgsql_Config& running = {},
                  Variable_Source source = Variable_Source::table) {
	const auto result = build_pgsql_config(values, running, source);
	REQUIRE_FALSE(result.ok());
	return result.error().message;
}

// The variables table after SETs on top of what runs.
Variable_Map table(const Pgsql_Config& running, const Variable_Map& changes) {
	Variable_Map values = variable_texts(running);
	for (const auto& [name, text] : changes) {
		values[name] = text;
	}
	return values;
}

const std::string kProfile = "pgsql-polardb_profile";
const std::string kMode = "pgsql-polardb_consistency_mode";
const std::string kFallback = "pgsql-polardb_action_read_fallback";
const std::string kMissing = "pgsql-polardb_action_missing_lsn";
const std::string kTimeout = "pgsql-polardb_action_lsn_timeout";
const std::string kProtocol = "pgsql-polardb_proxy_protocol";

} // namespace

TEST_CASE("each profile sets what it owns") {
	struct Case {
		const char* name;
		Consistency_Mode mode;
		Read_Target target;
		Read_Fallback_Action fallback;
		Missing_Lsn_Action missing;
		Lsn_Timeout_Action timeout;
		Replica_Error_Action error;
		Replica_Loss_Action loss;
		Proxy_Protocol protocol;
		bool monitor_and_warmup;
	};
	using M = Consistency_Mode;
	using F = Read_Fallback_Action;
	using A = Missing_Lsn_Action;
	using T = Lsn_Timeout_Action;
	using E = Replica_Error_Action;
	using L = Replica_Loss_Action;
	using P = Proxy_Protocol;
	constexpr auto kReplica = Read_Target::replica;
	const Case cases[] = {
	    {"off", M::off, Read_Target::primary, F::primary, A::primary, T::primary, E::primary,
	     L::replica_then_primary, P::off, false},
	    {"eventual", M::eventual, kReplica, F::primary, A::primary, T::primary, E::primary,
	     L::replica_then_primary, P::off, false},
	    {"session_warning", M::session_lsn, kReplica, F::primary, A::warning, T::warning,
	     E::primary, L::replica_then_primary, P::v15, true},
	    {"session_fallback", M::session_lsn, kReplica, F::primary, A::primary, T::primary,
	     E::primary, L::replica_then_primary, P::v15, true},
	    {"session_error", M::session_lsn, kReplica, F::error, A::error, T::error, E::error,
	     L::replica_then_error, P::v15, true},
	    {"global_fallback", M::global_lsn, kReplica, F::primary, A::primary, T::primary, E::primary,
	     L::replica_then_primary, P::v15, true},
	    {"global_error", M::global_lsn, kReplica, F::error, A::error, T::error, E::error,
	     L::replica_then_error, P::v15, true},
	};
	for (const Case& one : cases) {
		INFO(one.name);
		const Pgsql_Config config = built(table({}, {{kProfile, one.name}}));
		CHECK(config.polardb_profile == one.name);
		CHECK(config.policy.consistency_mode == one.mode);
		CHECK(config.policy.read_target == one.target);
		CHECK(config.policy.read_fallback == one.fallback);
		CHECK(config.policy.missing_lsn == one.missing);
		CHECK(config.policy.lsn_timeout == one.timeout);
		CHECK(config.policy.replica_error == one.error);
		CHECK(config.policy.replica_loss == one.loss);
		CHECK(config.policy.proxy_protocol == one.protocol);
		CHECK(config.polardb_monitor_lsn_updates == one.monitor_and_warmup);
		CHECK(config.polardb_lazy_warmup_split == one.monitor_and_warmup);
		// What it saves reads back to itself, at the next LOAD and at the next start.
		CHECK(variable_texts(built(variable_texts(config), config)) == variable_texts(config));
		CHECK(variable_texts(built(variable_texts(config), {}, Variable_Source::saved)) ==
		      variable_texts(config));
	}
}

TEST_CASE("the policy of a default-constructed configuration is that of its words") {
	const Pgsql_Config plain;
	const Pgsql_Config config = built({});
	CHECK(config.policy.consistency_mode == plain.policy.consistency_mode);
	CHECK(config.policy.read_target == plain.policy.read_target);
	CHECK(config.policy.missing_lsn == plain.policy.missing_lsn);
	CHECK(config.policy.lsn_timeout == plain.policy.lsn_timeout);
	CHECK(config.policy.replica_loss == plain.policy.replica_loss);
	CHECK(config.policy.proxy_protocol == plain.policy.proxy_protocol);
	CHECK(config.policy.identity_mode == plain.policy.identity_mode);
}

TEST_CASE("a profile leaves alone what it does not own") {
	const Pgsql_Config running = built({{"pgsql-polardb_lsn_wait_timeout_ms", "77"}});
	const Pgsql_Config next = built(table(running, {{kProfile, "session_error"}}), running);
	CHECK(next.polardb_lsn_wait_timeout_ms == 77);
	CHECK(next.polardb_action_read_fallback == "error");
}

TEST_CASE("changing an owned setting makes the profile custom") {
	const Pgsql_Config running;
	const auto result = build_pgsql_config(table(running, {{kFallback, "error"}}), running);
	REQUIRE(result.ok());
	CHECK(result.value().config->polardb_profile == "custom");
	CHECK(result.value().config->polardb_action_read_fallback == "error");
	REQUIRE(result.value().warnings.size() == 1);
	CHECK(result.value().warnings[0].find("custom") != std::string::npos);
}

TEST_CASE("a named profile and a disagreeing setting in one load are refused") {
	const Pgsql_Config running;
	const std::string message =
	    fault(table(running, {{kProfile, "session_warning"}, {kFallback, "error"}}), running);
	CHECK(message.find(kFallback) == 0);
	CHECK(message.find("session_warning") != std::string::npos);
	// Agreeing is fine.
	CHECK(built(table(running, {{kProfile, "session_error"}, {kFallback, "error"}}), running)
	          .polardb_profile == "session_error");
}

TEST_CASE("custom keeps every setting, and a profile can be named again") {
	Pgsql_Config running = built(table({}, {{kFallback, "error"}}));
	REQUIRE(running.polardb_profile == "custom");
	running = built(table(running, {{kMissing, "error"}}), running);
	CHECK(running.polardb_profile == "custom");
	CHECK(running.polardb_action_read_fallback == "error");
	running = built(table(running, {{kProfile, "session_fallback"}}), running);
	CHECK(running.polardb_action_read_fallback == "primary");
	CHECK(running.polardb_action_missing_lsn == "primary");
}

TEST_CASE("a profile saved before it was loaded is followed at the next start") {
	const Pgsql_Config running = built(table({}, {{kProfile, "session_error"}}));
	const Variable_Map saved = table(running, {{kProfile, "global_fallback"}});
	const Pgsql_Config started = built(saved, {}, Variable_Source::saved);
	CHECK(started.polardb_profile == "global_fallback");
	CHECK(started.polardb_action_read_fallback == "primary");
	// A mixture is still a contradiction.
	Variable_Map mixture = saved;
	mixture[kMissing] = "warning";
	fault(mixture, {}, Variable_Source::saved);
}

TEST_CASE("in a file every written setting counts, even one that equals its default") {
	fault({{kProfile, "session_error"}, {kFallback, "primary"}}, {}, Variable_Source::file);
	CHECK(built({{kProfile, "session_error"}, {kFallback, "error"}}, {}, Variable_Source::file)
	          .polardb_profile == "session_error");
	CHECK(built({{kFallback, "error"}}, {}, Variable_Source::file).polardb_profile == "custom");
	CHECK(built({{kProfile, "custom"}, {kFallback, "error"}}, {}, Variable_Source::file)
	          .polardb_action_read_fallback == "error");
}

TEST_CASE("global consistency does not go with a warning") {
	CHECK(fault({{kProfile, "custom"}, {kMode, "global_lsn"}, {kMissing, "warning"}}).find(kMode) ==
	      0);
	CHECK(fault({{kProfile, "custom"}, {kMode, "global_lsn"}, {kTimeout, "warning"}})
	          .find("lsn_timeout") != std::string::npos);
	built({{kProfile, "custom"}, {kMode, "global_lsn"}, {kTimeout, "disconnect"}});
	built({{kProfile, "custom"}, {kMode, "session_lsn"}, {kMissing, "warning"}});
}

TEST_CASE("session consistency needs a protocol, global consistency does not") {
	CHECK(fault({{kProfile, "custom"}, {kProtocol, "off"}}).find(kMode) == 0);
	built({{kProfile, "custom"}, {kMode, "global_lsn"}, {kProtocol, "off"}});
	built({{kProfile, "custom"}, {kMode, "eventual"}, {kProtocol, "off"}});
	built({{kProfile, "custom"}, {kMode, "session_lsn"}, {kProtocol, "stock"}});
}

TEST_CASE("a half-configured identity warns, and a port does not go away under its host") {
	const std::string host = "pgsql-polardb_proxy_identity_host";
	const std::string port = "pgsql-polardb_proxy_identity_port";
	const auto staged = build_pgsql_config({{host, "10.0.0.1"}}, Pgsql_Config{});
	REQUIRE(staged.ok());
	CHECK(staged.value().warnings.size() == 1);
	const auto whole = build_pgsql_config({{host, "10.0.0.1"}, {port, "6133"}}, Pgsql_Config{});
	REQUIRE(whole.ok());
	CHECK(whole.value().warnings.empty());
	fault({{host, "10.0.0.1"}, {port, "0"}}, *whole.value().config);
	built({{host, ""}, {port, "0"}}, *whole.value().config);
}

TEST_CASE("pairs are checked against the variables") {
	struct Case {
		const char* what;
		Variable_Map variables;
		Replication_Hostgroup_Row pair;
		bool good;
	};
	const auto pair = [](Check_Type type, Consistency_Mode mode, Proxy_Protocol protocol,
	                     bool split = false) {
		Replication_Hostgroup_Row row;
		row.writer_hostgroup = 1;
		row.reader_hostgroup = 2;
		row.check_type = type;
		row.consistency_mode = mode;
		row.proxy_protocol = protocol;
		row.txn_split_enabled = split;
		return row;
	};
	using M = Consistency_Mode;
	using P = Proxy_Protocol;
	constexpr auto kPolar = Check_Type::polardb;
	constexpr auto kPlain = Check_Type::read_only;
	const Variable_Map warning{{kProfile, "session_warning"}};
	const Variable_Map eventual{{kProfile, "eventual"}};
	const Case cases[] = {
	    {"all inherited", {}, pair(kPolar, M::inherit, P::inherit, true), true},
	    {"split without polardb", {}, pair(kPlain, M::inherit, P::inherit, true), false},
	    {"protocol off", {}, pair(kPolar, M::inherit, P::off), false},
	    {"protocol off, plain pair", {}, pair(kPlain, M::inherit, P::off), true},
	    {"protocol off, eventual", {}, pair(kPolar, M::eventual, P::off), true},
	    {"session on eventual", eventual, pair(kPolar, M::session_lsn, P::inherit), false},
	    {"session on eventual, plain", eventual, pair(kPlain, M::session_lsn, P::inherit), false},
	    {"session with own protocol", eventual, pair(kPolar, M::session_lsn, P::v15), true},
	    {"global under warning", warning, pair(kPolar, M::global_lsn, P::inherit), false},
	    {"session under warning", warning, pair(kPolar, M::session_lsn, P::inherit), true},
	};
	for (const Case& one : cases) {
		INFO(one.what);
		const Pgsql_Config config = built(one.variables);
		const auto result = check_consistency_policy(config, {one.pair});
		CHECK(result.ok() == one.good);
		if (!result.ok()) {
			CHECK(result.error().message.find("writer hostgroup 1") != std::string::npos);
		}
	}
}

TEST_CASE("enum words match the words the variables accept") {
	const auto compare = [](const char* variable, const std::string& words) {
		INFO(variable);
		const Variable_Info* info = find_variable(variable);
		REQUIRE(info != nullptr);
		std::string listed;
		for (const char letter : info->words) {
			listed += letter == '|' ? std::string(", ") : std::string(1, letter);
		}
		CHECK(listed == words);
	};
	compare("pgsql-polardb_read_target", words_of<Read_Target>());
	compare("pgsql-polardb_action_read_fallback", words_of<Read_Fallback_Action>());
	compare("pgsql-polardb_action_missing_lsn", words_of<Missing_Lsn_Action>());
	compare("pgsql-polardb_action_lsn_timeout", words_of<Lsn_Timeout_Action>());
	compare("pgsql-polardb_action_replica_error", words_of<Replica_Error_Action>());
	compare("pgsql-polardb_action_replica_loss", words_of<Replica_Loss_Action>());
	compare("pgsql-polardb_proxy_identity_mode", words_of<Proxy_Identity_Mode>());
	// These two know "default" besides, for pairs.
	CHECK(words_of<Consistency_Mode>() == "default, off, eventual, session_lsn, global_lsn");
	CHECK(words_of<Proxy_Protocol>() == "default, v15_wait, v15, legacy, off, auto, stock");
}

TEST_CASE("words of tables in both directions") {
	CHECK(word_of(Server_Status::offline_soft) == "OFFLINE_SOFT");
	CHECK(from_word<Server_Status>("offline_SOFT") == Server_Status::offline_soft);
	CHECK(word_of(Server_Status::shunned_lag) == "SHUNNED_REPLICATION_LAG");
	CHECK_FALSE(from_word<Server_Status>("SHUNNED_REPLICATION_LAG"));
	CHECK_FALSE(from_word<Server_Status>("ONLIN"));
	CHECK_FALSE(from_word<Server_Status>(""));
	CHECK(from_word<Check_Type>("POLARDB") == Check_Type::polardb);
	CHECK(from_word<Consistency_Mode>("default") == Consistency_Mode::inherit);
	CHECK(from_word<Consistency_Mode>("lsn_global") == Consistency_Mode::global_lsn);
	CHECK(from_word<Proxy_Protocol>("auto") == Proxy_Protocol::automatic);
}
