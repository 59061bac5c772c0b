// Messages from the proxy to a client, appended to a std::string. Pure and inline; nothing here
// allocates but the string itself. (PostgreSQL manual, "Message Formats".)
#pragma once

#include "base/Result.h"
#include "protocol/Backend_Messages.h"
#include "protocol/Wire_Writer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

enum class Severity : uint8_t { error, fatal, panic, warning, notice, info, log, debug };

inline constexpr std::string_view severity_name(Severity severity) {
	switch (severity) {
	case Severity::error:
		return "ERROR";
	case Severity::fatal:
		return "FATAL";
	case Severity::panic:
		return "PANIC";
	case Severity::warning:
		return "WARNING";
	case Severity::notice:
		return "NOTICE";
	case Severity::info:
		return "INFO";
	case Severity::log:
		return "LOG";
	case Severity::debug:
		return "DEBUG";
	}
	return "ERROR";
}

// Type OIDs for RowDescription.
inline constexpr uint32_t kOidBool = 16;
inline constexpr uint32_t kOidInt8 = 20;
inline constexpr uint32_t kOidInt4 = 23;
inline constexpr uint32_t kOidText = 25;

// --- authentication ---
inline void append_auth_ok(std::string& out) {
	out.append("R\0\0\0\x08\0\0\0\0", 9);
}
inline void append_auth_clear_text(std::string& out) {
	out.append("R\0\0\0\x08\0\0\0\x03", 9);
}
inline void append_auth_md5(std::string& out, std::string_view salt) {
	Message_Writer message(out, 'R');
	append_u32(out, static_cast<uint32_t>(Auth_Code::md5));
	out.append(salt); // always 4 bytes
}
inline void append_auth_sasl(std::string& out, std::span<const std::string_view> mechanisms) {
	Message_Writer message(out, 'R');
	append_u32(out, static_cast<uint32_t>(Auth_Code::sasl));
	for (const std::string_view mechanism : mechanisms) {
		append_cstring(out, mechanism);
	}
	out.push_back('\0');
}
inline void append_auth_sasl_continue(std::string& out, std::string_view data) {
	Message_Writer message(out, 'R');
	append_u32(out, static_cast<uint32_t>(Auth_Code::sasl_continue));
	out.append(data);
}
inline void append_auth_sasl_final(std::string& out, std::string_view data) {
	Message_Writer message(out, 'R');
	append_u32(out, static_cast<uint32_t>(Auth_Code::sasl_final));
	out.append(data);
}

// --- session ---
inline void append_parameter_status(std::string& out, std::string_view name,
                                    std::string_view value) {
	Message_Writer message(out, 'S');
	append_cstring(out, name);
	append_cstring(out, value);
}
// `key`: 4 bytes for protocol 3.0, up to 256 for 3.2.
inline void append_backend_key_data(std::string& out, uint32_t pid, std::string_view key) {
	Message_Writer message(out, 'K');
	append_u32(out, pid);
	out.append(key);
}
inline void append_ready_for_query(std::string& out, Transaction_Status status) {
	out.append("Z\0\0\0\x05", 5);
	out.push_back(static_cast<char>(status));
}
// For a client that asked for LSNs itself.
inline void append_ready_for_query_lsn(std::string& out, Transaction_Status status, uint64_t lsn) {
	out.append("Z\0\0\0\x0d", 5);
	out.push_back(static_cast<char>(status));
	append_u64(out, lsn);
}
// `version`: a full version number, such as 196608 for 3.0.
inline void append_negotiate_protocol_version(std::string& out, uint32_t version,
                                              std::span<const std::string_view> options) {
	Message_Writer message(out, 'v');
	append_u32(out, version);
	append_u32(out, static_cast<uint32_t>(options.size()));
	for (const std::string_view option : options) {
		append_cstring(out, option);
	}
}
inline void append_notification(std::string& out, uint32_t pid, std::string_view channel,
                                std::string_view payload) {
	Message_Writer message(out, 'A');
	append_u32(out, pid);
	append_cstring(out, channel);
	append_cstring(out, payload);
}

// --- errors and notices: fields S V C M D H, the last two only when not empty ---
inline void append_error_fields(std::string& out, char type, Severity severity,
                                const Error& error) {
	Message_Writer message(out, type);
	const std::string_view name = severity_name(severity);
	out.push_back('S');
	append_cstring(out, name);
	out.push_back('V');
	append_cstring(out, name);
	out.push_back('C');
	append_cstring(out, error.sqlstate);
	out.push_back('M');
	append_cstring(out, error.message);
	if (!error.detail.empty()) {
		out.push_back('D');
		append_cstring(out, error.detail);
	}
	if (!error.hint.empty()) {
		out.push_back('H');
		append_cstring(out, error.hint);
	}
	out.push_back('\0');
}
// Severity fatal: the caller closes the connection and sends no ReadyForQuery.
inline void append_error_response(std::string& out, const Error& error,
                                  Severity severity = Severity::error) {
	append_error_fields(out, 'E', severity, error);
}
inline void append_notice_response(std::string& out, const Error& notice,
                                   Severity severity = Severity::notice) {
	append_error_fields(out, 'N', severity, notice);
}

// --- results ---
inline void append_command_complete(std::string& out, std::string_view tag) {
	Message_Writer message(out, 'C');
	append_cstring(out, tag);
}
inline void append_empty_query_response(std::string& out) {
	out.append("I\0\0\0\x04", 5);
}
inline void append_parse_complete(std::string& out) {
	out.append("1\0\0\0\x04", 5);
}
inline void append_bind_complete(std::string& out) {
	out.append("2\0\0\0\x04", 5);
}
inline void append_close_complete(std::string& out) {
	out.append("3\0\0\0\x04", 5);
}
inline void append_no_data(std::string& out) {
	out.append("n\0\0\0\x04", 5);
}
inline void append_portal_suspended(std::string& out) {
	out.append("s\0\0\0\x04", 5);
}
// ParameterDescription of a statement without parameters.
inline void append_no_parameters(std::string& out) {
	out.append("t\0\0\0\x06\0\0", 7);
}

struct Column {
	std::string_view name;
	uint32_t type_oid = kOidText;
	int16_t type_size = -1;
};
// Columns that belong to no table, sent as text.
inline void append_row_description(std::string& out, std::span<const Column> columns) {
	Message_Writer message(out, 'T');
	append_u16(out, static_cast<uint16_t>(columns.size()));
	for (const Column& column : columns) {
		append_cstring(out, column.name);
		append_u32(out, 0); // table
		append_u16(out, 0); // attribute number
		append_u32(out, column.type_oid);
		append_u16(out, static_cast<uint16_t>(column.type_size));
		append_u32(out, 0xffffffffU); // type modifier: none
		append_u16(out, 0);           // text format
	}
}
// All columns of type text.
inline void append_row_description(std::string& out, std::span<const std::string_view> names) {
	Message_Writer message(out, 'T');
	append_u16(out, static_cast<uint16_t>(names.size()));
	for (const std::string_view name : names) {
		append_cstring(out, name);
		out.append("\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0", 18);
	}
}
// An absent value is SQL NULL.
inline void append_data_row(std::string& out,
                            std::span<const std::optional<std::string_view>> values) {
	Message_Writer message(out, 'D');
	append_u16(out, static_cast<uint16_t>(values.size()));
	for (const std::optional<std::string_view>& value : values) {
		append_u32(out, value ? static_cast<uint32_t>(value->size()) : 0xffffffffU);
		if (value) {
			out.append(*value);
		}
	}
}

} // namespace proxy
