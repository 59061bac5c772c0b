// The statement cache: what is kept under the digest, what under the text, and how much of it.
#include "classify/Function_Safety.h"
#include "classify/Query_Processor.h"
#include "classify/Statement_Classifier.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using namespace proxy;

TEST_CASE("a new literal is no new statement") {
	Query_Processor processor;
	const Statement_Analysis_Ptr first = processor.analyse("SELECT a FROM t WHERE a = 1", true);
	const Statement_Analysis_Ptr second = processor.analyse("SELECT a FROM t WHERE a = 'x'", true);
	CHECK(first == second);
	CHECK(processor.cache_stats().hits == 1);
	CHECK(processor.cache_stats().misses == 1);
	CHECK(processor.cache_stats().entries == 1);
	CHECK(processor.cache_stats().bytes > 0);
	CHECK(first->digest_text == "SELECT a FROM t WHERE a = ?");
	CHECK(first->digest != 0);
}

TEST_CASE("where literals matter each text has its own class") {
	Query_Processor processor;
	CHECK(processor.analyse("SET work_mem = '1MB'", true)->statement.sets[0].value == "1MB");
	CHECK(processor.analyse("SET work_mem = '2MB'", true)->statement.sets[0].value == "2MB");
	CHECK(processor.analyse("SET work_mem = '1MB'", true)->statement.sets[0].value == "1MB");
	CHECK(processor.cache_stats().hits == 1);
	CHECK_FALSE(processor.analyse("EXPLAIN (ANALYZE 0) DELETE FROM t", true)->statement.may_write);
	CHECK(processor.analyse("EXPLAIN (ANALYZE 1) DELETE FROM t", true)->statement.may_write);
	CHECK_FALSE(processor.analyse("EXPLAIN (ANALYZE 0) DELETE FROM t", true)->statement.may_write);
	CHECK(processor.analyse("SET work_mem = '1MB'", true)->digest ==
	      processor.analyse("SET work_mem = '2MB'", true)->digest);
}

TEST_CASE("equal digests of unlike statements are told apart") {
	Query_Processor processor;
	const auto is_read = [&](std::string_view sql) {
		return processor.analyse(sql, true)->statement.is_read();
	};
	// `f(x) 'y'` is a constant of a type; `f(x) true` calls a function and names its column.
	CHECK(is_read("SELECT nextval('s') 'x'"));
	CHECK_FALSE(is_read("SELECT nextval('s') true"));
	CHECK(is_read("SELECT nextval('s') 'x' y"));
	CHECK_FALSE(is_read("SELECT nextval('s') ? y"));
	CHECK(is_read("SELECT 'x'::text"));
	CHECK_FALSE(is_read("SELECT 'x'::pg_temp.t"));
	CHECK(processor.analyse("SELECT 'x'::text", true)->digest_text == "SELECT ?");
	const auto timed = [&](std::string_view sql) {
		return processor.analyse(sql, true)->statement.transaction_time;
	};
	CHECK_FALSE(timed("SELECT '2026-01-01'::date"));
	CHECK(timed("SELECT 'today'::date"));
	CHECK(timed("SELECT E'TODAY'::date"));
	CHECK_FALSE(timed("SELECT $x$2026-01-01$x$::date"));
	CHECK(timed("SELECT $x$now$x$::date"));
	CHECK(timed("SELECT $$now$$::date"));
	CHECK_FALSE(timed("SELECT '2026-01-01'::date"));
	// A text that does not parse does not speak for others with its digest, nor they for it.
	CHECK_FALSE(is_read("SELECT 'a' FROM t WHERE 'abc"));
	CHECK_FALSE(is_read("SELECT 2 FROM t WHERE 'abc"));
	CHECK(is_read("SELECT 2 FROM t WHERE true"));
	CHECK_FALSE(is_read("SELECT 'abc"));
	CHECK(is_read("SELECT 'abc'"));
	CHECK_FALSE(is_read("SELECT 'abc"));
}

TEST_CASE("the setting of standard_conforming_strings is part of the key") {
	Query_Processor processor;
	const std::string sql = R"(SELECT 'a\' || nextval(\'s\')')";
	CHECK(processor.analyse(sql, false)->statement.is_read());
	CHECK_FALSE(processor.analyse(sql, true)->statement.is_read());
	CHECK(processor.analyse(sql, false)->statement.is_read());
	const std::string set = R"(SET a = 'x\\y')";
	CHECK(processor.analyse(set, true)->statement.sets[0].value == R"(x\\y)");
	CHECK(processor.analyse(set, false)->statement.sets[0].value == R"(x\y)");
	CHECK(processor.analyse(set, true)->statement.sets[0].value == R"(x\\y)");
}

