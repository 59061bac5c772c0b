// What all logins of a process share: a secret for made-up salts, the cache of derived keys, and
// the source of randomness (replaced in tests). Any thread.
#pragma once

#include "auth/Scram_Key_Cache.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

class Users_Snapshot;

class Auth_Context {
public:
	using Random_Source = std::function<bool(std::span<uint8_t>)>;

	// `process_secret`: random bytes. Instances that share it show a client the same salts.
	explicit Auth_Context(std::string process_secret, Random_Source random = secure_random);
	// With a fresh random secret.
	static std::unique_ptr<Auth_Context> make();

	// The salt shown to a user without a verifier, known or not: always the same one for a name, so
	// that nothing tells an unknown user from a known one.
	std::string salt_for(std::string_view user) const;
	bool random(std::span<uint8_t> out) const { return random_(out); }
	Scram_Key_Cache& keys() { return keys_; }

	// Derives the keys of the users with a plain password that are not cached yet, at most `limit`
	// of them. Service threads, after LOAD PGSQL USERS TO RUNTIME: then no login has to.
	size_t warm(const Users_Snapshot& users, size_t limit);

private:
	const std::string process_secret_;
	const Random_Source random_;
	Scram_Key_Cache keys_;
};

// The one used by Auth_Flow's default constructor; made at first use. A login needs the same salts
// and keys on every worker, and only logins need them, hence the one shared object.
Auth_Context& process_auth_context();

} // namespace proxy
