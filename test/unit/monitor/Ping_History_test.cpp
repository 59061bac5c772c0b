#include "monitor/Ping_History.h"

#include <catch2/catch.hpp>

using namespace proxy;
using Change = Ping_History::Change;

TEST_CASE("a server is dead after as many failures in a row as configured") {
	Ping_History pings;
	CHECK(pings.on_failure(3) == Change::none);
	CHECK(pings.on_failure(3) == Change::none);
	CHECK(pings.on_success(100) == Change::none); // starts anew
	CHECK(pings.on_failure(3) == Change::none);
	CHECK(pings.on_failure(3) == Change::none);
	CHECK_FALSE(pings.dead());
	CHECK(pings.on_failure(3) == Change::died);
	CHECK(pings.dead());
	CHECK(pings.on_failure(3) == Change::none); // said once
	CHECK(pings.on_success(100) == Change::recovered);
	CHECK_FALSE(pings.dead());
	CHECK(pings.on_success(100) == Change::none);
}

TEST_CASE("death is known within two seconds when every attempt fails at once") {
	Ping_History pings;
	int64_t elapsed_us = 0;
	while (pings.on_failure(3) != Change::died) {
		elapsed_us += pings.retry_us();
	}
	CHECK(elapsed_us < 2'000'000);
	CHECK(pings.retry_us() == Ping_History::kDeadRetryUs);
}

TEST_CASE("latency is the average of the last three") {
	Ping_History pings;
	CHECK(pings.latency_us() == 0);
	pings.on_success(100);
	CHECK(pings.latency_us() == 100);
	pings.on_success(200);
	CHECK(pings.latency_us() == 150);
	pings.on_success(300);
	pings.on_success(400);
	CHECK(pings.latency_us() == 300);
}

TEST_CASE("an answer that refuses us is a sign of life, going down is not") {
	CHECK(counts_as_dead(""));
	CHECK(counts_as_dead("57P01"));
	CHECK(counts_as_dead("57P03"));
	CHECK_FALSE(counts_as_dead("28P01"));
	CHECK_FALSE(counts_as_dead("53300"));
	CHECK_FALSE(counts_as_dead("3D000"));
	CHECK_FALSE(counts_as_dead("57014")); // a cancelled statement
}
