// Digest texts: the published tables of ProxySQL's form, the options, and what must never merge.
#include "classify/Digest.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using namespace proxy;

namespace {

std::string digest(std::string_view sql, const Digest_Options& options = {},
                   bool standard_strings = true) {
	Digest_Builder builder(options);
	return std::string(builder.build(sql, standard_strings).text);
}

uint64_t shape(std::string_view sql, const Digest_Options& options = {}) {
	Digest_Builder builder(options);
	return builder.build(sql, true).shape;
}

std::string repeat(std::string_view text, size_t count) {
	std::string result;
	for (size_t i = 0; i < count; ++i) {
		result += text;
	}
	return result;
}

struct Row {
	const char* sql;
	const char* digest;
};

constexpr Row kRows[] = {
    {"select 1", "select ?"},
    {"SELECT  a ,b   FROM   t1   WHERE a=10", "SELECT a,b FROM t1 WHERE a=?"},
    {"/* app:web */ SELECT a FROM t1 WHERE a = 10 -- tail", "SELECT a FROM t1 WHERE a = ?"},
    {"SELECT a FROM t1 WHERE a = -10", "SELECT a FROM t1 WHERE a = ?"},
    {"SELECT a FROM t1 WHERE a = - 10", "SELECT a FROM t1 WHERE a = ?"},
    {"SELECT a FROM t1 WHERE a - 10 > 3", "SELECT a FROM t1 WHERE a - ? > ?"},
    {"SELECT a FROM t1 WHERE a IN (1,2,3,4)", "SELECT a FROM t1 WHERE a IN (?,?,?,?)"},
    {"SELECT a FROM t1 WHERE a IN (1,2,3,4,5)", "SELECT a FROM t1 WHERE a IN (?,?,?,...)"},
    {"SELECT a FROM t1 WHERE b IN ('x','y','z','w','v','u')",
     "SELECT a FROM t1 WHERE b IN (?,?,?,...)"},
    {"SELECT a FROM t1 WHERE a = ANY (ARRAY[1,2,3])", "SELECT a FROM t1 WHERE a = ANY (?)"},
    {"SELECT a FROM t1 WHERE a = ANY ($1)", "SELECT a FROM t1 WHERE a = ANY ($1)"},
    {"INSERT INTO t1 (a,b) VALUES (1,'x') RETURNING a",
     "INSERT INTO t1 (a,b) VALUES (?,?) RETURNING a"},
    {"INSERT INTO t9 VALUES (1,2,3,4,5)", "INSERT INTO t9 VALUES (?,?,?,...)"},
    {"SELECT '2026-01-01'::date", "SELECT ?"},
    {"SELECT date '2026-01-01'", "SELECT date ?"},
    {"SELECT count(*)::int FROM \"Orders\" AS o WHERE o.\"TenantId\" = 7",
     "SELECT count(*)::int FROM \"Orders\" AS o WHERE o.\"TenantId\" = ?"},
    {"SELECT a::text || 'z' FROM t1", "SELECT a::text || ? FROM t1"},
    {"SELECT E'a\\'b\\n', a FROM t1", "SELECT ?,a FROM t1"},
    {"SELECT U&'d\\0061t' , U&'d!0061t' UESCAPE '!'", "SELECT ?,?"},
    {"SELECT $$it's$$, $q$a $$ b$q$", "SELECT ?,?"},
    {"SELECT 'a'\n'b'", "SELECT ?"},
    {"SELECT 1.5e3, 1e-4, .5, 5.", "SELECT ?,?,?,?"},
    {"SELECT 1000000000000000000000, 0x1F, 1_000, 0b1", "SELECT ?,?,?,?"},
    {"SELECT true, false, null", "SELECT ?,?,null"},
    {"SELECT a FROM t WHERE b IS NULL AND (b = 'q') IS NOT TRUE",
     "SELECT a FROM t WHERE b IS NULL AND (b = ?) IS NOT TRUE"},
    {"SELECT * FROM t1 WHERE b LIKE 'ab%' ESCAPE '\\'", "SELECT * FROM t1 WHERE b LIKE ? ESCAPE ?"},
    {"SELECT interval '1 day', now() - interval '2 hours'", "SELECT interval ?,now() - interval ?"},
    {"SELECT '{\"k\":1}'::jsonb -> 'k', '{\"k\":1}'::jsonb @> '{}'", "SELECT ? -> ?,? @> ?"},
    {"SELECT a FROM t1 LIMIT 10 OFFSET 20", "SELECT a FROM t1 LIMIT ? OFFSET ?"},
    {"SELECT a FROM t1 WHERE (a,b) IN ((1,'x'),(2,'y'))",
     "SELECT a FROM t1 WHERE (a,b) IN ((?,?),(?,?))"},
    {"SELECT a FROM t WHERE a BETWEEN 1 AND 10 AND b || 'z' = 'qz'",
     "SELECT a FROM t WHERE a BETWEEN ? AND ? AND b || ? = ?"},
    {"SET work_mem = '64MB'", "SET work_mem = ?"},
    {"SET search_path TO s1, public", "SET search_path TO s1,public"},
    {"EXPLAIN ANALYZE SELECT a FROM t1 WHERE a = 5",
     "EXPLAIN ANALYZE SELECT a FROM t1 WHERE a = ?"},
    {"DO $$ BEGIN PERFORM 1; END $$", "DO ?"},
    {"CALL pr1(1, 'x')", "CALL pr1(?,?)"},
    {"select 1.1e-9", "select ?"},
    {"select -42", "select ?"},
    {"select 0x1F", "select ?"},
    {"'a'", "?"},
    {"'it''s'", "?"},
    {"B'10'", "?"},
    {"x'FF'", "?"},
    {"$t$ a $t$", "?"},
    {"'1'::int", "?"},
    {"'x'::varchar(20)", "?"},
    {"'{1}'::int[]", "?"},
    {"1::\"my type\"", "?"},
    {"ARRAY[1,ARRAY[2]]", "?"},
    {"\"Name\"", "\"Name\""},
    {"$1", "$1"},
    {"interval '1 day'", "interval ?"},
    {"select 1 /* nested /* ok */ */", "select ?"},
    {"select 1 --x", "select ?"},
    {"select 1 +1", "select ?+?"},
    {"select 1 - 1, 2 * 3, 4 / 5", "select ?-?,?*?,?/?"},
    {"SELECT ROW(1, 'a')", "SELECT ROW(?,?)"},
    {"SELECT f( 1 , a )", "SELECT f(?,a)"},
    {"SELECT a IN (1,2,3,4,5,6,NULL8,7,8)", "SELECT a IN (?,?,?,...,NULL8,?,?)"},
    {" \n\t SELECT\t1\n ", "SELECT ?"},
    {"SELECT 1;", "SELECT ?"},
    {"SELECT 1 ;; ", "SELECT ?"},
    {"SELECT 1; SELECT 2;", "SELECT ?; SELECT ?"},
    {"", ""},
    {";", ""},
    {"-- ping", ""},
    // Casts of every form, and what follows them.
    {"SELECT '1'::numeric(10,2) FROM t", "SELECT ? FROM t"},
    {"SELECT '1'::int[][3], a", "SELECT ?,a"},
    {"SELECT '1'::int ARRAY[4], a", "SELECT ?,a"},
    {"SELECT ('1'::\"MyType\")", "SELECT (?)"},
    {"SELECT '1'::schema.type;", "SELECT ?"},
    {"SELECT '1'::pg_catalog.numeric(3, -1), a", "SELECT ?,a"},
    {"SELECT '1'::timestamp with time zone, a", "SELECT ?,a"},
    {"SELECT '1'::timestamp(3) without time zone AS a", "SELECT ? AS a"},
    {"SELECT '1'::time(0) with time zone FROM t", "SELECT ? FROM t"},
    {"SELECT '1'::interval day to second FROM t", "SELECT ? FROM t"},
    {"SELECT '1'::interval(3), a", "SELECT ?,a"},
    {"SELECT '1'::double precision, a", "SELECT ?,a"},
    {"SELECT '1'::character varying(20), a", "SELECT ?,a"},
    {"SELECT '1'::national character varying (20), a", "SELECT ?,a"},
    {"SELECT '1'::bit varying, a", "SELECT ?,a"},
    {"SELECT '1' :: text :: int, a", "SELECT ?,a"},
    {"SELECT '1'::time FROM t", "SELECT ? FROM t"},
    {"SELECT '1'::date - a", "SELECT ? - a"},
    {"SELECT a :: text, (1)::int, $1::int", "SELECT a::text,(?)::int,$1::int"},
    {"SELECT a::numeric(10,2), f(a)::text[]", "SELECT a::numeric(?,?),f(a)::text[]"},
    {"SELECT '1'::f(g(1))", "SELECT ?(g(?))"},
    // Signs.
    {"SELECT a FROM t WHERE a=-1 AND b IN (-1, - 2, +3)",
     "SELECT a FROM t WHERE a=? AND b IN (?,?,?)"},
    {"SELECT - - 5", "SELECT ?"},
    {"SELECT a -1, a-1, (a) - 1, a[1] - 1, $1 - 1", "SELECT a -?,a-?,(a) - ?,a[?] - ?,$1 - ?"},
    {"SELECT 1 - -1", "SELECT ?-?"},
    {"SELECT -a, -'5'", "SELECT -a,-?"},
    {"SELECT a FROM t LIMIT -1", "SELECT a FROM t LIMIT ?"},
    {"SELECT CASE WHEN -1 > 0 THEN -1 ELSE +2 END", "SELECT CASE WHEN ? > ? THEN ? ELSE ? END"},
    // Arrays.
    {"SELECT ARRAY[[1,2],[3,-4]]", "SELECT ?"},
    {"SELECT ARRAY[a,1], array['x'::text]", "SELECT ARRAY[a,?],?"},
    {"SELECT ARRAY[$1,$2]", "SELECT ARRAY[$1,$2]"},
    {"SELECT ARRAY[]::int[]", "SELECT ?"},
    {"SELECT ARRAY[1, nextval('s')]", "SELECT ARRAY[?,nextval(?)]"},
    {"SELECT ARRAY[1,2,3,4,5,6]", "SELECT ?"},
    {"SELECT ARRAY(SELECT 1)", "SELECT ARRAY(SELECT ?)"},
    {"SELECT a[1], a[1:2]", "SELECT a[?],a[?:?]"},
    // Rows of literals: nothing but literals is ever folded away.
    {"f(1,2,3,4,nextval('s'))", "f(?,?,?,?,nextval(?))"},
    {"f(1,2,3,4,5,nextval('s'))", "f(?,?,?,...,nextval(?))"},
    {"f(1,2,3,4,5+6,7,8,9,10,11)", "f(?,?,?,?,?+?,?,?,?,...)"},
    {"f(1,2,3,4,5 + a)", "f(?,?,?,?,? + a)"},
    {"SELECT 1,2,3,4,5 FROM t", "SELECT ?,?,?,... FROM t"},
    {"SELECT 1,2,3,4,5 AS x", "SELECT ?,?,?,?,? AS x"},
    {"SELECT 1,2,3,4,5 x, 6", "SELECT ?,?,?,?,? x,?"},
    {"SELECT 1,2,3,4,a,5,6,7,8,9", "SELECT ?,?,?,?,a,?,?,?,..."},
    {"f(1,2,3,4,$1,5)", "f(?,?,?,?,$1,?)"},
    {"f(1,2,3,4,-a,5)", "f(?,?,?,?,-a,?)"},
    // Words that look like literals.
    {"SELECT t.true, t . false FROM t", "SELECT t.true,t . false FROM t"},
    {"SELECT a IS DISTINCT FROM true", "SELECT a IS DISTINCT FROM ?"},
    {"SELECT a IS FALSE, NOT TRUE", "SELECT a IS FALSE,NOT ?"},
    {"SELECT \"true\"", "SELECT \"true\""},
    {"SELECT 5 IS NOT NULL", "SELECT ? IS NOT NULL"},
    {"SELECT U&\"a!0061\" UESCAPE '!'", "SELECT U&\"a!0061\" UESCAPE ?"},
    {"SELECT a ? 'k', b ?| c", "SELECT a ? ?,b ?| c"},
    {"SELECT col$tag$ FROM t", "SELECT col$tag$ FROM t"},
    {"SELECT 1--2\n+3", "SELECT ?+?"},
    {"SELECT/*x*/1", "SELECT ?"},
    {"select*from t where\"a\"='x'", "select*from t where\"a\"=?"},
    // Secrets.
    {"ALTER ROLE app PASSWORD 'secret'", "ALTER ROLE app PASSWORD ?"},
    {"CREATE USER app WITH ENCRYPTED PASSWORD 'md5secret' LOGIN",
     "CREATE USER app WITH ENCRYPTED PASSWORD ? LOGIN"},
    {"alter user app password secret", "alter user app password ?"},
    {"ALTER ROLE app PASSWORD \"secret\"", "ALTER ROLE app PASSWORD ?"},
    {"ALTER ROLE app PASSWORD 'it's secret'", "ALTER ROLE app PASSWORD ?"},
    {"ALTER ROLE app PASSWORD E'a' VALID UNTIL 'x'", "ALTER ROLE app PASSWORD ? VALID UNTIL ?"},
    {"ALTER ROLE app PASSWORD NULL", "ALTER ROLE app PASSWORD NULL"},
    {"ALTER ROLE app PASSWORD 'secret", "ALTER ROLE app PASSWORD ?"},
    {"ALTER ROLE app PASSWORD $$secret", "ALTER ROLE app PASSWORD ?"},
    {"ALTER ROLE app PASSWORD \"secret", "ALTER ROLE app PASSWORD ?"},
    {"ALTER TABLE users ADD password text", "ALTER TABLE users ADD password text"},
    {"SELECT password FROM users", "SELECT password FROM users"},
    {"CREATE USER MAPPING FOR a SERVER b OPTIONS (user 'x', password 'secret')",
     "CREATE USER MAPPING FOR a SERVER b OPTIONS (user ?,password ?)"},
};

} // namespace

