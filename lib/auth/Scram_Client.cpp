#include "auth/Scram_Client.h"

#include "base/Span_Reader.h"

#include <charconv>

namespace proxy {

namespace {

// A hostile server could keep us busy for hours; ten million rounds are seconds.
constexpr uint32_t kMaxIterations = 10'000'000;

bool take(std::string_view& rest, std::string_view prefix, std::string_view& value) {
	if (rest.substr(0, prefix.size()) != prefix) {
		return false;
	}
	rest.remove_prefix(prefix.size());
	const size_t comma = rest.find(',');
	value = rest.substr(0, comma);
	rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
	return true;
}

} // namespace

Scram_Client::Scram_Client(std::string_view password, std::string_view nonce, Gs2_Flag flag,
                           std::string_view binding_hash)
    : password_(password), nonce_(nonce), flag_(flag), binding_hash_(binding_hash) {}

std::string Scram_Client::gs2_header() const {
	switch (flag_) {
	case Gs2_Flag::not_supported:
		return "n,,";
	case Gs2_Flag::not_offered:
		return "y,,";
	case Gs2_Flag::used:
		return "p=tls-server-end-point,,";
	}
	return "n,,";
}

std::string Scram_Client::client_first() const {
	return gs2_header() + "n=,r=" + nonce_;
}

std::optional<std::string> Scram_Client::client_final(std::string_view server_first) {
	std::string_view rest = server_first;
	std::string_view nonce;
	std::string_view salt_text;
	std::string_view count;
	if (!take(rest, "r=", nonce) || !take(rest, "s=", salt_text) || !take(rest, "i=", count)) {
		return std::nullopt;
	}
	const std::optional<std::string> salt = base64_decode(salt_text, kScramMaxSaltBytes);
	uint32_t iterations = 0;
	const char* end = count.data() + count.size();
	const auto parsed = std::from_chars(count.data(), end, iterations);
	if (!salt || salt->empty() || parsed.ec != std::errc() || parsed.ptr != end ||
	    iterations == 0 || iterations > kMaxIterations ||
	    nonce.substr(0, nonce_.size()) != nonce_ || nonce.size() == nonce_.size()) {
		return std::nullopt;
	}
	const std::optional<Scram_Key> salted = scram_salted_password(password_, *salt, iterations);
	if (!salted) {
		return std::nullopt;
	}
	const std::string binding = gs2_header() + (flag_ == Gs2_Flag::used ? binding_hash_ : "");
	const std::string without_proof = "c=" + base64_encode(binding) + ",r=" + std::string(nonce);
	const std::string auth_message =
	    "n=,r=" + nonce_ + "," + std::string(server_first) + "," + without_proof;
	const Scram_Key client_key = scram_client_key(*salted);
	const Scram_Key proof =
	    scram_client_proof(client_key, scram_stored_key(client_key), auth_message);
	server_signature_ = scram_server_signature(scram_server_key(*salted), auth_message);
	finished_ = true;
	return without_proof + ",p=" + base64_encode(as_text(proof));
}

bool Scram_Client::check_server_final(std::string_view server_final) const {
	return finished_ &&
	       constant_time_equal(server_final, "v=" + base64_encode(as_text(server_signature_)));
}

} // namespace proxy
