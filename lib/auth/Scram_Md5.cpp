#include "auth/Scram_Md5.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <limits>

namespace proxy {

namespace {

constexpr std::string_view kScramPrefix = "SCRAM-SHA-256$";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kMd5Bytes = 16;
constexpr size_t kMd5SecretBytes = 35; // "md5" and 32 hex digits

const unsigned char* as_bytes(std::string_view text) {
	return reinterpret_cast<const unsigned char*>(text.data());
}

std::string md5_hex(std::string_view data) {
	std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
	unsigned int length = 0;
	// A library in FIPS mode has no MD5: the empty answer then equals no client's.
	if (EVP_Digest(data.data(), data.size(), digest.data(), &length, EVP_md5(), nullptr) != 1 ||
	    length != kMd5Bytes) {
		return {};
	}
	std::string hex;
	for (size_t i = 0; i < kMd5Bytes; ++i) {
		hex.push_back(kHexDigits[digest[i] >> 4]);
		hex.push_back(kHexDigits[digest[i] & 0xf]);
	}
	return hex;
}

std::string with_md5_prefix(std::string hex) {
	return hex.empty() ? std::string() : "md5" + hex;
}

Scram_Key exclusive_or(const Scram_Key& left, const Scram_Key& right) {
	Scram_Key result{};
	for (size_t i = 0; i < result.size(); ++i) {
		result[i] = static_cast<uint8_t>(left[i] ^ right[i]);
	}
	return result;
}

std::optional<Scram_Key> decode_key(std::string_view text) {
	const std::optional<std::string> bytes = base64_decode(text, kScramKeyBytes);
	if (!bytes || bytes->size() != kScramKeyBytes) {
		return std::nullopt;
	}
	Scram_Key key{};
	for (size_t i = 0; i < key.size(); ++i) {
		key[i] = static_cast<uint8_t>((*bytes)[i]);
	}
	return key;
}

// Digits only, 1 to the largest int: the same range PostgreSQL stores.
std::optional<uint32_t> parse_iterations(std::string_view text) {
	constexpr size_t kMaxDigits = 10;
	if (text.empty() || text.size() > kMaxDigits) {
		return std::nullopt;
	}
	uint64_t value = 0;
	for (const char c : text) {
		if (c < '0' || c > '9') {
			return std::nullopt;
		}
		value = value * 10 + static_cast<uint64_t>(c - '0');
	}
	if (value == 0 || value > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
		return std::nullopt;
	}
	return static_cast<uint32_t>(value);
}

// Cuts `text` at the first `separator`; false when there is none.
bool cut(std::string_view& text, char separator, std::string_view& head) {
	const size_t at = text.find(separator);
	if (at == std::string_view::npos) {
		return false;
	}
	head = text.substr(0, at);
	text.remove_prefix(at + 1);
	return true;
}

bool is_md5_secret(std::string_view secret) {
	return secret.size() == kMd5SecretBytes && secret.substr(0, 3) == "md5" &&
	       secret.substr(3).find_first_not_of(kHexDigits) == std::string_view::npos;
}

} // namespace

Secret_Type classify_secret(std::string_view secret) {
	if (secret.empty()) {
		return Secret_Type::none;
	}
	if (is_md5_secret(secret)) {
		return Secret_Type::md5_hash;
	}
	return parse_scram_verifier(secret) ? Secret_Type::scram_verifier : Secret_Type::plain;
}

std::optional<Scram_Verifier> parse_scram_verifier(std::string_view text) {
	if (text.substr(0, kScramPrefix.size()) != kScramPrefix) {
		return std::nullopt;
	}
	text.remove_prefix(kScramPrefix.size());
	std::string_view iterations;
	std::string_view salt;
	std::string_view stored;
	if (!cut(text, ':', iterations) || !cut(text, '$', salt) || !cut(text, ':', stored)) {
		return std::nullopt;
	}
	const auto count = parse_iterations(iterations);
	auto raw_salt = base64_decode(salt, kScramMaxSaltBytes);
	const auto stored_key = decode_key(stored);
	const auto server_key = decode_key(text);
	if (!count || !raw_salt || !stored_key || !server_key) {
		return std::nullopt;
	}
	return Scram_Verifier{*count, std::move(*raw_salt), *stored_key, *server_key};
}

std::string format_scram_verifier(const Scram_Verifier& verifier) {
	std::string text(kScramPrefix);
	text += std::to_string(verifier.iterations) + ":" + base64_encode(verifier.salt);
	text += "$" + base64_encode(as_text(verifier.stored_key));
	text += ":" + base64_encode(as_text(verifier.server_key));
	return text;
}

std::optional<Scram_Derived> derive_scram(std::string_view password, std::string_view salt,
                                          uint32_t iterations) {
	if (iterations > kScramMaxIterations) {
		return std::nullopt;
	}
	std::optional<Scram_Key> salted = scram_salted_password(password, salt, iterations);
	if (!salted) {
		return std::nullopt;
	}
	Scram_Derived derived;
	derived.login.client_key = scram_client_key(*salted);
	derived.login.server_key = scram_server_key(*salted);
	derived.verifier.iterations = iterations;
	derived.verifier.salt = salt;
	derived.verifier.stored_key = scram_stored_key(derived.login.client_key);
	derived.verifier.server_key = derived.login.server_key;
	wipe(*salted);
	return derived;
}

std::optional<Scram_Verifier> make_scram_verifier(std::string_view password, std::string_view salt,
                                                  uint32_t iterations) {
	std::optional<Scram_Derived> derived = derive_scram(password, salt, iterations);
	if (!derived) {
		return std::nullopt;
	}
	wipe(derived->login.client_key);
	return std::move(derived->verifier);
}

std::string md5_secret(std::string_view user, std::string_view password) {
	std::string text(password);
	text.append(user);
	std::string result = with_md5_prefix(md5_hex(text));
	OPENSSL_cleanse(text.data(), text.size());
	return result;
}

std::string md5_response(std::string_view stored, std::string_view salt) {
	std::string text(stored.substr(std::min<size_t>(3, stored.size())));
	text.append(salt);
	return with_md5_prefix(md5_hex(text));
}

std::optional<Scram_Key> scram_salted_password(std::string_view password, std::string_view salt,
                                               uint32_t iterations) {
	std::string prepared = saslprep(password);
	Scram_Key key{};
	if (prepared.size() > size_t{std::numeric_limits<int>::max()} ||
	    salt.size() > kScramMaxSaltBytes ||
	    iterations > static_cast<uint32_t>(std::numeric_limits<int>::max()) || iterations == 0) {
		return std::nullopt;
	}
	const int done =
	    PKCS5_PBKDF2_HMAC(prepared.data(), static_cast<int>(prepared.size()), as_bytes(salt),
	                      static_cast<int>(salt.size()), static_cast<int>(iterations), EVP_sha256(),
	                      static_cast<int>(key.size()), key.data());
	OPENSSL_cleanse(prepared.data(), prepared.size());
	if (done != 1) {
		return std::nullopt;
	}
	return key;
}

Scram_Key scram_client_key(const Scram_Key& salted_password) {
	return hmac_sha256(as_text(salted_password), "Client Key");
}

Scram_Key scram_server_key(const Scram_Key& salted_password) {
	return hmac_sha256(as_text(salted_password), "Server Key");
}

Scram_Key scram_stored_key(const Scram_Key& client_key) {
	return sha256(as_text(client_key));
}

Scram_Key scram_client_proof(const Scram_Key& client_key, const Scram_Key& stored_key,
                             std::string_view auth_message) {
	return exclusive_or(client_key, hmac_sha256(as_text(stored_key), auth_message));
}

Scram_Key scram_server_signature(const Scram_Key& server_key, std::string_view auth_message) {
	return hmac_sha256(as_text(server_key), auth_message);
}

Scram_Key sha256(std::string_view data) {
	Scram_Key digest{};
	SHA256(as_bytes(data), data.size(), digest.data());
	return digest;
}

Scram_Key hmac_sha256(std::string_view key, std::string_view data) {
	Scram_Key digest{};
	unsigned int length = 0;
	HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), as_bytes(data), data.size(),
	     digest.data(), &length);
	return digest;
}

