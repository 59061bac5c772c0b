#include "Wire_Test.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/Wire_Writer.h"

using namespace proxy;

namespace {

// Two parameters (text and NULL), formats given, two result formats.
std::string sample_bind_rest() {
	std::string rest;
	append_u16(rest, 1);
	append_u16(rest, 1);
	append_u16(rest, 2);
	append_u32(rest, 3);
	rest.append("a\0b", 3);
	append_u32(rest, 0xffffffffU);
	append_u16(rest, 2);
	append_u16(rest, 0);
	append_u16(rest, 1);
	return rest;
}

std::string sample_bind() {
	std::string out;
	Message_Writer message(out, 'B');
	append_cstring(out, "portal");
	append_cstring(out, "client_name");
	out.append(sample_bind_rest());
	message.finish();
	return out;
}

} // namespace

TEST_CASE("Query") {
	std::string message;
	append_query(message, "SELECT 'x'");
	Query_View view;
	REQUIRE(parse(body_of(message, 'Q'), view));
	CHECK(view.sql == "SELECT 'x'");
	check_only_whole_body_parses<Query_View>(body_of(message, 'Q'));
}

TEST_CASE("Parse keeps its parameter types in wire form") {
	const std::string types = raw("\0\0\0\x17\0\0\x04\x13");
	std::string message;
	append_parse(message, "s1", "SELECT $1, $2", Oid_List(types));
	Parse_View view;
	REQUIRE(parse(body_of(message, 'P'), view));
	CHECK(view.statement == "s1");
	CHECK(view.sql == "SELECT $1, $2");
	REQUIRE(view.parameter_types.size() == 2);
	CHECK(view.parameter_types[0] == 23);
	CHECK(view.parameter_types[1] == 1043);
	CHECK(view.parameter_types.wire() == types);
	check_only_whole_body_parses<Parse_View>(body_of(message, 'P'));
}

TEST_CASE("Bind is checked to its end and can change its statement's name") {
	const std::string message = sample_bind();
	Bind_View view;
	REQUIRE(parse(body_of(message, 'B'), view));
	CHECK(view.portal == "portal");
	CHECK(view.statement == "client_name");
	CHECK(view.parameter_count == 2);
	CHECK(view.result_format_count == 2);
	CHECK(view.result_formats == raw("\0\0\0\1"));
	check_only_whole_body_parses<Bind_View>(body_of(message, 'B'));

	std::string renamed;
	append_bind_renamed(renamed, view, "proxy_statement_1");
	Bind_View again;
	REQUIRE(parse(body_of(renamed, 'B'), again));
	CHECK(again.portal == "portal");
	CHECK(again.statement == "proxy_statement_1");
	CHECK(std::string(again.rest.begin(), again.rest.end()) == sample_bind_rest());
}

TEST_CASE("Bind with a negative or oversized value length is refused") {
	for (const uint32_t length : {0xfffffffeU, 0x80000000U, 0x7fffffffU, 2U}) {
		std::string body = raw("\0\0\0\0\0\1");
		append_u32(body, length);
		body.append("x");
		append_u16(body, 0);
		Bind_View view;
		CHECK_FALSE(parse(as_span(body), view));
	}
}

TEST_CASE("a Bind that promises 65535 values in a few bytes ends at once") {
	const std::string body = raw("\0\0\0\0\xff\xff");
	Bind_View view;
	CHECK_FALSE(parse(as_span(body), view));
}

TEST_CASE("Bind without parameters") {
	std::string message;
	append_bind_empty(message, "", "s");
	Bind_View view;
	REQUIRE(parse(body_of(message, 'B'), view));
	CHECK(view.parameter_count == 0);
	CHECK(view.result_format_count == 0);
}

