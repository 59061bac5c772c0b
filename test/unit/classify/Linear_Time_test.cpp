// What a client sends is looked at by a worker that has other clients. Whatever the text is, the
// time for it grows with its length and no faster, and no nesting uses up a thread's stack. A kind
// of text is a piece that is repeated, with something before and behind it.
#include "classify/Digest.h"
#include "classify/Hints.h"
#include "classify/Query_Processor.h"
#include "classify/Statement_Classifier.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

using namespace proxy;

namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

struct Kind {
	std::string begin;
	std::string piece;
	std::string end;
	std::string closing; // repeated as often as the piece, behind `end`
};

std::string repeat(std::string_view text, size_t count) {
	std::string result;
	result.reserve(text.size() * count);
	for (size_t i = 0; i < count; ++i) {
		result += text;
	}
	return result;
}

// Stays below `bytes`.
std::string text_of(const Kind& kind, size_t bytes) {
	const size_t fixed = kind.begin.size() + kind.end.size() + 1;
	const size_t count = (bytes - fixed) / (kind.piece.size() + kind.closing.size());
	return kind.begin + repeat(kind.piece, count) + kind.end + repeat(kind.closing, count);
}

std::vector<Kind> operators_and_comments() {
	std::vector<Kind> kinds;
	for (const char* piece :
	     {"+",  "+-",  "-+",   "@",       "@+",       "*",     "<+",     "=-",          "+ ",
	      "- ", "/",   "?",    "+/**/",   "+--\n",    "/**/",  "/* */ ", "/*/",         "*/",
	      "/*", "/*+", "--\n", "-- a;\n", "-- +++\n", "/*+*/", "/*-*/",  "/* +/*-*/ */"}) {
		kinds.push_back({"select ", piece, "1", ""});
		kinds.push_back({"select /* ", piece, "*/ 1", ""});
		kinds.push_back({"select '", piece, "'", ""});
	}
	kinds.push_back({"select 1<", "+", "1", ""});
	kinds.push_back({"select 1 ", "-", "", ""});
	kinds.push_back({"", "/*", "", "*/"});
	kinds.push_back({"", "/* ", "", "*/"});
	kinds.push_back({"", "/*a", "", "a*/"});
	for (const char* piece :
	     {"route=primary,", "a=b ", "=", "= ", " ", " ;", "a", ",", "a=", "\n"}) {
		kinds.push_back({"/* ", piece, "*/ select 1", ""});
	}
	kinds.push_back({"", "/* route=primary */", "select 1", ""});
	return kinds;
}

std::vector<Kind> literals_and_names() {
	std::vector<Kind> kinds;
	for (const char* piece : {"'",
	                          "' ",
	                          "'a' ",
	                          "'a'\n",
	                          "'a'--\n",
	                          "'a'\n--",
	                          "E'\\",
	                          "E'a',",
	                          "N'a',",
	                          "B'1',",
	                          "X'f',",
	                          "U&'a',",
	                          "U&'a' ",
	                          "U&'",
	                          "U&'a' uescape ",
	                          "U&'a' uescape '!',",
	                          "U&\"a\",",
	                          "$",
	                          "$a",
	                          "$a$",
	                          "$a$ ",
	                          "$$ $$,",
	                          "$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	                          "a",
	                          "a ",
	                          "\"",
	                          "\"\"",
	                          "\"a\" ",
	                          "\xc3\xa4",
	                          "\xff",
	                          "1",
	                          "1_",
	                          "1.",
	                          "1..",
	                          "1e",
	                          "1e+",
	                          "1 ",
	                          "$1,",
	                          "0x",
	                          "\\",
	                          "(",
	                          "()",
	                          "[",
	                          ")",
	                          "]",
	                          ",",
	                          ":",
	                          ":=",
	                          "::",
	                          "\x80",
	                          "."}) {
		kinds.push_back({"select ", piece, "1", ""});
	}
	for (const char* piece : {"x", "''", "\\n", "\\u0041", "\\", " ", "\n"}) {
		kinds.push_back({"select '", piece, "'", ""});
		kinds.push_back({"select E'", piece, "'", ""});
		kinds.push_back({"select U&'", piece, "'", ""});
	}
	kinds.push_back({"select 'a'", " ", "'", ""});
	kinds.push_back({"select $x$", "$a$", "", ""});
	kinds.push_back({"select $", "a", "$", ""});
	kinds.push_back({"select B'", "1", "'", ""});
	kinds.push_back({"select \"", "a", "\"", ""});
	kinds.push_back({"select 0x", "f", "", ""});
	kinds.push_back({"select $", "1", "", ""});
	kinds.push_back({"select ", std::string(70, 'a') + ",", "1", ""});
	kinds.push_back({"select", " ", "1", ""});
	return kinds;
}