TEST_CASE("digests have ProxySQL's form") {
	for (const Row& row : kRows) {
		INFO(row.sql);
		CHECK(digest(row.sql) == row.digest);
	}
}

TEST_CASE("a digest is its own digest") {
	for (const Row& row : kRows) {
		const std::string once = digest(row.sql);
		INFO(once);
		if (once.find('?') == std::string::npos && once.find("PASSWORD") == std::string::npos) {
			CHECK(digest(once) == once);
		}
	}
}

TEST_CASE("groups of literals fold past the limit") {
	Digest_Options options;
	options.grouping_limit = 1;
	options.groups_grouping_limit = 1;
	CHECK(digest("VALUES (1,2,3),(4,5,6),(7,8,9)", options) == "VALUES (?,...),...");
	const auto rows = [](size_t count) { return "VALUES (1,2)" + repeat(", (3,4)", count - 1); };
	CHECK(digest(rows(2)) == "VALUES (?,?),(?,?)");
	CHECK(digest(rows(11)) == "VALUES " + repeat("(?,?),", 10) + "(?,?)");
	CHECK(digest(rows(12)) == "VALUES " + repeat("(?,?),", 10) + "...");
	CHECK(digest(rows(12)) == digest(rows(5000)));
	options.groups_grouping_limit = 0;
	options.grouping_limit = 3;
	CHECK(digest(rows(12), options) == "VALUES " + repeat("(?,?),", 11) + "(?,?)");
	// A group that holds more than literals is never left out.
	const std::string call = rows(20) + ",(nextval('s'),1)" + repeat(",(5,6)", 20);
	CHECK(digest(call).find("nextval") != std::string::npos);
	CHECK(digest(rows(20) + ",(5,6,7)").find("(?,?,?)") != std::string::npos);
	CHECK(digest(rows(30) + " ON CONFLICT DO NOTHING") ==
	      "VALUES " + repeat("(?,?),", 10) + "... ON CONFLICT DO NOTHING");
}

