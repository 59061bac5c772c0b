#include "protocol/Message_Table.h"

#include "protocol/Startup.h"

#include <array>

namespace proxy {

namespace {

using enum Direction;

// Lengths count the length field itself (4). A maximum of 0: only the caller's limit.
constexpr auto kMessages = std::to_array<Message_Row>({
    {frontend, 'B', "Bind", 12, 0},
    {frontend, 'C', "Close", 6, 0},
    {frontend, 'D', "Describe", 6, 0},
    {frontend, 'E', "Execute", 9, 0},
    {frontend, 'F', "FunctionCall", 14, 0},
    {frontend, 'H', "Flush", 4, 4},
    {frontend, 'P', "Parse", 8, 0},
    {frontend, 'Q', "Query", 5, 0},
    {frontend, 'S', "Sync", 4, 4},
    {frontend, 'W', "LsnWait", 20, 20},
    {frontend, 'X', "Terminate", 4, 4},
    {frontend, 'c', "CopyDone", 4, 4},
    {frontend, 'd', "CopyData", 4, 0},
    {frontend, 'f', "CopyFail", 5, 0},
    // Passwords and SASL; PostgreSQL's limit for what comes before a login.
    {frontend, 'p', "Password", 4, 65535},
    {backend, '1', "ParseComplete", 4, 4},
    {backend, '2', "BindComplete", 4, 4},
    {backend, '3', "CloseComplete", 4, 4},
    {backend, 'A', "NotificationResponse", 10, 0},
    {backend, 'C', "CommandComplete", 5, 0},
    {backend, 'D', "DataRow", 6, 0},
    {backend, 'E', "ErrorResponse", 5, 0},
    {backend, 'G', "CopyInResponse", 7, 0},
    {backend, 'H', "CopyOutResponse", 7, 0},
    {backend, 'I', "EmptyQueryResponse", 4, 4},
    {backend, 'K', "BackendKeyData", 12, 8 + kMaxCancelKeyBytes},
    {backend, 'N', "NoticeResponse", 5, 0},
    {backend, 'R', "Authentication", 8, 0},
    {backend, 'S', "ParameterStatus", 6, 0},
    {backend, 'T', "RowDescription", 6, 0},
    {backend, 'V', "FunctionCallResponse", 8, 0},
    {backend, 'W', "CopyBothResponse", 7, 0},
    {backend, 'Z', "ReadyForQuery", 5, 0},
    {backend, 'c', "CopyDone", 4, 4},
    {backend, 'd', "CopyData", 4, 0},
    {backend, 'n', "NoData", 4, 4},
    {backend, 's', "PortalSuspended", 4, 4},
    {backend, 't', "ParameterDescription", 6, 0},
    {backend, 'v', "NegotiateProtocolVersion", 12, 0},
});

constexpr size_t kTypes = 128;
constexpr uint8_t kAbsent = 0xff;
using Type_Index = std::array<std::array<uint8_t, kTypes>, 2>;

constexpr Type_Index make_index() {
	Type_Index index{};
	for (auto& direction : index) {
		direction.fill(kAbsent);
	}
	for (size_t row = 0; row < kMessages.size(); ++row) {
		index[static_cast<size_t>(kMessages[row].direction)]
		     [static_cast<uint8_t>(kMessages[row].type)] = static_cast<uint8_t>(row);
	}
	return index;
}

constexpr Type_Index kIndex = make_index();

} // namespace

std::span<const Message_Row> message_table() {
	return kMessages;
}

const Message_Row* find_message(Direction direction, char type) {
	const uint8_t byte = static_cast<uint8_t>(type);
	if (byte >= kTypes) {
		return nullptr;
	}
	const uint8_t row = kIndex[static_cast<size_t>(direction)][byte];
	return row == kAbsent ? nullptr : &kMessages[row];
}

std::string_view message_name(Direction direction, char type) {
	const Message_Row* row = find_message(direction, type);
	return row == nullptr ? std::string_view("unknown") : row->name;
}

bool message_length_ok(Direction direction, char type, uint32_t length) {
	const Message_Row* row = find_message(direction, type);
	return row != nullptr && length >= row->min_length &&
	       (row->max_length == 0 || length <= row->max_length);
}

} // namespace proxy
