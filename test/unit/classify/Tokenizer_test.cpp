// The lexer's rules one by one, and against PostgreSQL's own scanner on many texts.
#include "classify/Parse_Tree.h"
#include "classify/Tokenizer.h"

#include <pg_query.h>

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace proxy;

namespace {

// Tokens joined with '|', strings as they are written.
std::string cut(std::string_view sql, bool standard_strings = true) {
	Tokenizer tokens(sql, standard_strings);
	std::string result;
	while (true) {
		const Token token = tokens.next();
		if (token.kind == Token_Kind::end) {
			return result;
		}
		result.append(result.empty() ? "" : "|").append(tokens.text_of(token));
	}
}

Token_Kind kind_of(std::string_view sql) {
	Tokenizer tokens(sql, true);
	return tokens.next().kind;
}

bool unterminated(std::string_view sql, bool standard_strings = true) {
	Tokenizer tokens(sql, standard_strings);
	while (tokens.next().kind != Token_Kind::end) {
	}
	return tokens.unterminated();
}

struct Row {
	const char* sql;
	const char* tokens;
};

constexpr Row kRows[] = {
    {"", ""},
    {" \t\r\n\f\v ", ""},
    {"SELECT 1", "SELECT|1"},
    {"a,b", "a|,|b"},
    {"-- x\na", "a"},
    {"--x\ra", "a"},
    {"a--", "a"},
    {"/* a /* b */ c */ d", "d"},
    {"/*/ a */b", "b"},
    {"/**/a/***/b", "a|b"},
    {"a/*", "a"},
    {"a*/b", "a|*/|b"},
    {"'a''b'", "'a''b'"},
    {"'a' 'b'", "'a'|'b'"},
    {"'a'\n'b'", "'a'\n'b'"},
    {"'a'  -- x\n  'b'", "'a'  -- x\n  'b'"},
    {"'a' /* x */\n'b'", "'a'|'b'"},
    {"'a'\n\n-- y\n'b'c", "'a'\n\n-- y\n'b'|c"},
    {"E'a'\n'b\\'c'", "E'a'\n'b\\'c'"},
    {"E'\\''", "E'\\''"},
    {"e'\\\\'a", "e'\\\\'|a"},
    {"'\\'a", "'\\'|a"},
    {"B'01'x'1F'", "B'01'|x'1F'"},
    {"B'0'''", "B'0'|''"},
    {"X'1'\n'2'", "X'1'\n'2'"},
    {"N'x'", "N'x'"},
    {"U&'a\\0061'", "U&'a\\0061'"},
    {"U&\"a\"", "U&\"a\""},
    {"u & 'x'", "u|&|'x'"},
    {"U&x", "U|&|x"},
    {"ee'a'", "ee|'a'"},
    {"\"a\"\"b\"", "\"a\"\"b\""},
    {"\"a b\".\"c\"", "\"a b\"|.|\"c\""},
    {"$$a'b$$c", "$$a'b$$|c"},
    {"$t$ a $$ b $t$", "$t$ a $$ b $t$"},
    {"$t$ $T$ $t$", "$t$ $T$ $t$"},
    {"$1$x$1$", "$1|$x$1$"},
    {"$12a", "$12|a"},
    {"a$b$c", "a$b$c"},
    {"$a", "$|a"},
    {"$", "$"},
    {"$\xc3\xa9$x$\xc3\xa9$y", "$\xc3\xa9$x$\xc3\xa9$|y"},
    {"1.5e3", "1.5e3"},
    {"1e-4x", "1e-4|x"},
    {"1e", "1|e"},
    {"1e+", "1|e|+"},
    {".5", ".5"},
    {"5.", "5."},
    {"1..10", "1|..|10"},
    {"1.5.5", "1.5|.5"},
    {"0x1F 0o17 0b11", "0x1F|0o17|0b11"},
    {"0xg", "0|xg"},
    {"1_000_000", "1_000_000"},
    {"1__0", "1|__0"},
    {"1_", "1|_"},
    {"t.c", "t|.|c"},
    {"a::int", "a|::|int"},
    {"a:=1", "a|:=|1"},
    {"a[1:2]", "a|[|1|:|2|]"},
    {"a=>b", "a|=>|b"},
    {"a*--c", "a|*"},
    {"a*/*c*/b", "a|*|b"},
    {"1--2", "1"},
    {"a->>'k'", "a|->>|'k'"},
    {"a?|b", "a|?||b"},
    {"a=-1", "a|=|-|1"},
    {"a@-1", "a|@-|1"},
    {"a*-1", "a|*|-|1"},
    {"a<>-+1", "a|<>|-|+|1"},
    {"+-+", "+|-|+"},
    {"#x", "#|x"},
    {"{ \\ }", "{|\\|}"},
    {"caf\xc3\xa9", "caf\xc3\xa9"},
    {"a\xc2\xa0"
     "b",
     "a\xc2\xa0"
     "b"},
    {"a;b", "a|;|b"},
};

// Begin and end of the tokens PostgreSQL's scanner finds, comments left out; false: it refuses.
bool scan(const std::string& sql, std::vector<std::pair<uint32_t, uint32_t>>& tokens) {
	const PgQueryScanResult result = pg_query_scan(sql.c_str());
	const bool ok = result.error == nullptr;
	if (ok) {
		constexpr uint64_t kLineComment = 275;
		constexpr uint64_t kBlockComment = 276;
		Wire_Reader reader({result.pbuf.data, result.pbuf.len});
		Wire_Field field;
		while (reader.next(field)) {
			const uint64_t kind = field.number == 2 ? field_value(field.bytes, 4) : 0;
			if (field.number == 2 && kind != kLineComment && kind != kBlockComment) {
				tokens.emplace_back(field_value(field.bytes, 1), field_value(field.bytes, 2));
			}
		}
	}
	pg_query_free_scan_result(result);
	return ok;
}

} // namespace

