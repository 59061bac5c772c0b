// Cancel requests and deadlines.
#include "base/Log.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

// A cancel for an idle session does nothing (bug bank BB-148); for a waiting one it ends the wait;
// for a running one it goes to the server, whose connection stays reserved until it has arrived.
bool PgSQL_Session::cancel(std::string_view key, const Cancel_Ticket_Ptr& ticket) {
	if (!logged_in_ || key != cancel_key_) {
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

void PgSQL_Session::cancel_statement(const Cancel_Ticket_Ptr& ticket) {
	switch (state_) {
	case Session_State::waiting_server:
		unpark();
		answer_error(make_error("57014", "canceling statement due to user request"));
		process_input();
		return;
	case Session_State::connecting_server:
		discard_backend();
		answer_error(make_error("57014", "canceling statement due to user request"));
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

void PgSQL_Session::on_deadline() {
	const int64_t now = worker_.now_us;
	const Pgsql_Config& config = *worker_.config;
	switch (state_) {
	case Session_State::connecting_client:
		if (cancel_ != nullptr) {
			end_cancel_request();
		} else if (now - started_us_ >= config.connect_timeout_client * kMicrosPerMilli) {
			end(Session_End::login_timeout);
		}
		return;
	case Session_State::waiting_client_data: {
		if (cancel_ != nullptr) {
			if (!cancel_pending()) {
				if (backend_ != nullptr && cancel_->get() != Cancel_State::settled) {
					backend_->tainted = true; // not for the next client
				}
				cancel_.reset();
			}
			process_input(); // kept back by the cancel
			return;
		}
		const int64_t idle_us = now - last_activity_us_;
		if (transaction_status_ != 'I' &&
		    idle_us >= config.max_transaction_idle_time * kMicrosPerMilli) {
			fatal(make_error("25P03", "terminating connection due to idle-in-transaction timeout"),
			      Session_End::idle_timeout);
		} else if (config.wait_timeout > 0 && idle_us >= config.wait_timeout * kMicrosPerMilli) {
			fatal(make_error("57P05", "terminating connection due to idle-session timeout"),
			      Session_End::idle_timeout);
		}
		return;
	}
	case Session_State::waiting_server:
		if (now >= request_.acquire_deadline_us) {
			unpark();
			if (request_.plan.to_reader && fall_back_to_writer(Route_Reason::replica_busy)) {
				request_.acquire_deadline_us =
				    now + config.connect_timeout_server_max * kMicrosPerMilli;
				restart_request();
				return;
			}
			no_server(last_connect_error_.empty() ? "no server of the hostgroup is online, or all "
			                                        "of them are at max_connections"
			                                      : last_connect_error_);
		} else if (request_.retry_at_us != 0 && now >= request_.retry_at_us) {
			restart_request();
		}
		return;
	case Session_State::connecting_server:
		if (now - backend_->created_us() >= config.connect_timeout_server * kMicrosPerMilli) {
			on_backend_connected(*backend_, make_error("08001", "connect timeout"));
		}
		return;
	case Session_State::processing_statement:
	case Session_State::replica_with_wait:
		if (request_.wait_deadline_us != 0 && now >= request_.wait_deadline_us &&
		    !request_.result_started) {
			// The server's own bound has failed: give the connection up.
			request_.wait_deadline_us = 0;
			worker_.services.send_cancel(backend_->cancel_target(),
			                             std::make_shared<Cancel_Ticket>());
			worker_.counters.add(Counter::PolarDB_Wait_Error_Timeout);
			on_backend_lost("the wait for the replica's position did not end");
		} else if (now >= request_.query_deadline_us && !request_.timed_out) {
			request_.timed_out = true;
			cancel_statement(std::make_shared<Cancel_Ticket>());
		}
		return;
	case Session_State::ended:
		return;
	}
}

} // namespace proxy
