#include "Wire_Test.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/Message_Table.h"
#include "protocol/PgSQL_Protocol.h"

#include <set>
#include <string>
#include <utility>

using namespace proxy;

TEST_CASE("every message has one row and is found by it") {
	std::set<std::pair<Direction, char>> seen;
	for (const Message_Row& row : message_table()) {
		CHECK(seen.emplace(row.direction, row.type).second);
		CHECK(find_message(row.direction, row.type) == &row);
		CHECK(message_name(row.direction, row.type) == row.name);
		CHECK(row.min_length >= 4);
		CHECK((row.max_length == 0 || row.max_length >= row.min_length));
		CHECK(message_length_ok(row.direction, row.type, row.min_length));
		CHECK_FALSE(message_length_ok(row.direction, row.type, row.min_length - 1));
		if (row.max_length != 0) {
			CHECK(message_length_ok(row.direction, row.type, row.max_length));
			CHECK_FALSE(message_length_ok(row.direction, row.type, row.max_length + 1));
		}
	}
}

TEST_CASE("exactly the protocol's messages are known") {
	std::string frontend;
	std::string backend;
	for (int byte = -128; byte < 128; ++byte) {
		const char type = static_cast<char>(byte);
		if (find_message(Direction::frontend, type) != nullptr) {
			frontend.push_back(type);
		}
		if (find_message(Direction::backend, type) != nullptr) {
			backend.push_back(type);
		}
	}
	CHECK(frontend == "BCDEFHPQSWXcdfp");
	CHECK(backend == "123ACDEGHIKNRSTVWZcdnstv");
	CHECK(message_name(Direction::frontend, 'z') == "unknown");
	CHECK_FALSE(message_length_ok(Direction::frontend, 'Z', 5));
}

TEST_CASE("the shortest message of a kind has the least length of its row") {
	std::string frontend;
	append_query(frontend, "");
	append_parse(frontend, "", "");
	append_bind_empty(frontend, "", "");
	append_describe(frontend, Target_Kind::statement, "");
	append_execute(frontend, "");
	append_close(frontend, Target_Kind::portal, "");
	append_copy_fail(frontend, "");
	append_sync(frontend);
	append_flush(frontend);
	append_terminate(frontend);
	append_wait(frontend, {Wait_Mode::strict, 0, 1});
	std::string backend;
	append_parameter_status(backend, "", "");
	append_backend_key_data(backend, 1, "1234");
	append_negotiate_protocol_version(backend, 196608, {});
	append_ready_for_query(backend, Transaction_Status::idle);
	append_notification(backend, 1, "", "");
	append_command_complete(backend, "");
	append_row_description(backend, std::span<const Column>());
	append_data_row(backend, {});
	append_no_parameters(backend);
	append_auth_ok(backend);
	for (const auto& [direction, stream] :
	     {std::pair(Direction::frontend, frontend), std::pair(Direction::backend, backend)}) {
		for (const Frame& frame : frames_of(stream)) {
			INFO(frame.type);
			REQUIRE(find_message(direction, frame.type) != nullptr);
			CHECK(find_message(direction, frame.type)->min_length == frame.size - 1);
		}
	}
}

TEST_CASE("a letter may mean different messages by direction") {
	CHECK(message_name(Direction::frontend, 'D') == "Describe");
	CHECK(message_name(Direction::backend, 'D') == "DataRow");
	CHECK(message_name(Direction::frontend, 'W') == "LsnWait");
	CHECK(message_name(Direction::backend, 'W') == "CopyBothResponse");
}
