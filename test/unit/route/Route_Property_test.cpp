// What holds for every request, tried on many.
#include "Route_Test_Kit.h"
#include "pool/Reader_Selection.h" // Random_Source

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

using namespace proxy;
using namespace proxy::route_test;

namespace {

template <typename Value> Value any_of(Random_Source& random, std::initializer_list<Value> values) {
	return values.begin()[random.below(values.size())];
}

bool coin(Random_Source& random) {
	return random.below(2) == 0;
}

Scene any_scene(Random_Source& random) {
	Scene scene(any_of(random, {Consistency_Mode::off, Consistency_Mode::eventual,
	                            Consistency_Mode::session_lsn, Consistency_Mode::global_lsn}),
	            any_of(random, {Proxy_Protocol::off, Proxy_Protocol::legacy, Proxy_Protocol::v15,
	                            Proxy_Protocol::v15_wait, Proxy_Protocol::automatic,
	                            Proxy_Protocol::stock}));
	scene.primary->health->note_lsn(random.below(100), 1);
	scene.replica->health->capabilities.store(
	    coin(random) ? 0 : kCapabilityProbed | kCapabilityBoundedWait);
	scene.statement.veto =
	    coin(random) ? Read_Veto::none : static_cast<Read_Veto>(random.below(13));
	scene.statement.may_write = scene.statement.veto != Read_Veto::none || random.below(10) == 0;
	scene.rules.replica_eligible = static_cast<int>(random.below(3)) - 1;
	scene.rules.destination_hostgroup = any_of(random, {-1, -1, kWriter, kReader, kPlain});
	Route_Request& request = scene.request;
	request.default_hostgroup = any_of(random, {kWriter, kWriter, kReader, kPlain});
	request.extended = coin(random);
	request.in_transaction = random.below(4) == 0;
	request.failed_transaction = request.in_transaction && coin(random);
	request.transaction_persistent = coin(random);
	request.transaction_hostgroup =
	    request.in_transaction || coin(random) ? any_of(random, {kWriter, kReader}) : -1;
	request.pinned = random.below(5) == 0 ? uint32_t{kStickyListen} : 0;
	request.mode =
	    any_of(random, {Route_Mode::automatic, Route_Mode::primary, Route_Mode::replica});
	request.session_consistency =
	    any_of(random, {Consistency_Mode::inherit, Consistency_Mode::inherit,
	                    Consistency_Mode::eventual, Consistency_Mode::session_lsn,
	                    Consistency_Mode::global_lsn, Consistency_Mode::off});
	request.hints.route = any_of(random, {Route_Hint::none, Route_Hint::none, Route_Hint::primary,
	                                      Route_Hint::replica, Route_Hint::hostgroup});
	request.hints.hostgroup = any_of(random, {kWriter, kReader, kPlain, 999});
	request.hints.consistency =
	    any_of<const char*>(random, {"", "", "eventual", "session", "global"});
	request.write_lsn = random.below(100);
	request.observed_lsn = random.below(100);
	request.write_unknown = random.below(5) == 0;
	request.observed_unknown = random.below(5) == 0;
	request.lsn_epoch = random.below(5) == 0 ? kEpoch - 1 : kEpoch;
	request.read_target_primary = random.below(5) == 0;
	return scene;
}

// Somebody has named this hostgroup himself, or the session is bound to it.
bool chosen_by_hand(const Route_Plan& plan) {
	return plan.keep_connection || plan.reason == Route_Reason::rule_hostgroup;
}

} // namespace

TEST_CASE("routing keeps its promises for any request") {
	Random_Source random(2024);
	std::set<Route_Reason> seen;
	for (int round = 0; round < 100'000; ++round) {
		Scene scene = any_scene(random);
		const Route_Plan plan = scene.plan();
		const Route_Request& request = scene.request;
		const bool read = scene.statement.is_read() && !scene.statement.may_write;
		seen.insert(plan.reason);

		// A write never gets a reader plan, nor the reader hostgroup by any automatic way.
		if (!read) {
			REQUIRE_FALSE(plan.to_reader);
			const bool home_is_reader = request.default_hostgroup == kReader;
			if (!chosen_by_hand(plan) && !home_is_reader) {
				const bool hinted_read =
				    plan.reason == Route_Reason::hint_hostgroup && scene.statement.is_read();
				REQUIRE((plan.hostgroup != kReader || hinted_read));
			}
		}
		// A read never lands below its target.
		if (plan.to_reader) {
			REQUIRE(plan.hostgroup == kReader);
			REQUIRE(plan.fallback_hostgroup == kWriter);
			REQUIRE_FALSE(plan.keep_connection);
			REQUIRE_FALSE((request.in_transaction && request.transaction_hostgroup >= 0));
			REQUIRE((plan.wait == Wait_Kind::target) == (plan.target_lsn != 0));
			const std::string& hint = request.hints.consistency;
			Consistency_Mode mode = hint == "eventual"  ? Consistency_Mode::eventual
			                        : hint == "session" ? Consistency_Mode::session_lsn
			                        : hint == "global"  ? Consistency_Mode::global_lsn
			                                            : request.session_consistency;
			if (mode == Consistency_Mode::inherit) {
				mode = scene.view.pairs[0].consistency;
			}
			if (mode == Consistency_Mode::session_lsn || mode == Consistency_Mode::global_lsn) {
				REQUIRE_FALSE(request.write_unknown);
				if (request.lsn_epoch == kEpoch) {
					REQUIRE_FALSE(request.observed_unknown);
					REQUIRE(plan.target_lsn >= request.write_lsn);
					REQUIRE(plan.target_lsn >= request.observed_lsn);
				}
			}
			if (mode == Consistency_Mode::global_lsn) {
				REQUIRE(plan.target_lsn >= scene.primary->health->lsn());
			}
		} else {
			REQUIRE(plan.wait == Wait_Kind::none);
			REQUIRE(plan.target_lsn == 0);
		}
		// A session that is bound stays bound.
		if (request.transaction_hostgroup >= 0 &&
		    (request.failed_transaction || request.pinned != 0)) {
			REQUIRE(plan.keep_connection);
		}
		if (plan.keep_connection) {
			REQUIRE(plan.hostgroup == request.transaction_hostgroup);
		}
		// The same question gets the same answer, and the trace names who gave it.
		std::vector<Route_Step> trace;
		const Route_Plan again = plan_route(request, scene.view, trace);
		REQUIRE(again.reason == plan.reason);
		REQUIRE(again.hostgroup == plan.hostgroup);
		REQUIRE(again.target_lsn == plan.target_lsn);
		REQUIRE(trace.back().decided);
		REQUIRE(std::count_if(trace.begin(), trace.end(),
		                      [](const Route_Step& step) { return step.decided; }) == 1);
	}
	CHECK(seen.size() >= 24); // the scenes reach nearly every way out
}

TEST_CASE("every reason has a name of its own and a line of documentation") {
	std::set<std::string> names;
	for (size_t i = 0; i < kRouteReasonCount; ++i) {
		const Route_Reason reason = static_cast<Route_Reason>(i);
		CHECK(names.insert(name_of(reason)).second);
		CHECK(std::strlen(doc_of(reason)) > 10);
	}
	CHECK(std::string(name_of(Route_Reason::read_with_wait)) == "read_with_wait");
	CHECK(std::string(name_of(Route_Reason::count_)) == "unknown");
}
