// The first packet of a client, which has no type byte, and what its parameters mean.
// (PostgreSQL manual, "Start-up" and "Message Formats": StartupMessage, SSLRequest,
// GSSENCRequest, CancelRequest.) Pure; everything returned points into the caller's bytes.
#pragma once

#include "base/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace proxy {

// PostgreSQL's own limits: for everything sent before authentication, and for a password message (a
// token in place of a password can be long).
inline constexpr uint32_t kMaxStartupBytes = 10000;
inline constexpr uint32_t kMaxPasswordBytes = 65535;
// Protocol 3.0 to 3.2 is served; 3.1 was never used, and is as 3.0.
inline constexpr uint16_t kProtocolMajor = 3;
inline constexpr uint16_t kHighestMinor = 2;
// Protocol 3.2 allows cancel keys up to this; 3.0 and 3.1 always use 4 bytes.
inline constexpr size_t kMaxCancelKeyBytes = 256;

enum class Startup_Kind : uint8_t {
	incomplete,          // wait for more bytes
	malformed,           // answer 08P01 with error, close
	direct_tls,          // the first byte of a TLS ClientHello (0x16); size is 0
	ssl_request,         // answer one byte, 'S' or 'N'
	gssenc_request,      // answer one byte, 'N'
	cancel_request,      // cancel_pid, cancel_key; never answered
	startup,             // major is 3; any minor (answer NegotiateProtocolVersion where needed)
	unsupported_version, // major is not 3: answer 0A000, close
};

using Parameter_View = std::pair<std::string_view, std::string_view>;

struct Startup_Packet {
	Startup_Kind kind = Startup_Kind::incomplete;
	size_t size = 0; // bytes of the packet, to be taken off the input
	uint16_t major = 0;
	uint16_t minor = 0;
	std::vector<Parameter_View> parameters; // startup only, in the client's order
	uint32_t cancel_pid = 0;
	std::string_view cancel_key;
	bool forwarded = false; // a cancel_request that another proxy has passed on
	std::string_view error; // malformed only; a constant text

	// The value of a parameter; the last one counts, as in PostgreSQL. nullptr: not given.
	const std::string_view* find(std::string_view name) const;
};

// Reads the first packet at the front of `input`.
Startup_Packet parse_startup(std::span<const uint8_t> input);

// Splits the startup parameter `options`: `-c name=value`, `-cname=value`, `--name=value`, blanks
// and backslashes escaped by a backslash, dashes in names read as underscores. The error says what
// is wrong (42601).
using Parameter = std::pair<std::string, std::string>;
Result<std::vector<Parameter>> parse_startup_options(std::string_view options);

// One `-c name=value` for an options string sent to a server; separated by a blank from what is
// already there.
void append_startup_option(std::string& out, std::string_view name, std::string_view value);

// `_polar_...`: understood by PolarDB kernels. Consumed here, never forwarded: a server believes
// them (client address, session id, cancel key).
bool is_polar_parameter(std::string_view name);
// The version that is spoken with a client that asks for 3.`minor`, as one number; what
// NegotiateProtocolVersion tells (manual, "NegotiateProtocolVersion").
uint32_t negotiated_version(uint16_t minor);
// Clients of 3.2 take long keys, older ones 4 bytes.
size_t cancel_key_bytes(uint16_t minor);
// The error for a major version that is not spoken. Clients of 2.0 and before read a plain text
// without a length.
void append_version_error(std::string& out, uint16_t major, uint16_t minor);
// `_pq_....`: protocol extensions; none is supported, so each is named in NegotiateProtocolVersion.
bool is_protocol_extension(std::string_view name);
// Did the client itself ask for the LSN in its ReadyForQuery (either spelling, value `true`)?
bool client_requests_lsn(const Startup_Packet& packet);

// Writers of first packets, for probes and tests.
void append_ssl_request(std::string& out);
void append_cancel_request(std::string& out, uint32_t pid, std::string_view key);
// From one proxy to another, with a code of its own: whoever gets it never passes it on.
void append_forwarded_cancel(std::string& out, uint32_t pid, std::string_view key);
void append_startup_message(std::string& out, uint16_t major, uint16_t minor,
                            std::span<const Parameter_View> parameters);

} // namespace proxy
