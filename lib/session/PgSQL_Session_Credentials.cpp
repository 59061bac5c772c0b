// What logs in to a server for a session: the password, the keys made of it, or the keys that the
// client has proved when only a verifier is stored.
#include "auth/Auth_Context.h"
#include "session/PgSQL_Session.h"

namespace proxy {

namespace {
struct Server_Keys : Login_Answer {
	std::optional<Scram_Derived> keys;
};

Secret as_secret(const Scram_Key& key) {
	return Secret(std::string(as_text(key)));
}
} // namespace

// Users were loaded since the last statement: a new password counts for new server connections,
// those that are open stay. Limits stay with the entry they were counted in.
void PgSQL_Session::refresh_user() {
	const User_Entry_Ptr now = worker_.users->find(username_);
	if (now != nullptr && now->has_frontend && now->connections == user_->connections) {
		user_ = now;
	}
}

void PgSQL_Session::on_backend_challenge(PgSQL_Connection& connection) {
	PgSQL_Connection::Scram_Challenge challenge = connection.scram_challenge();
	switch (classify_secret(user_->backend_secret.reveal())) {
	case Secret_Type::plain:
		derive_server_keys(std::move(challenge.salt), challenge.iterations);
		return;
	case Secret_Type::scram_verifier:
		use_passed_keys(challenge.salt, challenge.iterations);
		return;
	case Secret_Type::md5_hash:
		refuse_challenge("the server asks for SCRAM-SHA-256, and only an MD5 hash of the password "
		                 "of user \"" +
		                 username_ + "\" is known");
		return;
	case Secret_Type::none:
		refuse_challenge("no password is known for user \"" + username_ + "\"");
		return;
	}
}

void PgSQL_Session::derive_server_keys(std::string salt, uint32_t iterations) {
	Auth_Context& context = process_auth_context();
	const auto known =
	    context.keys().find(username_, user_->backend_secret.reveal(), salt, iterations);
	if (known) {
		backend_->set_scram_keys(as_secret(known->login.client_key),
		                         as_secret(known->login.server_key));
		return;
	}
	request_.keys_job = worker_.services.start_login_job(
	    *this, Login_Lane::compute,
	    [&context, user = user_, salt = std::move(salt), iterations](const Login_Reply& reply) {
		    auto answer = std::make_unique<Server_Keys>();
		    answer->keys =
		        context.keys().get(user->username, user->backend_secret.reveal(), salt, iterations);
		    reply(std::move(answer));
	    });
}

void PgSQL_Session::on_server_keys(Login_Answer_Ptr answer) {
	const auto* made = static_cast<const Server_Keys*>(answer.get());
	if (made == nullptr || !made->keys) {
		refuse_challenge("the keys for the server's SCRAM-SHA-256 could not be made");
		return;
	}
	backend_->set_scram_keys(as_secret(made->keys->login.client_key),
	                         as_secret(made->keys->login.server_key));
}

// The keys belong to one salt and one number of iterations: a server with another verifier of even
// the same password cannot take them.
void PgSQL_Session::use_passed_keys(const std::string& salt, uint32_t iterations) {
	const auto verifier = parse_scram_verifier(user_->backend_secret.reveal());
	if (!verifier || verifier->salt != salt || verifier->iterations != iterations) {
		refuse_challenge("the server's SCRAM verifier of user \"" + username_ +
		                 "\" is another one than that in pgsql_users");
		return;
	}
	Secret client_key;
	Secret server_key;
	const bool same = user_->frontend_secret == user_->backend_secret;
	if (!same || !user_->passed_keys->get(client_key, server_key)) {
		refuse_challenge("only a SCRAM verifier of user \"" + username_ +
		                 "\" is known, and nobody has logged in with its password yet");
		return;
	}
	backend_->set_scram_keys(client_key, server_key);
}

void PgSQL_Session::refuse_challenge(const std::string& why) {
	on_backend_connected(*backend_, make_error("28P01", why));
}

} // namespace proxy
