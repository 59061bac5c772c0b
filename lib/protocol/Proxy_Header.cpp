#include "protocol/Proxy_Header.h"

#include "base/Ip_Address.h"
#include "base/Span_Reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace proxy {

namespace {

constexpr std::string_view kVersion1 = "PROXY ";
constexpr std::string_view kVersion2{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr size_t kMaxVersion1Bytes = 107; // with its CR LF
constexpr size_t kVersion2FixedBytes = 16;
constexpr size_t kVersion1Fields = 5;

Proxy_Header malformed(std::string_view why) {
	Proxy_Header header;
	header.status = Proxy_Header_Status::malformed;
	header.error = why;
	return header;
}

bool agrees(std::string_view input, std::string_view signature) {
	const size_t both = std::min(input.size(), signature.size());
	return input.substr(0, both) == signature.substr(0, both);
}

// Decimal, without sign or leading zeros.
std::optional<int> parse_port(std::string_view text) {
	int port = 0;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
	const bool plain =
	    !text.empty() && text[0] >= '0' && text[0] <= '9' && (text[0] != '0' || text.size() == 1);
	if (!plain || error != std::errc() || end != text.data() + text.size() || port > 65535) {
		return std::nullopt;
	}
	return port;
}

// "TCP4 <from> <to> <port> <port>", or TCP6.
bool read_fields(std::string_view line, Proxy_Header& header) {
	std::array<std::string_view, kVersion1Fields> fields;
	for (size_t i = 0; i < fields.size(); ++i) {
		const size_t end = line.find(' ');
		const bool last = i + 1 == fields.size();
		if ((end == std::string_view::npos) != last) {
			return false;
		}
		fields[i] = line.substr(0, end);
		line.remove_prefix(last ? line.size() : end + 1);
	}
	const bool v4 = fields[0] == "TCP4";
	const std::optional<Ip_Address> from = Ip_Address::parse(fields[1]);
	const std::optional<Ip_Address> to = Ip_Address::parse(fields[2]);
	const std::optional<int> port = parse_port(fields[3]);
	if ((!v4 && fields[0] != "TCP6") || !from || !to || !port || !parse_port(fields[4])) {
		return false;
	}
	const auto written_as_v4 = [](std::string_view text) {
		return text.find(':') == std::string_view::npos;
	};
	if (written_as_v4(fields[1]) != v4 || written_as_v4(fields[2]) != v4) {
		return false;
	}
	header.has_address = true;
	header.host = from->text();
	header.port = *port;
	return true;
}

Proxy_Header parse_version_1(std::string_view input) {
	const size_t newline = input.substr(0, kMaxVersion1Bytes).find('\n');
	if (newline == std::string_view::npos) {
		return input.size() >= kMaxVersion1Bytes ? malformed("PROXY header without an end")
		                                         : Proxy_Header{};
	}
	if (newline == 0 || input[newline - 1] != '\r') {
		return malformed("PROXY header whose line does not end with CR LF");
	}
	const std::string_view line = input.substr(kVersion1.size(), newline - 1 - kVersion1.size());
	Proxy_Header header;
	header.status = Proxy_Header_Status::complete;
	header.size = newline + 1;
	// What follows UNKNOWN is to be ignored.
	const bool unknown = line == "UNKNOWN" || line.substr(0, 8) == "UNKNOWN ";
	if (!unknown && !read_fields(line, header)) {
		return malformed("PROXY header that names no addresses");
	}
	return header;
}

Proxy_Header parse_version_2(std::span<const uint8_t> input) {
	if (input.size() < kVersion2FixedBytes) {
		return {};
	}
	Span_Reader reader(input.subspan(kVersion2.size()));
	const uint8_t version_command = reader.u8();
	const uint8_t family_transport = reader.u8();
	const size_t length = reader.u16();
	const uint8_t command = version_command & 0x0f;
	const uint8_t family = family_transport >> 4;
	const uint8_t transport = family_transport & 0x0f;
	if (version_command >> 4 != 2 || command > 1 || family > 3 || transport > 2) {
		return malformed("PROXY header of an unknown version, command or family");
	}
	if (kVersion2FixedBytes + length > kMaxProxyHeaderBytes) {
		return malformed("PROXY header that is too long");
	}
	constexpr std::array<size_t, 4> kAddressBytes = {0, 12, 36, 216};
	// A LOCAL connection is the balancer's own: what it states is to be ignored.
	const bool states_address = command == 1 && transport == 1 && (family == 1 || family == 2);
	if (states_address && length < kAddressBytes[family]) {
		return malformed("PROXY header too short for its addresses");
	}
	if (input.size() < kVersion2FixedBytes + length) {
		return {};
	}
	Proxy_Header header;
	header.status = Proxy_Header_Status::complete;
	header.size = kVersion2FixedBytes + length;
	if (states_address) {
		const size_t width = family == 1 ? 4 : 16;
		const std::span<const uint8_t> addresses =
		    input.subspan(kVersion2FixedBytes, kAddressBytes[family]);
		header.has_address = true;
		header.host = Ip_Address::from_bytes(addresses.first(width)).text();
		header.port = Span_Reader(addresses.subspan(2 * width)).u16();
	}
	return header;
}

} // namespace

Proxy_Header parse_proxy_header(std::span<const uint8_t> input) {
	const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
	if (agrees(text, kVersion1)) {
		return text.size() < kVersion1.size() ? Proxy_Header{} : parse_version_1(text);
	}
	if (agrees(text, kVersion2)) {
		return parse_version_2(input);
	}
	return malformed("no PROXY header");
}

} // namespace proxy
