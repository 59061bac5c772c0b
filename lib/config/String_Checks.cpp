#include "String_Checks.h"

#include "config/Config_Words.h"
#include "config/Database_Limits.h"
#include "config/Listen_Address.h"
#include "config/Network_List.h"

#include <fmt/core.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <filesystem>
#include <netinet/in.h>
#include <sys/un.h>
#include <system_error>

namespace proxy {

namespace {

constexpr std::string_view kInvalidValue = "22023";

Error refused(std::string message) {
	return make_error(kInvalidValue, std::move(message));
}

// PostgreSQL's encoding names and their aliases (manual, "Supported Character Sets"), without
// punctuation and in lower case: the server compares them so.
constexpr std::array kEncodings{
    "abc",         "alt",         "big5",        "euccn",        "eucjis2004",  "eucjp",
    "euckr",       "euctw",       "gb18030",     "gbk",          "iso88591",    "iso885910",
    "iso885913",   "iso885914",   "iso885915",   "iso885916",    "iso88592",    "iso88593",
    "iso88594",    "iso88595",    "iso88596",    "iso88597",     "iso88598",    "iso88599",
    "johab",       "koi8",        "koi8r",       "koi8u",        "latin1",      "latin10",
    "latin2",      "latin3",      "latin4",      "latin5",       "latin6",      "latin7",
    "latin8",      "latin9",      "mskanji",     "muleinternal", "shiftjis",    "shiftjis2004",
    "sjis",        "sqlascii",    "tcvn",        "tcvn5712",     "uhc",         "unicode",
    "utf8",        "vscii",       "win",         "win1250",      "win1251",     "win1252",
    "win1253",     "win1254",     "win1255",     "win1256",      "win1257",     "win1258",
    "win866",      "win874",      "win932",      "win936",       "win949",      "win950",
    "windows1250", "windows1251", "windows1252", "windows1253",  "windows1254", "windows1255",
    "windows1256", "windows1257", "windows1258", "windows866",   "windows874",  "windows932",
    "windows936",  "windows949",  "windows950",
};

bool is_letter_or_digit(char letter) {
	return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

Result<std::string> check_encoding(std::string_view text) {
	std::string bare = to_lower(text);
	std::erase_if(bare, [](char letter) { return !is_letter_or_digit(letter); });
	if (std::find(kEncodings.begin(), kEncodings.end(), bare) == kEncodings.end()) {
		return refused(fmt::format("\"{}\" is not an encoding PostgreSQL knows", text));
	}
	std::string stored(text);
	std::transform(stored.begin(), stored.end(), stored.begin(), [](char letter) {
		return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
	});
	return stored;
}

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
	return std::any_of(words.begin(), words.end(),
	                   [word](std::string_view known) { return equal_ignoring_case(known, word); });
}

Result<std::string> check_datestyle(std::string_view text) {
	constexpr std::array<std::string_view, 4> kFormats{"ISO", "SQL", "Postgres", "German"};
	constexpr std::array<std::string_view, 6> kOrders{"MDY", "DMY",         "YMD",
	                                                  "US",  "NonEuropean", "European"};
	int formats = 0;
	int orders = 0;
	for (const std::string_view part : split_list(text, ',')) {
		if (is_one_of(kFormats, part)) {
			++formats;
		} else if (is_one_of(kOrders, part)) {
			++orders;
		} else {
			return refused(fmt::format("\"{}\" is no part of a DateStyle", part));
		}
	}
	if (formats != 1 || orders != 1) {
		return refused(fmt::format("\"{}\" must have one format (ISO, SQL, Postgres, German) and "
		                           "one order (MDY, DMY, YMD)",
		                           text));
	}
	return std::string(text);
}

Result<std::string> check_log_path(std::string_view text) {
	if (text.empty()) {
		return std::string();
	}
	if (text.back() == '/') {
		return refused(fmt::format("\"{}\" is a directory, not a file name", text));
	}
	if (text.front() == '/') {
		const auto directory = std::filesystem::path(text).parent_path();
		std::error_code ignored;
		if (!std::filesystem::is_directory(directory, ignored)) {
			return refused(fmt::format("the directory of \"{}\" does not exist", text));
		}
	}
	return std::string(text);
}

// Servers treat the told address as the client's, so only a real one will do: wildcards would
// match nothing in pg_hba.conf.
Result<std::string> check_identity_host(std::string_view text) {
	if (text.empty()) {
		return std::string();
	}
	const std::string host(text);
	in_addr v4{};
	if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
		if (v4.s_addr == INADDR_ANY) {
			return refused(fmt::format("\"{}\" is a wildcard", text));
		}
		return host;
	}
	in6_addr v6{};
	if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
		const bool any_v4 =
		    IN6_IS_ADDR_V4MAPPED(&v6) &&
		    std::all_of(v6.s6_addr + 12, v6.s6_addr + 16, [](uint8_t byte) { return byte == 0; });
		if (IN6_IS_ADDR_UNSPECIFIED(&v6) || any_v4) {
			return refused(fmt::format("\"{}\" is a wildcard", text));
		}
		return host;
	}
	return refused(fmt::format("\"{}\" is not an IPv4 or IPv6 address", text));
}

} // namespace

