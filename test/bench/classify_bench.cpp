// Nanoseconds that classification costs a worker, without any framework:
//   repeated    one statement with a new literal each time (the digest is known)
//   rules       the same, with hints() and 5 query rules behind it
//   first seen  every statement is new: digest, parse, walk
//   parse only  libpg_query's own protobuf parse of the same texts, to compare with
//   1 KiB       a repeated statement of a kilobyte
// Build: make build/bench/classify; prints one line a case.
#include "classify/Query_Processor.h"

#include <pg_query.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace proxy;

// CPU time of this thread: other work on the machine does not count.
double cpu_ns() {
	timespec now{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The best of a few runs.
template <typename Body> double time_ns(size_t rounds, const Body& body) {
	constexpr int kRuns = 5;
	double best = 1e18;
	const size_t part = rounds / kRuns;
	for (int run = 0; run < kRuns; ++run) {
		const double start = cpu_ns();
		for (size_t i = 0; i < part; ++i) {
			body(static_cast<size_t>(run) * part + i);
		}
		best = std::min(best, (cpu_ns() - start) / static_cast<double>(part));
	}
	return best;
}

void report(const char* name, double ns) {
	std::printf("%-12s %10.1f ns\n", name, ns);
}

std::vector<std::string> texts_of(const std::string& before, const std::string& after,
                                  size_t count) {
	std::vector<std::string> texts;
	for (size_t i = 0; i < count; ++i) {
		texts.push_back(before + std::to_string(100000 + i) + after);
	}
	return texts;
}

Query_Rules_Config five_rules() {
	Query_Rules_Config config;
	for (int i = 1; i <= 5; ++i) {
		Query_Rule_Row row;
		row.rule_id = i;
		row.active = true;
		row.match_digest = "^INSERT INTO table_" + std::to_string(i);
		row.destination_hostgroup = i;
		config.rules.push_back(row);
	}
	return config;
}

} // namespace

int main() {
	constexpr size_t kRounds = 400000;
	constexpr size_t kTexts = 1000;
	const std::string select = "SELECT abalance FROM pgbench_accounts WHERE aid = ";
	const std::vector<std::string> repeated = texts_of(select, ";", kTexts);
	Query_Processor processor;
	uint64_t sum = 0;
	report("repeated", time_ns(kRounds, [&](size_t i) {
		       sum += processor.analyse(repeated[i % kTexts], true)->digest;
	       }));
	auto rules = Query_Rules::compile(five_rules(), 0);
	processor.set_rules(rules.ok() ? rules.take() : nullptr);
	Query_Origin origin;
	origin.username = "app";
	origin.database = "shop";
	report("rules", time_ns(kRounds, [&](size_t i) {
		       const std::string& sql = repeated[i % kTexts];
		       const Statement_Analysis_Ptr analysis = processor.analyse(sql, true);
		       sum += processor.hints(sql).any ? 1 : 0;
		       sum += processor.process(origin, sql, *analysis).matched ? 1 : 0;
	       }));

	std::vector<std::string> fresh;
	for (size_t i = 0; i < 20000; ++i) {
		fresh.push_back(
		    "SELECT a.id, b.name, count(*) FROM t" + std::to_string(i) +
		    " a JOIN u b ON a.id = b.aid WHERE a.x = 5 AND b.y IN (1,2,3) GROUP BY 1,2");
	}
	Query_Processor cold;
	report("first seen",
	       time_ns(fresh.size(), [&](size_t i) { sum += cold.analyse(fresh[i], true)->digest; }));
	report("parse only", time_ns(fresh.size(), [&](size_t i) {
		       const PgQueryProtobufParseResult result = pg_query_parse_protobuf(fresh[i].c_str());
		       sum += result.parse_tree.len;
		       pg_query_free_protobuf_parse_result(result);
	       }));

	std::string columns;
	while (columns.size() < 950) {
		columns += "column_" + std::to_string(columns.size()) + ", ";
	}
	const std::vector<std::string> kilobyte =
	    texts_of("SELECT " + columns + "id FROM orders WHERE id = ", "", kTexts);
	report("1 KiB", time_ns(kRounds / 4, [&](size_t i) {
		       sum += processor.analyse(kilobyte[i % kTexts], true)->digest;
	       }));
	const Query_Processor::Cache_Stats stats = processor.cache_stats();
	std::printf("cache: %llu hits, %llu misses, %zu entries, %zu bytes (sum %llu)\n",
	            static_cast<unsigned long long>(stats.hits),
	            static_cast<unsigned long long>(stats.misses), stats.entries, stats.bytes,
	            static_cast<unsigned long long>(sum));
	return 0;
}
