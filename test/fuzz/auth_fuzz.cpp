// A login fed with whatever comes. Input: one byte that picks floor, stored secret and TLS, then
// messages, each a length byte and a body. Nobody may get in: the secrets cannot be guessed.
#include "Fuzz_Check.h"
#include "auth/Auth_Context.h"
#include "auth/Auth_Flow.h"

#include <algorithm>
#include <array>
#include <string>

using namespace proxy;

namespace {

using Status = Auth_Flow::Status;

// Nonces a corpus can know, so that final messages are reached.
bool fixed_random(std::span<uint8_t> out) {
	for (uint8_t& byte : out) {
		byte = 7;
	}
	return true;
}

// A long random password, made anew by every run.
const std::string& secret_password() {
	static const std::string password = [] {
		std::string bytes(32, '\0');
		FUZZ_CHECK(secure_random({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
		return base64_encode(bytes);
	}();
	return password;
}

const std::string& stored_secret(size_t choice) {
	static const std::array<std::string, 4> secrets = {
	    std::string(), secret_password(), md5_secret("fuzz", secret_password()),
	    format_scram_verifier(
	        make_scram_verifier(secret_password(), "0123456789abcdef", 1).value())};
	return secrets[choice % secrets.size()];
}

Auth_Request make_request(uint8_t choice) {
	Auth_Request request;
	request.username = "fuzz";
	request.floor = static_cast<Auth_Method>(1 + choice % 3);
	request.secret = stored_secret((choice >> 2) & 3);
	request.has_secret = (choice & 0x10) != 0;
	request.tls = (choice & 0x20) != 0;
	request.channel_binding_hash = (choice & 0x40) != 0 ? "hash" : "";
	return request;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static Auth_Context context("fuzz", fixed_random);
	std::span<const uint8_t> rest(data, size);
	if (rest.empty()) {
		return 0;
	}
	const Auth_Request request = make_request(rest[0]);
	rest = rest.subspan(1);
	Auth_Flow flow(context);
	std::string out;
	Status status = flow.start(request, out);
	FUZZ_CHECK(status == Status::need_message);
	FUZZ_CHECK(!out.empty());
	while (!rest.empty()) {
		const size_t length = std::min<size_t>(rest[0], rest.size() - 1);
		out.clear();
		const bool was_over = status != Status::need_message;
		status = flow.on_password_message(rest.subspan(1, length), out);
		rest = rest.subspan(1 + length);
		FUZZ_CHECK(status != Status::accepted);
		FUZZ_CHECK((status == Status::malformed) == !flow.error().empty() || was_over);
		FUZZ_CHECK((status == Status::need_message) == !out.empty());
		FUZZ_CHECK(!was_over || status == Status::malformed);
		FUZZ_CHECK(out.size() < 2000);
	}
	return 0;
}