TEST_CASE("Describe and Close name a statement or a portal, nothing else") {
	std::string message;
	append_describe(message, Target_Kind::statement, "s1");
	Describe_View describe;
	REQUIRE(parse(body_of(message, 'D'), describe));
	CHECK(describe.kind == Target_Kind::statement);
	CHECK(describe.name == "s1");
	check_only_whole_body_parses<Describe_View>(body_of(message, 'D'));

	std::string close_message;
	append_close(close_message, Target_Kind::portal, "");
	Close_View close;
	REQUIRE(parse(body_of(close_message, 'C'), close));
	CHECK(close.kind == Target_Kind::portal);
	CHECK(close.name.empty());
	check_only_whole_body_parses<Close_View>(body_of(close_message, 'C'));

	CHECK_FALSE(parse(as_span(raw("Xname\0")), describe));
	CHECK_FALSE(parse(as_span(raw("sname\0")), close));
}

TEST_CASE("Execute takes zero and negative row counts as all rows") {
	std::string message;
	append_execute(message, "c1", 2);
	Execute_View view;
	REQUIRE(parse(body_of(message, 'E'), view));
	CHECK(view.portal == "c1");
	CHECK(view.max_rows == 2);
	check_only_whole_body_parses<Execute_View>(body_of(message, 'E'));
	REQUIRE(parse(as_span(raw("\0\xff\xff\xff\xff")), view));
	CHECK(view.max_rows == 0);
	REQUIRE(parse(as_span(raw("\0\0\0\0\0")), view));
	CHECK(view.max_rows == 0);
}

TEST_CASE("FunctionCall") {
	std::string body;
	append_u32(body, 1299);
	append_u16(body, 0);
	append_u16(body, 1);
	append_u32(body, 2);
	body.append("ab");
	append_u16(body, 1);
	Function_Call_View view;
	REQUIRE(parse(as_span(body), view));
	CHECK(view.function_oid == 1299);
	CHECK(view.argument_count == 1);
	check_only_whole_body_parses<Function_Call_View>(as_span(body));
}

TEST_CASE("CopyFail and passwords") {
	std::string message;
	append_copy_fail(message, "no more");
	Copy_Fail_View fail;
	REQUIRE(parse(body_of(message, 'f'), fail));
	CHECK(fail.reason == "no more");
	check_only_whole_body_parses<Copy_Fail_View>(body_of(message, 'f'));

	std::string password_message;
	append_password(password_message, "pw");
	Password_View password;
	REQUIRE(parse(body_of(password_message, 'p'), password));
	CHECK(password.password == "pw");
	check_only_whole_body_parses<Password_View>(body_of(password_message, 'p'));
}

TEST_CASE("messages without a body") {
	std::string stream;
	append_flush(stream);
	append_sync(stream);
	append_terminate(stream);
	CHECK(stream == raw("H\0\0\0\4S\0\0\0\4X\0\0\0\4"));
}

TEST_CASE("the LSN wait has the published layout") {
	std::string message;
	append_wait(message, {Wait_Mode::strict, 250, 0x0123456789abcdefULL});
	CHECK(message == raw("W\0\0\0\x14\1\1\0\0\0\0\0\xfa\x01\x23\x45\x67\x89\xab\xcd\xef"));
	Wait_View view;
	REQUIRE(parse(body_of(message, 'W'), view));
	CHECK(view.mode == Wait_Mode::strict);
	CHECK(view.timeout_ms == 250);
	CHECK(view.target_lsn == 0x0123456789abcdefULL);
	check_only_whole_body_parses<Wait_View>(body_of(message, 'W'));
	const std::string good(body_of(message, 'W').begin(), body_of(message, 'W').end());
	// Version, mode, either flag byte: any other value is refused.
	for (const size_t place : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
		std::string bad = good;
		bad[place] = 2;
		CHECK_FALSE(parse(as_span(bad), view));
	}
	CHECK_FALSE(parse(as_span(good.substr(0, 8) + std::string(8, '\0')), view));
}

TEST_CASE("a NUL inside a text ends it, so it cannot start the next field") {
	std::string message;
	append_parse(message, std::string_view("a\0b", 3), "SELECT 1");
	Parse_View view;
	REQUIRE(parse(body_of(message, 'P'), view));
	CHECK(view.statement == "a");
	CHECK(view.sql == "SELECT 1");
}
