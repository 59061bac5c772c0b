// Cancel requests.
#include "auth/Scram_Md5.h"
#include "base/Log.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

// A cancel for an idle session does nothing (bug bank BB-148); for a waiting one it ends the wait;
// for a running one it goes to the server, whose connection stays reserved until it has arrived.
bool PgSQL_Session::cancel(std::string_view key, const Cancel_Ticket_Ptr& ticket) {
	if (!logged_in_ || !constant_time_equal(key, cancel_key_)) {
		return false;
	}
	cancel_statement(ticket);
	return true;
}

bool PgSQL_Session::cancel_pending() const {
	return cancel_ != nullptr && cancel_->get() == Cancel_State::pending &&
	       worker_.now_us - cancel_since_us_ < kCancelLimitUs;
}

// A session that keeps its server connection starts nothing there before the cancel has settled.
void PgSQL_Session::watch_cancel() {
	if (state_ == Session_State::waiting_client_data && cancel_pending()) {
		worker_.services.wake_by(*this, worker_.now_us + kCancelPollUs);
	}
}

// The connection of a CancelRequest: closed when the cancel has been delivered or is nobody's, as
// the server does, so that a client that waits for that may send its next statement.
void PgSQL_Session::end_cancel_request() {
	const bool nobody_has_it = cancel_.use_count() == 1;
	if (nobody_has_it || !cancel_pending()) {
		end(Session_End::cancel_request_served);
	} else {
		worker_.services.wake_by(*this, worker_.now_us + kCancelPollUs);
	}
}

Error PgSQL_Session::canceled_error() const {
	return make_error("57014", request_.timed_out
	                               ? "Query execution was interrupted, query_timeout exceeded"
	                               : "canceling statement due to user request");
}

void PgSQL_Session::cancel_statement(const Cancel_Ticket_Ptr& ticket) {
	switch (state_) {
	case Session_State::waiting_server:
		unpark();
		answer_error(canceled_error());
		process_input();
		return;
	case Session_State::connecting_server:
		discard_backend();
		answer_error(canceled_error());
		process_input();
		return;
	case Session_State::processing_statement:
	case Session_State::replica_with_wait:
		request_.canceled = true;
		if (!cancel_pending()) {
			cancel_ = ticket;
			cancel_since_us_ = worker_.now_us;
			worker_.services.send_cancel(backend_->cancel_target(), cancel_);
		}
		return;
	case Session_State::connecting_client:
	case Session_State::waiting_client_data:
	case Session_State::ended:
		return;
	}
}

} // namespace proxy
