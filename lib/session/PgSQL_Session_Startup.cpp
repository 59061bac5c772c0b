// From accept to the startup packet: TLS, cancel requests, what the client asks for.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

namespace proxy {

namespace {
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
} // namespace

// One step of the login; false: waits for bytes, or the session has moved on.
bool PgSQL_Session::process_startup() {
	if (cancel_ != nullptr) {
		return false; // this connection has had its say
	}
	if (login_ == nullptr) {
		const Startup_Packet packet = parse_startup(unread());
		if (packet.kind == Startup_Kind::incomplete) {
			return false;
		}
		return on_startup_packet(packet);
	}
	if (login_->awaited != 0) {
		return false;
	}
	Frame frame;
	switch (next_frame(unread(), kMaxPasswordBytes, frame)) {
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
	door_->minor = packet.minor;
	in_begin_ += packet.size;
	login_ = std::make_unique<Login_State>();
	return continue_login();
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
			door_->refused_options.emplace_back(name);
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

} // namespace proxy
