// The client's side of one SCRAM-SHA-256 login, for probes and tests. (Server connections log in
// through libpq.) One object a login, one thread.
#pragma once

#include "auth/Scram_Md5.h"

#include <string>
#include <string_view>

namespace proxy {

enum class Gs2_Flag : char { not_supported = 'n', not_offered = 'y', used = 'p' };

class Scram_Client {
public:
	// `nonce`: random printable text without commas. `binding_hash`: tls-server-end-point, for
	// Gs2_Flag::used.
	Scram_Client(std::string_view password, std::string_view nonce,
	             Gs2_Flag flag = Gs2_Flag::not_supported, std::string_view binding_hash = {});

	std::string client_first() const;
	// nullopt: the server's message is malformed, or asks for more rounds than anyone needs.
	std::optional<std::string> client_final(std::string_view server_first);
	// Did the server prove that it knows the password too?
	bool check_server_final(std::string_view server_final) const;

private:
	std::string gs2_header() const;

	std::string password_;
	std::string nonce_;
	Gs2_Flag flag_;
	std::string binding_hash_;
	Scram_Key server_signature_{};
	bool finished_ = false;
};

} // namespace proxy
