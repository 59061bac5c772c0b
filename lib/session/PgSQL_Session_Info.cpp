// What the admin port shows of a session.
#include "protocol/Frame_Reader.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

using enum Session_State;

PgSQL_Session::Info PgSQL_Session::info() const {
	Info result;
	result.id = id_;
	result.user = logged_in_ ? username_ : "unauthenticated user";
	result.database = database_;
	result.client_host = peer_.host;
	result.client_port = peer_.port;
	result.time_ms = (worker_.now_us - last_activity_us_) / kMicrosPerMilli;
	result.pinned = pinned_;
	result.route_reason = name_of(last_reason_);
	if (backend_ != nullptr) {
		result.hostgroup = backend_->server().hostgroup_id;
		result.server_host = backend_->server().hostname;
		result.server_port = backend_->server().port;
		result.server_pid =
		    backend_->state() == Connection_State::connecting ? 0 : backend_->backend_pid();
	}
	switch (state_) {
	case connecting_client:
		result.command = "Connecting client";
		break;
	case waiting_client_data:
		result.command = "Sleep";
		break;
	case waiting_server:
	case connecting_server:
		result.command = "Connect";
		break;
	case processing_statement:
	case replica_with_wait:
		result.command = request_.kind == Request_Kind::extended ? "Execute" : "Query";
		break;
	case ended:
		result.command = "None";
		break;
	}
	if (request_.analysis != nullptr) {
		result.info = shown_text();
	}
	return result;
}

// The running statement for the processlist: its first pgsql-processlist_max_query_length bytes, or
// its digest when it may carry a password.
std::string PgSQL_Session::shown_text() const {
	std::string_view text = batch_text();
	if (request_.kind == Request_Kind::simple && !request_.streamed &&
	    request_end_ > in_begin_ + kFrameHeaderBytes) {
		text = std::string_view(in_).substr(in_begin_ + kFrameHeaderBytes,
		                                    request_end_ - in_begin_ - kFrameHeaderBytes - 1);
	}
	static constexpr std::string_view kSecret = "password";
	const bool secret = std::search(text.begin(), text.end(), kSecret.begin(), kSecret.end(),
	                                [](char a, char b) { return (a | 0x20) == b; }) != text.end();
	if (text.empty() || secret) {
		text = request_.analysis->digest_text;
	}
	return std::string(
	    text.substr(0, static_cast<size_t>(worker_.config->processlist_max_query_length)));
}

size_t PgSQL_Session::memory_bytes() const {
	return sizeof(*this) + in_.capacity() + stream_.memory_bytes() + wanted_.memory_bytes() +
	       startup_parameters_.memory_bytes();
}

} // namespace proxy
