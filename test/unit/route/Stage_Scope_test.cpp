#include "Route_Test_Kit.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::route_test;

TEST_CASE("without a pair nothing is automatic") {
	Scene scene;
	scene.request.default_hostgroup = kPlain;
	CHECK(scene.plan().hostgroup == kPlain);
	CHECK(scene.plan().reason == Route_Reason::no_pair);
	scene.request.default_hostgroup = kReader; // a user who only reads
	CHECK(scene.plan().hostgroup == kReader);
	CHECK_FALSE(scene.plan().to_reader);
	scene.request.default_hostgroup = 12345; // not configured at all
	CHECK(scene.plan().hostgroup == 12345);
}

TEST_CASE("mode off leaves reads where they are") {
	Scene scene(Consistency_Mode::off);
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK(scene.plan().reason == Route_Reason::mode_off);
}

TEST_CASE("hint beats session beats pair") {
	Scene scene(Consistency_Mode::off);
	scene.request.session_consistency = Consistency_Mode::eventual;
	CHECK(scene.plan().to_reader);
	scene.request.session_consistency = Consistency_Mode::off;
	CHECK(scene.plan().reason == Route_Reason::mode_off);
	scene.request.hints.consistency = "eventual";
	CHECK(scene.plan().to_reader);
	scene.request.write_lsn = 9;
	scene.request.hints.consistency = "session";
	CHECK(scene.plan().target_lsn == 9);
	scene.request.hints.consistency = "nonsense"; // ignored
	CHECK(scene.plan().reason == Route_Reason::mode_off);
}
