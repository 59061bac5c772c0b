// The digest statistics: sums, limits, and nothing lost or counted twice while others read.
#include "classify/Query_Digest_Stats.h"
#include "classify/Query_Processor.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace proxy;

namespace {

Statement_Analysis statement(uint64_t digest) {
	Statement_Analysis analysis;
	analysis.digest = digest;
	analysis.digest_text = "SELECT " + std::to_string(digest);
	return analysis;
}

Query_Digest_Event event(int64_t time_us, int64_t now_s = 1000) {
	Query_Digest_Event result;
	result.hostgroup = 1;
	result.database = "shop";
	result.username = "app";
	result.time_us = time_us;
	result.now_s = now_s;
	result.rows_affected = 2;
	result.rows_sent = 3;
	return result;
}

} // namespace

TEST_CASE("executions of one digest add up") {
	Query_Digest_Stats stats;
	stats.add(statement(7), event(50, 100));
	stats.add(statement(7), event(700, 130));
	stats.add(statement(7), event(20000000, 120));
	const std::vector<Query_Digest_Row> rows = stats.copy();
	REQUIRE(rows.size() == 1);
	const Query_Digest_Row& row = rows[0];
	CHECK(row.count_star == 3);
	CHECK(row.digest == 7);
	CHECK(row.digest_text == "SELECT 7");
	CHECK(row.database == "shop");
	CHECK(row.username == "app");
	CHECK(row.hostgroup == 1);
	CHECK(row.first_seen_s == 100);
	CHECK(row.last_seen_s == 130);
	CHECK(row.sum_time_us == 20000750);
	CHECK(row.min_time_us == 50);
	CHECK(row.max_time_us == 20000000);
	CHECK(row.sum_rows_affected == 6);
	CHECK(row.sum_rows_sent == 9);
	CHECK(row.buckets[0] == 1);
	CHECK(row.buckets[2] == 1);
	CHECK(row.buckets[kDigestBucketCount - 1] == 1);
}

TEST_CASE("every part of the key makes a row of its own") {
	Query_Digest_Stats stats;
	Query_Digest_Event other = event(1);
	stats.add(statement(1), other);
	other.hostgroup = 2;
	stats.add(statement(1), other);
	other.database = "bank";
	stats.add(statement(1), other);
	other.username = "bob";
	stats.add(statement(1), other);
	other.client_address = "10.0.0.1";
	stats.add(statement(1), other);
	stats.add(statement(2), other);
	stats.add(statement(2), other);
	CHECK(stats.copy().size() == 6);
	CHECK(stats.memory_bytes() > 6 * sizeof(Query_Digest_Row));
}

TEST_CASE("take empties, copy does not") {
	Query_Digest_Stats stats;
	stats.add(statement(1), event(1));
	CHECK(stats.copy().size() == 1);
	CHECK(stats.copy().size() == 1);
	CHECK(stats.take().size() == 1);
	CHECK(stats.take().empty());
	CHECK(stats.copy().empty());
	stats.add(statement(1), event(1));
	CHECK(stats.take().at(0).count_star == 1);
}

TEST_CASE("rows of several workers merge by key") {
	Query_Digest_Stats first;
	Query_Digest_Stats second;
	first.add(statement(1), event(10, 50));
	first.add(statement(2), event(20, 50));
	second.add(statement(1), event(5, 40));
	second.add(statement(1), event(30, 60));
	std::vector<std::vector<Query_Digest_Row>> parts;
	parts.push_back(first.copy());
	parts.push_back(second.copy());
	std::vector<Query_Digest_Row> rows = Query_Digest_Stats::merge(std::move(parts));
	REQUIRE(rows.size() == 2);
	const Query_Digest_Row& row = rows[0].digest == 1 ? rows[0] : rows[1];
	CHECK(row.count_star == 3);
	CHECK(row.min_time_us == 5);
	CHECK(row.max_time_us == 30);
	CHECK(row.first_seen_s == 40);
	CHECK(row.last_seen_s == 60);
	CHECK(row.sum_time_us == 45);
	CHECK(Query_Digest_Stats::merge({}).empty());
}

TEST_CASE("more digests than the limit are counted together") {
	Query_Digest_Stats stats;
	constexpr uint64_t kStatements = 250000;
	for (uint64_t digest = 1; digest <= kStatements; ++digest) {
		stats.add(statement(digest), event(1));
	}
	CHECK(stats.memory_bytes() < (size_t{192} << 20));
	uint64_t total = 0;
	uint64_t others = 0;
	const std::vector<Query_Digest_Row> rows = stats.take();
	for (const Query_Digest_Row& row : rows) {
		total += row.count_star;
		others += row.digest == 0 ? row.count_star : 0;
	}
	CHECK(rows.size() == 200001);
	CHECK(total == kStatements);
	CHECK(others == kStatements - 200000);
}

TEST_CASE("four workers and a reader that resets lose nothing") {
	constexpr int kWorkers = 4;
	constexpr int kEvents = 40000;
	std::vector<Query_Digest_Stats> stats(kWorkers);
	std::atomic<int> running{kWorkers};
	std::vector<std::thread> workers;
	for (int w = 0; w < kWorkers; ++w) {
		workers.emplace_back([&stats, &running, w] {
			std::vector<Statement_Analysis> statements;
			for (uint64_t digest = 1; digest <= 50; ++digest) {
				statements.push_back(statement(digest));
			}
			for (int i = 0; i < kEvents; ++i) {
				stats[static_cast<size_t>(w)].add(statements[static_cast<size_t>(i) % 50],
				                                  event(i));
			}
			running.fetch_sub(1);
		});
	}
	uint64_t total = 0;
	uint64_t times = 0;
	bool last = false;
	while (!last) {
		last = running.load() == 0;
		for (Query_Digest_Stats& part : stats) {
			part.copy();
			for (const Query_Digest_Row& row : part.take()) {
				total += row.count_star;
				times += static_cast<uint64_t>(row.sum_time_us);
			}
		}
	}
	for (std::thread& worker : workers) {
		worker.join();
	}
	CHECK(total == uint64_t{kWorkers} * kEvents);
	CHECK(times == uint64_t{kWorkers} * kEvents * (kEvents - 1) / 2);
}