TEST_CASE("options change the digest as ProxySQL's do") {
	Digest_Options lower;
	lower.lowercase = true;
	CHECK(digest("SELECT A, \"B\" FROM T WHERE X = 'Q'", lower) ==
	      "select a,\"B\" from t where x = ?");
	Digest_Options null;
	null.replace_null = true;
	CHECK(digest("SELECT NULL, a IS NULL, b IS NOT NULL", null) ==
	      "SELECT ?,a IS NULL,b IS NOT NULL");
	CHECK(digest("INSERT INTO t VALUES (1,NULL,2,NULL,3)", null) ==
	      "INSERT INTO t VALUES (?,?,?,...)");
	CHECK(digest("UPDATE t SET a = NULL", null) == "UPDATE t SET a = ?");
	CHECK(digest("CREATE TABLE t (a int NOT NULL)", null) == "CREATE TABLE t (a int NOT NULL)");
	CHECK(digest("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES b ON DELETE SET NULL", null) ==
	      "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES b ON DELETE SET NULL");
	Digest_Options digits;
	digits.no_digits = true;
	CHECK(digest("SELECT col1, \"c22\" FROM t_25_x3 WHERE a = $1", digits) ==
	      "SELECT col?,\"c?\" FROM t_?_x? WHERE a = $1");
	Digest_Options comment;
	comment.keep_comment = true;
	CHECK(digest("/* app:web */ SELECT  1 /*b*/ , 2 -- tail", comment) ==
	      "/* app:web */ SELECT ? /*b*/,? -- tail");
	// Each comment gets spaces that the statement does not have: the digest is longer than it.
	std::string sql;
	std::string expected;
	for (int i = 0; i < 20000; ++i) {
		sql += "a/**/";
		expected += i == 0 ? "a /**/" : " a /**/";
	}
	CHECK(digest(sql, comment) == expected);
}

