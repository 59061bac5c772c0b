// From accept to the first ReadyForQuery: startup packets, TLS, login, limits.
#include "base/Log.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <array>
#include <sys/random.h>

namespace proxy {

namespace {
constexpr size_t kCancelKeyBytes = 4;
constexpr uint32_t kProtocol30 = 3U << 16;

// Startup keys that are not parameters.
bool is_reserved_key(std::string_view name) {
	return name == "user" || name == "database" || name == "options" || name == "replication" ||
	       is_polar_parameter(name) || is_protocol_extension(name);
}

std::string lower_case(std::string_view text) {
	std::string result(text);
	for (char& c : result) {
		c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
	}
	return result;
}

bool is_local(const std::string& host) {
	return host.empty() || host == "127.0.0.1" || host == "::1";
}
} // namespace

// One step of the login; false: waits for bytes, or the session has moved on.
bool PgSQL_Session::process_startup() {
	if (cancel_ != nullptr) {
		return false; // this connection has had its say
	}
	if (auth_ == nullptr) {
		const Startup_Packet packet = parse_startup(unread());
		if (packet.kind == Startup_Kind::incomplete) {
			return false;
		}
		return on_startup_packet(packet);
	}
	Frame frame;
	switch (next_frame(unread(), kMaxStartupBytes, frame)) {
	case Frame_Status::incomplete:
		return false;
	case Frame_Status::malformed:
		fatal(make_error("08P01", "invalid message length"), Session_End::protocol_violation);
		return false;
	case Frame_Status::complete:
		break;
	}
	if (frame.type != 'p') {
		fatal(make_error("08P01", "expected a password message"), Session_End::protocol_violation);
		return false;
	}
	return on_password(frame);
}

bool PgSQL_Session::on_startup_packet(const Startup_Packet& packet) {
	switch (packet.kind) {
	case Startup_Kind::incomplete:
		return false;
	case Startup_Kind::malformed:
	case Startup_Kind::direct_tls: // its first byte was looked at before it was read
		return refuse_startup(make_error(
		    "08P01", packet.error.empty() ? "invalid startup packet" : std::string(packet.error)));
	case Startup_Kind::unsupported_version:
		return refuse_startup(make_error(
		    "0A000", "unsupported frontend protocol " + std::to_string(packet.major) + "." +
		                 std::to_string(packet.minor) + ": server supports 3.0 to 3.2"));
	case Startup_Kind::ssl_request:
		return on_ssl_request(packet);
	case Startup_Kind::gssenc_request:
		in_begin_ += packet.size;
		send_to_client("N");
		return true;
	case Startup_Kind::cancel_request:
		worker_.counters.add(Counter::Cancel_requests);
		cancel_ = std::make_shared<Cancel_Ticket>();
		worker_.services.broadcast_cancel(packet.cancel_pid, std::string(packet.cancel_key),
		                                  cancel_);
		cancel_since_us_ = worker_.now_us;
		in_begin_ += packet.size;
		end_cancel_request();
		return false;
	case Startup_Kind::startup:
		if (stream_.is_tls() && stream_.bytes_received() > 0 && !tls_was_asked_ &&
		    !stream_.has_alpn()) {
			return refuse_startup(
			    make_error("08P01", "direct TLS needs the ALPN protocol \"postgresql\""));
		}
		return begin_login(packet);
	}
	return false;
}

bool PgSQL_Session::refuse_startup(const Error& error) {
	fatal(error, Session_End::protocol_violation);
	return false;
}

bool PgSQL_Session::on_ssl_request(const Startup_Packet& packet) {
	if (tls_was_asked_ || stream_.is_tls()) {
		// As PostgreSQL: only the first one is an SSLRequest, another one is an odd version number.
		return refuse_startup(make_error("0A000", "unsupported frontend protocol 1234.5679: "
		                                          "encryption was negotiated already"));
	}
	in_begin_ += packet.size;
	if (worker_.tls == nullptr) {
		tls_was_asked_ = true;
		send_to_client("N");
		return true;
	}
	if (in_begin_ != in_.size()) {
		// Bytes that came before the encryption must not be taken for encrypted ones.
		return refuse_startup(make_error("08P01", "received unencrypted data after SSL request"));
	}
	tls_was_asked_ = true;
	drop_consumed_input();
	send_to_client("S");
	if (state_ != Session_State::ended && !stream_.start_tls(worker_.tls)) {
		end(Session_End::login_failed);
	}
	return false;
}

bool PgSQL_Session::begin_login(const Startup_Packet& packet) {
	const std::string_view* user = packet.find("user");
	if (user == nullptr || user->empty()) {
		return refuse_startup(
		    make_error("28000", "no PostgreSQL user name specified in startup packet"));
	}
	username_ = *user;
	const std::string_view* database = packet.find("database");
	database_ = database == nullptr || database->empty() ? username_ : std::string(*database);
	const std::string_view* replication = packet.find("replication");
	if (replication != nullptr && *replication != "false" && *replication != "off" &&
	    *replication != "0" && *replication != "no") {
		return refuse_startup(make_error(
		    "0A000", "replication connections are not relayed; connect to the server itself"));
	}
	if (!take_startup_parameters(packet)) {
		return false;
	}
	negotiate_ = packet.minor != 0 || !refused_options_.empty();
	in_begin_ += packet.size;
	return start_authentication();
}

bool PgSQL_Session::take_startup_parameter(const std::string& name, const std::string& value) {
	Result<bool> ours = take_proxy_setting(name, value);
	if (!ours.ok()) {
		return refuse_startup(ours.error());
	}
	if (!ours.value()) {
		startup_parameters_.set(name, value);
	}
	return true;
}

bool PgSQL_Session::take_startup_parameters(const Startup_Packet& packet) {
	for (const auto& [name, value] : packet.parameters) {
		if (is_protocol_extension(name)) {
			refused_options_.emplace_back(name);
		}
		if (!is_reserved_key(name) &&
		    !take_startup_parameter(lower_case(name), std::string(value))) {
			return false;
		}
	}
	const std::string_view* options = packet.find("options");
	if (options != nullptr && !options->empty()) {
		auto parsed = parse_startup_options(*options);
		if (!parsed) {
			return refuse_startup(parsed.error());
		}
		for (const auto& [name, value] : parsed.value()) {
			if (!is_reserved_key(name) && !take_startup_parameter(lower_case(name), value)) {
				return false;
			}
		}
	}
	wanted_ = startup_parameters_;
	return true;
}

bool PgSQL_Session::start_authentication() {
	std::string out;
	if (negotiate_) {
		std::vector<std::string_view> options(refused_options_.begin(), refused_options_.end());
		append_negotiate_protocol_version(out, kProtocol30, options);
	}
	const User_Entry_Ptr user = worker_.users == nullptr ? nullptr : worker_.users->find(username_);
	const bool known = user != nullptr && user->has_frontend;
	user_ = known ? user : nullptr;
	Auth_Request request;
	request.username = username_;
	request.has_secret = known;
	request.secret = known ? user->frontend_secret.reveal() : std::string_view();
	request.floor = static_cast<Auth_Method>(worker_.config->authentication_method);
	request.tls = stream_.is_tls();
	request.channel_binding_hash = stream_.channel_binding_hash();
	auth_ = std::make_unique<Auth_Flow>();
	return after_auth(auth_->start(request, out), out);
}

bool PgSQL_Session::on_password(const Frame& frame) {
	std::string out;
	const Auth_Flow::Status status = auth_->on_password_message(frame.body, out);
	in_begin_ += frame.size;
	return after_auth(status, out);
}

bool PgSQL_Session::after_auth(Auth_Flow::Status status, std::string& out) {
	switch (status) {
	case Auth_Flow::Status::need_message:
		send_to_client(out);
		return true;
	case Auth_Flow::Status::malformed:
		fatal(make_error("08P01", std::string(auth_->error())), Session_End::login_failed);
		return false;
	case Auth_Flow::Status::denied: {
		worker_.counters.add(Counter::Access_Denied_Wrong_Password);
		const char* with_password = auth_->password_was_empty() ? "NO" : "YES";
		const std::string text = "ProxySQL Error: Access denied for user '" + username_ + "'@'" +
		                         peer_.host + "' (using password: " + with_password + ")";
		log_warning("{}", text);
		fatal(make_error("28P01", text), Session_End::login_failed);
		return false;
	}
	case Auth_Flow::Status::accepted:
		break;
	}
	auth_.reset();
	if (!admit(out)) {
		return false;
	}
	finish_login(out);
	return true;
}

// Rules that hold for somebody who has proved who he is.
bool PgSQL_Session::admit(std::string& out) {
	const auto refuse = [this, &out](const char* sqlstate, const std::string& message) {
		append_error_response(out, make_error(sqlstate, message), Severity::fatal);
		stream_.send(out);
		end(Session_End::login_failed);
		return false;
	};
	if (user_ == nullptr) {
		return refuse("28P01", "Access denied for user '" + username_ + "'");
	}
	if (user_->use_ssl && !stream_.is_tls()) {
		return refuse("28000", "ProxySQL Error: Access denied for user '" + username_ + "'@'" +
		                           peer_.host + "' (using password: YES). SSL is required");
	}
	if (username_ == worker_.config->monitor_username && !is_local(peer_.host)) {
		return refuse("08004", "User '" + username_ + "' can only connect locally");
	}
	const int64_t all = worker_.limits.client_connections.fetch_add(1, std::memory_order_relaxed);
	const int64_t own = user_->connections->fetch_add(1, std::memory_order_relaxed);
	counted_ = true;
	if (all >= worker_.config->max_connections) {
		worker_.counters.add(Counter::Access_Denied_Max_Connections);
		return refuse("53300", "Too many connections");
	}
	if (own >= user_->max_connections) {
		worker_.counters.add(Counter::Access_Denied_Max_User_Connections);
		return refuse("53300", "User '" + username_ +
		                           "' has exceeded the 'max_user_connections' resource (current "
		                           "value: " +
		                           std::to_string(user_->max_connections) + ")");
	}
	return true;
}

void PgSQL_Session::finish_login(std::string& out) {
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
	parameters["is_superuser"] = "off";
	parameters["application_name"] = "";
	for (auto& [name, value] : parameters) {
		if (const std::string* chosen = startup_parameters_.find(lower_case(name))) {
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
	standard_conforming_strings_ =
	    normalised_value("standard_conforming_strings",
	                     parameters["standard_conforming_strings"]) != "off";
	cancel_key_.resize(kCancelKeyBytes);
	// Never fails for so few bytes once the system has booted.
	[[maybe_unused]] const ssize_t got = getrandom(cancel_key_.data(), kCancelKeyBytes, 0);
	append_backend_key_data(out, id_, cancel_key_);
	append_ready_for_query(out, Transaction_Status::idle);
	logged_in_ = true;
	set_state(Session_State::waiting_client_data);
	send_to_client(out);
}

} // namespace proxy