std::string_view as_text(const Scram_Key& key) {
	return {reinterpret_cast<const char*>(key.data()), key.size()};
}

bool constant_time_equal(std::string_view left, std::string_view right) {
	return left.size() == right.size() &&
	       CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

void wipe(std::span<uint8_t> bytes) {
	OPENSSL_cleanse(bytes.data(), bytes.size());
}

bool secure_random(std::span<uint8_t> out) {
	return out.size() <= size_t{std::numeric_limits<int>::max()} &&
	       RAND_bytes(out.data(), static_cast<int>(out.size())) == 1;
}

std::string base64_encode(std::string_view data) {
	std::string out;
	out.reserve((data.size() + 2) / 3 * 4);
	uint32_t bits = 0;
	unsigned bit_count = 0;
	for (const char c : data) {
		bits = (bits << 8) | static_cast<uint8_t>(c);
		for (bit_count += 8; bit_count >= 6; bit_count -= 6) {
			out.push_back(kBase64Digits[(bits >> (bit_count - 6)) & 0x3f]);
		}
	}
	if (bit_count > 0) {
		out.push_back(kBase64Digits[(bits << (6 - bit_count)) & 0x3f]);
	}
	while (out.size() % 4 != 0) {
		out.push_back('=');
	}
	return out;
}

std::optional<std::string> base64_decode(std::string_view text, size_t max_bytes) {
	if (text.size() % 4 != 0 || text.size() / 4 > max_bytes / 3 + 1) {
		return std::nullopt;
	}
	size_t padding = 0;
	while (padding < 2 && !text.empty() && text.back() == '=') {
		text.remove_suffix(1);
		++padding;
	}
	std::string out;
	out.reserve(text.size() * 3 / 4);
	uint32_t bits = 0;
	unsigned bit_count = 0;
	for (const char c : text) {
		const size_t digit = kBase64Digits.find(c);
		if (digit == std::string_view::npos) {
			return std::nullopt;
		}
		bits = (bits << 6) | static_cast<uint32_t>(digit);
		bit_count += 6;
		if (bit_count >= 8) {
			bit_count -= 8;
			out.push_back(static_cast<char>((bits >> bit_count) & 0xff));
		}
	}
	// Bits beyond the last byte must be zero, or two texts would mean the same bytes.
	const bool clean_tail = (bits & ((1U << bit_count) - 1)) == 0;
	if (!clean_tail || out.size() > max_bytes) {
		return std::nullopt;
	}
	return out;
}

} // namespace proxy
