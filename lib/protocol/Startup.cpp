#include "protocol/Startup.h"

#include "base/Span_Reader.h"
#include "protocol/PgSQL_Protocol.h"
#include "protocol/Wire_Writer.h"

#include <algorithm>
#include <optional>

namespace proxy {

namespace {

// The request codes use a major version that no protocol will ever have.
constexpr uint32_t kCancelRequestCode = (1234U << 16) | 5678U;
constexpr uint32_t kSslRequestCode = (1234U << 16) | 5679U;
constexpr uint32_t kGssEncRequestCode = (1234U << 16) | 5680U;
// No version that PostgreSQL uses or reserves.
constexpr uint32_t kForwardedCancelCode = (1234U << 16) | 5778U;
constexpr size_t kMinCancelKeyBytes = 4;
constexpr size_t kLongCancelKeyBytes = 32;
constexpr size_t kLengthFieldBytes = 4;
constexpr size_t kVersionBytes = 4;
constexpr uint8_t kTlsHandshakeByte = 0x16;

Startup_Packet malformed(std::string_view why) {
	Startup_Packet packet;
	packet.kind = Startup_Kind::malformed;
	packet.error = why;
	return packet;
}

void read_parameters(Span_Reader& reader, Startup_Packet& packet) {
	while (reader.ok()) {
		const std::string_view name = reader.cstring();
		if (name.empty()) {
			break;
		}
		const std::string_view value = reader.cstring();
		packet.parameters.emplace_back(name, value);
	}
	if (!reader.at_end()) {
		packet.kind = Startup_Kind::malformed;
		packet.parameters.clear();
		packet.error = "invalid startup packet layout: expected terminator as last byte";
	}
}

bool is_blank(char c) {
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool starts_with(std::string_view text, std::string_view prefix) {
	return text.substr(0, prefix.size()) == prefix;
}

// The next blank-separated token, with its escapes undone; nullopt at the end.
std::optional<std::string> next_token(std::string_view text, size_t& at) {
	while (at < text.size() && is_blank(text[at])) {
		++at;
	}
	if (at == text.size()) {
		return std::nullopt;
	}
	std::string token;
	bool escaped = false;
	for (; at < text.size(); ++at) {
		if (escaped) {
			token.push_back(text[at]);
			escaped = false;
		} else if (text[at] == '\\') {
			escaped = true;
		} else if (is_blank(text[at])) {
			break;
		} else {
			token.push_back(text[at]);
		}
	}
	return token;
}

Result<Parameter> split_assignment(std::string_view text) {
	const size_t equals = text.find('=');
	if (equals == std::string_view::npos) {
		return make_error("42601",
		                  "invalid startup options: missing '=' in \"" + std::string(text) + "\"");
	}
	if (equals == 0) {
		return make_error("42601",
		                  "invalid startup options: empty key in \"" + std::string(text) + "\"");
	}
	std::string name(text.substr(0, equals));
	for (char& c : name) {
		if (c == '-') {
			c = '_';
		}
	}
	return Parameter(std::move(name), std::string(text.substr(equals + 1)));
}

Error bad_token(const std::string& token, const std::vector<Parameter>& before) {
	std::string text = "invalid startup options: ";
	if (!before.empty() && !starts_with(token, "-")) {
		text += "unescaped space in the value of \"" + before.back().first + "\"; ";
	}
	text += "token must start with \"-c\" or \"--\": \"" + token + "\"";
	Error error = make_error("42601", std::move(text));
	error.hint = "Write -c name=value or --name=value; a space or backslash inside a value needs "
	             "a backslash in front.";
	return error;
}

} // namespace

const std::string_view* Startup_Packet::find(std::string_view name) const {
	for (auto pair = parameters.rbegin(); pair != parameters.rend(); ++pair) {
		if (pair->first == name) {
			return &pair->second;
		}
	}
	return nullptr;
}

Startup_Packet parse_startup(std::span<const uint8_t> input) {
	Startup_Packet packet;
	if (!input.empty() && input[0] == kTlsHandshakeByte) {
		// As a length this would be far beyond the limit, so the two cannot be mixed up.
		packet.kind = Startup_Kind::direct_tls;
		return packet;
	}
	if (input.size() < kLengthFieldBytes) {
		return packet;
	}
	const uint32_t length = Span_Reader(input).u32();
	if (length < kLengthFieldBytes + kVersionBytes ||
	    length > kLengthFieldBytes + kMaxStartupBytes) {
		return malformed("invalid length of startup packet");
	}
	if (input.size() < length) {
		return packet;
	}
	Span_Reader reader(input.subspan(kLengthFieldBytes, length - kLengthFieldBytes));
	const uint32_t code = reader.u32();
	packet.size = length;
	packet.major = static_cast<uint16_t>(code >> 16);
	packet.minor = static_cast<uint16_t>(code & 0xffff);
	if (code == kCancelRequestCode || code == kForwardedCancelCode) {
		packet.kind = Startup_Kind::cancel_request;
		packet.forwarded = code == kForwardedCancelCode;
		packet.cancel_pid = reader.u32();
		packet.cancel_key = reader.rest();
		if (!reader.ok() || packet.cancel_key.size() < kMinCancelKeyBytes ||
		    packet.cancel_key.size() > kMaxCancelKeyBytes) {
			return malformed("invalid length of cancel request");
		}
	} else if (code == kSslRequestCode || code == kGssEncRequestCode) {
		packet.kind =
		    code == kSslRequestCode ? Startup_Kind::ssl_request : Startup_Kind::gssenc_request;
		if (!reader.at_end()) {
			return malformed("invalid length of encryption request");
		}
	} else if (packet.major != kProtocolMajor) {
		packet.kind = Startup_Kind::unsupported_version;
	} else {
		packet.kind = Startup_Kind::startup;
		read_parameters(reader, packet);
	}
	return packet;
}

Result<std::vector<Parameter>> parse_startup_options(std::string_view options) {
	std::vector<Parameter> parameters;
	size_t at = 0;
	while (std::optional<std::string> token = next_token(options, at)) {
		std::string assignment;
		if (*token == "-c") {
			// The assignment is the next token, whatever it looks like.
			std::optional<std::string> next = next_token(options, at);
			assignment = next ? std::move(*next) : std::string();
		} else if (starts_with(*token, "-c") || starts_with(*token, "--")) {
			assignment = token->substr(2);
		} else {
			return bad_token(*token, parameters);
		}
		Result<Parameter> parameter = split_assignment(assignment);
		PROXY_TRY(parameter);
		parameters.push_back(parameter.take());
	}
	return parameters;
}

void append_startup_option(std::string& out, std::string_view name, std::string_view value) {
	if (!out.empty()) {
		out.push_back(' ');
	}
	out.append("-c ");
	for (const std::string_view part : {name, std::string_view("="), value}) {
		for (const char c : part) {
			if (c == '\\' || is_blank(c)) {
				out.push_back('\\');
			}
			out.push_back(c);
		}
	}
}

bool is_polar_parameter(std::string_view name) {
	return starts_with(name, "_polar_");
}

uint32_t negotiated_version(uint16_t minor) {
	return (uint32_t{kProtocolMajor} << 16) | std::min(minor, kHighestMinor);
}

size_t cancel_key_bytes(uint16_t minor) {
	return minor >= 2 ? kLongCancelKeyBytes : kMinCancelKeyBytes;
}

void append_version_error(std::string& out, uint16_t major, uint16_t minor) {
	const std::string text = "unsupported frontend protocol " + std::to_string(major) + "." +
	                         std::to_string(minor) + ": server supports 3.0 to 3." +
	                         std::to_string(kHighestMinor);
	if (major >= kProtocolMajor) {
		append_error_response(out, make_error("0A000", text), Severity::fatal);
		return;
	}
	out.push_back('E');
	append_cstring(out, "FATAL:  " + text + "\n");
}

bool is_protocol_extension(std::string_view name) {
	return starts_with(name, "_pq_.");
}

bool client_requests_lsn(const Startup_Packet& packet) {
	for (const std::string_view name : {"_polar_send_lsn", "_polar_proxy_send_lsn"}) {
		const std::string_view* value = packet.find(name);
		if (value != nullptr && *value == "true") {
			return true;
		}
	}
	return false;
}

void append_ssl_request(std::string& out) {
	append_u32(out, 8);
	append_u32(out, kSslRequestCode);
}

namespace {
void append_cancel(std::string& out, uint32_t code, uint32_t pid, std::string_view key) {
	append_u32(out, static_cast<uint32_t>(12 + key.size()));
	append_u32(out, code);
	append_u32(out, pid);
	out.append(key);
}
} // namespace

void append_cancel_request(std::string& out, uint32_t pid, std::string_view key) {
	append_cancel(out, kCancelRequestCode, pid, key);
}

void append_forwarded_cancel(std::string& out, uint32_t pid, std::string_view key) {
	append_cancel(out, kForwardedCancelCode, pid, key);
}

void append_startup_message(std::string& out, uint16_t major, uint16_t minor,
                            std::span<const Parameter_View> parameters) {
	std::string body;
	append_u16(body, major);
	append_u16(body, minor);
	for (const auto& [name, value] : parameters) {
		append_cstring(body, name);
		append_cstring(body, value);
	}
	body.push_back('\0');
	append_u32(out, static_cast<uint32_t>(body.size() + kLengthFieldBytes));
	out.append(body);
}

} // namespace proxy
