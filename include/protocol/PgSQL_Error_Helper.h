// Every SQLSTATE the proxy itself sends, in one table: the constants, and why a client sees them.
// Codes and their meaning are PostgreSQL's (manual, appendix A) so that drivers react rightly.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace proxy {

namespace sqlstate {
#define PROXY_SQLSTATE(name, code, when) inline constexpr std::string_view name = code;
#include "protocol/Sqlstates.def"
#undef PROXY_SQLSTATE
} // namespace sqlstate

struct Sqlstate_Row {
	std::string_view name;
	std::string_view code;
	std::string_view when;
};
std::span<const Sqlstate_Row> sqlstate_table();
// nullptr: not one of the proxy's own.
const Sqlstate_Row* find_sqlstate(std::string_view code);

// How a server's error bears on the connection and on a retry.
enum class Error_Class : uint8_t {
	reported,   // the statement failed; pass it on
	retryable,  // connection, serialization or resources: another try may do
	connection, // the server process is gone or going
};
Error_Class classify_sqlstate(std::string_view code);

} // namespace proxy
