#include "admin/Admin_Session.h"

#include "admin/Admin_Text.h"
#include "base/Check.h"
#include "base/Log.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/PgSQL_Error_Helper.h"
#include "protocol/PgSQL_Protocol.h"
#include "protocol/Startup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace proxy {

namespace {
// A SCRAM message or a password; PostgreSQL's own bound for SASL data is 1 KB.
constexpr uint32_t kMaxPasswordMessage = 65535;
constexpr uint32_t kProtocol30 = 196608;

using State = Admin_Session::State;
struct Transition {
	State from;
	State to;
	std::string_view cause;
};
constexpr Transition kTransitions[] = {
    {State::startup, State::password, "a challenge was sent"},
    {State::startup, State::ready, "login needs no answer"},
    {State::startup, State::closed, "cancel request, bad first packet"},
    {State::password, State::ready, "accepted"},
    {State::password, State::closed, "denied, malformed"},
    {State::ready, State::skipping, "extended protocol"},
    {State::ready, State::closed, "Terminate, protocol violation"},
    {State::skipping, State::ready, "Sync"},
    {State::skipping, State::closed, "Terminate, protocol violation"},
};

std::span<const uint8_t> as_bytes(const std::string& text) {
	return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
} // namespace

Admin_Session::Admin_Session(Admin_Host& host, Admin_Peer peer)
    : host_(host), peer_(std::move(peer)) {}

void Admin_Session::set_state(State next) {
	bool known = false;
	for (const Transition& transition : kTransitions) {
		known = known || (transition.from == state_ && transition.to == next);
	}
	if (PROXY_BUG(!known)) {
		next = State::closed;
	}
	state_ = next;
}

void Admin_Session::take(size_t bytes) {
	input_.erase(0, bytes);
}

// The last words to a client: nothing may follow them.
void Admin_Session::fail(std::string_view sqlstate, std::string message, std::string& out) {
	append_error_response(out, make_error(sqlstate, std::move(message)), Severity::fatal);
	set_state(State::closed);
}

State Admin_Session::feed(std::span<const uint8_t> bytes, std::string& out) {
	input_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
	bool more = true;
	while (more && state_ != State::closed) {
		more = state_ == State::startup ? on_startup_bytes(out) : on_frame_bytes(out);
	}
	return state_;
}

bool Admin_Session::on_startup_bytes(std::string& out) {
	const Startup_Packet packet = parse_startup(as_bytes(input_));
	switch (packet.kind) {
	case Startup_Kind::incomplete:
		return false;
	case Startup_Kind::malformed:
		fail("08P01", std::string(packet.error), out);
		return false;
	case Startup_Kind::direct_tls:
		set_state(State::closed); // an error in plain text would be noise to a TLS client
		return false;
	case Startup_Kind::ssl_request:
	case Startup_Kind::gssenc_request:
		out += 'N';
		take(packet.size);
		// Bytes behind the request were sent before our answer: a client never does that, a man in
		// the middle would.
		if (!input_.empty()) {
			fail("08P01", "received unencrypted data after an encryption request", out);
		}
		return false;
	case Startup_Kind::cancel_request:
		host_.cancel(packet.cancel_pid, packet.cancel_key);
		set_state(State::closed);
		return false;
	case Startup_Kind::unsupported_version:
		fail("0A000",
		     fmt::format("unsupported frontend protocol {}.{}: this server speaks 3.0",
		                 packet.major, packet.minor),
		     out);
		return false;
	case Startup_Kind::startup:
		break;
	}
	on_startup_packet(out);
	// The packet's parameters pointed into the input until here.
	take(packet.size);
	return true;
}

void Admin_Session::on_startup_packet(std::string& out) {
	const Startup_Packet packet = parse_startup(as_bytes(input_));
	const std::string_view* user = packet.find("user");
	if (user == nullptr || user->empty()) {
		return fail("28000", "no PostgreSQL user name specified in startup packet", out);
	}
	username_ = *user;
	if (const std::string_view* name = packet.find("application_name")) {
		has_application_name_ = true;
		application_name_ = *name;
	}
	std::vector<std::string_view> refused;
	for (const auto& [name, value] : packet.parameters) {
		if (is_protocol_extension(name)) {
			refused.push_back(name);
		}
	}
	if (packet.minor != 0 || !refused.empty()) {
		append_negotiate_protocol_version(out, kProtocol30, refused);
	}
	login_ = host_.find_login(username_);
	Auth_Request request;
	request.username = username_;
	request.secret = login_.secret.reveal();
	request.has_secret = login_.known;
	request.floor = login_.floor;
	auth_ = std::make_unique<Auth_Flow>();
	std::string reply;
	const Auth_Flow::Status status = auth_->start(request, reply);
	on_auth_status(status, reply, out);
}

void Admin_Session::on_password(std::span<const uint8_t> body, std::string& out) {
	std::string reply;
	const Auth_Flow::Status status = auth_->on_password_message(body, reply);
	on_auth_status(status, reply, out);
}

void Admin_Session::on_auth_status(Auth_Flow::Status status, const std::string& reply,
                                   std::string& out) {
	switch (status) {
	case Auth_Flow::Status::need_message:
		out += reply;
		if (state_ == State::startup) {
			set_state(State::password);
		}
		return;
	case Auth_Flow::Status::denied:
		log_warning("admin: access denied for user '{}' from {}", username_, peer_.address);
		return fail("28P01",
		            fmt::format("ProxySQL Error: Access denied for user '{}'@'{}' (using password: "
		                        "{})",
		                        username_, peer_.address,
		                        auth_->password_was_empty() ? "NO" : "YES"),
		            out);
	case Auth_Flow::Status::malformed:
		return fail("08P01", std::string(auth_->error()), out);
	case Auth_Flow::Status::accepted:
		break;
	}
	// The accounts everybody knows are for the machine itself.
	const std::string_view local_only = login_.role == Admin_Role::admin ? "admin" : "stats";
	if (!peer_.local && username_ == local_only) {
		return fail("08004", fmt::format("User '{}' can only connect locally", username_), out);
	}
	out += reply;
	finish_login(out);
}

void Admin_Session::finish_login(std::string& out) {
	if (login_.role == Admin_Role::admin) {
		append_parameter_status(out, "is_superuser", "on");
	}
	if (has_application_name_) {
		append_parameter_status(out, "application_name", application_name_);
	}
	const std::pair<std::string_view, std::string_view> parameters[] = {
	    {"integer_datetimes", "on"},
	    {"scram_iterations", "4096"},
	    {"client_encoding", "UTF8"},
	    {"DateStyle", "ISO, MDY"},
	    {"IntervalStyle", "postgres"},
	    {"standard_conforming_strings", "on"},
	    {"TimeZone", "GMT"},
	    {"server_version", login_.server_version},
	    {"server_encoding", login_.server_encoding},
	};
	for (const auto& [name, value] : parameters) {
		append_parameter_status(out, name, value);
	}
	append_backend_key_data(out, peer_.pid, peer_.key);
	append_ready_for_query(out, Transaction_Status::idle);
	auth_.reset();
	login_.secret = Secret();
	set_state(State::ready);
}

bool Admin_Session::on_frame_bytes(std::string& out) {
	Frame frame;
	const uint32_t limit = state_ == State::password ? kMaxPasswordMessage : kMaxMessageBytes;
	switch (next_frame(as_bytes(input_), limit, frame)) {
	case Frame_Status::incomplete:
		return false;
	case Frame_Status::malformed:
		fail("08P01", "invalid message length: the admin interface takes messages up to 64 MB",
		     out);
		return false;
	case Frame_Status::complete:
		break;
	}
	on_message(frame, out);
	take(frame.size);
	return true;
}

void Admin_Session::on_message(const Frame& frame, std::string& out) {
	if (state_ == State::password) {
		if (frame.type != 'p') {
			return fail("08P01", "expected a password message", out);
		}
		return on_password(frame.body, out);
	}
	if (frame.type == 'X') {
		return set_state(State::closed);
	}
	if (frame.type == 'S') {
		if (state_ == State::skipping) {
			set_state(State::ready);
		}
		return append_ready_for_query(out, Transaction_Status::idle);
	}
	if (state_ == State::skipping) {
		return; // until Sync
	}
	Query_View query;
	switch (frame.type) {
	case 'Q':
		if (!parse(frame.body, query)) {
			return fail("08P01", "invalid Query message", out);
		}
		return on_query(query.sql, out);
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
		append_error_response(
		    out, make_error("0A000", "Unsupported query type: the admin interface takes simple "
		                             "queries only"));
		return set_state(State::skipping);
	case 'F':
		append_error_response(out, make_error("0A000", "Unsupported query type"));
		return append_ready_for_query(out, Transaction_Status::idle);
	case 'H': // Flush: nothing is held back
	case 'd': // rest of a COPY that was refused
	case 'c':
	case 'f':
		return;
	default:
		return fail("08P01", fmt::format("invalid frontend message type {}", int{frame.type}), out);
	}
}

void Admin_Session::on_query(std::string_view sql, std::string& out) {
	const std::vector<std::string_view> statements = split_statements(sql);
	if (statements.empty()) {
		append_empty_query_response(out);
	}
	for (const std::string_view statement : statements) {
		Admin_Client client;
		client.role = login_.role;
		client.cancelled = peer_.cancelled;
		// All answers to what has arrived wait in `out` together.
		client.result_bytes = kMaxWaitingBytes - std::min(out.size(), kMaxWaitingBytes - 1);
		const Result<Admin_Answer> answer = host_.execute(client, statement);
		if (!answer.ok()) {
			append_error_response(out, answer.error());
			break; // as PostgreSQL: the rest of the message is not run
		}
		append_answer(answer.value(), out);
	}
	append_ready_for_query(out, Transaction_Status::idle);
}

void Admin_Session::append_answer(const Admin_Answer& answer, std::string& out) {
	for (const std::string& notice : answer.notices) {
		append_notice_response(out, make_error("01000", notice), Severity::warning);
	}
	if (answer.result.returns_rows()) {
		std::vector<std::string_view> names(answer.result.columns.begin(),
		                                    answer.result.columns.end());
		append_row_description(out, names);
		std::vector<std::optional<std::string_view>> cells;
		for (const Sql_Row& row : answer.result.rows) {
			cells.assign(row.begin(), row.end());
			append_data_row(out, cells);
		}
	}
	append_command_complete(out, answer.tag);
}

} // namespace proxy
