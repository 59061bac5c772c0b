// What a session keeps only until its client is logged in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proxy {

struct Front_Door {
	// The first bytes must be a PROXY header (pgsql-proxy_protocol_networks); unset once it is
	// read.
	bool header_due = false;
	std::string header; // what has come of it
	// As the server: one SSLRequest and one GSSENCRequest, in any order.
	bool tls_was_asked = false;
	bool gss_was_asked = false;
	uint16_t minor = 0; // of the version the client asked for
	// `_pq_.` options that NegotiateProtocolVersion names.
	std::vector<std::string> refused_options;
};

} // namespace proxy