TEST_CASE("digits that do not show still count") {
	Query_Processor processor;
	Digest_Options options;
	options.no_digits = true;
	processor.set_options(options);
	processor.set_function_safety(Function_Safety::with_entries({
	    {"", "f1", Function_Class::safe},
	    {"", "f2", Function_Class::writes},
	}));
	CHECK(processor.analyse("SELECT f1()", true)->statement.is_read());
	CHECK_FALSE(processor.analyse("SELECT f2()", true)->statement.is_read());
	CHECK(processor.analyse("SELECT f1()", true)->digest ==
	      processor.analyse("SELECT f2()", true)->digest);
}

TEST_CASE("the part of a statement that does not show still counts") {
	Query_Processor processor;
	Digest_Options options;
	options.max_query_length = 30;
	options.max_digest_length = 20;
	processor.set_options(options);
	const std::string begin = "SELECT column_one, column_two, column_three FROM t WHERE ";
	const Statement_Analysis_Ptr read = processor.analyse(begin + "a = 1", true);
	const Statement_Analysis_Ptr write = processor.analyse(begin + "a = nextval('s')", true);
	CHECK(read->statement.is_read());
	CHECK_FALSE(write->statement.is_read());
	CHECK(read->digest == write->digest);
	CHECK(read->digest_text == write->digest_text);
	CHECK(read->digest_text.size() <= 20);
}

TEST_CASE("new knowledge about functions replaces what was classified") {
	Query_Processor processor;
	CHECK_FALSE(processor.analyse("SELECT price(1)", true)->statement.is_read());
	processor.set_function_safety(
	    Function_Safety::with_entries({{"app", "price", Function_Class::safe}}));
	CHECK(processor.analyse("SELECT price(2)", true)->statement.is_read());
	processor.set_function_safety(nullptr);
	CHECK_FALSE(processor.analyse("SELECT price(3)", true)->statement.is_read());
}

TEST_CASE("the cache stays within its limits and keeps what was used last") {
	Query_Processor processor;
	processor.set_cache_limits(100, size_t{1} << 20);
	for (int i = 0; i < 1000; ++i) {
		processor.analyse("SELECT a FROM t" + std::to_string(i), true);
		processor.analyse("SELECT 1", true); // kept alive by being used
	}
	CHECK(processor.cache_stats().entries == 100);
	CHECK(processor.cache_stats().misses == 1001);
	processor.set_cache_limits(1000000, 20000);
	CHECK(processor.cache_stats().bytes <= 20000);
	for (int i = 0; i < 1000; ++i) {
		processor.analyse("SET a = '" + std::string(200, 'x') + std::to_string(i) + "'", true);
	}
	CHECK(processor.cache_stats().bytes <= 20000);
	CHECK(processor.cache_stats().entries > 5);
	processor.set_cache_limits(0, 0);
	CHECK(processor.cache_stats().entries == 0);
	CHECK(processor.cache_stats().bytes == 0);
	CHECK(processor.analyse("SELECT 1", true)->statement.is_read());
	CHECK(processor.cache_stats().entries == 0);
}

TEST_CASE("a statement held outlives the cache") {
	Query_Processor processor;
	processor.set_cache_limits(1, size_t{1} << 20);
	const Statement_Analysis_Ptr held = processor.analyse("SELECT a FROM t", true);
	processor.analyse("SELECT b FROM t", true);
	processor.analyse("SELECT c FROM t", true);
	CHECK(held->digest_text == "SELECT a FROM t");
}

TEST_CASE("huge statements have a digest and are not kept") {
	Query_Processor processor;
	const std::string sql = "INSERT INTO t VALUES ('" + std::string(2u << 20, 'x') + "')";
	const Statement_Analysis_Ptr analysis = processor.analyse(sql, true);
	CHECK(analysis->statement.kind == Statement_Kind::unknown);
	CHECK(analysis->statement.may_write);
	CHECK(analysis->digest_text == "INSERT INTO t VALUES (?");
	CHECK(processor.cache_stats().entries == 0);
	std::string wide = "SELECT 1";
	for (int i = 0; i < 5000; ++i) {
		wide += ", column_" + std::to_string(i);
	}
	CHECK(processor.analyse(wide, true)->statement.is_read());
	CHECK(processor.cache_stats().entries == 0);
}

