#include "auth/Auth_Context.h"

#include "auth/PgSQL_Authentication.h"
#include "base/Check.h"

namespace proxy {

namespace {

// Separate keys for separate uses of the one secret.
std::string sub_key(std::string_view process_secret, std::string_view purpose) {
	return std::string(as_text(hmac_sha256(process_secret, purpose)));
}

} // namespace

Auth_Context::Auth_Context(std::string process_secret, Random_Source random)
    : process_secret_(std::move(process_secret)), random_(std::move(random)),
      keys_(sub_key(process_secret_, "derived keys")) {}

std::unique_ptr<Auth_Context> Auth_Context::make() {
	std::string secret(kScramKeyBytes, '\0');
	// Without randomness no login is safe, so there is nothing to go on with.
	PROXY_CHECK(secure_random({reinterpret_cast<uint8_t*>(secret.data()), secret.size()}));
	return std::make_unique<Auth_Context>(std::move(secret));
}

std::string Auth_Context::salt_for(std::string_view user) const {
	const Scram_Key digest = hmac_sha256(process_secret_, "salt:" + std::string(user));
	return std::string(as_text(digest).substr(0, kScramSaltBytes));
}

size_t Auth_Context::warm(const Users_Snapshot& users, size_t limit) {
	size_t derived = 0;
	for (const User_Entry_Ptr& user : users.entries()) {
		if (derived == limit) {
			break;
		}
		const std::string_view secret = user->frontend_secret.reveal();
		if (!user->has_frontend || classify_secret(secret) != Secret_Type::plain) {
			continue;
		}
		const std::string salt = salt_for(user->username);
		if (!keys_.contains(user->username, secret, salt)) {
			keys_.get(user->username, secret, salt);
			++derived;
		}
	}
	return derived;
}

Auth_Context& process_auth_context() {
	static const std::unique_ptr<Auth_Context> context = Auth_Context::make();
	return *context;
}

} // namespace proxy
