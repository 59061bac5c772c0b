// PREPARE, EXECUTE and DEALLOCATE in a text, and what an EXECUTE is by what it runs.
#include "classify/Function_Safety.h"
#include "classify/Prepared_Use.h"
#include "classify/Statement_Classifier.h"

#include <catch2/catch.hpp>

namespace proxy {

namespace {
Statement_Class classify(std::string_view sql) {
	return classify_statement(sql, true, *Function_Safety::built_in());
}

// The class of `text` when its only EXECUTE runs `body`.
Statement_Class executed(std::string_view text, std::string_view body) {
	Statement_Class result = classify(text);
	const Statement_Class prepared = classify("PREPARE p AS " + std::string(body));
	REQUIRE(prepared.prepared.size() == 1);
	REQUIRE(prepared.prepared.front().body != nullptr);
	REQUIRE(result.prepared.size() == 1);
	add_executed(result, result.prepared.front(), *prepared.prepared.front().body);
	return result;
}
} // namespace

TEST_CASE("names of prepared statements are found in the order of the text") {
	const Statement_Class found =
	    classify("SELECT 1; PREPARE \"A b\"(int) AS SELECT $1 ; EXECUTE \"A b\"(1); deallocate X;"
	             "EXPLAIN ANALYZE EXECUTE y; CREATE TABLE t AS EXECUTE z; DEALLOCATE PREPARE ALL");
	const std::vector<std::pair<Prepared_Verb, std::string>> wanted = {
	    {Prepared_Verb::prepare, "A b"},  {Prepared_Verb::execute, "A b"},
	    {Prepared_Verb::deallocate, "x"}, {Prepared_Verb::execute, "y"},
	    {Prepared_Verb::execute, "z"},    {Prepared_Verb::deallocate_all, ""}};
	REQUIRE(found.prepared.size() == wanted.size());
	for (size_t i = 0; i < wanted.size(); ++i) {
		CHECK(found.prepared[i].verb == wanted[i].first);
		CHECK(found.prepared[i].name == wanted[i].second);
	}
	// What is sent again on another connection: this statement and nothing around it.
	CHECK(found.prepared[0].text.find("PREPARE \"A b\"(int) AS SELECT $1") != std::string::npos);
	CHECK(found.prepared[0].text.find(';') == std::string::npos);
	CHECK(found.parts.size() == 7);
}

TEST_CASE("EXECUTE is what its body is") {
	CHECK_FALSE(classify("EXECUTE p").is_read());
	CHECK(executed("EXECUTE p", "SELECT 1").is_read());
	CHECK_FALSE(executed("EXECUTE p", "SELECT 1").may_write);
	CHECK(executed("EXECUTE p", "VALUES (1)").is_read());
	for (const char* body :
	     {"INSERT INTO t VALUES (1)", "UPDATE t SET i = 1", "DELETE FROM t", "SELECT nextval('s')",
	      "SELECT 1 FROM t FOR UPDATE", "WITH x AS (DELETE FROM t RETURNING i) SELECT * FROM x",
	      "SELECT nobody_knows()"}) {
		INFO(body);
		CHECK_FALSE(executed("EXECUTE p", body).is_read());
		CHECK(executed("EXECUTE p", body).may_write);
		CHECK(executed("EXPLAIN EXECUTE p", body).veto == Read_Veto::explain_of_write);
		CHECK_FALSE(executed("EXPLAIN EXECUTE p", body).may_write);
		CHECK(executed("EXPLAIN ANALYZE EXECUTE p", body).may_write);
	}
	CHECK(executed("EXPLAIN EXECUTE p", "SELECT 1").is_read());
	CHECK_FALSE(executed("EXPLAIN ANALYZE EXECUTE p", "SELECT 1").is_read());
	CHECK_FALSE(executed("CREATE TABLE t AS EXECUTE p", "SELECT 1").is_read());
	// The arguments count as well.
	CHECK_FALSE(executed("EXECUTE p(nextval('s'))", "SELECT $1").is_read());
	CHECK(executed("EXECUTE p(nextval('s'))", "SELECT $1").may_write);
}

TEST_CASE("what EXECUTE leaves behind is what its body does") {
	CHECK(executed("EXECUTE p", "SELECT pg_advisory_lock(1)").sticky == kStickyAdvisoryLock);
	CHECK(executed("EXECUTE p", "SELECT 1").sticky == 0);
	CHECK(executed("EXECUTE p", "SELECT set_config('a.b', $1, false)").sticky == kStickySet);
	CHECK(executed("EXECUTE p", "SELECT set_config('a.b', 'x', false)").sets.size() == 1);
	CHECK(executed("EXECUTE p", "SELECT nobody_knows()").calls_unknown);
	CHECK(meets_all_names(executed("EXECUTE p", "SELECT nobody_knows()")));
	CHECK_FALSE(meets_all_names(classify("PREPARE p AS SELECT nobody_knows()")));
	CHECK(executed("EXPLAIN EXECUTE p", "SELECT pg_advisory_lock(1)").sticky == 0);
}

} // namespace proxy