TEST_CASE("what contains a forbidden thing is never a read") {
	// Random queries around a write, a lock or a session function at a random depth.
	static constexpr const char* kForbidden[] = {"nextval('s')",
	                                             "setval('s', 1)",
	                                             "pg_notify('a', 'b')",
	                                             "my_func(1)",
	                                             "public.abs(1)",
	                                             "pg_advisory_lock(1)",
	                                             "set_config('a', 'b', false)",
	                                             "txid_current()",
	                                             "currval('s')",
	                                             "pg_backend_pid()",
	                                             "(SELECT 1 FROM t FOR UPDATE)",
	                                             "(SELECT 1 FROM t FOR KEY SHARE)",
	                                             "(SELECT count(*) FROM pg_stat_activity)",
	                                             "pg_is_in_recovery()",
	                                             "lo_create(0)",
	                                             "current_setting('x')",
	                                             "(SELECT a FROM pg_temp.x)",
	                                             "pg_current_wal_lsn()"};
	static constexpr const char* kAround[] = {"(@)",
	                                          "coalesce(NULL, @)",
	                                          "CASE WHEN (@) IS NULL THEN 1 ELSE 2 END",
	                                          "ARRAY[1, @]",
	                                          "(SELECT @)",
	                                          "abs(@)",
	                                          "ROW(1, @)",
	                                          "(@)::text",
	                                          "EXISTS (SELECT @ FROM t)",
	                                          "(SELECT x FROM (SELECT @ AS x) s)",
	                                          "greatest(1, @)",
	                                          "(1 IN (1, @))",
	                                          "(VALUES (@))",
	                                          "(WITH w AS (SELECT @ AS x) SELECT x FROM w)",
	                                          "count(*) FILTER (WHERE (@) IS NOT NULL)",
	                                          "sum(1) OVER (ORDER BY @)",
	                                          "(SELECT 1 UNION SELECT @)",
	                                          "(NOT ((@) IS NULL))",
	                                          "(SELECT 1 FROM a JOIN b ON (@) = 1)",
	                                          "xmlelement(name x, @)",
	                                          "((@) || 'x')",
	                                          "(SELECT g FROM generate_series(1, @) g)",
	                                          "(1 = ANY (ARRAY(SELECT @)))"};
	static constexpr const char* kQuery[] = {"SELECT @",
	                                         "SELECT 1 WHERE (@) = 1",
	                                         "VALUES (1), (@)",
	                                         "SELECT 1 ORDER BY @",
	                                         "WITH w AS (SELECT @) TABLE w",
	                                         "SELECT 1 GROUP BY @",
	                                         "SELECT 1 LIMIT @",
	                                         "SELECT * FROM t LEFT JOIN u ON t.a = (@)",
	                                         "SELECT DISTINCT ON (@) 1",
	                                         "SELECT * FROM t, LATERAL (SELECT @) x",
	                                         "EXPLAIN ANALYZE SELECT @",
	                                         "SELECT 1 UNION ALL SELECT @",
	                                         "SELECT 1 HAVING (@) = 1"};
	std::mt19937 random(3);
	Query_Processor processor;
	const auto put = [](std::string_view pattern, const std::string& inner) {
		std::string result(pattern);
		return result.replace(result.find('@'), 1, inner);
	};
	size_t parsed = 0;
	for (int round = 0; round < 6000; ++round) {
		std::string harmless = "a";
		std::string sql = kForbidden[random() % std::size(kForbidden)];
		for (size_t depth = random() % 6; depth > 0; --depth) {
			const char* around = kAround[random() % std::size(kAround)];
			sql = put(around, sql);
			harmless = put(around, harmless);
		}
		const char* query = kQuery[random() % std::size(kQuery)];
		sql = put(query, sql);
		harmless = put(query, harmless);
		INFO(sql);
		REQUIRE_FALSE(processor.analyse(sql, true)->statement.is_read());
		const Statement_Class& without = processor.analyse(harmless, true)->statement;
		parsed += without.kind != Statement_Kind::unknown ? 1 : 0;
		REQUIRE_FALSE(without.may_write);
	}
	CHECK(parsed == 6000);
}
