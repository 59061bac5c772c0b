#include "Wire_Test.h"
#include "protocol/Backend_Messages.h"
#include "protocol/PgSQL_Protocol.h"

using namespace proxy;

TEST_CASE("error fields, in any order, with unknown ones between") {
	const std::string body = raw("SFEHLER\0VERROR\0C42P01\0Mno such table\0P15\0Fparse.c\0L7\0"
	                             "Rparser\0Dbecause\0Hlook\0?new\0\0");
	Error_Fields fields;
	REQUIRE(parse(as_span(body), fields));
	CHECK(fields.severity == "ERROR");
	CHECK(fields.localized_severity == "FEHLER");
	CHECK(fields.sqlstate == "42P01");
	CHECK(fields.message == "no such table");
	CHECK(fields.detail == "because");
	CHECK(fields.hint == "look");
	CHECK(fields.routine == "parser");
	CHECK_FALSE(fields.is_fatal());
	check_only_whole_body_parses<Error_Fields>(as_span(body));
}

TEST_CASE("old servers send one severity only") {
	Error_Fields fields;
	const std::string body = raw("SFATAL\0C57P01\0Mbye\0\0");
	REQUIRE(parse(as_span(body), fields));
	CHECK(fields.severity == "FATAL");
	CHECK(fields.is_fatal());
	REQUIRE(parse(as_span(raw("\0")), fields));
	CHECK(fields.severity.empty());
	CHECK(fields.message.empty());
}

TEST_CASE("an LSN wait that ran out is known by both of its marks") {
	const auto is_timeout = [](std::string_view detail, std::string_view routine) {
		Error_Fields fields;
		fields.sqlstate = "57014";
		fields.detail = detail;
		fields.routine = routine;
		return is_lsn_wait_timeout(fields);
	};
	CHECK(is_timeout("polar_proxy_lsn_wait_timeout", "polar_proxy_wait_for_lsn"));
	CHECK_FALSE(is_timeout("polar_proxy_lsn_wait_timeout", "ProcessInterrupts"));
	CHECK_FALSE(is_timeout("", "polar_proxy_wait_for_lsn"));
	CHECK_FALSE(is_timeout("polar_proxy_lsn_wait_timeout ", "polar_proxy_wait_for_lsn"));
}

TEST_CASE("command tags") {
	struct Case {
		std::string tag;
		std::string command;
		bool has_rows;
		uint64_t rows;
	};
	const std::vector<Case> cases = {
	    {"SELECT 5", "SELECT", true, 5},
	    {"INSERT 0 7", "INSERT", true, 7},
	    {"UPDATE 0", "UPDATE", true, 0},
	    {"CREATE TABLE", "CREATE TABLE", false, 0},
	    {"BEGIN", "BEGIN", false, 0},
	    {"COPY 12", "COPY", true, 12},
	    {"FETCH 3", "FETCH", true, 3},
	    {"SELECT 18446744073709551615", "SELECT", true, UINT64_MAX},
	    {"SELECT 18446744073709551616", "SELECT 18446744073709551616", false, 0},
	    {"", "", false, 0},
	    {"SELECT ", "SELECT ", false, 0},
	    {"ALTER SYSTEM 5x", "ALTER SYSTEM 5x", false, 0},
	};
	for (const Case& one : cases) {
		std::string message;
		append_command_complete(message, one.tag);
		Command_Tag tag;
		INFO(one.tag);
		REQUIRE(parse(body_of(message, 'C'), tag));
		CHECK(tag.tag == one.tag);
		CHECK(tag.command == one.command);
		CHECK(tag.has_rows == one.has_rows);
		if (one.has_rows) {
			CHECK(tag.rows == one.rows);
		}
		check_only_whole_body_parses<Command_Tag>(body_of(message, 'C'));
	}
}

