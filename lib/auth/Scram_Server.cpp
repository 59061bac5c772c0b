#include "Scram_Server.h"

#include <utility>

namespace proxy {

namespace {

// Nobody's honest message comes near these. libpq's are below 200 bytes; a binding hash adds 100.
constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxNonceBytes = 512;
constexpr size_t kNonceBytes = 18; // as PostgreSQL; 24 characters of base64
constexpr std::string_view kMalformed = "SASL authentication failed: malformed SCRAM message";
constexpr std::string_view kBindingType = "tls-server-end-point";

// Takes the next comma-separated attribute off `rest`; false at the end.
bool next_attribute(std::string_view& rest, std::string_view& attribute) {
	if (rest.empty()) {
		return false;
	}
	const size_t comma = rest.find(',');
	attribute = rest.substr(0, comma);
	rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
	return true;
}

// "x=value" with the letter asked for.
bool attribute_value(std::string_view attribute, char letter, std::string_view& value) {
	if (attribute.size() < 2 || attribute[0] != letter || attribute[1] != '=') {
		return false;
	}
	value = attribute.substr(2);
	return true;
}

bool is_extension(std::string_view attribute) {
	const bool letter = !attribute.empty() && ((attribute[0] >= 'a' && attribute[0] <= 'z') ||
	                                           (attribute[0] >= 'A' && attribute[0] <= 'Z'));
	return letter && attribute.size() >= 2 && attribute[1] == '=';
}

bool is_nonce(std::string_view text) {
	if (text.empty() || text.size() > kMaxNonceBytes) {
		return false;
	}
	for (const char c : text) {
		if (c < 0x21 || c > 0x7e || c == ',') {
			return false;
		}
	}
	return true;
}

bool is_acceptable_message(std::string_view message) {
	return message.size() <= kMaxMessageBytes && message.find('\0') == std::string_view::npos;
}

} // namespace

Scram_Server::Scram_Server(Auth_Context& context, Setup setup)
    : context_(context), setup_(std::move(setup)) {}

Scram_Server::Status Scram_Server::refuse(std::string_view why) {
	error_ = why;
	return Status::malformed;
}

// The flag tells what the client thinks of channel binding; a lie in the middle shows here.
Scram_Server::Status Scram_Server::check_gs2_flag(std::string_view flag) {
	if (flag == "n") {
		return setup_.plus_selected
		           ? refuse("SASL authentication failed: SCRAM-SHA-256-PLUS was selected without "
		                    "channel binding data")
		           : Status::ok;
	}
	if (flag == "y") {
		return setup_.plus_selected || setup_.plus_offered
		           ? refuse("SASL authentication failed: the client thinks that channel binding "
		                    "was not offered, but it was")
		           : Status::ok;
	}
	std::string_view type;
	if (!attribute_value(flag, 'p', type)) {
		return refuse(kMalformed);
	}
	if (!setup_.plus_selected) {
		return refuse("SASL authentication failed: channel binding data without "
		              "SCRAM-SHA-256-PLUS");
	}
	return type == kBindingType
	           ? Status::ok
	           : refuse("SASL authentication failed: unsupported channel binding type");
}

Scram_Server::Status Scram_Server::on_client_first(std::string_view message,
                                                   std::string& server_first) {
	if (!is_acceptable_message(message)) {
		return refuse(kMalformed);
	}
	std::string_view rest = message;
	std::string_view attribute;
	next_attribute(rest, attribute);
	const Status flag = check_gs2_flag(attribute);
	if (flag != Status::ok) {
		return flag;
	}
	if (!next_attribute(rest, attribute)) {
		return refuse(kMalformed);
	}
	if (!attribute.empty()) {
		return refuse(attribute[0] == 'a' ? "SASL authentication failed: an authorization identity "
		                                    "is not supported"
		                                  : kMalformed);
	}
	gs2_header_ = message.substr(0, message.size() - rest.size());
	client_first_bare_ = rest;

	// The name is ignored, as PostgreSQL does: the startup packet has said who this is.
	std::string_view name;
	std::string_view client_nonce;
	if (!next_attribute(rest, attribute) || !attribute_value(attribute, 'n', name) ||
	    !next_attribute(rest, attribute) || !attribute_value(attribute, 'r', client_nonce) ||
	    !is_nonce(client_nonce)) {
		return refuse(kMalformed);
	}
	while (next_attribute(rest, attribute)) {
		if (!is_extension(attribute)) {
			return refuse(kMalformed);
		}
	}

	std::string random(kNonceBytes, '\0');
	if (!context_.random({reinterpret_cast<uint8_t*>(random.data()), random.size()})) {
		return refuse("SASL authentication failed: no random numbers");
	}
	nonce_ = std::string(client_nonce) + base64_encode(random);
	const std::string salt =
	    setup_.verifier ? setup_.verifier->salt : context_.salt_for(setup_.username);
	const uint32_t iterations =
	    setup_.verifier ? setup_.verifier->iterations : kScramDefaultIterations;
	server_first_ =
	    "r=" + nonce_ + ",s=" + base64_encode(salt) + ",i=" + std::to_string(iterations);
	server_first = server_first_;
	return Status::ok;
}

bool Scram_Server::expected_binding(std::string_view attribute) const {
	std::string data = gs2_header_;
	if (setup_.plus_selected) {
		data += setup_.binding_hash;
	}
	return constant_time_equal(attribute, base64_encode(data));
}

bool Scram_Server::load_verifier() {
	if (setup_.verifier) {
		return true;
	}
	if (setup_.plain_password.empty()) {
		return false;
	}
	if (auto derived = context_.keys().get(setup_.username, setup_.plain_password.reveal(),
	                                       context_.salt_for(setup_.username))) {
		setup_.verifier = std::move(derived->verifier);
	}
	return setup_.verifier.has_value();
}

Scram_Server::Status Scram_Server::on_client_final(std::string_view message,
                                                   std::string& server_final) {
	if (!is_acceptable_message(message)) {
		return refuse(kMalformed);
	}
	std::string_view rest = message;
	std::string_view attribute;
	std::string_view binding;
	std::string_view nonce;
	std::string_view proof_text;
	if (!next_attribute(rest, attribute) || !attribute_value(attribute, 'c', binding) ||
	    !next_attribute(rest, attribute) || !attribute_value(attribute, 'r', nonce)) {
		return refuse(kMalformed);
	}
	size_t without_proof = 0;
	bool has_proof = false;
	while (!has_proof) {
		const size_t before = message.size() - rest.size();
		if (!next_attribute(rest, attribute)) {
			return refuse(kMalformed);
		}
		has_proof = attribute_value(attribute, 'p', proof_text);
		if (!has_proof && !is_extension(attribute)) {
			return refuse(kMalformed);
		}
		without_proof = before - 1; // the comma goes with the proof
	}
	const std::optional<std::string> proof_bytes = base64_decode(proof_text, kScramKeyBytes);
	if (!rest.empty() || message.back() == ',' || !proof_bytes ||
	    proof_bytes->size() != kScramKeyBytes) {
		return refuse(kMalformed);
	}
	if (!constant_time_equal(nonce, nonce_)) {
		return refuse("SASL authentication failed: nonce does not match");
	}
	if (!expected_binding(binding)) {
		return refuse("SASL authentication failed: channel binding check failed");
	}

	// A mock exchange does the same work on keys that nobody has.
	const bool genuine = load_verifier();
	const Scram_Verifier verifier = genuine ? *setup_.verifier : Scram_Verifier{};
	const std::string auth_message = client_first_bare_ + "," + server_first_ + "," +
	                                 std::string(message.substr(0, without_proof));
	Scram_Key proof{};
	for (size_t i = 0; i < proof.size(); ++i) {
		proof[i] = static_cast<uint8_t>((*proof_bytes)[i]);
	}
	Scram_Key client_key = scram_client_proof(proof, verifier.stored_key, auth_message);
	const bool matches =
	    constant_time_equal(as_text(scram_stored_key(client_key)), as_text(verifier.stored_key));
	if (!matches || !genuine) {
		wipe(client_key);
		return Status::denied;
	}
	client_key_ = client_key;
	server_key_ = verifier.server_key;
	server_final =
	    "v=" + base64_encode(as_text(scram_server_signature(verifier.server_key, auth_message)));
	return Status::ok;
}

} // namespace proxy
