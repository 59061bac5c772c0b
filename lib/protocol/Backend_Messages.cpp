#include "protocol/Backend_Messages.h"

namespace proxy {

namespace {

bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

// A whole decimal number that fits.
bool parse_count(std::string_view text, uint64_t& out) {
	if (text.empty()) {
		return false;
	}
	uint64_t value = 0;
	for (const char c : text) {
		const uint64_t digit = static_cast<uint64_t>(c - '0');
		if (!is_digit(c) || value > (UINT64_MAX - digit) / 10) {
			return false;
		}
		value = value * 10 + digit;
	}
	out = value;
	return true;
}

} // namespace

bool parse(std::span<const uint8_t> body, Error_Fields& out) {
	out = Error_Fields{};
	Span_Reader reader(body);
	while (reader.ok()) {
		const char field = static_cast<char>(reader.u8());
		if (field == '\0') {
			break;
		}
		const std::string_view text = reader.cstring();
		switch (field) {
		case 'S':
			out.localized_severity = text;
			break;
		case 'V':
			out.severity = text;
			break;
		case 'C':
			out.sqlstate = text;
			break;
		case 'M':
			out.message = text;
			break;
		case 'D':
			out.detail = text;
			break;
		case 'H':
			out.hint = text;
			break;
		case 'R':
			out.routine = text;
			break;
		default: // fields nobody here needs, and those of later servers
			break;
		}
	}
	if (out.severity.empty()) {
		out.severity = out.localized_severity; // servers before 9.6
	}
	return reader.at_end();
}

bool is_lsn_wait_timeout(const Error_Fields& fields) {
	return fields.detail == "polar_proxy_lsn_wait_timeout" &&
	       fields.routine == "polar_proxy_wait_for_lsn";
}

bool parse(std::span<const uint8_t> body, Command_Tag& out) {
	Span_Reader reader(body);
	out = split_command_tag(reader.cstring());
	return reader.at_end();
}

Command_Tag split_command_tag(std::string_view tag) {
	Command_Tag result;
	result.tag = tag;
	result.command = tag;
	// "INSERT 0 5": the last number counts rows, the one before is an OID of old servers.
	const size_t last = tag.rfind(' ');
	if (last == std::string_view::npos) {
		return result;
	}
	if (!parse_count(tag.substr(last + 1), result.rows)) {
		return result;
	}
	result.has_rows = true;
	result.command = tag.substr(0, last);
	const size_t previous = result.command.rfind(' ');
	uint64_t oid = 0;
	if (previous != std::string_view::npos &&
	    parse_count(result.command.substr(previous + 1), oid)) {
		result.command = result.command.substr(0, previous);
	}
	return result;
}

bool parse(std::span<const uint8_t> body, Parameter_Status_View& out) {
	Span_Reader reader(body);
	out.name = reader.cstring();
	out.value = reader.cstring();
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Backend_Key_View& out) {
	constexpr size_t kMinKeyBytes = 4;
	constexpr size_t kMaxKeyBytes = 256;
	Span_Reader reader(body);
	out.pid = reader.u32();
	out.key = reader.rest();
	return reader.ok() && out.key.size() >= kMinKeyBytes && out.key.size() <= kMaxKeyBytes;
}

bool parse(std::span<const uint8_t> body, Notification_View& out) {
	Span_Reader reader(body);
	out.pid = reader.u32();
	out.channel = reader.cstring();
	out.payload = reader.cstring();
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Copy_Response_View& out) {
	Span_Reader reader(body);
	const uint8_t format = reader.u8();
	out.binary = format == 1;
	out.columns = reader.u16();
	reader.bytes(size_t{out.columns} * 2);
	return reader.at_end() && format <= 1;
}

bool parse(std::span<const uint8_t> body, Negotiate_View& out) {
	Span_Reader reader(body);
	out.version = reader.u32();
	out.option_count = reader.u32();
	for (uint32_t i = 0; i < out.option_count && reader.ok(); ++i) {
		reader.cstring();
	}
	return reader.at_end();
}

bool parse(std::span<const uint8_t> body, Authentication_View& out) {
	Span_Reader reader(body);
	out.code = reader.u32();
	out.data = reader.rest();
	return reader.ok();
}

std::optional<uint16_t> column_count(std::span<const uint8_t> body) {
	Span_Reader reader(body);
	const uint16_t count = reader.u16();
	return reader.ok() ? std::optional<uint16_t>(count) : std::nullopt;
}

Data_Row_Reader::Data_Row_Reader(std::span<const uint8_t> body) : reader_(body) {
	columns_left_ = reader_.u16();
}

bool Data_Row_Reader::next(std::optional<std::string_view>& value) {
	if (!ok()) {
		return false;
	}
	if (columns_left_ == 0) {
		malformed_ = reader_.remaining() != 0;
		return false;
	}
	--columns_left_;
	const int32_t length = reader_.i32();
	if (length == -1) {
		value = std::nullopt;
		return reader_.ok();
	}
	// Any other negative length becomes larger than what is left, so the read fails.
	value = reader_.bytes(static_cast<uint32_t>(length));
	return reader_.ok();
}

} // namespace proxy
