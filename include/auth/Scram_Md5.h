// The arithmetic of PostgreSQL's password mechanisms: MD5 and SCRAM-SHA-256 (RFC 5802, RFC 7677).
// Pure functions over OpenSSL; usable on any thread. The message exchange is in Auth_Flow (server
// side) and Scram_Client (client side).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

inline constexpr size_t kScramKeyBytes = 32;
using Scram_Key = std::array<uint8_t, kScramKeyBytes>;

inline constexpr uint32_t kScramDefaultIterations = 4096; // PostgreSQL's scram_iterations
inline constexpr size_t kScramSaltBytes = 16;             // what PostgreSQL makes
// More than anybody configures; a server that asks for it would keep a thread busy for seconds.
inline constexpr uint32_t kScramMaxIterations = 1'000'000;
// A stored salt may be longer, within reason.
inline constexpr size_t kScramMaxSaltBytes = 1024;

// What a server keeps of a password; enough to check a client, not to log in as one.
struct Scram_Verifier {
	uint32_t iterations = kScramDefaultIterations;
	std::string salt; // raw bytes
	Scram_Key stored_key{};
	Scram_Key server_key{};
};

// What logs in to a server that holds the verifier of the same password, salt and iterations.
struct Scram_Login_Keys {
	Scram_Key client_key{};
	Scram_Key server_key{};
};

// --- stored secrets ---
enum class Secret_Type : uint8_t { none, plain, md5_hash, scram_verifier };
// By PostgreSQL's rules: what merely looks like a hash but is not well formed is a plain password.
Secret_Type classify_secret(std::string_view secret);

// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, base64 where binary.
std::optional<Scram_Verifier> parse_scram_verifier(std::string_view text);
std::string format_scram_verifier(const Scram_Verifier& verifier);
// Costs `iterations` rounds of HMAC (about a millisecond or two at 4096). nullopt: the crypto
// library refused.
std::optional<Scram_Verifier> make_scram_verifier(std::string_view password, std::string_view salt,
                                                  uint32_t iterations = kScramDefaultIterations);

// The same work for a login: both sides' keys. Iterations beyond kScramMaxIterations: nullopt.
struct Scram_Derived {
	Scram_Verifier verifier;
	Scram_Login_Keys login;
};
std::optional<Scram_Derived> derive_scram(std::string_view password, std::string_view salt,
                                          uint32_t iterations);

// The password as SCRAM uses it (RFC 4013), in the way of PostgreSQL 15: ASCII stays as it is, and
// so does what cannot be prepared (not UTF-8, a prohibited or unassigned character, mixed
// directions). The classes are looked at before normalisation, as the server does.
std::string saslprep(std::string_view password);

// `md5` + hex(md5(password + user)), as in pg_authid.
std::string md5_secret(std::string_view user, std::string_view password);
// What a client answers to AuthenticationMD5Password: `stored` is md5_secret(), salt 4 bytes.
std::string md5_response(std::string_view stored, std::string_view salt);

// --- SCRAM steps; `auth_message` is "client-first-bare,server-first,client-final-without-proof"
// --- REQUIRES: iterations >= 1. Empty optional: the crypto library refused.
std::optional<Scram_Key> scram_salted_password(std::string_view password, std::string_view salt,
                                               uint32_t iterations);
Scram_Key scram_client_key(const Scram_Key& salted_password);
Scram_Key scram_server_key(const Scram_Key& salted_password);
Scram_Key scram_stored_key(const Scram_Key& client_key);
// Client: ClientKey xor ClientSignature. Server: the same call on a proof gives ClientKey back.
Scram_Key scram_client_proof(const Scram_Key& client_key, const Scram_Key& stored_key,
                             std::string_view auth_message);
Scram_Key scram_server_signature(const Scram_Key& server_key, std::string_view auth_message);

// --- building blocks ---
Scram_Key sha256(std::string_view data);
Scram_Key hmac_sha256(std::string_view key, std::string_view data);
std::string_view as_text(const Scram_Key& key);

// Time does not depend on where the bytes differ (it does on the lengths).
bool constant_time_equal(std::string_view left, std::string_view right);
// Clears bytes in a way the compiler keeps.
void wipe(std::span<uint8_t> bytes);
// Random bytes fit for nonces and keys; false: none to be had.
bool secure_random(std::span<uint8_t> out);

std::string base64_encode(std::string_view data);
// Strict: the standard alphabet with padding, nothing else; nullopt also above `max_bytes`.
std::optional<std::string> base64_decode(std::string_view text, size_t max_bytes);

} // namespace proxy
