// Which class statements get. The table is statements.def; what has more to say than a kind and a
// veto is below it.
#include "classify/Command_Names.h"
#include "classify/Statement_Classifier.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

using namespace proxy;

namespace {

Statement_Class classify(std::string_view sql, bool standard_strings = true) {
	return classify_statement(sql, standard_strings, *Function_Safety::built_in());
}

struct Row {
	const char* sql;
	Statement_Kind kind; // of KIND rows
	Read_Veto veto;
	bool writes;
	bool has_kind;
};

constexpr bool W = true;
constexpr bool N = false;

constexpr Row kRows[] = {
#define READ(sql) {sql, Statement_Kind::select, Read_Veto::none, false, false},
#define NOT_READ(sql, veto, writes) {sql, Statement_Kind::select, Read_Veto::veto, writes, false},
#define KIND(sql, kind, writes)                                                                    \
	{sql, Statement_Kind::kind,                                                                    \
	 Statement_Kind::kind == Statement_Kind::unknown ? Read_Veto::unparsed                         \
	                                                 : Read_Veto::not_a_query,                     \
	 writes, true},
#include "statements.def"
#undef READ
#undef NOT_READ
#undef KIND
};

} // namespace

TEST_CASE("statements have the class of the table") {
	CHECK(std::size(kRows) >= 300);
	for (const Row& row : kRows) {
		INFO(row.sql);
		const Statement_Class found = classify(row.sql);
		CHECK(std::string(name_of(found.veto)) == name_of(row.veto));
		CHECK(found.may_write == row.writes);
		CHECK(found.is_read() == (row.veto == Read_Veto::none));
		if (row.has_kind) {
			CHECK(std::string(name_of(found.kind)) == name_of(row.kind));
		}
	}
}

TEST_CASE("transaction options are read") {
	Statement_Class begin = classify("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE");
	CHECK(begin.isolation == Isolation::serializable);
	CHECK(begin.access_mode == Access_Mode::read_only);
	CHECK(begin.deferrable);
	begin = classify("start transaction read write, isolation level read uncommitted");
	CHECK(begin.isolation == Isolation::read_uncommitted);
	CHECK(begin.access_mode == Access_Mode::read_write);
	CHECK_FALSE(begin.deferrable);
	CHECK(classify("BEGIN").isolation == Isolation::unspecified);
	CHECK(classify("BEGIN NOT DEFERRABLE").deferrable == false);
	CHECK(classify("SET TRANSACTION READ WRITE").access_mode == Access_Mode::read_write);
	CHECK(classify("SET transaction_read_only = 0").access_mode == Access_Mode::read_write);
	CHECK(classify("SET transaction_read_only = on").access_mode == Access_Mode::read_only);
	CHECK(classify("SET transaction_isolation = 'repeatable read'").isolation ==
	      Isolation::repeatable_read);
	CHECK(classify("COMMIT AND CHAIN").and_chain);
	CHECK_FALSE(classify("ROLLBACK AND NO CHAIN").and_chain);
	CHECK(classify("SAVEPOINT \"Sp 1\"").name == "Sp 1");
	CHECK(classify("ROLLBACK TO SAVEPOINT Sp_1").name == "sp_1");
	CHECK(classify("PREPARE TRANSACTION 'gid 1'").name == "gid 1");
	CHECK(classify("PREPARE TRANSACTION 'gid 1'").depends_on_literals);
}

