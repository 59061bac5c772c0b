// Every expectation here is exact: chance comes from a seed.
#include "Pool_Test_Kit.h"
#include "pool/Reader_Selection.h"

#include <catch2/catch.hpp>
#include <map>

using namespace proxy;
using namespace proxy::pool_test;

namespace {

Hostgroup group_of(std::vector<Server_Ptr> servers) {
	Hostgroup_View view;
	view.hostgroups.push_back(Hostgroup{});
	view.hostgroups[0].servers = std::move(servers);
	view.index();
	return view.hostgroups[0];
}

Hostgroup equal_group(int count) {
	std::vector<Server_Ptr> servers;
	for (int i = 0; i < count; ++i) {
		servers.push_back(make_server(i));
	}
	return group_of(std::move(servers));
}

// Ports chosen in `rounds` requests.
std::vector<int> ports(const Hostgroup& group, int rounds, const Reader_Request& request = {},
                       uint64_t seed = 42) {
	Selection_State state;
	Random_Source random(seed);
	std::vector<int> chosen;
	for (int i = 0; i < rounds; ++i) {
		const Reader_Choice choice = choose_server(group, request, state, random);
		chosen.push_back(choice.server == nullptr ? -1 : choice.server->port);
	}
	return chosen;
}

std::map<int, int> tally(const std::vector<int>& chosen) {
	std::map<int, int> counts;
	for (const int port : chosen) {
		++counts[port];
	}
	return counts;
}

Reader_Choice choose(const Hostgroup& group, const Reader_Request& request = {}) {
	Selection_State state;
	Random_Source random(1);
	return choose_server(group, request, state, random);
}

} // namespace

TEST_CASE("an empty hostgroup offers nothing") {
	const Reader_Choice choice = choose(Hostgroup{});
	CHECK(choice.server == nullptr);
	CHECK(choice.why == Reader_Choice::Why::none_online);
}

TEST_CASE("one candidate is taken") {
	CHECK(ports(equal_group(1), 3) == std::vector<int>{0, 0, 0});
}

TEST_CASE("two equal readers alternate, whatever their load") {
	const Hostgroup group = equal_group(2);
	group.servers[0]->used.store(50);
	CHECK(ports(group, 6) == std::vector<int>{1, 0, 1, 0, 1, 0});
}

TEST_CASE("two readers with weights are interleaved in proportion") {
	const Hostgroup group = group_of({make_server(0, 3), make_server(1, 1)});
	CHECK(ports(group, 8) == std::vector<int>{1, 0, 0, 0, 1, 0, 0, 0});
	const Hostgroup scaled = group_of({make_server(0, 3'000'000), make_server(1, 1'000'000)});
	CHECK(ports(scaled, 8) == ports(group, 8));
}

TEST_CASE("of two readers the one that reached the target is taken") {
	const Hostgroup group = equal_group(2);
	group.servers[0]->health->note_lsn(90, 1);
	group.servers[1]->health->note_lsn(100, 1);
	Reader_Request request;
	request.target_lsn = 100;
	CHECK(ports(group, 4, request) == std::vector<int>{1, 1, 1, 1});
	CHECK(choose(group, request).at_target);
	request.target_lsn = 90; // both
	CHECK(ports(group, 4, request) == std::vector<int>{1, 0, 1, 0});
	request.target_lsn = 101; // neither: alternation, and the caller must wait
	CHECK(ports(group, 4, request) == std::vector<int>{1, 0, 1, 0});
	CHECK_FALSE(choose(group, request).at_target);
}

TEST_CASE("three and more: the less loaded of two draws wins") {
	const Hostgroup group = equal_group(3);
	group.servers[0]->used.store(90);
	group.servers[1]->used.store(90);
	// Server 2 loses only the draws that leave it out: one pair in three.
	const std::map<int, int> counts = tally(ports(group, 3000));
	CHECK(counts.at(2) > 1900);
	CHECK(counts.at(2) < 2100);
}

