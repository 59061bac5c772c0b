// Numeric IP addresses and networks. Both families have one form: IPv4 is ::ffff:a.b.c.d, so an
// IPv4 client of an IPv6 listener is the same client.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

struct Ip_Address {
	std::array<uint8_t, 16> bytes{};

	// nullopt: not a numeric address.
	static std::optional<Ip_Address> parse(std::string_view text);
	// REQUIRES: 4 bytes (IPv4) or 16, in network order.
	static Ip_Address from_bytes(std::span<const uint8_t> bytes);
	bool is_v4() const;
	bool is_loopback() const; // 127.0.0.0/8 or ::1
	// IPv4 always in dots.
	std::string text() const;
	bool operator==(const Ip_Address&) const = default;
};

// "10.0.0.0/8", "::1/128", or one address. Bits behind the prefix do not matter.
struct Ip_Network {
	Ip_Address address;
	int bits = 128;

	static std::optional<Ip_Network> parse(std::string_view text);
	bool contains(const Ip_Address& other) const;
};

} // namespace proxy
