// Messages from the client: views over a frame's body, and writers for those the proxy sends to a
// server itself. Pure. A view points into the body it was parsed from. Every parse() returns false
// for a body that PostgreSQL would refuse as malformed (08P01); `out` is then unspecified.
// (PostgreSQL manual, "Message Formats".)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

// Big-endian 32-bit numbers still in wire form (parameter types). Indexing is not checked.
class Oid_List {
public:
	Oid_List() = default;
	explicit Oid_List(std::string_view wire) : wire_(wire) {}
	size_t size() const { return wire_.size() / 4; }
	bool empty() const { return wire_.empty(); }
	uint32_t operator[](size_t index) const {
		uint32_t value = 0;
		for (size_t i = 0; i < 4; ++i) {
			value = (value << 8) | static_cast<uint8_t>(wire_[index * 4 + i]);
		}
		return value;
	}
	// The bytes as they came: fit for a map key and for append_parse().
	std::string_view wire() const { return wire_; }

private:
	std::string_view wire_;
};

// What Describe and Close name.
enum class Target_Kind : uint8_t { statement, portal };

struct Query_View { // 'Q'
	std::string_view sql;
};
struct Parse_View { // 'P'
	std::string_view statement;
	std::string_view sql;
	Oid_List parameter_types;
};
struct Bind_View { // 'B'
	std::string_view portal;
	std::string_view statement;
	// Everything after the two names: formats, values, result formats. Checked to be well formed.
	std::span<const uint8_t> rest;
	uint16_t parameter_count = 0;
	// Result format codes: `result_format_count` 16-bit numbers in wire form.
	uint16_t result_format_count = 0;
	std::string_view result_formats;
};
struct Describe_View { // 'D'
	Target_Kind kind = Target_Kind::statement;
	std::string_view name;
};
struct Execute_View { // 'E'
	std::string_view portal;
	uint32_t max_rows = 0; // 0: all
};
struct Close_View { // 'C'
	Target_Kind kind = Target_Kind::statement;
	std::string_view name;
};
struct Function_Call_View { // 'F'
	uint32_t function_oid = 0;
	uint16_t argument_count = 0;
};
struct Copy_Fail_View { // 'f'
	std::string_view reason;
};
struct Password_View { // 'p' as clear text or MD5
	std::string_view password;
};

bool parse(std::span<const uint8_t> body, Query_View& out);
bool parse(std::span<const uint8_t> body, Parse_View& out);
bool parse(std::span<const uint8_t> body, Bind_View& out);
// The names alone: `body` may end anywhere behind them.
bool parse_front(std::span<const uint8_t> body, Bind_View& out);
bool parse(std::span<const uint8_t> body, Describe_View& out);
bool parse(std::span<const uint8_t> body, Execute_View& out);
bool parse(std::span<const uint8_t> body, Close_View& out);
bool parse(std::span<const uint8_t> body, Function_Call_View& out);
bool parse(std::span<const uint8_t> body, Copy_Fail_View& out);
bool parse(std::span<const uint8_t> body, Password_View& out);

void append_query(std::string& out, std::string_view sql);
// `parameter_types` in wire form (Oid_List::wire()).
void append_parse(std::string& out, std::string_view statement, std::string_view sql,
                  Oid_List parameter_types = {});
// The client's Bind with another statement name; portal and the rest as they came.
// `to_come`: bytes of the message that are not in `bind.rest`, and follow it.
void append_bind_renamed(std::string& out, const Bind_View& bind, std::string_view statement,
                         size_t to_come = 0);
// A Bind without parameters, all results as text.
void append_bind_empty(std::string& out, std::string_view portal, std::string_view statement);
void append_describe(std::string& out, Target_Kind kind, std::string_view name);
void append_execute(std::string& out, std::string_view portal, uint32_t max_rows = 0);
void append_close(std::string& out, Target_Kind kind, std::string_view name);
void append_flush(std::string& out);
void append_sync(std::string& out);
void append_terminate(std::string& out);
void append_copy_fail(std::string& out, std::string_view reason);
void append_password(std::string& out, std::string_view password);

// The in-band LSN wait of PolarDB's `_pq_.polar_proxy_wait_v1`: belongs to the extended-protocol
// command that follows it in the same flush; has no answer of its own.
enum class Wait_Mode : uint8_t { best_effort = 0, strict = 1 };
struct Wait_View { // 'W'
	Wait_Mode mode = Wait_Mode::best_effort;
	uint32_t timeout_ms = 0; // 0: no deadline of the server's
	uint64_t target_lsn = 0; // never 0
};
// False also for an unknown version or mode, non-zero flags and a zero target.
bool parse(std::span<const uint8_t> body, Wait_View& out);
// REQUIRES: wait.target_lsn != 0.
void append_wait(std::string& out, const Wait_View& wait);

} // namespace proxy