TEST_CASE("ParameterStatus, NotificationResponse, BackendKeyData") {
	std::string status_message;
	append_parameter_status(status_message, "TimeZone", "UTC");
	Parameter_Status_View status;
	REQUIRE(parse(body_of(status_message, 'S'), status));
	CHECK(status.name == "TimeZone");
	CHECK(status.value == "UTC");
	check_only_whole_body_parses<Parameter_Status_View>(body_of(status_message, 'S'));

	std::string notification_message;
	append_notification(notification_message, 4711, "ch", "payload");
	Notification_View notification;
	REQUIRE(parse(body_of(notification_message, 'A'), notification));
	CHECK(notification.pid == 4711);
	CHECK(notification.channel == "ch");
	CHECK(notification.payload == "payload");
	check_only_whole_body_parses<Notification_View>(body_of(notification_message, 'A'));

	for (const size_t size : {size_t{4}, size_t{256}}) {
		std::string key_message;
		append_backend_key_data(key_message, 99, std::string(size, 'k'));
		Backend_Key_View key;
		REQUIRE(parse(body_of(key_message, 'K'), key));
		CHECK(key.pid == 99);
		CHECK(key.key.size() == size);
	}
	Backend_Key_View key;
	CHECK_FALSE(parse(as_span(std::string(4 + 3, 'k')), key));
	CHECK_FALSE(parse(as_span(std::string(4 + 257, 'k')), key));
}

TEST_CASE("ReadyForQuery status") {
	for (const Transaction_Status status :
	     {Transaction_Status::idle, Transaction_Status::in_transaction,
	      Transaction_Status::failed}) {
		std::string message;
		append_ready_for_query(message, status);
		CHECK(ready_status(body_of(message, 'Z')) == status);
	}
	CHECK_FALSE(ready_status(as_span("")).has_value());
	CHECK_FALSE(ready_status(as_span("X")).has_value());
}

TEST_CASE("copy responses, version negotiation, authentication requests") {
	Copy_Response_View copy;
	REQUIRE(parse(as_span(raw("\1\0\2\0\1\0\1")), copy));
	CHECK(copy.binary);
	CHECK(copy.columns == 2);
	check_only_whole_body_parses<Copy_Response_View>(as_span(raw("\0\0\1\0\0")));
	CHECK_FALSE(parse(as_span(raw("\2\0\0")), copy));

	const std::vector<std::string_view> options = {"_pq_.foo", "_pq_.bar"};
	std::string message;
	append_negotiate_protocol_version(message, 196608, options);
	Negotiate_View negotiate;
	REQUIRE(parse(body_of(message, 'v'), negotiate));
	CHECK(negotiate.version == 196608);
	CHECK(negotiate.option_count == 2);
	check_only_whole_body_parses<Negotiate_View>(body_of(message, 'v'));
	CHECK_FALSE(parse(as_span(raw("\0\3\0\0\xff\xff\xff\xff")), negotiate));

	std::string md5_message;
	append_auth_md5(md5_message, "salt");
	Authentication_View authentication;
	REQUIRE(parse(body_of(md5_message, 'R'), authentication));
	CHECK(authentication.code == static_cast<uint32_t>(Auth_Code::md5));
	CHECK(authentication.data == "salt");
	CHECK_FALSE(parse(as_span("abc"), authentication));
}

TEST_CASE("data rows: values, NULL, empty, and bodies that lie") {
	const std::vector<std::optional<std::string_view>> values = {"one", std::nullopt, ""};
	std::string message;
	append_data_row(message, values);
	const auto body = body_of(message, 'D');
	CHECK(column_count(body) == uint16_t{3});
	Data_Row_Reader reader(body);
	std::vector<std::optional<std::string_view>> read;
	std::optional<std::string_view> value;
	while (reader.next(value)) {
		read.push_back(value);
	}
	CHECK(reader.ok());
	CHECK(read == values);

	const auto is_well_formed = [](std::span<const uint8_t> bytes) {
		Data_Row_Reader one(bytes);
		std::optional<std::string_view> any;
		while (one.next(any)) {
		}
		return one.ok();
	};
	for (size_t length = 0; length < body.size(); ++length) {
		CHECK_FALSE(is_well_formed(body.first(length)));
	}
	CHECK_FALSE(is_well_formed(as_span(message + "x").subspan(kFrameHeaderBytes)));
	CHECK_FALSE(is_well_formed(as_span(raw("\0\1\xff\xff\xff\xfe"))));
	CHECK_FALSE(is_well_formed(as_span(raw("\0\1\x7f\xff\xff\xff"))));
	CHECK_FALSE(column_count(as_span("x")).has_value());
}
