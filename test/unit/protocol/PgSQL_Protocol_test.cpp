#include "Wire_Test.h"
#include "protocol/Message_Table.h"
#include "protocol/PgSQL_Error_Helper.h"
#include "protocol/PgSQL_Protocol.h"

#include <array>
#include <set>

using namespace proxy;

TEST_CASE("fixed messages have the documented bytes") {
	const auto bytes = [](void (*append)(std::string&)) {
		std::string out;
		append(out);
		return out;
	};
	CHECK(bytes(append_auth_ok) == raw("R\0\0\0\x08\0\0\0\0"));
	CHECK(bytes(append_auth_clear_text) == raw("R\0\0\0\x08\0\0\0\3"));
	CHECK(bytes(append_empty_query_response) == raw("I\0\0\0\4"));
	CHECK(bytes(append_parse_complete) == raw("1\0\0\0\4"));
	CHECK(bytes(append_bind_complete) == raw("2\0\0\0\4"));
	CHECK(bytes(append_close_complete) == raw("3\0\0\0\4"));
	CHECK(bytes(append_no_data) == raw("n\0\0\0\4"));
	CHECK(bytes(append_portal_suspended) == raw("s\0\0\0\4"));
	CHECK(bytes(append_no_parameters) == raw("t\0\0\0\6\0\0"));
}

TEST_CASE("ReadyForQuery with and without an LSN") {
	std::string out;
	append_ready_for_query(out, Transaction_Status::in_transaction);
	append_ready_for_query_lsn(out, Transaction_Status::idle, 0x0102030405060708ULL);
	CHECK(out == raw("Z\0\0\0\5TZ\0\0\0\x0dI\1\2\3\4\5\6\7\x08"));
}

TEST_CASE("SASL mechanisms end with an empty name") {
	const std::array<std::string_view, 2> mechanisms = {"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"};
	std::string out;
	append_auth_sasl(out, mechanisms);
	CHECK(out == raw("R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"));
	std::string data;
	append_auth_sasl_continue(data, "r=1");
	append_auth_sasl_final(data, "v=2");
	CHECK(data == raw("R\0\0\0\x0b\0\0\0\x0br=1R\0\0\0\x0b\0\0\0\x0cv=2"));
}

TEST_CASE("errors carry both severities, and detail and hint only when there are any") {
	Error error = make_error("28P01", "no");
	std::string out;
	append_error_response(out, error, Severity::fatal);
	CHECK(out == raw("E\0\0\0\x1eSFATAL\0VFATAL\0C28P01\0Mno\0\0"));
	error.detail = "why";
	error.hint = "how";
	std::string notice;
	append_notice_response(notice, error, Severity::warning);
	Error_Fields fields;
	REQUIRE(parse(body_of(notice, 'N'), fields));
	CHECK(fields.severity == "WARNING");
	CHECK(fields.localized_severity == "WARNING");
	CHECK(fields.detail == "why");
	CHECK(fields.hint == "how");
}

TEST_CASE("an error text with a NUL stays one field") {
	Error error = make_error("XX000", std::string("a\0Rfake", 7));
	std::string out;
	append_error_response(out, error);
	Error_Fields fields;
	REQUIRE(parse(body_of(out, 'E'), fields));
	CHECK(fields.message == "a");
	CHECK(fields.routine.empty());
}

TEST_CASE("row descriptions") {
	const std::array<std::string_view, 2> names = {"a", "b"};
	std::string by_name;
	append_row_description(by_name, names);
	const std::array<Column, 2> columns = {Column{"a"}, Column{"b"}};
	std::string by_column;
	append_row_description(by_column, columns);
	CHECK(by_name == by_column);
	const std::array<Column, 1> one = {Column{"n", kOidInt4, 4}};
	std::string out;
	append_row_description(out, one);
	CHECK(out == raw("T\0\0\0\x1a\0\1n\0\0\0\0\0\0\0\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"));
}

TEST_CASE("every builder's message is in the table and within its sizes") {
	std::string stream;
	const Error error = make_error("XX000", "");
	append_auth_ok(stream);
	append_auth_md5(stream, "salt");
	append_parameter_status(stream, "", "");
	append_backend_key_data(stream, 1, "1234");
	append_negotiate_protocol_version(stream, 196608, {});
	append_ready_for_query(stream, Transaction_Status::idle);
	append_error_response(stream, error);
	append_notice_response(stream, error);
	append_notification(stream, 1, "", "");
	append_command_complete(stream, "");
	append_row_description(stream, std::span<const Column>());
	append_data_row(stream, {});
	append_empty_query_response(stream);
	append_parse_complete(stream);
	append_bind_complete(stream);
	append_close_complete(stream);
	append_no_data(stream);
	append_portal_suspended(stream);
	append_no_parameters(stream);
	for (const Frame& frame : frames_of(stream)) {
		INFO(frame.type);
		CHECK(message_length_ok(Direction::backend, frame.type,
		                        static_cast<uint32_t>(frame.size - 1)));
	}
}

TEST_CASE("SQLSTATEs are five characters, unique, and explained") {
	std::set<std::string_view> codes;
	std::set<std::string_view> names;
	for (const Sqlstate_Row& row : sqlstate_table()) {
		INFO(row.name);
		CHECK(row.code.size() == 5);
		CHECK_FALSE(row.when.empty());
		CHECK(codes.insert(row.code).second);
		CHECK(names.insert(row.name).second);
		CHECK(find_sqlstate(row.code) == &row);
	}
	CHECK(find_sqlstate("99999") == nullptr);
	CHECK(sqlstate::invalid_password == "28P01");
}

TEST_CASE("server errors are classed by what they mean for the connection") {
	CHECK(classify_sqlstate("57P01") == Error_Class::connection);
	CHECK(classify_sqlstate("58030") == Error_Class::connection);
	CHECK(classify_sqlstate("57014") == Error_Class::reported);
	CHECK(classify_sqlstate("08006") == Error_Class::retryable);
	CHECK(classify_sqlstate("53300") == Error_Class::retryable);
	CHECK(classify_sqlstate("40001") == Error_Class::retryable);
	CHECK(classify_sqlstate("40P01") == Error_Class::retryable);
	CHECK(classify_sqlstate("40002") == Error_Class::reported);
	CHECK(classify_sqlstate("42601") == Error_Class::reported);
	CHECK(classify_sqlstate("") == Error_Class::reported);
}