std::vector<Kind> depths() {
	std::vector<Kind> kinds;
	for (const char* piece :
	     {"case ", "case when ", "not ", "- ", "(select ", "array[", "f(", "(a,", "explain "}) {
		kinds.push_back({"select ", piece, "1", ""});
	}
	for (const char* piece :
	     {"::int", "::timestamp(3) with time zone", "::a.b.c", "::a(", " collate a", " is null",
	      " isnull", "[1]", ".b", "||a", "+1", " at time zone 'a'", "->'a'", " union select 1",
	      " like 'a'", " between 1 and 1", " in (1)"}) {
		kinds.push_back({"select a", piece, "", ""});
		kinds.push_back({"select a", piece + std::string(" and a"), "", ""});
		kinds.push_back({"select a", piece + std::string(",a"), "", ""});
		// A depth that is allowed, again and again: each level copies what is in it.
		kinds.push_back({"select 1", ",a" + repeat(piece, 100), "", ""});
	}
	for (const char* piece : {"not ", "- ", "(", "f(", "array["}) {
		const std::string_view close = std::string_view(piece).back() == '[' ? "]" : ")";
		const bool closes = std::string_view(piece).back() != ' ';
		kinds.push_back({"select 1",
		                 "," + repeat(piece, 400) + "a" + repeat(closes ? close : "", 400), "",
		                 ""});
		kinds.push_back({"select " + repeat(piece, 400) + "f(1", ",1",
		                 ")" + repeat(closes ? close : "", 400), ""});
		kinds.push_back({"select " + repeat(piece, 400) + "'", "x",
		                 "'" + repeat(closes ? close : "", 400), ""});
	}
	kinds.push_back({"select ", "(", "1", ")"});
	kinds.push_back({"select a", "[a", "", "]"});
	kinds.push_back({"select ", "case when a then ", "1", " end"});
	kinds.push_back({"", "(select ", "1", ")"});
	kinds.push_back({"select * from a", " join a on true", "", ""});
	kinds.push_back({"select * from a", " natural join a", "", ""});
	kinds.push_back({"select * from a" + repeat(" join a on true", 400), ",a", "", ""});
	return kinds;
}

std::vector<Kind> lists() {
	std::vector<Kind> kinds;
	for (const char* piece :
	     {",1", ",f(1)", ",1 as a", ",1::int", ",set_config('a','b',true)", ",sum(1) over ()",
	      ",interval '1' day", ",xmlelement(name a)", ",(1)", ",array[1]", ",(select 1)", ",a.b"}) {
		kinds.push_back({"select 1", piece, "", ""});
	}
	for (const char* piece : {";", "select 1;", "set a=1;", "begin;", "fetch a;", "listen a;"}) {
		kinds.push_back({"", piece, "", ""});
	}
	kinds.push_back({"select 1 where a in (1", ",1", ")", ""});
	kinds.push_back({"values (1)", ",(1)", "", ""});
	kinds.push_back({"insert into t values ('a','b')", ",('a','b')", "", ""});
	kinds.push_back({"select a where a=1", " or a=1", "", ""});
	kinds.push_back({"select a where a", " and a or a", "", ""});
	kinds.push_back({"select case", " when 1 then 1", " end", ""});
	kinds.push_back({"set a = 1", ",1", "", ""});
	kinds.push_back({"select 1 from a", ",a", "", ""});
	kinds.push_back({"with a as (select 1)", ",a as (select 1)", "select 1", ""});
	kinds.push_back({"create table a (b int", ",b int", ")", ""});
	kinds.push_back({"create table a (b int", " not null", ")", ""});
	kinds.push_back({"drop table a", ",a", "", ""});
	kinds.push_back({"select 1 order by 1", ",1", "", ""});
	kinds.push_back({"select row(1", ",1", ")", ""});
	kinds.push_back({"select array[1", ",1", "]", ""});
	kinds.push_back({"select 1::a(", "1,", "", ""});
	kinds.push_back({"prepare a as select 1", ",1", "", ""});
	kinds.push_back({"execute a(1", ",1", ")", ""});
	kinds.push_back({"copy a(b", ",b", ") from stdin", ""});
	kinds.push_back({"explain (a", ",a", ") select 1", ""});
	return kinds;
}