TEST_CASE("load is compared by weight") {
	const Hostgroup group = group_of({make_server(0, 1), make_server(1, 1), make_server(2, 1000)});
	group.servers[0]->used.store(1);
	group.servers[1]->used.store(1);
	group.servers[2]->used.store(50); // 0.05 a weight
	const std::map<int, int> counts = tally(ports(group, 1000));
	CHECK(counts.at(2) > 990);
}

TEST_CASE("among three the ones that reached the target are preferred") {
	const Hostgroup group = equal_group(4);
	group.servers[1]->health->note_lsn(100, 1);
	group.servers[3]->health->note_lsn(100, 1);
	group.servers[1]->used.store(5);
	Reader_Request request;
	request.target_lsn = 100;
	CHECK(ports(group, 4, request) == std::vector<int>{3, 3, 3, 3});
	group.servers[1]->used.store(0);
	const std::map<int, int> counts = tally(ports(group, 1000, request));
	CHECK(counts.size() == 2);
	CHECK(counts.at(1) > 400);
	CHECK(counts.at(3) > 400);
}

TEST_CASE("the same seed gives the same choices") {
	const Hostgroup group = equal_group(5);
	CHECK(ports(group, 50, {}, 7) == ports(group, 50, {}, 7));
	CHECK(ports(group, 50, {}, 7) != ports(group, 50, {}, 8));
}

TEST_CASE("what must not be chosen never is") {
	const int count = GENERATE(2, 3, 12, 40); // each of the ways through the selection
	Hostgroup group = equal_group(count);
	PgSQL_SrvC& bad = *group.servers[1];
	Reader_Request request;
	// The same server in another hostgroup; outlives the request that names it.
	const auto twin = std::make_shared<PgSQL_SrvC>(9, "10.0.0.1", 1, bad.health);
	SECTION("weight 0") {
		bad.weight.store(0);
	}
	SECTION("max_connections 0") {
		bad.max_connections.store(0);
	}
	SECTION("full") {
		bad.used.store(100);
	}
	SECTION("shunned") {
		bad.status.store(Server_Status::shunned);
	}
	SECTION("lagging") {
		bad.status.store(Server_Status::shunned_lag);
	}
	SECTION("draining") {
		bad.status.store(Server_Status::offline_soft);
	}
	SECTION("too slow") {
		bad.max_latency_us.store(1000);
		bad.health->latency_us.store(1001);
	}
	SECTION("fenced") {
		bad.health->fenced.store(true);
	}
	SECTION("excluded") {
		request.excluded = &bad;
	}
	SECTION("excluded under another hostgroup") {
		request.excluded = twin.get();
	}
	SECTION("the primary, for automatic reads") {
		request.replicas_only = true;
		bad.health->role.store(Server_Role::primary);
	}
	SECTION("the pair's writer before its role is known") {
		request.replicas_only = true;
		bad.is_writer.store(true);
	}
	SECTION("without what the read needs") {
		request.required_capabilities = kCapabilityBoundedWait;
		bad.health->capabilities.store(kCapabilityProbed | kCapabilityLsnRfq);
	}
	SECTION("a position that is too old, unknown or too far back") {
		request.max_lag_bytes = 10;
		request.group_lsn = 1000;
		request.now_us = 100'000'000;
		for (const Server_Ptr& server : group.servers) {
			server->health->note_lsn(995, request.now_us);
		}
		SECTION("too old") {
			bad.health->note_lsn(995, request.now_us - request.max_sample_age_us - 1);
		}
		SECTION("unknown") {
			bad.health->forget_lsn();
		}
		SECTION("too far back") {
			bad.health->forget_lsn();
			bad.health->note_lsn(989, request.now_us);
		}
	}
	const std::map<int, int> counts = tally(ports(group, 500, request));
	CHECK(counts.count(1) == 0);
	CHECK(counts.count(-1) == 0);
	CHECK(counts.size() == static_cast<size_t>(count - 1));
}

