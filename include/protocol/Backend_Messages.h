// Messages from a server, as views over a frame's body. Pure. A view points into the body it was
// parsed from. parse() returns false for a body that is not well formed.
// (PostgreSQL manual, "Message Formats" and "Error and Notice Message Fields".)
#pragma once

#include "base/Span_Reader.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace proxy {

// ErrorResponse 'E' or NoticeResponse 'N'. Absent fields are empty.
struct Error_Fields {
	std::string_view severity;           // V when sent (never translated), else S
	std::string_view localized_severity; // S
	std::string_view sqlstate;           // C
	std::string_view message;            // M
	std::string_view detail;             // D
	std::string_view hint;               // H
	std::string_view routine;            // R, the server's source function

	bool is_fatal() const { return severity == "FATAL" || severity == "PANIC"; }
};
bool parse(std::span<const uint8_t> body, Error_Fields& out);

// The two marks by which a PolarDB kernel says that an LSN wait ran out: a strict wait as an error
// (57014 or 72000 by kernel), a best-effort one as a warning. Both marks must match; neither the
// text nor the SQLSTATE is looked at.
bool is_lsn_wait_timeout(const Error_Fields& fields);

// CommandComplete 'C'.
struct Command_Tag {
	std::string_view tag;     // as sent, "INSERT 0 5"
	std::string_view command; // without the numbers, "INSERT", "CREATE TABLE"
	bool has_rows = false;    // the tag carries a row count
	uint64_t rows = 0;
};
bool parse(std::span<const uint8_t> body, Command_Tag& out);
// The same for a tag that is already text.
Command_Tag split_command_tag(std::string_view tag);

// ParameterStatus 'S'.
struct Parameter_Status_View {
	std::string_view name;
	std::string_view value;
};
bool parse(std::span<const uint8_t> body, Parameter_Status_View& out);

// ReadyForQuery 'Z': the status byte; 0 when malformed. The PolarDB tail: Ready_Tail.h.
enum class Transaction_Status : char { idle = 'I', in_transaction = 'T', failed = 'E' };
inline std::optional<Transaction_Status> ready_status(std::span<const uint8_t> body) {
	if (body.empty() || (body[0] != 'I' && body[0] != 'T' && body[0] != 'E')) {
		return std::nullopt;
	}
	return static_cast<Transaction_Status>(body[0]);
}

// BackendKeyData 'K': a key of 4 bytes, up to 256 in protocol 3.2.
struct Backend_Key_View {
	uint32_t pid = 0;
	std::string_view key;
};
bool parse(std::span<const uint8_t> body, Backend_Key_View& out);

// NotificationResponse 'A'.
struct Notification_View {
	uint32_t pid = 0;
	std::string_view channel;
	std::string_view payload;
};
bool parse(std::span<const uint8_t> body, Notification_View& out);

// CopyInResponse 'G', CopyOutResponse 'H', CopyBothResponse 'W'.
struct Copy_Response_View {
	bool binary = false;
	uint16_t columns = 0;
};
bool parse(std::span<const uint8_t> body, Copy_Response_View& out);

// NegotiateProtocolVersion 'v': newest version the server speaks and how many options it refused.
struct Negotiate_View {
	uint32_t version = 0;
	uint32_t option_count = 0;
};
bool parse(std::span<const uint8_t> body, Negotiate_View& out);

// Authentication request 'R'.
enum class Auth_Code : uint32_t {
	ok = 0,
	clear_text = 3,
	md5 = 5,
	gss = 7,
	gss_continue = 8,
	sspi = 9,
	sasl = 10,
	sasl_continue = 11,
	sasl_final = 12,
};
struct Authentication_View {
	uint32_t code = 0; // one of Auth_Code, or one we do not know
	std::string_view data;
};
bool parse(std::span<const uint8_t> body, Authentication_View& out);

// Column count of RowDescription 'T' or DataRow 'D' without looking further.
std::optional<uint16_t> column_count(std::span<const uint8_t> body);

// Walks a DataRow's values: next() until it returns false; then ok() tells a clean end from a
// malformed row. An absent value is SQL NULL.
class Data_Row_Reader {
public:
	explicit Data_Row_Reader(std::span<const uint8_t> body);
	bool next(std::optional<std::string_view>& value);
	bool ok() const { return reader_.ok() && !malformed_; }

private:
	Span_Reader reader_;
	uint16_t columns_left_ = 0;
	bool malformed_ = false;
};

} // namespace proxy