TEST_CASE("only what a class may depend on changes the shape") {
	CHECK(shape("SELECT 1") == shape("SELECT 'a'"));
	CHECK(shape("SELECT 'x'::int") != shape("SELECT 'x'::pg_temp.t"));
	CHECK(shape("SELECT f('s') 'x'") != shape("SELECT f('s') true"));
	CHECK(shape("SELECT f('s') 'x' y") != shape("SELECT f('s') ? y"));
	Digest_Options digits;
	digits.no_digits = true;
	CHECK(digest("SELECT f1()", digits) == digest("SELECT f2()", digits));
	CHECK(shape("SELECT f1()", digits) != shape("SELECT f2()", digits));
	Digest_Options comment;
	comment.keep_comment = true;
	CHECK(shape("SELECT 1 --x\n, nextval('s')", comment) !=
	      shape("SELECT 1 --x , nextval('s')", comment));
}

TEST_CASE("quotes follow the session's standard_conforming_strings") {
	const std::string_view sql = R"(SELECT 'a\' OR f()--')";
	CHECK(digest(sql, {}, true) == "SELECT ? OR f()");
	CHECK(digest(sql, {}, false) == "SELECT ?");
}

TEST_CASE("what shows is cut, what is hashed is not") {
	Digest_Options options;
	options.max_query_length = 20;
	Digest_Builder builder(options);
	const Digest_View view = builder.build("SELECT a FROM table1 WHERE a = 1", true);
	CHECK(view.shown == "SELECT a FROM table1");
	CHECK(view.text == "SELECT a FROM table1 WHERE a = ?");
	CHECK(shorten_digest("SELECT a,b FROM t", 100) == "SELECT a,b FROM t");
	CHECK(shorten_digest("SELECT a,b FROM t", 17) == "SELECT a,b FROM t");
	CHECK(shorten_digest("SELECT a,b FROM t", 16) == "SELECT a,b...");
	CHECK(shorten_digest("SELECT a,b FROM t", 12) == "SELECT a...");
	CHECK(shorten_digest("SELECT a,b FROM t", 10) == "SELECT...");
	CHECK(shorten_digest("SELECT", 3) == "...");
	CHECK(shorten_digest("SELECT \"a b c d\" FROM t", 16) == "SELECT...");
}

