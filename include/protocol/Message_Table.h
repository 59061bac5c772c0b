// One row a message: direction, type byte, name and sizes. Used to refuse unknown messages before
// their body is read, and to name messages in logs and tests. (PostgreSQL manual, "Message
// Formats".)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace proxy {

enum class Direction : uint8_t { frontend, backend };

struct Message_Row {
	Direction direction;
	char type;
	std::string_view name;
	// Of the length field (body + 4). max_length 0: limited by the caller only.
	uint32_t min_length;
	uint32_t max_length;
};

std::span<const Message_Row> message_table();
// nullptr: unknown type in that direction. Constant time.
const Message_Row* find_message(Direction direction, char type);
// For logs: the name, or "unknown".
std::string_view message_name(Direction direction, char type);
// Known type, and a length field within its row's bounds.
bool message_length_ok(Direction direction, char type, uint32_t length);

} // namespace proxy