TEST_CASE("session characteristics are settings by another name") {
	const Statement_Class found = classify(
	    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY");
	REQUIRE(found.sets.size() == 2);
	CHECK(found.sets[0].name == "default_transaction_isolation");
	CHECK(found.sets[0].value == "serializable");
	CHECK(found.sets[1].name == "default_transaction_read_only");
	CHECK(found.sets[1].value == "on");
	CHECK(classify("SET TRANSACTION READ ONLY").sets.empty());
	CHECK(classify("SET transaction_read_only = 0").sets.empty());
}

namespace {

struct Set_Row {
	const char* sql;
	const char* name;
	const char* value; // nullptr: no value
	Set_Scope scope = Set_Scope::session;
};

constexpr Set_Row kSets[] = {
    {"SET work_mem = '64MB'", "work_mem", "64MB"},
    {"SET Work_Mem TO '64MB'", "work_mem", "64MB"},
    {"SET LOCAL work_mem = 100", "work_mem", "100", Set_Scope::local},
    {"SET SESSION statement_timeout TO 0", "statement_timeout", "0"},
    {"SET x.y = -5", "x.y", "-5"},
    {"SET x.y = 1.5", "x.y", "1.5"},
    {"SET enable_seqscan = off", "enable_seqscan", "off"},
    {"SET enable_seqscan = true", "enable_seqscan", "true"},
    {"SET search_path TO s1, public", "search_path", "s1, public"},
    {"SET search_path = \"$user\", 'My Schema', a", "search_path", "\"$user\", \"My Schema\", a"},
    {"SET search_path = ''", "search_path", "\"\""},
    {"SET SCHEMA 'x'", "search_path", "x"},
    {"SET DateStyle = ISO, MDY", "datestyle", "iso, mdy"},
    {"SET TIME ZONE 'Europe/Paris'", "timezone", "Europe/Paris"},
    {"SET TIME ZONE -3", "timezone", "-3"},
    {"SET TIME ZONE DEFAULT", "timezone", nullptr},
    {"SET TIME ZONE LOCAL", "timezone", nullptr},
    {"SET NAMES 'LATIN1'", "client_encoding", "LATIN1"},
    {"SET NAMES", "client_encoding", nullptr},
    {"SET XML OPTION DOCUMENT", "xmloption", "DOCUMENT"},
    {"SET work_mem TO DEFAULT", "work_mem", nullptr},
    {"SET application_name = ''", "application_name", ""},
    {"SET application_name = 'it''s'", "application_name", "it's"},
    {"RESET work_mem", "work_mem", nullptr},
    {"RESET TIME ZONE", "timezone", nullptr},
    {"SET ROLE bob", "role", "bob"},
    {"SELECT set_config('a.b', 'c', false)", "a.b", "c"},
    {"SELECT pg_catalog.set_config('search_path', '', false)", "search_path", ""},
    {"SELECT set_config('a.b', 'c', true)", "a.b", "c", Set_Scope::local},
    {"SELECT set_config('a.b', NULL, false)", "a.b", nullptr},
};

} // namespace

TEST_CASE("the settings of SET are read as the server would store them") {
	for (const Set_Row& row : kSets) {
		INFO(row.sql);
		const Statement_Class found = classify(row.sql);
		REQUIRE(found.sets.size() == 1);
		CHECK(found.sets[0].name == row.name);
		CHECK(found.sets[0].has_value == (row.value != nullptr));
		CHECK(found.sets[0].value == (row.value != nullptr ? row.value : ""));
		CHECK(found.sets[0].scope == row.scope);
		CHECK(found.depends_on_literals);
	}
	const Statement_Class all = classify("RESET ALL");
	CHECK(all.all);
	REQUIRE(all.sets.size() == 1);
	CHECK(all.sets[0].name == "all");
}

TEST_CASE("a setting that cannot be carried along makes the session stick") {
	for (const char* sql :
	     {"SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "SET ROLE bob",
	      "SET SESSION AUTHORIZATION bob", "SELECT set_config(name, 'x', false) FROM t",
	      "SELECT set_config('a', 'b', false) WHERE 1 = 0", "SELECT set_config('a', $1, false)",
	      "SELECT lower(set_config('a', 'b', false))", "SELECT set_config('a', 'b')",
	      "SELECT set_config('a', 'b', false) LIMIT 0",
	      "SELECT set_config('a', 'b', false) UNION SELECT 'x'",
	      "INSERT INTO t SELECT set_config('a', 'b', false)",
	      "DECLARE c CURSOR FOR SELECT set_config('a', 'b', false)",
	      "EXPLAIN ANALYZE SELECT set_config('a', 'b', false)"}) {
		INFO(sql);
		CHECK((classify(sql).sticky & kStickySet) != 0);
	}
	for (const char* sql : {"SET work_mem = '1MB'", "SET LOCAL ROLE bob", "RESET ALL",
	                        "SELECT set_config('a', 'b', false), set_config('c', 'd', true)",
	                        "EXPLAIN SELECT set_config('a', 'b', false)", "SELECT 1"}) {
		INFO(sql);
		CHECK((classify(sql).sticky & kStickySet) == 0);
	}
}

namespace {

struct Sticky_Row {
	const char* sql;
	uint32_t begins;
	uint32_t ends;
};

constexpr Sticky_Row kSticky[] = {
    {"CREATE TEMP TABLE a (i int)", kStickyTempTable, 0},
    {"CREATE TEMPORARY VIEW a AS SELECT 1", kStickyTempTable, 0},
    {"CREATE LOCAL TEMP SEQUENCE a", kStickyTempTable, 0},
    {"CREATE TEMP TABLE a AS SELECT 1", kStickyTempTable, 0},
    {"CREATE TABLE pg_temp.a (i int)", kStickyTempTable, 0},
    {"CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", kStickyTempTable, 0},
    {"CREATE TYPE pg_temp.t AS (a int)", kStickyTempTable, 0},
    {"SELECT 1 INTO TEMP a", kStickyTempTable, 0},
    {"SELECT 1 INTO a", 0, 0},
    {"CREATE TABLE a (i int)", 0, 0},
    {"DROP TABLE pg_temp.a", 0, 0},
    {"SELECT 'pg_temp'", 0, 0},
    {"COMMENT ON TABLE a IS 'pg_temp'", 0, 0},
    {"LISTEN a", kStickyListen, 0},
    {"UNLISTEN *", 0, kStickyListen},
    {"UNLISTEN a", 0, 0},
    {"DECLARE c CURSOR WITH HOLD FOR SELECT 1", kStickyHoldCursor, 0},
    {"DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1", 0, 0},
    {"CLOSE ALL", 0, kStickyHoldCursor},
    {"CLOSE c", 0, 0},
    {"SELECT pg_advisory_lock(1)", kStickyAdvisoryLock, 0},
    {"SELECT pg_try_advisory_lock_shared(1, 2) FROM t", kStickyAdvisoryLock, 0},
    {"SELECT pg_advisory_xact_lock(1)", 0, 0},
    {"SELECT pg_advisory_unlock(1)", 0, 0},
    {"SELECT pg_advisory_unlock_all()", 0, kStickyAdvisoryLock},
    {"SELECT pg_advisory_unlock_all(), pg_advisory_lock(1)", kStickyAdvisoryLock, 0},
    {"INSERT INTO t VALUES (nextval('s'))", kStickySequence, 0},
    {"SELECT setval('s', 1)", kStickySequence, 0},
    {"DISCARD SEQUENCES", 0, kStickySequence},
    {"DISCARD TEMP", 0, kStickyTempTable},
    {"DISCARD PLANS", 0, 0},
    {"DISCARD ALL", 0, ~0u},
    {"PREPARE p AS SELECT nextval('s')", 0, 0}, // until it is executed
    {"DEALLOCATE ALL", 0, kStickyPrepare},
    {"DEALLOCATE p", 0, 0},
    {"SELECT setseed(0.1)", kStickySessionFunction, 0},
    {"LOAD 'x'", kStickyLoad, 0},
    {"RESET ALL", 0, 0}, // leaves role and session authorization
    {"DO $$ BEGIN END $$", 0, 0},
    {"EXECUTE p", 0, 0}, // what it runs, see Prepared_Use_test.cpp
    {"UPDATE pg_settings SET setting = '1'", kStickySet, 0},
    {"UPDATE pg_catalog.pg_settings SET setting = '1'", kStickySet, 0},
    {"SELECT * FROM pg_settings", 0, 0},
    {"EXPLAIN SELECT pg_advisory_lock(1)", 0, 0},
    {"EXPLAIN ANALYZE SELECT pg_advisory_lock(1)", kStickyAdvisoryLock, 0},
    {"SELECT 1; LISTEN a", kStickyListen, 0},
    {"LISTEN a; UNLISTEN *", 0, kStickyListen},
    {"UNLISTEN *; LISTEN a", kStickyListen, 0},
};

} // namespace

TEST_CASE("what outlives a statement is seen") {
	for (const Sticky_Row& row : kSticky) {
		INFO(row.sql);
		const Statement_Class found = classify(row.sql);
		CHECK(found.sticky == row.begins);
		CHECK(found.sticky_ends == row.ends);
	}
}

TEST_CASE("what may have ended with a statement is seen") {
	CHECK(classify("CLOSE c").sticky_may_end == kStickyHoldCursor);
	CHECK(classify("UNLISTEN a").sticky_may_end == kStickyListen);
	CHECK(classify("DROP TABLE a").sticky_may_end == kStickyTempTable);
	CHECK(classify("SELECT pg_advisory_unlock(1)").sticky_may_end == kStickyAdvisoryLock);
	CHECK(classify("SELECT pg_try_advisory_lock(1)").sticky_may_end == kStickyAdvisoryLock);
	CHECK(classify("SELECT pg_advisory_lock(1)").sticky_may_end == 0);
	CHECK(classify("RESET ROLE").sticky_may_end == kStickySet);
	CHECK(classify("SELECT 1; CLOSE c").sticky_may_end == kStickyHoldCursor);
	CHECK(classify("EXPLAIN SELECT pg_advisory_unlock(1)").sticky_may_end == 0);
}

TEST_CASE("statements of a batch are kept when they matter by themselves") {
	const Statement_Class batch = classify("SET a.b = 'x'; SELECT 1; ROLLBACK TO s; UNLISTEN c");
	REQUIRE(batch.parts.size() == 4);
	CHECK(batch.parts[0].sets.size() == 1);
	CHECK(batch.parts[1].kind == Statement_Kind::select);
	CHECK(batch.parts[2].name == "s");
	CHECK(batch.parts[3].kind == Statement_Kind::unlisten);
	CHECK(classify("SELECT 1; SELECT 2").parts.empty());
	CHECK(classify("SELECT 1; COMMIT").parts.size() == 2);
	std::string longer = "SET a.b = 'x'";
	for (int i = 0; i < 300; ++i) {
		longer += "; SELECT 1";
	}
	CHECK(classify(longer.c_str()).parts.empty());
}

TEST_CASE("notifications and questions for channels are seen") {
	CHECK(classify("NOTIFY a").notifies);
	CHECK(classify("SELECT pg_notify('a', 'b')").notifies);
	CHECK(classify("SELECT 1; NOTIFY a").notifies);
	CHECK_FALSE(classify("LISTEN a").notifies);
	CHECK(classify("SELECT count(*) FROM pg_listening_channels()").asks_channels);
}

TEST_CASE("calls of what is not known are seen") {
	CHECK(classify("DO $$ BEGIN END $$").calls_unknown);
	CHECK(classify("SELECT my_function()").calls_unknown);
	CHECK(classify("INSERT INTO t SELECT my_function()").calls_unknown);
	CHECK(classify("CALL my_procedure()").calls_unknown);
	CHECK(classify("SELECT 1; CALL my_procedure()").calls_unknown);
	CHECK_FALSE(classify("SELECT lower('A')").calls_unknown);
	CHECK_FALSE(classify("INSERT INTO t VALUES (1)").calls_unknown);
}

TEST_CASE("a batch says what its parts do to the transaction and to prepared statements") {
	CHECK(classify("SELECT 1; ROLLBACK").controls_transaction);
	CHECK(classify("SAVEPOINT a; SELECT 1").controls_transaction);
	CHECK_FALSE(classify("SELECT 1; SELECT 2").controls_transaction);
	CHECK(classify("DEALLOCATE ALL; SELECT 1").prepared.front().verb ==
	      Prepared_Verb::deallocate_all);
	CHECK(classify("SELECT 1; DISCARD ALL").prepared.front().verb == Prepared_Verb::discard_all);
	CHECK(classify("SELECT 1; INSERT INTO t VALUES (1)").prepared.empty());
}

TEST_CASE("names of functions and relations are kept as written") {
	const Statement_Class found = classify("WITH w AS (SELECT 1) SELECT Lower(a), app.\"Fn\"(b), "
	                                       "lower(c) FROM crate, s.bin, w, db.s.x");
	CHECK(found.functions == std::vector<std::string>{"lower", "app.Fn"});
	CHECK(found.relations == std::vector<std::string>{"crate", "s.bin", "s.x"});
	std::string many = "SELECT 1";
	for (int i = 0; i < 500; ++i) {
		many += ", f" + std::to_string(i) + "()";
	}
	CHECK(classify(many).functions.size() == kMaxNamesKept);
}

TEST_CASE("functions of the transaction's time are marked") {
	CHECK(classify("SELECT now()").transaction_time);
	CHECK(classify("SELECT CURRENT_DATE").transaction_time);
	CHECK(classify("SELECT localtimestamp(2)").transaction_time);
	CHECK(classify("SELECT age(due) FROM crate").transaction_time);
	CHECK(classify("SELECT 'now'::timestamptz").transaction_time);
	CHECK(classify("SELECT date ' Today '").transaction_time);
	CHECK(classify("SELECT 1 WHERE due > $$yesterday$$").transaction_time);
	CHECK_FALSE(classify("SELECT date '2026-01-01', 'no'").transaction_time);
	CHECK_FALSE(classify("SELECT clock_timestamp(), statement_timestamp()").transaction_time);
	CHECK_FALSE(classify("SELECT current_user, current_schema").transaction_time);
}

TEST_CASE("rows in the answer are foretold") {
	for (const char* sql :
	     {"SELECT 1", "VALUES (1)", "INSERT INTO t VALUES (1) RETURNING 1",
	      "UPDATE t SET a = 1 RETURNING a", "DELETE FROM t RETURNING a", "SHOW x",
	      "EXPLAIN SELECT 1", "FETCH 1 FROM c", "EXECUTE p", "CALL p()", "SET a = 1; SELECT 1"}) {
		INFO(sql);
		CHECK(classify(sql).returns_rows);
	}
	for (const char* sql : {"SELECT 1 INTO t", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1",
	                        "DELETE FROM t", "MOVE 1 FROM c", "SET a = 1", "BEGIN", "", ";"}) {
		INFO(sql);
		CHECK_FALSE(classify(sql).returns_rows);
	}
}

TEST_CASE("statements of a batch are counted and the worst case kept") {
	const Statement_Class found = classify(
	    "SET a = 1; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT now(); INSERT INTO t VALUES (1)");
	CHECK(found.kind == Statement_Kind::multiple);
	CHECK(found.statement_count == 4);
	CHECK(found.may_write);
	CHECK(found.transaction_time);
	CHECK(found.sets.size() == 1);
	CHECK(found.isolation == Isolation::serializable);
	CHECK(found.depends_on_literals);
	CHECK(classify("SELECT 1;").statement_count == 1);
	CHECK(classify(";").statement_count == 0);
}

TEST_CASE("standard_conforming_strings decides what a backslash is") {
	// On: one literal that ends with a backslash, then a call. Off: one literal and nothing else.
	const std::string sql = R"(SELECT '\', nextval(' s'))";
	CHECK(classify(sql, true).veto == Read_Veto::volatile_function);
	CHECK(classify(sql, false).kind == Statement_Kind::unknown);
	const std::string other = R"(SELECT 'a\' || nextval(\'s\')')";
	CHECK(classify(other, false).is_read());
	CHECK_FALSE(classify(other, true).is_read());
	CHECK(classify(R"(SELECT E'a\'b')", true).is_read());
	CHECK(classify(R"(SELECT E'a\'b')", false).is_read());
}

TEST_CASE("what cannot be parsed safely is unknown") {
	const std::string nul("SELECT 1\0; DROP TABLE crate", 27);
	CHECK(classify(nul).kind == Statement_Kind::unknown);
	const std::string huge = "SELECT '" + std::string(kMaxParsedBytes, 'x') + "'";
	CHECK(classify(huge).kind == Statement_Kind::unknown);
	CHECK(classify(huge).may_write);
}

TEST_CASE("deep nesting never reaches the parser's recursion") {
	const auto repeat = [](std::string_view text, size_t count) {
		std::string result;
		for (size_t i = 0; i < count; ++i) {
			result += text;
		}
		return result;
	};
	for (const size_t depth : {size_t{200}, size_t{5000}, size_t{100000}}) {
		const bool fits = depth == 200;
		for (const std::string& sql :
		     {"SELECT " + repeat("(", depth) + "1" + repeat(")", depth),
		      "SELECT 1" + repeat("+1", depth), "SELECT " + repeat("- ", depth) + "1",
		      "SELECT 1" + repeat("::int", depth), "SELECT 1" + repeat(" UNION SELECT 1", depth),
		      "SELECT " + repeat("NOT ", depth) + "true",
		      "SELECT " + repeat("abs(", depth) + "1" + repeat(")", depth),
		      "SELECT " + repeat("CASE WHEN true THEN ", depth) + "1" + repeat(" END", depth),
		      "SELECT " + repeat("(SELECT ", depth) + "1" + repeat(")", depth),
		      "SELECT * FROM a" + repeat(" JOIN b ON true", depth),
		      "SELECT * FROM a" + repeat(" NATURAL JOIN b", depth),
		      "SELECT 1" + repeat(" IS NULL", depth),
		      "SELECT 1" + repeat(" AT TIME ZONE 'x'", depth),
		      "SELECT 1" + repeat(" COLLATE \"C\"", depth),
		      "SELECT " + repeat("ARRAY[", depth) + "1" + repeat("]", depth)}) {
			INFO(sql.substr(0, 60) << " x " << depth);
			const Statement_Class found = classify(sql);
			CHECK((fits || found.kind == Statement_Kind::unknown));
		}
	}
	// Long is not deep.
	CHECK(classify("SELECT 1 WHERE " + repeat("1 = 1 AND ", 5000) + "true").is_read());
	CHECK(classify("SELECT 1 WHERE " + repeat("1 = 1 OR 2 = 2 AND ", 5000) + "true").is_read());
	CHECK(classify("SELECT 1 WHERE 1 IN (" + repeat("1,", 50000) + "1)").is_read());
	CHECK(classify("VALUES (1)" + repeat(",(1)", 20000)).is_read());
	CHECK(classify("SELECT 1" + repeat(" + 1", 200)).is_read());
}

namespace {

struct Command_Row {
	const char* sql;
	const char* command;
};

constexpr Command_Row kCommands[] = {
    {"SELECT 1", "SELECT"},
    {"VALUES (1)", "SELECT"},
    {"INSERT INTO a VALUES (1)", "INSERT"},
    {"UPDATE a SET b = 1", "UPDATE"},
    {"DELETE FROM a", "DELETE"},
    {"MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE", "MERGE"},
    {"CREATE TABLE a (i int)", "CREATE_TABLE"},
    {"CREATE TABLE a AS SELECT 1", "CREATE_TABLE"},
    {"ALTER TABLE a ADD b int", "ALTER_TABLE"},
    {"ALTER TABLE a RENAME TO b", "ALTER_TABLE"},
    {"ALTER TABLE a RENAME COLUMN c TO b", "ALTER_TABLE"},
    {"ALTER TABLE a SET SCHEMA s", "ALTER_TABLE"},
    {"ALTER TABLE a OWNER TO b", "ALTER_TABLE"},
    {"ALTER VIEW a OWNER TO b", "ALTER_VIEW"},
    {"ALTER INDEX a RENAME TO b", "ALTER_INDEX"},
    {"ALTER MATERIALIZED VIEW a RENAME TO b", "ALTER_MATERIALIZED_VIEW"},
    {"DROP TABLE a", "DROP_TABLE"},
    {"DROP INDEX a", "DROP_INDEX"},
    {"DROP VIEW a", "DROP_VIEW"},
    {"DROP MATERIALIZED VIEW a", "DROP_MATERIALIZED_VIEW"},
    {"DROP SEQUENCE a", "DROP_SEQUENCE"},
    {"DROP SCHEMA a", "DROP_SCHEMA"},
    {"DROP FUNCTION a()", "DROP_FUNCTION"},
    {"DROP PROCEDURE a()", "DROP_PROCEDURE"},
    {"DROP AGGREGATE a(int)", "DROP_AGGREGATE"},
    {"DROP OPERATOR + (int, int)", "DROP_OPERATOR"},
    {"DROP TYPE a", "DROP_TYPE"},
    {"DROP DOMAIN a", "DROP_DOMAIN"},
    {"DROP TRIGGER a ON b", "DROP_TRIGGER"},
    {"DROP RULE a ON b", "DROP_RULE"},
    {"DROP EXTENSION a", "DROP_EXTENSION"},
    {"DROP POLICY a ON b", "DROP_POLICY"},
    {"DROP ROLE a", "DROP_ROLE"},
    {"DROP COLLATION a", "DROP_COLLATION"},
    {"DROP TEXT SEARCH CONFIGURATION a", "DROP_TEXT_SEARCH_CONFIGURATION"},
    {"DROP TEXT SEARCH DICTIONARY a", "DROP_TEXT_SEARCH_DICTIONARY"},
    {"DROP TEXT SEARCH TEMPLATE a", "DROP_TEXT_SEARCH_TEMPLATE"},
    {"DROP TEXT SEARCH PARSER a", "DROP_TEXT_SEARCH_PARSER"},
    {"DROP FOREIGN TABLE a", "DROP_FOREIGN_TABLE"},
    {"DROP SERVER a", "DROP_SERVER"},
    {"DROP USER MAPPING FOR a SERVER b", "DROP_USER_MAPPING"},
    {"DROP PUBLICATION a", "DROP_PUBLICATION"},
    {"DROP SUBSCRIPTION a", "DROP_SUBSCRIPTION"},
    {"DROP ACCESS METHOD a", "DROP_ACCESS_METHOD"},
    {"DROP EVENT TRIGGER a", "DROP_EVENT_TRIGGER"},
    {"DROP TRANSFORM FOR int LANGUAGE sql", "DROP_TRANSFORM"},
    {"DROP CAST (int AS text)", "DROP_CAST"},
    {"DROP OPERATOR CLASS a USING btree", "DROP_OPERATOR_CLASS"},
    {"DROP OPERATOR FAMILY a USING btree", "DROP_OPERATOR_FAMILY"},
    {"DROP TABLESPACE a", "DROP_TABLESPACE"},
    {"DROP DATABASE a", "DROP_DATABASE"},
    {"TRUNCATE a", "TRUNCATE"},
    {"COPY a TO STDOUT", "COPY"},
    {"CREATE INDEX ON a (b)", "CREATE_INDEX"},
    {"CREATE VIEW a AS SELECT 1", "CREATE_VIEW"},
    {"CREATE MATERIALIZED VIEW a AS SELECT 1", "CREATE_MATERIALIZED_VIEW"},
    {"REFRESH MATERIALIZED VIEW a", "REFRESH_MATERIALIZED_VIEW"},
    {"CREATE SEQUENCE a", "CREATE_SEQUENCE"},
    {"ALTER SEQUENCE a RESTART", "ALTER_SEQUENCE"},
    {"CREATE SCHEMA a", "CREATE_SCHEMA"},
    {"ALTER SCHEMA a RENAME TO b", "ALTER_SCHEMA"},
    {"CREATE FUNCTION a() RETURNS int LANGUAGE sql AS ''", "CREATE_FUNCTION"},
    {"ALTER FUNCTION a() STABLE", "ALTER_FUNCTION"},
    {"CREATE PROCEDURE a() LANGUAGE sql AS ''", "CREATE_PROCEDURE"},
    {"ALTER PROCEDURE a() SECURITY DEFINER", "ALTER_PROCEDURE"},
    {"CALL a()", "CALL"},
    {"CREATE AGGREGATE a(int) (sfunc = f, stype = int)", "CREATE_AGGREGATE"},
    {"CREATE OPERATOR + (function = f, leftarg = int)", "CREATE_OPERATOR"},
    {"CREATE TYPE a AS ENUM ('x')", "CREATE_TYPE"},
    {"CREATE TYPE a AS (i int)", "CREATE_TYPE"},
    {"ALTER TYPE a ADD VALUE 'x'", "ALTER_TYPE"},
    {"CREATE DOMAIN a AS int", "CREATE_DOMAIN"},
    {"ALTER DOMAIN a DROP NOT NULL", "ALTER_DOMAIN"},
    {"CREATE TRIGGER a BEFORE INSERT ON b EXECUTE FUNCTION f()", "CREATE_TRIGGER"},
    {"CREATE RULE a AS ON SELECT TO b DO INSTEAD SELECT 1", "CREATE_RULE"},
    {"CREATE EXTENSION a", "CREATE_EXTENSION"},
    {"CREATE POLICY a ON b", "CREATE_POLICY"},
    {"CREATE ROLE a", "CREATE_ROLE"},
    {"CREATE USER a", "CREATE_USER"},
    {"ALTER ROLE a LOGIN", "ALTER_ROLE"},
    {"GRANT SELECT ON a TO b", "GRANT"},
    {"GRANT a TO b", "GRANT"},
    {"REVOKE SELECT ON a FROM b", "REVOKE"},
    {"REVOKE a FROM b", "REVOKE"},
    {"COMMENT ON TABLE a IS ''", "COMMENT"},
    {"NOTIFY a", "NOTIFY"},
    {"LISTEN a", "LISTEN"},
    {"UNLISTEN a", "UNLISTEN"},
    {"LOCK a", "LOCK"},
    {"CHECKPOINT", "CHECKPOINT"},
    {"REINDEX TABLE a", "REINDEX"},
    {"VACUUM a", "VACUUM"},
    {"ANALYZE a", "ANALYZE"},
    {"EXPLAIN SELECT 1", "EXPLAIN"},
    {"PREPARE a AS SELECT 1", "PREPARE"},
    {"EXECUTE a", "EXECUTE"},
    {"DEALLOCATE a", "DEALLOCATE"},
    {"FETCH 1 FROM a", "FETCH"},
    {"MOVE 1 FROM a", "MOVE"},
    {"SAVEPOINT a", "SAVEPOINT"},
    {"ROLLBACK TO a", "ROLLBACK_TO_SAVEPOINT"},
    {"RELEASE a", "RELEASE_SAVEPOINT"},
    {"START TRANSACTION", "BEGIN"},
    {"END", "COMMIT"},
    {"ABORT", "ROLLBACK"},
    {"DECLARE a CURSOR FOR SELECT 1", "DECLARE_CURSOR"},
    {"CLOSE a", "CLOSE_CURSOR"},
    {"DISCARD ALL", "DISCARD"},
    {"SHOW a", "SHOW"},
    {"SET a = 1", "SET"},
    {"SET TRANSACTION READ ONLY", "SET"},
    {"RESET a", "RESET"},
    {"RESET ALL", "RESET"},
    {"ALTER DATABASE a SET b = 1", "ALTER_DATABASE"},
    {"CREATE DATABASE a", "CREATE_DATABASE"},
    {"CREATE COLLATION a FROM \"C\"", "CREATE_COLLATION"},
    {"CREATE TEXT SEARCH CONFIGURATION a (parser = b)", "CREATE_TEXT_SEARCH_CONFIGURATION"},
    {"CREATE FOREIGN TABLE a (i int) SERVER s", "CREATE_FOREIGN_TABLE"},
    {"IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c", "IMPORT_FOREIGN_SCHEMA"},
    {"CREATE SERVER a FOREIGN DATA WRAPPER b", "CREATE_SERVER"},
    {"CREATE USER MAPPING FOR a SERVER b", "CREATE_USER_MAPPING"},
    {"CREATE PUBLICATION a", "CREATE_PUBLICATION"},
    {"CREATE SUBSCRIPTION a CONNECTION 'x' PUBLICATION b", "CREATE_SUBSCRIPTION"},
    {"CREATE EVENT TRIGGER a ON ddl_command_end EXECUTE FUNCTION f()", "CREATE_EVENT_TRIGGER"},
    {"CREATE CAST (int AS text) WITHOUT FUNCTION", "CREATE_CAST"},
    {"CREATE TABLESPACE a LOCATION '/x'", "CREATE_TABLESPACE"},
    {"CLUSTER a", "CLUSTER"},
    {"DO ''", "UNKNOWN"},
    {"SELEC 1", "UNKNOWN"},
    {"", "UNKNOWN"},
};

} // namespace

TEST_CASE("each statement counts under its command") {
	CHECK(kCommandCount == 151);
	for (const Command_Row& row : kCommands) {
		INFO(row.sql);
		CHECK(std::string(kCommandNames[classify(row.sql).command]) == row.command);
	}
}
