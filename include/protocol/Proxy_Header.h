// The PROXY protocol's header, versions 1 and 2, as a load balancer puts it in front of a
// connection (haproxy.org, "The PROXY protocol"). Pure.
//
// Strict, since an address that is believed must not be guessed: anything else than a whole, valid
// header is malformed, and the connection has to be closed without an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

// Longest header taken: version 1 ends after 107 bytes; version 2 may carry extensions (TLVs), of
// which the longest in use hold a certificate's names.
inline constexpr size_t kMaxProxyHeaderBytes = 4096;

enum class Proxy_Header_Status : uint8_t { incomplete, malformed, complete };

struct Proxy_Header {
	Proxy_Header_Status status = Proxy_Header_Status::incomplete;
	size_t size = 0; // bytes of the whole header; complete only
	// False: UNKNOWN, LOCAL, or a family without an IP address; the connection's own address
	// counts.
	bool has_address = false;
	std::string host; // the client's, numeric
	int port = 0;
	std::string_view error; // malformed only; a constant text
};

// Reads the header at the front of `input`. While it is incomplete, every byte of `input` belongs
// to it.
Proxy_Header parse_proxy_header(std::span<const uint8_t> input);

} // namespace proxy
