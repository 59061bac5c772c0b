#include "protocol/Frontend_Messages.h"

#include "base/Span_Reader.h"
#include "protocol/Wire_Writer.h"

namespace proxy {

namespace {

// Format codes and values, as Bind and FunctionCall carry them. Returns the number of values.
uint16_t skip_formats_and_values(Span_Reader& reader) {
	const uint16_t format_count = reader.u16();
	reader.bytes(size_t{format_count} * 2);
	const uint16_t value_count = reader.u16();
	for (uint16_t i = 0; i < value_count && reader.ok(); ++i) {
		const int32_t length = reader.i32();
		if (length == -1) {
			continue; // NULL
		}
		// Any other negative length becomes larger than what is left, so the read fails.
		reader.bytes(static_cast<uint32_t>(length));
	}
	return value_count;
}

bool parse_target(std::span<const uint8_t> body, Target_Kind& kind, std::string_view& name) {
	Span_Reader reader(body);
	const uint8_t type = reader.u8();
	name = reader.cstring();
	kind = type == 'S' ? Target_Kind::statement : Target_Kind::portal;
	return reader.at_end() && (type == 'S' || type == 'P');
}

void append_target(std::string& out, char type, Target_Kind kind, std::string_view name) {
	Message_Writer message(out, type);
	out.push_back(kind == Target_Kind::statement ? 'S' : 'P');
	append_cstring(out, name);
}

bool parse_text(std::span<const uint8_t> body, std::string_view& text) {
	Span_Reader reader(body);
	text = reader.cstring();
	return reader.at_end();
}

constexpr uint8_t kWaitVersion = 1;

} // namespace

bool parse(std::span<const uint8_t> body, Query_View& out) {
	return parse_text(body, out.sql);
}

bool parse(std::span<const uint8_t> body, Parse_View& out) {
	Span_Reader reader(body);
	out.statement = reader.cstring();
	out.sql = reader.cstring();
	const uint16_t count = reader.u16();
	out.parameter_types = Oid_List(reader.bytes(size_t{count} * 4));
	return reader.at_end();
}

bool parse_front(std::span<const uint8_t> body, Bind_View& out) {
	Span_Reader reader(body);
	out.portal = reader.cstring();
	out.statement = reader.cstring();
	if (!reader.ok()) {
		return false;
	}
	out.rest = body.subspan(reader.offset());
	return true;
}

bool parse(std::span<const uint8_t> body, Bind_View& out) {
	Span_Reader reader(body);
	out.portal = reader.cstring();
	out.statement = reader.cstring();
	if (!reader.ok()) {
		return false;
	}
	out.rest = body.subspan(reader.offset());
	out.parameter_count = skip_formats_and_values(reader);
	out.result_format_count = reader.u16();
	out.result_formats = reader.bytes(size_t{out.result_format_count} * 2);
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Describe_View& out) {
	return parse_target(body, out.kind, out.name);
}

bool parse(std::span<const uint8_t> body, Execute_View& out) {
	Span_Reader reader(body);
	out.portal = reader.cstring();
	const int32_t max_rows = reader.i32();
	// The server takes zero and below as "all rows".
	out.max_rows = max_rows > 0 ? static_cast<uint32_t>(max_rows) : 0;
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Close_View& out) {
	return parse_target(body, out.kind, out.name);
}

bool parse(std::span<const uint8_t> body, Function_Call_View& out) {
	Span_Reader reader(body);
	out.function_oid = reader.u32();
	out.argument_count = skip_formats_and_values(reader);
	reader.u16(); // result format
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Copy_Fail_View& out) {
	return parse_text(body, out.reason);
}

bool parse(std::span<const uint8_t> body, Password_View& out) {
	return parse_text(body, out.password);
}

bool parse(std::span<const uint8_t> body, Wait_View& out) {
	Span_Reader reader(body);
	const uint8_t version = reader.u8();
	const uint8_t mode = reader.u8();
	const uint16_t flags = reader.u16();
	out.timeout_ms = reader.u32();
	out.target_lsn = reader.u64();
	out.mode = mode == 1 ? Wait_Mode::strict : Wait_Mode::best_effort;
	return reader.at_end() && version == kWaitVersion && mode <= 1 && flags == 0 &&
	       out.target_lsn != 0;
}

void append_query(std::string& out, std::string_view sql) {
	Message_Writer message(out, 'Q');
	append_cstring(out, sql);
}

void append_parse(std::string& out, std::string_view statement, std::string_view sql,
                  Oid_List parameter_types) {
	// A large text does not double the buffer, nor does what follows it.
	constexpr size_t kLarge = 256 * 1024;
	if (sql.size() > kLarge) {
		out.reserve(out.size() + sql.size() + kLarge);
	}
	Message_Writer message(out, 'P');
	append_cstring(out, statement);
	append_cstring(out, sql);
	append_u16(out, static_cast<uint16_t>(parameter_types.size()));
	out.append(parameter_types.wire());
}

void append_bind_renamed(std::string& out, const Bind_View& bind, std::string_view statement,
                         size_t to_come) {
	Message_Writer message(out, 'B', to_come);
	append_cstring(out, bind.portal);
	append_cstring(out, statement);
	out.append(bind.rest.begin(), bind.rest.end());
}

void append_bind_empty(std::string& out, std::string_view portal, std::string_view statement) {
	Message_Writer message(out, 'B');
	append_cstring(out, portal);
	append_cstring(out, statement);
	append_u16(out, 0); // parameter formats
	append_u16(out, 0); // parameters
	append_u16(out, 0); // result formats: all text
}

void append_describe(std::string& out, Target_Kind kind, std::string_view name) {
	append_target(out, 'D', kind, name);
}

void append_execute(std::string& out, std::string_view portal, uint32_t max_rows) {
	Message_Writer message(out, 'E');
	append_cstring(out, portal);
	append_u32(out, max_rows);
}

void append_close(std::string& out, Target_Kind kind, std::string_view name) {
	append_target(out, 'C', kind, name);
}

void append_flush(std::string& out) {
	Message_Writer message(out, 'H');
}

void append_sync(std::string& out) {
	Message_Writer message(out, 'S');
}

void append_terminate(std::string& out) {
	Message_Writer message(out, 'X');
}

void append_copy_fail(std::string& out, std::string_view reason) {
	Message_Writer message(out, 'f');
	append_cstring(out, reason);
}

void append_password(std::string& out, std::string_view password) {
	Message_Writer message(out, 'p');
	append_cstring(out, password);
}

void append_wait(std::string& out, const Wait_View& wait) {
	Message_Writer message(out, 'W');
	append_u8(out, kWaitVersion);
	append_u8(out, static_cast<uint8_t>(wait.mode));
	append_u16(out, 0); // flags
	append_u32(out, wait.timeout_ms);
	append_u64(out, wait.target_lsn);
}

} // namespace proxy