TEST_CASE("unfinished texts have a stable digest and leak nothing") {
	for (const char* sql : {"SELECT 'abc", "SELECT $q$abc", "SELECT E'abc\\", "SELECT U&'abc"}) {
		INFO(sql);
		CHECK(digest(sql) == "SELECT ?");
	}
	CHECK(digest("SELECT 1 /* abc") == "SELECT ?");
	CHECK(digest("SELECT \"abc") == "SELECT \"abc");
	CHECK(digest("SELECT 1 --") == "SELECT ?");
}

TEST_CASE("white space and comments between tokens do not change the digest") {
	static constexpr const char* kWords[] = {
	    "SELECT", "a",   ",",   "count", "(", "*", ")",  "FROM",  "t",    "WHERE", "=",  "1",
	    "'x'",    "AND", "IN",  "(",     "2", ",", ")",  "||",    "NOT",  "\"Q\"", "$1", "[",
	    "]",      "::",  "int", "true",  "-", "+", ".5", "ARRAY", "NULL", "IS",    ";"};
	static constexpr const char* kSpaces[] = {
	    " ", "\n", "\t \n", " /* x */ ", " --y\n", "/**/", "/* /* z */ */\r\n"};
	std::mt19937 random(7);
	for (int round = 0; round < 3000; ++round) {
		std::vector<const char*> words(1 + random() % 30);
		for (const char*& word : words) {
			word = kWords[random() % std::size(kWords)];
		}
		std::string plain;
		std::string varied;
		bool string_before = false;
		for (const char* word : words) {
			// Two strings over a line break would be one.
			const bool string = word[0] == '\'';
			plain.append(" ").append(word);
			varied.append(string && string_before ? " " : kSpaces[random() % std::size(kSpaces)])
			    .append(word);
			string_before = string;
		}
		INFO(varied);
		REQUIRE(digest(plain) == digest(varied));
	}
}