std::vector<Kind> all_kinds() {
	std::vector<Kind> all;
	for (const auto& some : {operators_and_comments(), literals_and_names(), depths(), lists()}) {
		all.insert(all.end(), some.begin(), some.end());
	}
	return all;
}

double thread_cpu_ms() {
	timespec now{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Everything a worker does with a text it has not seen before, in every setting.
double time_of(const std::string& sql) {
	Digest_Options loud;
	loud.keep_comment = loud.lowercase = loud.no_digits = true;
	Query_Processor processor;
	Digest_Builder digests(loud);
	const double begin = thread_cpu_ms();
	processor.analyse(sql, true);
	digests.build(sql, false);
	processor.hints(sql);
	return thread_cpu_ms() - begin;
}

// The machine has other work: only a time that is too long again and again is one.
template <typename Too_Long> bool always_too_long(const Too_Long& too_long) {
	constexpr int kRuns = 4;
	for (int run = 0; run < kRuns; ++run) {
		if (!too_long()) {
			return false;
		}
	}
	return true;
}

std::string describe(const Kind& kind) {
	return kind.begin.substr(0, 30) + "|" + kind.piece.substr(0, 30) + "|" + kind.end.substr(0, 30);
}

} // namespace

TEST_CASE("the time for a text grows with its length, whatever it is") {
	constexpr size_t kSmall = 8192;
	constexpr double kNoise_ms = 3; // a quadratic megabyte would take a second and more
	// Linear is 4, quadratic 16; caches and memory make some of the first look like 8.
	constexpr double kSuspicious = 12;
	for (const Kind& kind : all_kinds()) {
		const std::string small = text_of(kind, kSmall);
		const std::string large = text_of(kind, 4 * kSmall);
		double small_ms = 1e9;
		double large_ms = 1e9;
		const bool bad = always_too_long([&] {
			large_ms = std::min(large_ms, time_of(large));
			if (large_ms < kNoise_ms) {
				return false;
			}
			small_ms = std::min(small_ms, time_of(small));
			return large_ms > kSuspicious * small_ms;
		});
		INFO(describe(kind) << ": " << small_ms << " ms, four times as long: " << large_ms
		                    << " ms");
		CHECK_FALSE(bad);
	}
}

TEST_CASE("a megabyte of nesting is dealt with at once, on a thread's own stack") {
	// Ordinary are up to 100 ms; sanitizers and busy machines are slower.
	constexpr double kLimit_ms = 1000;
	std::thread worker([] {
		std::vector<Kind> kinds = depths();
		for (const char* piece : {"+a", " union select a", " collate a", "::a", " is null"}) {
			kinds.push_back({"select 1", ",a" + repeat(piece, 900), "", ""});
		}
		for (const Kind& kind : kinds) {
			const std::string sql = text_of(kind, kMegabyte);
			double ms = 0;
			const bool bad = always_too_long([&] {
				ms = time_of(sql);
				return ms > kLimit_ms;
			});
			INFO(describe(kind) << ": " << ms << " ms");
			CHECK_FALSE(bad);
		}
	});
	worker.join();
}

TEST_CASE("ordinary long statements are still parsed") {
	const auto is_read = [](const std::string& sql) {
		return classify_statement(sql, true, *Function_Safety::built_in()).is_read();
	};
	CHECK(is_read("select * from t where id in (1" + repeat(", 123456", 20000) + ")"));
	CHECK(is_read("select 1 " +
	              repeat("-- -----------------------------------------------\n", 3000)));
	CHECK(is_read("/* ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++ */ select 1"));
	CHECK(is_read("select '" + std::string(kMegabyte / 2, 'x') + "'"));
	CHECK(is_read("select '" + repeat("+/4=", kMegabyte / 8) + "'"));
	CHECK(is_read("select 1 where a = 1" + repeat(" or (a = 1 and b like 'x%')", 2000)));
}
