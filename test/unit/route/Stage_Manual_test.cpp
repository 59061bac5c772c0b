#include "Route_Test_Kit.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::route_test;

namespace {
struct Case {
	const char* name;
	int replica_eligible;
	int destination;
	bool read;
	int hostgroup;
	bool to_reader;
	Route_Reason reason;
};

constexpr Case kRuleCases[] = {
    {"no rule, read", -1, -1, true, kReader, true, Route_Reason::read_to_replica},
    {"no rule, write", -1, -1, false, kWriter, false, Route_Reason::write},
    {"manual to the reader", -1, kReader, true, kReader, false, Route_Reason::rule_hostgroup},
    {"manual, even for a write", -1, kReader, false, kReader, false, Route_Reason::rule_hostgroup},
    {"manual elsewhere", -1, kPlain, true, kPlain, false, Route_Reason::rule_hostgroup},
    {"writer", 0, -1, true, kWriter, false, Route_Reason::rule_writer},
    {"writer, named by its reader", 0, kReader, true, kWriter, false, Route_Reason::rule_writer},
    {"writer elsewhere", 0, kPlain, true, kPlain, false, Route_Reason::rule_writer},
    {"automatic", 1, -1, true, kReader, true, Route_Reason::read_to_replica},
    {"automatic, reader named", 1, kReader, true, kReader, true, Route_Reason::read_to_replica},
    {"automatic, reader named, write", 1, kReader, false, kWriter, false, Route_Reason::write},
    {"automatic outside any pair", 1, kPlain, true, kPlain, false, Route_Reason::no_pair},
};
} // namespace

TEST_CASE("rules: manual, writer, automatic") {
	for (const Case& test : kRuleCases) {
		INFO(test.name);
		Scene scene;
		scene.rules.replica_eligible = test.replica_eligible;
		scene.rules.destination_hostgroup = test.destination;
		scene.statement = test.read ? a_read() : a_write();
		const Route_Plan plan = scene.plan();
		CHECK(plan.hostgroup == test.hostgroup);
		CHECK(plan.to_reader == test.to_reader);
		CHECK(plan.reason == test.reason);
	}
}

TEST_CASE("the primary hint keeps a read on the writer") {
	Scene scene;
	scene.request.hints.route = Route_Hint::primary;
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK(scene.plan().reason == Route_Reason::hint_primary);
}

TEST_CASE("the replica hint moves reads and never writes") {
	const Consistency_Mode mode =
	    GENERATE(Consistency_Mode::off, Consistency_Mode::eventual, Consistency_Mode::session_lsn);
	Scene scene(mode);
	scene.request.hints.route = Route_Hint::replica;
	scene.request.read_target_primary = true;
	scene.request.mode = Route_Mode::primary;
	CHECK(scene.plan().to_reader);
	scene.statement = a_write();
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK_FALSE(scene.plan().to_reader);
}

TEST_CASE("the replica hint does not skip the wait") {
	Scene scene;
	scene.request.hints.route = Route_Hint::replica;
	scene.request.write_lsn = 500;
	CHECK(scene.plan().target_lsn == 500);
	scene.request.write_unknown = true;
	CHECK(scene.plan().hostgroup == kWriter);
}

TEST_CASE("the hostgroup hint is obeyed for reads and turned to the writer for the rest") {
	Scene scene;
	scene.request.hints.route = Route_Hint::hostgroup;
	scene.request.hints.hostgroup = kReader;
	CHECK(scene.plan().hostgroup == kReader);
	CHECK(scene.plan().reason == Route_Reason::hint_hostgroup);
	scene.statement = a_write();
	CHECK(scene.plan().hostgroup == kWriter);
	scene.statement = Statement_Class{}; // not parsed
	CHECK(scene.plan().hostgroup == kWriter);
	scene.request.hints.hostgroup = 999; // unknown: as if not said
	CHECK(scene.plan().reason == Route_Reason::unparsed);
}

TEST_CASE("rules come before hints") {
	Scene scene;
	scene.rules.destination_hostgroup = kPlain;
	scene.request.hints.route = Route_Hint::primary;
	CHECK(scene.plan().hostgroup == kPlain);
}

TEST_CASE("a session can ask for the primary or for replicas") {
	Scene scene;
	scene.request.mode = Route_Mode::primary;
	CHECK(scene.plan().reason == Route_Reason::session_primary);
	CHECK(scene.plan().hostgroup == kWriter);
	scene.request.mode = Route_Mode::replica;
	scene.request.read_target_primary = true;
	CHECK(scene.plan().to_reader);
}
