#include "Wire_Test.h"
#include "protocol/Proxy_Header.h"

using namespace proxy;

namespace {

const std::string kSignature = raw("\r\n\r\n\0\r\nQUIT\n");

std::string version_2(uint8_t version_command, uint8_t family, const std::string& rest) {
	return kSignature + static_cast<char>(version_command) + static_cast<char>(family) +
	       static_cast<char>(rest.size() >> 8) + static_cast<char>(rest.size() & 0xff) + rest;
}

// From 192.0.2.1:4660 to 198.51.100.7:6133.
const std::string kAddresses4 = raw("\xc0\x00\x02\x01\xc6\x33\x64\x07\x12\x34\x17\xf5");
const std::string kAddresses6 =
    raw("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02"
        "\x12\x34\x17\xf5");

struct Case {
	std::string header;
	const char* host; // nullptr: no address is stated
	int port;
};

std::vector<Case> good_headers() {
	return {
	    {"PROXY TCP4 192.0.2.1 198.51.100.7 4660 6133\r\n", "192.0.2.1", 4660},
	    {"PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "0.0.0.0", 0},
	    {"PROXY TCP6 2001:DB8::1 2001:db8:0:0:0:0:0:2 4660 6133\r\n", "2001:db8::1", 4660},
	    {"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "192.0.2.1", 1},
	    {"PROXY UNKNOWN\r\n", nullptr, 0},
	    {"PROXY UNKNOWN ffff:f...f:ffff and anything else\r\n", nullptr, 0},
	    {version_2(0x21, 0x11, kAddresses4), "192.0.2.1", 4660},
	    {version_2(0x21, 0x21, kAddresses6), "2001:db8::1", 4660},
	    // Extensions behind the addresses.
	    {version_2(0x21, 0x11, kAddresses4 + raw("\x04\x00\x03xyz")), "192.0.2.1", 4660},
	    {version_2(0x21, 0x11, kAddresses4 + std::string(4000, 'x')), "192.0.2.1", 4660},
	    {version_2(0x20, 0x00, ""), nullptr, 0},          // LOCAL
	    {version_2(0x20, 0x11, kAddresses4), nullptr, 0}, // LOCAL, whatever it states
	    {version_2(0x20, 0x11, "short"), nullptr, 0},
	    {version_2(0x21, 0x00, ""), nullptr, 0},                    // unspecified family
	    {version_2(0x21, 0x31, std::string(216, 'p')), nullptr, 0}, // Unix sockets
	    {version_2(0x21, 0x12, kAddresses4), nullptr, 0},           // datagrams
	};
}

Proxy_Header parse_text(std::string_view text) {
	return parse_proxy_header(as_span(text));
}

} // namespace

TEST_CASE("PROXY headers of both versions are read, whatever follows them") {
	for (const Case& one : good_headers()) {
		INFO(one.header);
		const std::string stream = one.header + "\x16what the client says\r\n";
		const Proxy_Header header = parse_text(stream);
		REQUIRE(header.status == Proxy_Header_Status::complete);
		CHECK(header.size == one.header.size());
		REQUIRE(header.has_address == (one.host != nullptr));
		if (one.host != nullptr) {
			CHECK(header.host == one.host);
			CHECK(header.port == one.port);
		}
	}
}

TEST_CASE("a PROXY header may be cut anywhere") {
	for (const Case& one : good_headers()) {
		for (size_t length = 0; length < one.header.size(); ++length) {
			INFO(one.header.substr(0, length));
			const std::vector<uint8_t> cut(one.header.begin(),
			                               one.header.begin() + static_cast<long>(length));
			CHECK(parse_proxy_header(cut).status == Proxy_Header_Status::incomplete);
		}
	}
}

TEST_CASE("what is no PROXY header is refused, and as soon as that is known") {
	const std::vector<std::string> bad = {
	    raw("\0\0\0\x08\x04\xd2\x16\x2f"), // a client that was not sent through a balancer
	    "\x16",
	    "p",
	    "PROXYTCP4",
	    "\r\n\r\nQ",
	    "PROXY \r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 4660 6133\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 4660\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 4660 6133 1\r\n",
	    "PROXY TCP4 192.0.2.1  198.51.100.7 4660 6133\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 04660 6133\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 +466 6133\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 -1 6133\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 65536 6133\r\n",
	    "PROXY TCP4 192.0.2.1 198.51.100.7 4660 99999999999999999999\r\n",
	    "PROXY TCP4 192.0.2.256 198.51.100.7 4660 6133\r\n",
	    "PROXY TCP4 192.0.2 198.51.100.7 4660 6133\r\n",
	    "PROXY TCP4 ::1 ::2 4660 6133\r\n",
	    "PROXY TCP6 192.0.2.1 198.51.100.7 4660 6133\r\n",
	    "PROXY TCP6 2001:db8::1 198.51.100.7 4660 6133\r\n",
	    "PROXY TCP5 192.0.2.1 198.51.100.7 4660 6133\r\n",
	    "PROXY tcp4 192.0.2.1 198.51.100.7 4660 6133\r\n",
	    "PROXY UNKNOWNS\r\n",
	    "PROXY localhost\r\n",
	    raw("PROXY TCP4 192.0.2.1\0 198.51.100.7 4660 6133\r\n"),
	    "PROXY UNKNOWN " + std::string(93, 'x'), // 107 bytes without an end
	    version_2(0x11, 0x11, kAddresses4),      // version 1 in the form of 2
	    version_2(0x22, 0x11, kAddresses4),      // no such command
	    version_2(0x21, 0x41, kAddresses4),      // no such family
	    version_2(0x21, 0x13, kAddresses4),      // no such transport
	    version_2(0x21, 0x11, kAddresses4.substr(1)),
	    version_2(0x21, 0x21, kAddresses4),
	    kSignature + raw("\x21\x11\xff\xff"), // too long: known before it has come
	};
	for (const std::string& header : bad) {
		INFO(header);
		const Proxy_Header parsed = parse_text(header);
		CHECK(parsed.status == Proxy_Header_Status::malformed);
		CHECK_FALSE(parsed.error.empty());
		CHECK_FALSE(parsed.has_address);
	}
	CHECK(parse_text("PROXY UNKNOWN " + std::string(91, 'x') + "\r\n").status ==
	      Proxy_Header_Status::complete); // 107 bytes with its end
}