TEST_CASE("the primary serves automatic reads when nothing else is left") {
	const Hostgroup group = equal_group(2);
	group.servers[0]->health->role.store(Server_Role::primary);
	Reader_Request request;
	request.replicas_only = true;
	request.primary_if_alone = true;
	CHECK(choose(group, request).server->port == 1);
	group.servers[1]->status.store(Server_Status::shunned);
	CHECK(choose(group, request).server->port == 0);
	request.primary_if_alone = false;
	CHECK(choose(group, request).server == nullptr);
}

TEST_CASE("when all are full the shortest queue is named for parking") {
	const Hostgroup group = equal_group(3);
	for (const Server_Ptr& server : group.servers) {
		server->used.store(100);
		server->waiting.store(4);
	}
	group.servers[2]->waiting.store(3);
	const Reader_Choice choice = choose(group);
	CHECK(choice.why == Reader_Choice::Why::all_busy);
	CHECK(choice.server == group.servers[2].get());
}

TEST_CASE("all lagging is told from none online") {
	const Hostgroup group = equal_group(2);
	Reader_Request request;
	request.max_lag_bytes = 10;
	request.group_lsn = 1000;
	CHECK(choose(group, request).why == Reader_Choice::Why::all_lagging);
	group.servers[0]->status.store(Server_Status::offline_hard);
	group.servers[1]->status.store(Server_Status::offline_hard);
	CHECK(choose(group, request).why == Reader_Choice::Why::none_online);
}

TEST_CASE("big hostgroups spread by weight and by load") {
	std::vector<Server_Ptr> servers;
	for (int i = 0; i < 50; ++i) {
		servers.push_back(make_server(i, i < 25 ? 3 : 1));
	}
	const Hostgroup group = group_of(std::move(servers));
	int heavy = 0;
	for (const int port : ports(group, 10'000)) {
		heavy += port < 25 ? 1 : 0;
	}
	CHECK(heavy > 7300); // 3 of 4
	CHECK(heavy < 7700);
}

TEST_CASE("weights and loads at their limits do not overflow") {
	const Hostgroup group = group_of({make_server(0, INT64_MAX / 4, INT64_MAX),
	                                  make_server(1, INT64_MAX / 4, INT64_MAX),
	                                  make_server(2, INT64_MAX / 4, INT64_MAX)});
	group.servers[0]->used.store(INT64_MAX / 2);
	const std::map<int, int> counts = tally(ports(group, 300));
	CHECK(counts.count(-1) == 0);
	CHECK(counts.count(0) == 0);
}

TEST_CASE("a read never lands on a server that is known to be behind when another is not") {
	Random_Source dice(99);
	for (int round = 0; round < 3000; ++round) {
		const int count = 1 + static_cast<int>(dice.below(14));
		const Hostgroup group = equal_group(count);
		Reader_Request request;
		request.target_lsn = 1 + dice.below(20);
		request.replicas_only = dice.below(2) == 0;
		bool possible = false;
		for (const Server_Ptr& server : group.servers) {
			server->health->note_lsn(dice.below(20), 1);
			if (dice.below(4) == 0) {
				server->status.store(Server_Status::shunned);
			}
			if (dice.below(8) == 0) {
				server->health->role.store(Server_Role::primary);
			}
			const bool primary = server->health->role.load() == Server_Role::primary;
			const bool candidate = server->status.load() == Server_Status::online &&
			                       !(request.replicas_only && primary);
			possible |= candidate && (primary || server->health->lsn() >= request.target_lsn);
		}
		const Reader_Choice choice = choose(group, request);
		if (possible) {
			REQUIRE(choice.server != nullptr);
			REQUIRE(choice.at_target);
		}
		if (choice.server != nullptr && choice.at_target) {
			const bool primary = choice.server->health->role.load() == Server_Role::primary;
			REQUIRE((primary || choice.server->health->lsn() >= request.target_lsn));
		}
	}
}
