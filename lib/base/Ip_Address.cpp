#include "base/Ip_Address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>

namespace proxy {

namespace {
constexpr int kAllBits = 128;
constexpr int kBitsBeforeV4 = 96;
constexpr std::array<uint8_t, 12> kV4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
} // namespace

std::optional<Ip_Address> Ip_Address::parse(std::string_view text) {
	std::array<char, INET6_ADDRSTRLEN + 1> copy{};
	// inet_pton() would stop at a NUL.
	if (text.empty() || text.size() >= copy.size() || text.find('\0') != std::string_view::npos) {
		return std::nullopt;
	}
	text.copy(copy.data(), text.size());
	std::array<uint8_t, 16> parsed{};
	const bool v6 = text.find(':') != std::string_view::npos;
	if (inet_pton(v6 ? AF_INET6 : AF_INET, copy.data(), parsed.data()) != 1) {
		return std::nullopt;
	}
	return from_bytes(std::span<const uint8_t>(parsed).first(v6 ? 16 : 4));
}

Ip_Address Ip_Address::from_bytes(std::span<const uint8_t> bytes) {
	Ip_Address address;
	std::copy(kV4Prefix.begin(), kV4Prefix.end(), address.bytes.begin());
	std::copy(bytes.begin(), bytes.end(), address.bytes.end() - static_cast<long>(bytes.size()));
	return address;
}

bool Ip_Address::is_v4() const {
	return std::equal(kV4Prefix.begin(), kV4Prefix.end(), bytes.begin());
}

bool Ip_Address::is_loopback() const {
	static constexpr std::array<uint8_t, 16> kLoopback = {0, 0, 0, 0, 0, 0, 0, 0,
	                                                      0, 0, 0, 0, 0, 0, 0, 1};
	return is_v4() ? bytes[12] == 127 : bytes == kLoopback;
}

std::string Ip_Address::text() const {
	std::array<char, INET6_ADDRSTRLEN> out{};
	if (is_v4()) {
		inet_ntop(AF_INET, bytes.data() + 12, out.data(), out.size());
	} else {
		inet_ntop(AF_INET6, bytes.data(), out.data(), out.size());
	}
	return out.data();
}

std::optional<Ip_Network> Ip_Network::parse(std::string_view text) {
	const size_t slash = text.find('/');
	const std::string_view host = text.substr(0, slash);
	const std::optional<Ip_Address> address = Ip_Address::parse(host);
	if (!address) {
		return std::nullopt;
	}
	const int width = host.find(':') == std::string_view::npos ? 32 : kAllBits;
	int bits = width;
	if (slash != std::string_view::npos) {
		const std::string_view digits = text.substr(slash + 1);
		const auto [end, error] =
		    std::from_chars(digits.data(), digits.data() + digits.size(), bits);
		if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
		    bits < 0 || bits > width) {
			return std::nullopt;
		}
	}
	return Ip_Network{*address, bits + (width == 32 ? kBitsBeforeV4 : 0)};
}

bool Ip_Network::contains(const Ip_Address& other) const {
	const auto whole = static_cast<size_t>(bits / 8);
	const int rest = bits % 8;
	if (std::memcmp(other.bytes.data(), address.bytes.data(), whole) != 0) {
		return false;
	}
	return rest == 0 || ((other.bytes[whole] ^ address.bytes[whole]) >> (8 - rest)) == 0;
}

} // namespace proxy
