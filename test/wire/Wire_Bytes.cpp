// Messages as bytes, written from the manual and not with the product's writers.
#include "Wire_Kit.h"

#include <cstdio>

namespace proxy::wire {

std::string u16(uint32_t value) {
	return {static_cast<char>((value >> 8) & 0xff), static_cast<char>(value & 0xff)};
}

std::string u32(uint32_t value) {
	return u16(value >> 16) + u16(value & 0xffff);
}

std::string u64(uint64_t value) {
	return u32(static_cast<uint32_t>(value >> 32)) + u32(static_cast<uint32_t>(value & 0xffffffff));
}

std::string text(std::string_view value) {
	return std::string(value) + '\0';
}

std::string message(char type, std::string_view body) {
	return type + u32(static_cast<uint32_t>(body.size() + 4)) + std::string(body);
}

std::string printable(std::string_view bytes) {
	std::string shown = "(" + std::to_string(bytes.size()) + ") ";
	constexpr size_t kMaxShown = 600;
	for (const char c : bytes.substr(0, kMaxShown)) {
		if (c >= ' ' && c <= '~' && c != '\\') {
			shown += c;
		} else {
			char escaped[8];
			std::snprintf(escaped, sizeof(escaped), "\\%02x", static_cast<unsigned char>(c));
			shown += escaped;
		}
	}
	if (bytes.size() > kMaxShown) {
		// The rest counts too, though nobody would read it.
		shown += "... " + std::to_string(std::hash<std::string_view>()(bytes));
	}
	return shown;
}

// ---- frontend ----

std::string query(std::string_view sql) {
	return message('Q', text(sql));
}

std::string parse(std::string_view name, std::string_view sql) {
	return message('P', text(name) + text(sql) + u16(0));
}

std::string bind_to(std::string_view portal, std::string_view statement) {
	return message('B', text(portal) + text(statement) + u16(0) + u16(0) + u16(0));
}

std::string describe(char kind, std::string_view name) {
	return message('D', kind + text(name));
}

std::string execute(std::string_view portal, uint32_t max_rows) {
	return message('E', text(portal) + u32(max_rows));
}

std::string close_of(char kind, std::string_view name) {
	return message('C', kind + text(name));
}

std::string startup_packet(const std::vector<std::pair<std::string, std::string>>& parameters,
                           uint32_t version) {
	std::string body = u32(version);
	for (const auto& [name, value] : parameters) {
		body += text(name) + text(value);
	}
	body += '\0';
	return u32(static_cast<uint32_t>(body.size() + 4)) + body;
}

// ---- backend ----

std::string ready(char status, std::string_view tail) {
	return message('Z', status + std::string(tail));
}

std::string lsn_tail(uint64_t lsn) {
	return u64(lsn);
}

std::string complete(std::string_view tag) {
	return message('C', text(tag));
}

std::string row(std::string_view value) {
	return message('D', u16(1) + u32(static_cast<uint32_t>(value.size())) + std::string(value));
}

std::string columns(std::string_view name) {
	return message('T', u16(1) + text(name) + u32(0) + u16(0) + u32(25) + u16(0xffff) +
	                        u32(0xffffffffU) + u16(0));
}

std::string error(std::string_view sqlstate, std::string_view text_of, const char* severity) {
	return message('E', "S" + text(severity) + "V" + text(severity) + "C" + text(sqlstate) + "M" +
	                        text(text_of) + '\0');
}

std::string notice(std::string_view text_of) {
	return message('N', "S" + text("NOTICE") + "V" + text("NOTICE") + "C" + text("00000") + "M" +
	                        text(text_of) + '\0');
}

std::string parameter(std::string_view name, std::string_view value) {
	return message('S', text(name) + text(value));
}

std::string proxy_error(std::string_view sqlstate, std::string_view text_of, const char* severity,
                        std::string_view detail) {
	return message('E', "S" + text(severity) + "V" + text(severity) + "C" + text(sqlstate) + "M" +
	                        text(text_of) + (detail.empty() ? std::string() : "D" + text(detail)) +
	                        '\0');
}

std::string one_row(std::string_view value) {
	return columns("c") + row(value) + complete("SELECT 1");
}

} // namespace proxy::wire
