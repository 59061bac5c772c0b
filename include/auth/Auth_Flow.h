// One client's login, as a state machine over password messages; no socket, no clock.
//
// pgsql-authentication_method is a floor (1 clear text, 2 MD5, 3 SCRAM-SHA-256); the challenge is
// chosen per user by the stored secret:
//   stored        floor 1   floor 2   floor 3
//   plain text    clear     md5       scram
//   md5 hash      md5       md5       mock scram, always denied
//   verifier      scram     scram     scram
//   none          as plain text, always denied
// So an unknown user, at every floor, cannot be told from one with another password: same
// challenge, same salt at each attempt, same answer.
#pragma once

#include "auth/Scram_Md5.h"
#include "base/Secret.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

class Auth_Context;

enum class Auth_Method : uint8_t { clear_text = 1, md5 = 2, scram_sha_256 = 3 };

struct Auth_Request {
	std::string_view username;
	// The stored secret; has_secret false: unknown, inactive or frontend=0 user (mock exchange).
	std::string_view secret;
	bool has_secret = false;
	// For a plain secret: its keys with the salt of Auth_Context::salt_for(), from the cache.
	// Without them a SCRAM exchange derives them itself, which no worker should come to.
	std::optional<Scram_Derived> derived = {};
	Auth_Method floor = Auth_Method::scram_sha_256;
	bool tls = false;
	// tls-server-end-point hash of our certificate; empty: SCRAM-SHA-256-PLUS is not offered.
	std::string_view channel_binding_hash;
};

// The challenge that a user with this secret gets.
Auth_Method auth_method_for(Secret_Type type, Auth_Method floor);

class Auth_Flow {
public:
	enum class Status : uint8_t {
		need_message, // out holds a challenge; wait for a 'p' message
		accepted,     // out holds AuthenticationOk (preceded by SASLFinal for SCRAM)
		denied,       // wrong password: 28P01 in ProxySQL's words, made by the caller
		malformed,    // protocol violation: 08P01, error() tells
	};

	// Shares salts and derived keys with every other login of the process.
	Auth_Flow();
	// `context` must outlive the flow.
	explicit Auth_Flow(Auth_Context& context);
	~Auth_Flow();
	Auth_Flow(const Auth_Flow&) = delete;
	Auth_Flow& operator=(const Auth_Flow&) = delete;

	// Appends the first backend message to `out`. Copies what it needs of `request`.
	Status start(const Auth_Request& request, std::string& out);
	// `body` is the body of a 'p' message.
	Status on_password_message(std::span<const uint8_t> body, std::string& out);
	std::string_view error() const;
	// True when the client sent an empty password (for "using password: NO").
	bool password_was_empty() const;
	// After a SCRAM login was accepted: the keys that log in to a server holding the same verifier
	// (32 raw bytes each). Empty otherwise.
	const Secret& scram_client_key() const;
	const Secret& scram_server_key() const;

private:
	struct Impl;
	std::unique_ptr<Impl> impl_;
};

} // namespace proxy
