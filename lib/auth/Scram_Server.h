// The server's side of one SCRAM-SHA-256 exchange: SASL payloads in, SASL payloads out; framing is
// Auth_Flow's. Bounded: every attribute of the client's has a length limit (a login is where
// strangers send bytes). RFC 5802; refusals as PostgreSQL's auth-scram does them.
#pragma once

#include "auth/Auth_Context.h"
#include "auth/Scram_Md5.h"
#include "base/Secret.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

class Scram_Server {
public:
	enum class Status : uint8_t { ok, denied, malformed };

	struct Setup {
		std::string username;
		Secret plain_password; // when there is no verifier; empty: mock exchange
		std::optional<Scram_Verifier> verifier;
		bool plus_offered = false;  // we offered SCRAM-SHA-256-PLUS
		bool plus_selected = false; // the client took it
		std::string binding_hash;   // with plus_selected
	};

	Scram_Server(Auth_Context& context, Setup setup);

	// REQUIRES: called once, before on_client_final. Ok: `server_first` is set.
	Status on_client_first(std::string_view message, std::string& server_first);
	// Ok: the client knows the password; `server_final` is set.
	Status on_client_final(std::string_view message, std::string& server_final);
	std::string_view error() const { return error_; }

	// After on_client_final returned ok: what logs in to a server with the same verifier.
	const Scram_Key& client_key() const { return client_key_; }
	const Scram_Key& server_key() const { return server_key_; }

	void select_plus(bool selected) { setup_.plus_selected = selected; }

private:
	Status refuse(std::string_view why);
	Status check_gs2_flag(std::string_view flag);
	bool expected_binding(std::string_view attribute) const;
	// Makes verifier available: stored, derived from the plain password, or none (mock).
	bool load_verifier();

	Auth_Context& context_;
	Setup setup_;
	std::string gs2_header_;
	std::string client_first_bare_;
	std::string nonce_;
	std::string server_first_;
	std::string_view error_;
	Scram_Key client_key_{};
	Scram_Key server_key_{};
};

} // namespace proxy
