#include "monitor/Check_Log.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {
Check_Log_Row row(int64_t time_start_us, bool ok = true) {
	Check_Log_Row entry;
	entry.hostname = "a";
	entry.time_start_us = time_start_us;
	if (ok) {
		entry.success_time_us = 5;
	} else {
		entry.error = "no";
	}
	return entry;
}
} // namespace

TEST_CASE("rows older than the history go, counters stay") {
	Check_Log log;
	log.add(row(1'000'000), 1000);
	log.add(row(1'500'000, false), 1000);
	log.add(row(2'200'000), 1000);
	REQUIRE(log.rows().size() == 2);
	CHECK(log.rows()[0].time_start_us == 1'500'000);
	CHECK(log.ok_count() == 2);
	CHECK(log.error_count() == 1);
}

TEST_CASE("the number of rows is bounded whatever the history") {
	Check_Log log;
	for (size_t i = 0; i < Check_Log::kMaxRows + 10; ++i) {
		log.add(row(static_cast<int64_t>(i)), INT64_C(604'800'000));
	}
	const std::vector<Check_Log_Row> rows = log.rows();
	CHECK(rows.size() == Check_Log::kMaxRows);
	CHECK(rows.front().time_start_us == 10);
}
