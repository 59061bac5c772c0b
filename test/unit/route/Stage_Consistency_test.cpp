#include "Route_Test_Kit.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::route_test;

TEST_CASE("eventual reads go to a replica whatever is known") {
	Scene scene(Consistency_Mode::eventual,
	            GENERATE(Proxy_Protocol::off, Proxy_Protocol::v15, Proxy_Protocol::stock));
	scene.request.write_lsn = 100;
	scene.request.write_unknown = true;
	const Route_Plan plan = scene.plan();
	CHECK(plan.hostgroup == kReader);
	CHECK(plan.to_reader);
	CHECK(plan.fallback_hostgroup == kWriter);
	CHECK(plan.wait == Wait_Kind::none);
	CHECK(plan.target_lsn == 0);
	CHECK(plan.reason == Route_Reason::read_to_replica);
}

TEST_CASE("a session's read waits for the higher of what it wrote and saw") {
	Scene scene;
	scene.request.write_lsn = 100;
	scene.request.observed_lsn = 150;
	const Route_Plan plan = scene.plan();
	CHECK(plan.hostgroup == kReader);
	CHECK(plan.wait == Wait_Kind::target);
	CHECK(plan.target_lsn == 150);
	CHECK(plan.wait_timeout_ms == 1000);
	CHECK(plan.reason == Route_Reason::read_with_wait);
	scene.request.write_lsn = 200;
	CHECK(scene.plan().target_lsn == 200);
	scene.request.extended = true;
	CHECK(scene.plan().target_lsn == 200);
}

TEST_CASE("a session that has seen nothing reads from a replica without a wait") {
	Scene scene;
	CHECK(scene.plan().to_reader);
	CHECK(scene.plan().wait == Wait_Kind::none);
	CHECK(scene.plan().reason == Route_Reason::read_to_replica);
}

TEST_CASE("positions of another epoch are dropped, an unknown write is not") {
	Scene scene;
	scene.request.write_lsn = 100;
	scene.request.observed_unknown = true;
	scene.request.lsn_epoch = kEpoch - 1;
	CHECK(scene.plan().to_reader);
	CHECK(scene.plan().target_lsn == 0);
	scene.request.write_unknown = true;
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK(scene.plan().reason == Route_Reason::write_lsn_unknown);
}

TEST_CASE("unknown positions keep the read on the writer") {
	Scene scene;
	scene.request.observed_unknown = true;
	CHECK(scene.plan().reason == Route_Reason::observed_lsn_unknown);
	scene.request.write_unknown = true;
	CHECK(scene.plan().reason == Route_Reason::write_lsn_unknown);
	CHECK(scene.plan().hostgroup == kWriter);
}

TEST_CASE("a pair whose replicas cannot wait is read on the writer") {
	struct Case {
		Proxy_Protocol protocol;
		uint32_t capabilities;
		bool to_reader;
	};
	const Case cases[] = {
	    {Proxy_Protocol::off, 0, false},
	    {Proxy_Protocol::stock, kCapabilityProbed, false},
	    {Proxy_Protocol::automatic, 0, false},
	    {Proxy_Protocol::automatic, kCapabilityProbed, false},
	    {Proxy_Protocol::automatic, kCapabilityBoundedWait, false}, // not probed
	    {Proxy_Protocol::automatic, kCapabilityProbed | kCapabilityBoundedWait, true},
	    {Proxy_Protocol::automatic, kCapabilityProbed | kCapabilityInbandWait, true},
	    {Proxy_Protocol::legacy, 0, true},
	    {Proxy_Protocol::v15, 0, true},
	    {Proxy_Protocol::v15_wait, 0, true},
	};
	for (const Case& test : cases) {
		INFO(static_cast<int>(test.protocol) << " " << test.capabilities);
		Scene scene(Consistency_Mode::session_lsn, test.protocol);
		scene.replica->health->capabilities.store(test.capabilities);
		const Route_Plan plan = scene.plan();
		CHECK(plan.to_reader == test.to_reader);
		if (!test.to_reader) {
			CHECK(plan.hostgroup == kWriter);
			CHECK(plan.reason == Route_Reason::dialect_unsupported);
		}
	}
}

TEST_CASE("global reads wait for the primary's known position") {
	Scene scene(Consistency_Mode::global_lsn);
	CHECK(scene.plan().reason == Route_Reason::group_lsn_unknown);
	CHECK(scene.plan().hostgroup == kWriter);
	scene.primary->health->note_lsn(1000, 1);
	CHECK(scene.plan().target_lsn == 1000);
	scene.request.write_lsn = 1200;
	CHECK(scene.plan().target_lsn == 1200);
	// A server that merely claims to be primary says nothing.
	scene.primary->health->fenced.store(true);
	CHECK(scene.plan().reason == Route_Reason::group_lsn_unknown);
}

TEST_CASE("a hint sets the wait's bound") {
	Scene scene;
	scene.request.write_lsn = 1;
	scene.request.hints.wait_timeout_ms = 25;
	CHECK(scene.plan().wait_timeout_ms == 25);
	scene.request.hints.wait_timeout_ms = 0;
	CHECK(scene.plan().wait_timeout_ms == 0);
}
