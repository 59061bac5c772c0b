// Where a listener binds, and the list form of the interfaces variables. Plain values.
#pragma once

#include "base/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// Either a Unix socket (path not empty) or host and port. Port 0: the kernel picks one.
struct Listen_Address {
	std::string host; // without the brackets of IPv6
	int port = 0;
	std::string path;

	bool is_unix() const { return !path.empty(); }
	// As written in a variable: "1.2.3.4:6133", "[::1]:6133", "/tmp/x.sock".
	std::string text() const;
	bool operator==(const Listen_Address&) const = default;
};

// "0.0.0.0:6133;[::1]:6133;/tmp/x.sock". The error says which part is wrong, without the
// variable's name.
Result<std::vector<Listen_Address>> parse_listen_list(std::string_view text);

// "user:password;..." in order; the error never repeats a password.
struct Credential {
	std::string username;
	std::string password;
};
Result<std::vector<Credential>> parse_credentials(std::string_view text);

} // namespace proxy
