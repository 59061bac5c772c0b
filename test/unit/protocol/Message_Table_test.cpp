#include "protocol/Message_Table.h"

#include <catch2/catch.hpp>
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

TEST_CASE("a letter may mean different messages by direction") {
	CHECK(message_name(Direction::frontend, 'D') == "Describe");
	CHECK(message_name(Direction::backend, 'D') == "DataRow");
	CHECK(message_name(Direction::frontend, 'W') == "LsnWait");
	CHECK(message_name(Direction::backend, 'W') == "CopyBothResponse");
}