std::string_view trimmed(std::string_view text) {
	constexpr std::string_view kBlanks = " \t\r\n";
	const size_t first = text.find_first_not_of(kBlanks);
	if (first == std::string_view::npos) {
		return {};
	}
	return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split_list(std::string_view text, char separator) {
	std::vector<std::string_view> parts;
	while (!text.empty()) {
		const size_t end = std::min(text.find(separator), text.size());
		if (const std::string_view part = trimmed(text.substr(0, end)); !part.empty()) {
			parts.push_back(part);
		}
		text.remove_prefix(std::min(end + 1, text.size()));
	}
	return parts;
}

Result<std::string> check_string(String_Check check, std::string_view text) {
	switch (check) {
	case String_Check::any:
		return std::string(text);
	case String_Check::nonempty:
		if (trimmed(text).empty()) {
			return refused("may not be empty");
		}
		return std::string(text);
	case String_Check::nullable:
		return equal_ignoring_case(text, "(null)") ? std::string() : std::string(text);
	case String_Check::listen_list:
		PROXY_TRY(parse_listen_list(text));
		return std::string(text);
	case String_Check::credentials:
		PROXY_TRY(parse_credentials(text));
		return std::string(text);
	case String_Check::encoding:
		return check_encoding(text);
	case String_Check::datestyle:
		return check_datestyle(text);
	case String_Check::log_path:
		return check_log_path(text);
	case String_Check::identity_host:
		return check_identity_host(text);
	case String_Check::database_limits: {
		const auto limits = Database_Limits::parse(text);
		return limits.ok() ? Result<std::string>(std::string(text)) : limits.error();
	}
	case String_Check::network_list:
		PROXY_TRY(Network_List::parse(text));
		return std::string(text);
	case String_Check::file_mode:
		if (text.empty() || text.find_first_not_of("01234567") != std::string_view::npos ||
		    (text.size() > 3 && text[0] != '0')) {
			return refused(fmt::format("\"{}\" is no octal number up to 0777", text));
		}
		return std::string(text);
	}
	return refused("has no check");
}

std::string Listen_Address::text() const {
	if (is_unix()) {
		return path;
	}
	const bool v6 = host.find(':') != std::string::npos;
	return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

namespace {

// [host]:port or host:port; the port is what follows the last colon.
Result<Listen_Address> parse_listen_address(std::string_view part) {
	Listen_Address address;
	if (part.front() == '/') {
		if (part.size() >= sizeof(sockaddr_un::sun_path)) {
			return refused(fmt::format("\"{}\" is too long for a Unix socket", part));
		}
		address.path = std::string(part);
		return address;
	}
	const size_t colon = part.rfind(':');
	if (colon == std::string_view::npos || colon == 0) {
		return refused(
		    fmt::format("\"{}\" is not ip:port, [ipv6]:port or the path of a Unix socket", part));
	}
	std::string_view host = part.substr(0, colon);
	if (host.front() == '[' && host.back() == ']') {
		host = host.substr(1, host.size() - 2);
		in6_addr parsed{};
		if (inet_pton(AF_INET6, std::string(host).c_str(), &parsed) != 1) {
			return refused(fmt::format("\"{}\" is not an IPv6 address", host));
		}
	} else if (host.find_first_of(":[]") != std::string_view::npos) {
		return refused(fmt::format("\"{}\": an IPv6 address goes in brackets", part));
	}
	const std::string_view port = part.substr(colon + 1);
	const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
	constexpr int kMaxPort = 65535;
	if (port.empty() || parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() ||
	    address.port < 0 || address.port > kMaxPort) {
		return refused(fmt::format("\"{}\": the port must be a number up to 65535", part));
	}
	address.host = std::string(host);
	return address;
}

} // namespace

Result<std::vector<Listen_Address>> parse_listen_list(std::string_view text) {
	std::vector<Listen_Address> addresses;
	for (const std::string_view part : split_list(text, ';')) {
		auto address = parse_listen_address(part);
		PROXY_TRY(address);
		const bool repeated =
		    std::find(addresses.begin(), addresses.end(), address.value()) != addresses.end();
		if (repeated && (address.value().is_unix() || address.value().port != 0)) {
			return refused(fmt::format("\"{}\" is listed twice", part));
		}
		addresses.push_back(address.take());
	}
	if (addresses.empty()) {
		return refused("lists no address");
	}
	return addresses;
}

Result<std::vector<Credential>> parse_credentials(std::string_view text) {
	std::vector<Credential> credentials;
	for (const std::string_view part : split_list(text, ';')) {
		const size_t colon = part.find(':');
		if (colon == std::string_view::npos || colon == 0 || colon + 1 == part.size()) {
			return refused(fmt::format("entry {} is not user:password", credentials.size() + 1));
		}
		Credential credential{std::string(part.substr(0, colon)),
		                      std::string(part.substr(colon + 1))};
		for (const Credential& other : credentials) {
			if (other.username == credential.username) {
				return refused(fmt::format("user \"{}\" is listed twice", credential.username));
			}
		}
		credentials.push_back(std::move(credential));
	}
	if (credentials.empty()) {
		return refused("lists no user:password");
	}
	return credentials;
}

} // namespace proxy