TEST_CASE("texts are cut into tokens as PostgreSQL cuts them") {
	for (const Row& row : kRows) {
		INFO(row.sql);
		CHECK(cut(row.sql) == row.tokens);
	}
}

TEST_CASE("standard_conforming_strings off makes backslashes escapes in plain strings") {
	CHECK(cut("'a\\'b'", false) == "'a\\'b'");
	CHECK(cut("'a\\\\'b", false) == "'a\\\\'|b");
	CHECK(cut("N'a\\'b'", false) == "N'a\\'b'");
	CHECK(cut("B'a\\'b", false) == "B'a\\'|b");
	Tokenizer tokens("'a\\b'", true);
	tokens.next();
	CHECK(tokens.plain_backslash());
	Tokenizer extended("E'a\\b'", true);
	extended.next();
	CHECK_FALSE(extended.plain_backslash());
}

TEST_CASE("what is open at the end is reported") {
	for (const char* sql : {"'abc", "'abc''", "$q$abc", "$q$abc$q", "/* abc", "/* a /* b */",
	                        "\"abc", "E'\\", "E'\\'", "U&'a", "U&\"a", "'a'\n'b"}) {
		INFO(sql);
		CHECK(unterminated(sql));
	}
	for (const char* sql : {"", "--", "'abc'", "$q$ $q$", "/**/", "$q", "E'\\\\'", "'\\'"}) {
		INFO(sql);
		CHECK_FALSE(unterminated(sql));
	}
	CHECK(unterminated("'\\'", false));
}

