// From the startup packet to the first ReadyForQuery: who is it, may he come in, what is he told.
// The steps are those of Login_Wait.h; a new one that has to ask somebody is added there.
#include "auth/Auth_Context.h"
#include "base/Log.h"
#include "config/Config_Words.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <sys/random.h>

namespace proxy {

namespace {
Login_Step step_after(Login_Step step) {
	switch (step) {
	case Login_Step::find_user:
		return Login_Step::authenticate;
	case Login_Step::authenticate:
		return Login_Step::admit;
	case Login_Step::admit:
		return Login_Step::check_parameters;
	case Login_Step::check_parameters:
	case Login_Step::finish:
		return Login_Step::finish;
	}
	return Login_Step::finish;
}
} // namespace

// ---- steps and waits ----

bool PgSQL_Session::run_login_step(Login_Step step) {
	switch (step) {
	case Login_Step::find_user:
		return find_user();
	case Login_Step::authenticate:
		return derive_keys() && start_authentication();
	case Login_Step::admit:
		return admit();
	case Login_Step::check_parameters:
		return check_parameters();
	case Login_Step::finish:
		return finish_login();
	}
	return false;
}

// Runs steps until one waits or ends the session, or the login is over.
bool PgSQL_Session::continue_login() {
	while (state_ == Session_State::connecting_client && run_login_step(login_->step)) {
		if (login_ != nullptr) {
			login_->step = step_after(login_->step);
		}
	}
	return state_ != Session_State::ended;
}

// The login goes on in `resume` when the job has answered. The client is not read until then.
void PgSQL_Session::wait_for_login(Login_Lane lane, Login_Job job, Login_Resume resume) {
	login_->resume = resume;
	login_->awaited = worker_.services.start_login_job(*this, lane, std::move(job));
}

void PgSQL_Session::on_login_answer(uint64_t serial, Login_Answer_Ptr answer) {
	if (request_.keys_job == serial && state_ == Session_State::connecting_server) {
		request_.keys_job = 0;
		on_server_keys(std::move(answer));
		return;
	}
	if (login_ == nullptr || login_->awaited != serial || state_ == Session_State::ended) {
		return;
	}
	login_->awaited = 0;
	if ((this->*login_->resume)(std::move(answer))) {
		login_->step = step_after(login_->step);
		continue_login();
	}
	if (state_ != Session_State::ended) {
		process_input();
	}
}

// A FATAL error behind whatever the client has not been sent yet.
bool PgSQL_Session::refuse_login(const Error& error) {
	std::string out = std::move(login_->out);
	append_error_response(out, error, Severity::fatal);
	worker_.counters.add(Counter::generated_error_packets);
	stream_.send(out);
	end(Session_End::login_failed);
	return false;
}

// ---- who is it ----

bool PgSQL_Session::find_user() {
	const std::vector<std::string>& refused = door_->refused_options;
	if (door_->minor > kHighestMinor || !refused.empty()) {
		const std::vector<std::string_view> options(refused.begin(), refused.end());
		append_negotiate_protocol_version(login_->out, negotiated_version(door_->minor), options);
	}
	const User_Entry_Ptr user = worker_.users == nullptr ? nullptr : worker_.users->find(username_);
	user_ = user != nullptr && user->has_frontend ? user : nullptr;
	return true;
}

namespace {
struct Derived_Keys : Login_Answer {
	std::optional<Scram_Derived> keys;
};
} // namespace

// The keys of a plain password for SCRAM: from the cache, or made on a service thread. True: they
// are there, or not needed.
bool PgSQL_Session::derive_keys() {
	const auto floor = static_cast<Auth_Method>(worker_.config->authentication_method);
	const std::string_view secret =
	    user_ == nullptr ? std::string_view() : user_->frontend_secret.reveal();
	if (classify_secret(secret) != Secret_Type::plain ||
	    auth_method_for(Secret_Type::plain, floor) != Auth_Method::scram_sha_256) {
		return true;
	}
	Auth_Context& context = process_auth_context();
	login_->keys = context.keys().find(username_, secret, context.salt_for(username_));
	if (login_->keys) {
		return true;
	}
	wait_for_login(
	    Login_Lane::compute,
	    [&context, user = user_](const Login_Reply& reply) {
		    auto answer = std::make_unique<Derived_Keys>();
		    answer->keys = context.keys().get(user->username, user->frontend_secret.reveal(),
		                                      context.salt_for(user->username));
		    reply(std::move(answer));
	    },
	    &PgSQL_Session::on_keys_derived);
	return false;
}

bool PgSQL_Session::on_keys_derived(Login_Answer_Ptr answer) {
	auto* derived = static_cast<Derived_Keys*>(answer.get());
	if (derived == nullptr || !derived->keys) {
		return refuse_login(make_error("53300", "too many logins wait; try again later"));
	}
	login_->keys = std::move(derived->keys);
	return start_authentication();
}

bool PgSQL_Session::start_authentication() {
	Auth_Request request;
	request.derived = std::move(login_->keys);
	request.username = username_;
	request.has_secret = user_ != nullptr;
	request.secret = user_ == nullptr ? std::string_view() : user_->frontend_secret.reveal();
	request.floor = static_cast<Auth_Method>(worker_.config->authentication_method);
	request.tls = stream_.is_tls();
	request.channel_binding_hash = stream_.channel_binding_hash();
	return after_auth(login_->flow.start(request, login_->out));
}

bool PgSQL_Session::on_password(const Frame& frame) {
	const Auth_Flow::Status status = login_->flow.on_password_message(frame.body, login_->out);
	in_begin_ += frame.size;
	if (after_auth(status)) {
		login_->step = step_after(login_->step);
		return continue_login();
	}
	return state_ != Session_State::ended;
}

bool PgSQL_Session::after_auth(Auth_Flow::Status status) {
	switch (status) {
	case Auth_Flow::Status::need_message: {
		const std::string out = std::move(login_->out);
		login_->out.clear();
		send_to_client(out);
		return false;
	}
	case Auth_Flow::Status::malformed:
		return refuse_login(make_error("08P01", std::string(login_->flow.error())));
	case Auth_Flow::Status::denied: {
		worker_.counters.add(Counter::Access_Denied_Wrong_Password);
		const char* with_password = login_->flow.password_was_empty() ? "NO" : "YES";
		const std::string text = "ProxySQL Error: Access denied for user '" + username_ + "'@'" +
		                         std::string(peer_.name()) + "' (using password: " + with_password +
		                         ")";
		log_warning("{}", text);
		return refuse_login(make_error("28P01", text));
	}
	case Auth_Flow::Status::accepted:
		// A verifier alone lets nobody in to a server; what the client has just proved does.
		if (!login_->flow.scram_client_key().empty() &&
		    classify_secret(user_->frontend_secret.reveal()) == Secret_Type::scram_verifier) {
			user_->passed_keys->set(login_->flow.scram_client_key(),
			                        login_->flow.scram_server_key());
		}
		return true;
	}
	return true;
}

// ---- may he come in ----

// Rules that hold for somebody who has proved who he is.
bool PgSQL_Session::admit() {
	if (user_ == nullptr) {
		return refuse_login(make_error("28P01", "Access denied for user '" + username_ + "'"));
	}
	if (user_->use_ssl && !stream_.is_tls()) {
		return refuse_login(make_error("28000", "ProxySQL Error: Access denied for user '" +
		                                            username_ + "'@'" + std::string(peer_.name()) +
		                                            "' (using password: YES). SSL is required"));
	}
	if (username_ == worker_.config->monitor_username && !peer_.local) {
		return refuse_login(
		    make_error("08004", "User '" + username_ + "' can only connect locally"));
	}
	const int64_t all = worker_.limits.client_connections.fetch_add(1, std::memory_order_relaxed);
	const int64_t own = user_->connections->fetch_add(1, std::memory_order_relaxed);
	const int64_t of_database = worker_.limits.databases.enter(database_);
	counted_ = true;
	if (all >= worker_.config->max_connections) {
		worker_.counters.add(Counter::Access_Denied_Max_Connections);
		return refuse_login(make_error("53300", "Too many connections"));
	}
	if (own >= user_->max_connections) {
		worker_.counters.add(Counter::Access_Denied_Max_User_Connections);
		return refuse_login(
		    make_error("53300", "User '" + username_ +
		                            "' has exceeded the 'max_user_connections' resource (current "
		                            "value: " +
		                            std::to_string(user_->max_connections) + ")"));
	}
	if (of_database >= worker_.config->database_limits.of(database_)) {
		worker_.counters.add(Counter::Access_Denied_Max_Connections);
		return refuse_login(
		    make_error("53300", "too many connections for database \"" + database_ + "\""));
	}
	return true;
}

void PgSQL_Session::leave_door() {
	if (door_ != nullptr) {
		worker_.limits.logins.fetch_sub(1, std::memory_order_relaxed);
		door_.reset();
	}
}

// ---- what he is told ----

// What a server would tell at this point; the session is ready.
bool PgSQL_Session::finish_login() {
	std::string out = std::move(login_->out);
	const std::map<std::string, std::string> reported = std::move(login_->reported);
	login_.reset();
	// What a live primary reports, else what the configuration says; then what the client chose.
	std::map<std::string, std::string> parameters = {
	    {"server_version", worker_.config->server_version},
	    {"server_encoding", worker_.config->server_encoding},
	    {"client_encoding", "UTF8"},
	    {"DateStyle", "ISO, MDY"},
	    {"IntervalStyle", "postgres"},
	    {"TimeZone", "GMT"},
	    {"standard_conforming_strings", "on"},
	    {"integer_datetimes", "on"},
	    {"is_superuser", "off"},
	};
	if (worker_.reported_parameters != nullptr) {
		for (const auto& [name, value] : *worker_.reported_parameters) {
			parameters[name] = value;
		}
	}
	parameters["session_authorization"] = username_;
	told_superuser_ = user_->superuser->load(std::memory_order_relaxed);
	parameters["is_superuser"] = told_superuser_ ? "on" : "off";
	parameters["application_name"] = "";
	for (auto& [name, value] : parameters) {
		if (const std::string* chosen = startup_parameters_.find(to_lower(name))) {
			const auto told = reported.find(to_lower(name));
			if (told != reported.end()) {
				value = told->second;
				startup_parameters_.set(to_lower(name), value); // as the server spells it
				append_parameter_status(out, name, value);
				continue;
			}
			value = *chosen;
			if (name == "DateStyle" && value.find(',') == std::string::npos) {
				value += ", MDY";
			}
			if (name == "client_encoding" && normalised_value("client_encoding", value) == "utf8") {
				value = "UTF8";
			}
		}
		append_parameter_status(out, name, value);
	}
	wanted_ = startup_parameters_;
	standard_conforming_strings_ =
	    normalised_value("standard_conforming_strings",
	                     parameters["standard_conforming_strings"]) != "off";
	cancel_key_.resize(cancel_key_bytes(door_->minor));
	// Never fails for so few bytes once the system has booted.
	[[maybe_unused]] const ssize_t got = getrandom(cancel_key_.data(), cancel_key_.size(), 0);
	append_backend_key_data(out, id_, cancel_key_);
	append_ready_for_query(out, Transaction_Status::idle);
	logged_in_ = true;
	leave_door();
	set_state(Session_State::waiting_client_data);
	renew_deadline();
	send_to_client(out);
	return true;
}

} // namespace proxy