TEST_CASE("the quick way through plain words takes the same decisions") {
	// keep_comment switches it off and changes nothing else in a text without comments.
	static constexpr const char* kParts[] = {"SELECT",
	                                         "a",
	                                         "is",
	                                         "not",
	                                         "null",
	                                         "true",
	                                         "FALSE",
	                                         "array",
	                                         "[",
	                                         "]",
	                                         "(",
	                                         ")",
	                                         ",",
	                                         ".",
	                                         " ",
	                                         " ",
	                                         " ",
	                                         "  ",
	                                         "\n",
	                                         "1",
	                                         "'x'",
	                                         "$1",
	                                         "::",
	                                         "int",
	                                         "=",
	                                         "-",
	                                         "+ ",
	                                         "||",
	                                         ";",
	                                         "alter",
	                                         "role",
	                                         "password",
	                                         "create",
	                                         "user",
	                                         "\"Q\"",
	                                         "?",
	                                         "timestamp",
	                                         "with",
	                                         "time",
	                                         "zone",
	                                         "a_very_long_name_of_a_column",
	                                         "e'x'",
	                                         "u&'x'",
	                                         "uescape",
	                                         "from",
	                                         "x'1'",
	                                         "sixteen_letters_",
	                                         "eight_ab",
	                                         ".5",
	                                         "\xc3\xa9"};
	Digest_Options slow;
	slow.keep_comment = true;
	std::mt19937 random(5);
	for (int round = 0; round < 60000; ++round) {
		std::string sql;
		for (size_t i = random() % 25; i > 0; --i) {
			sql += kParts[random() % std::size(kParts)];
		}
		if (sql.find("--") != std::string::npos) {
			continue;
		}
		INFO(sql);
		REQUIRE(digest(sql) == digest(sql, slow));
		REQUIRE(shape(sql) == shape(sql, slow));
	}
}

TEST_CASE("literals do not change the digest") {
	static constexpr const char* kLiterals[] = {"1",      "-1",       "'x'",  "1.5",       "$$a$$",
	                                            "E'\\''", "'x'::int", "B'1'", "ARRAY[1,2]"};
	std::mt19937 random(11);
	for (int round = 0; round < 2000; ++round) {
		std::string first;
		std::string second;
		for (const char* part :
		     {"SELECT a FROM t WHERE a = ", " AND b IN (", ",", ") OR f(", ", c, ", ") = "}) {
			first.append(part).append(kLiterals[random() % std::size(kLiterals)]);
			second.append(part).append(kLiterals[random() % std::size(kLiterals)]);
		}
		INFO(first << " / " << second);
		REQUIRE(digest(first) == digest(second));
	}
}

TEST_CASE("huge statements take linear time and give their memory back") {
	Digest_Builder builder;
	for (const std::string_view unit :
	     {"1,", "(1,2),", "a,", "'x' ", "((", "[", "ARRAY[", "1+", "-", "$a", "::", "?", "f(1),"}) {
		const std::string sql = "SELECT " + repeat(unit, (4u << 20) / unit.size());
		const Digest_View view = builder.build(sql, true);
		INFO(unit);
		CHECK(view.text.size() <= sql.size() + 64);
	}
	builder.build("SELECT 1", true);
	CHECK(builder.buffer_bytes() < (4u << 20));
}
