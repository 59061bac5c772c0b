#include "Route_Test_Kit.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::route_test;

TEST_CASE("an open transaction stays on its own connection, reads included") {
	Scene scene;
	scene.request.in_transaction = true;
	scene.request.transaction_hostgroup = kWriter;
	const Route_Plan plan = scene.plan();
	CHECK(plan.keep_connection);
	CHECK(plan.hostgroup == kWriter);
	CHECK(plan.reason == Route_Reason::in_transaction);
	CHECK_FALSE(plan.to_reader);
}

TEST_CASE("a failed transaction is answered by its own server only") {
	Scene scene;
	scene.request.failed_transaction = true;
	scene.request.transaction_hostgroup = kReader;
	scene.rules.destination_hostgroup = kPlain;
	scene.request.transaction_persistent = false;
	const Route_Plan plan = scene.plan();
	CHECK(plan.keep_connection);
	CHECK(plan.hostgroup == kReader);
	CHECK(plan.reason == Route_Reason::failed_transaction);
}

TEST_CASE("a pinned session stays where it is, until it has lost its connection") {
	Scene scene;
	scene.request.pinned = kStickyTempTable;
	scene.request.transaction_hostgroup = kWriter;
	CHECK(scene.plan().keep_connection);
	CHECK(scene.plan().reason == Route_Reason::pinned);
	scene.request.transaction_hostgroup = -1;
	CHECK_FALSE(scene.plan().keep_connection);
}

TEST_CASE("a rule leads out of a transaction only with transaction_persistent off") {
	Scene scene;
	scene.request.in_transaction = true;
	scene.request.transaction_hostgroup = kWriter;
	scene.rules.destination_hostgroup = kPlain;
	CHECK(scene.plan().keep_connection);
	scene.request.transaction_persistent = false;
	CHECK_FALSE(scene.plan().keep_connection);
	CHECK(scene.plan().hostgroup == kPlain);
	CHECK(scene.plan().reason == Route_Reason::rule_hostgroup);
	// Automatic routing never does, and a rule for the hostgroup it is in changes nothing.
	scene.rules.replica_eligible = 1;
	CHECK(scene.plan().keep_connection);
	scene.rules.replica_eligible = -1;
	scene.rules.destination_hostgroup = kWriter;
	CHECK(scene.plan().keep_connection);
}

TEST_CASE("a hint does not lead out of a transaction") {
	Scene scene;
	scene.request.in_transaction = true;
	scene.request.transaction_hostgroup = kReader;
	scene.request.hints.route = Route_Hint::primary;
	CHECK(scene.plan().keep_connection);
	CHECK(scene.plan().hostgroup == kReader);
}