TEST_CASE("tokens have their kind and know what stands before them") {
	CHECK(kind_of("abc") == Token_Kind::word);
	CHECK(kind_of("\"abc\"") == Token_Kind::quoted_name);
	CHECK(kind_of("U&\"abc\"") == Token_Kind::quoted_name);
	CHECK(kind_of("$$a$$") == Token_Kind::string);
	CHECK(kind_of("X'1'") == Token_Kind::string);
	CHECK(kind_of(".5") == Token_Kind::number);
	CHECK(kind_of("$1") == Token_Kind::parameter);
	CHECK(kind_of("::") == Token_Kind::cast);
	CHECK(kind_of(".") == Token_Kind::other);
	Tokenizer tokens("a/*x*/b c", true);
	CHECK_FALSE(tokens.next().space_before);
	CHECK(tokens.next().space_before);
	CHECK(tokens.next().space_before);
	CHECK(tokens.next().kind == Token_Kind::end);
	CHECK(tokens.next().kind == Token_Kind::end);
}

TEST_CASE("nothing beyond the text is read") {
	// Every prefix in a buffer of exactly its size: the sanitizer build sees a byte too far.
	for (const Row& row : kRows) {
		const std::string sql(row.sql);
		for (size_t size = 0; size <= sql.size(); ++size) {
			const std::unique_ptr<char[]> exact = std::make_unique<char[]>(size);
			std::copy_n(sql.data(), size, exact.get());
			cut({exact.get(), size}, true);
			cut({exact.get(), size}, false);
		}
	}
}

TEST_CASE("random texts are cut where PostgreSQL's scanner cuts them") {
	static constexpr const char* kParts[] = {
	    "a", "sel", "E",  "U&",  "'",        "''", "\"",       "$",     "$$",   "$t$",  "1", ".",
	    "e", "-",   "--", "/*",  "*/",       "\n", " ",        "\t",    "+",    "*",    "<", "=",
	    ">", "@",   "#",  "?",   "|",        ":",  "::",       ":=",    "(",    ")",    "[", "]",
	    ",", ";",   "\\", "\\'", "'a'",      "$1", "..",       "0",     "x'1'", "b'0'", "~", "!",
	    "%", "^",   "&",  "`",   "\xc3\xa9", "_",  "'a'\n'b'", "-- c\n"};
	std::mt19937 random(20240607);
	size_t compared = 0;
	for (int round = 0; round < 60000; ++round) {
		std::string sql;
		const size_t parts = 1 + random() % 9;
		for (size_t i = 0; i < parts; ++i) {
			sql += kParts[random() % std::size(kParts)];
		}
		std::vector<std::pair<uint32_t, uint32_t>> expected;
		if (!scan(sql, expected)) {
			continue;
		}
		std::vector<std::pair<uint32_t, uint32_t>> found;
		Tokenizer tokens(sql, true);
		bool joined_over_comment = false;
		for (Token token = tokens.next(); token.kind != Token_Kind::end; token = tokens.next()) {
			found.emplace_back(token.begin, token.end);
			// The server joins strings over a line break with a comment in it; libpg_query hands
			// comments out as tokens and does not.
			joined_over_comment =
			    joined_over_comment || (token.kind == Token_Kind::string &&
			                            tokens.text_of(token).find("--") != std::string_view::npos);
			// libpg_query gives no true end for tokens with Unicode escapes.
			if (token.unicode_escape && found.size() <= expected.size()) {
				expected[found.size() - 1].second = token.end;
			}
		}
		if (joined_over_comment) {
			continue;
		}
		INFO(sql);
		REQUIRE_FALSE(tokens.unterminated());
		REQUIRE(found == expected);
		++compared;
	}
	CHECK(compared > 20000);
}

TEST_CASE("hostile texts take linear time") {
	// Megabytes each; a quadratic scan would need hours.
	const size_t size = 4u << 20;
	for (const std::string_view unit :
	     {"$", "$a", "$a$", "'", "/*", "\"", "--", "\\", "'\n", "-", "1e", "''\n ", "$a$b", "("}) {
		std::string sql;
		while (sql.size() < size) {
			sql += unit;
		}
		Tokenizer tokens(sql, true);
		size_t count = 0;
		while (tokens.next().kind != Token_Kind::end) {
			++count;
		}
		INFO(unit);
		CHECK(tokens.offset() == sql.size());
		CHECK(count <= sql.size());
	}
}
