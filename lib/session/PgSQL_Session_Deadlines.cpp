// Every time limit of a session: what is due now, and what is due next.
//
// A session has one entry among its worker's deadlines. An idle one stands there with the end of
// its patience and costs nothing until then. One that uses, or waits for, a server is looked at
// each second as well, so that nothing on the path of a statement has to keep its entry exact.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

namespace {
constexpr int64_t kLookAgainUs = kMicrosPerSecond;
// A deadline that was just looked at is not due again in the same moment.
constexpr int64_t kSoonestUs = kMicrosPerMilli;
// How long a server may take to end a statement that was cancelled because its time is over. It
// is not heard from any more when it takes longer: its connection is given up.
constexpr int64_t kTimeoutGraceUs = 5 * kMicrosPerSecond;

// When a limit that is off at 0 ends.
int64_t limit_us(int64_t since_us, int64_t limit_ms) {
	return limit_ms <= 0 ? Deadline_Slot::kNever : since_us + limit_ms * kMicrosPerMilli;
}
} // namespace

// ---- the next one ----

int64_t PgSQL_Session::look_again_us() const {
	return worker_.now_us + kLookAgainUs;
}

bool PgSQL_Session::in_open_transaction() const {
	return transaction_status_ != 'I' || poisoned_;
}

int64_t PgSQL_Session::next_deadline_us() const {
	const Pgsql_Config& config = *worker_.config;
	int64_t next = Deadline_Slot::kNever;
	const auto consider = [&next](int64_t at_us) { next = std::min(next, at_us); };
	switch (state_) {
	case Session_State::connecting_client:
		consider(cancel_ != nullptr ? worker_.now_us + kCancelPollUs
		                            : limit_us(started_us_, config.connect_timeout_client));
		return next;
	case Session_State::waiting_client_data:
		consider(limit_us(last_activity_us_, config.wait_timeout));
		if (in_open_transaction()) {
			consider(limit_us(last_activity_us_, config.max_transaction_idle_time));
			consider(limit_us(transaction_since_us_, config.max_transaction_time));
		}
		if (cancel_ != nullptr) {
			consider(worker_.now_us + kCancelPollUs);
		}
		if (backend_ != nullptr) {
			consider(look_again_us());
		}
		return next;
	case Session_State::waiting_server:
		consider(request_.acquire_deadline_us);
		if (!request_.wait_told) {
			consider(limit_us(request_.started_us, config.query_wait_notify));
		}
		if (request_.retry_at_us != 0) {
			consider(request_.retry_at_us);
		}
		break;
	case Session_State::connecting_server:
		consider(limit_us(backend_->created_us(), config.connect_timeout_server));
		break;
	case Session_State::processing_statement:
	case Session_State::replica_with_wait:
		if (request_.wait_deadline_us != 0) {
			consider(request_.wait_deadline_us);
		}
		break;
	case Session_State::ended:
		return next;
	}
	if (!request_.timed_out) {
		consider(request_.query_deadline_us);
	}
	consider(look_again_us());
	return next;
}

void PgSQL_Session::renew_deadline() {
	worker_.services.wake_by(*this, next_deadline_us());
}

// The rule's timeout, else the hostgroup's, else the variable's.
void PgSQL_Session::set_query_deadline() {
	int64_t timeout_ms = request_.rules.timeout_ms;
	if (timeout_ms <= 0) {
		const Hostgroup* hostgroup = worker_.view->hostgroup(request_.plan.hostgroup);
		timeout_ms = hostgroup == nullptr ? 0 : hostgroup->default_query_timeout_ms;
	}
	if (timeout_ms <= 0) {
		timeout_ms = worker_.config->default_query_timeout;
	}
	request_.query_timeout_ms = timeout_ms;
	request_.query_deadline_us = request_.started_us + timeout_ms * kMicrosPerMilli;
	worker_.services.wake_by(*this, request_.query_deadline_us);
}

// ---- what is due ----

void PgSQL_Session::on_deadline() {
	switch (state_) {
	case Session_State::connecting_client:
		check_login_deadline();
		break;
	case Session_State::waiting_client_data:
		check_idle_deadline();
		break;
	case Session_State::waiting_server:
		check_waiting_deadline();
		break;
	case Session_State::connecting_server:
		if (worker_.now_us >=
		    limit_us(backend_->created_us(), worker_.config->connect_timeout_server)) {
			on_backend_connected(*backend_, make_error("08001", "connect timeout"));
		} else if (worker_.now_us >= request_.query_deadline_us && !request_.timed_out) {
			request_.timed_out = true;
			cancel_statement(std::make_shared<Cancel_Ticket>());
		}
		break;
	case Session_State::processing_statement:
	case Session_State::replica_with_wait:
		check_running_deadline();
		break;
	case Session_State::ended:
		break;
	}
	if (state_ != Session_State::ended) {
		worker_.services.wake_by(*this, std::max(next_deadline_us(), worker_.now_us + kSoonestUs));
	}
}

void PgSQL_Session::check_login_deadline() {
	if (cancel_ != nullptr) {
		end_cancel_request();
		return;
	}
	if (worker_.now_us < limit_us(started_us_, worker_.config->connect_timeout_client)) {
		return;
	}
	if (login_ == nullptr) {
		end(Session_End::login_timeout); // nobody has said anything that could be answered
		return;
	}
	fatal(make_error("57014", "canceling authentication due to timeout"),
	      Session_End::login_timeout);
}

// A limit has ended the session: told, when the client is between two messages.
void PgSQL_Session::end_by_limit(Error error) {
	if (backend_ != nullptr && !scanner_.between_messages()) {
		end(Session_End::idle_timeout);
		return;
	}
	fatal(std::move(error), Session_End::idle_timeout);
}

// True: it has ended the session.
bool PgSQL_Session::check_transaction_deadline() {
	if (!in_open_transaction() ||
	    worker_.now_us < limit_us(transaction_since_us_, worker_.config->max_transaction_time)) {
		return false;
	}
	end_by_limit(make_error("25P04", "terminating connection due to transaction timeout"));
	return true;
}

void PgSQL_Session::check_idle_deadline() {
	const int64_t now = worker_.now_us;
	if (check_transaction_deadline()) {
		return;
	}
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
	if (in_open_transaction() &&
	    now >= limit_us(last_activity_us_, worker_.config->max_transaction_idle_time)) {
		end_by_limit(
		    make_error("25P03", "terminating connection due to idle-in-transaction timeout"));
	} else if (now >= limit_us(last_activity_us_, worker_.config->wait_timeout)) {
		end_by_limit(make_error("57P05", "terminating connection due to idle-session timeout"));
	}
}

void PgSQL_Session::check_waiting_deadline() {
	const int64_t now = worker_.now_us;
	if (now >= request_.query_deadline_us) {
		request_.timed_out = true;
		cancel_statement(nullptr);
		return;
	}
	if (now < request_.acquire_deadline_us) {
		if (!request_.wait_told &&
		    now >= limit_us(request_.started_us, worker_.config->query_wait_notify)) {
			tell_of_waiting();
		}
		if (state_ == Session_State::waiting_server && request_.retry_at_us != 0 &&
		    now >= request_.retry_at_us) {
			restart_request();
		}
		return;
	}
	const bool busy = parked_at_ != nullptr;
	unpark();
	if (request_.plan.to_reader && fall_back_to_writer(Route_Reason::replica_busy)) {
		request_.acquire_deadline_us =
		    now + worker_.config->connect_timeout_server_max * kMicrosPerMilli;
		restart_request();
		return;
	}
	no_server(busy ? No_Server::busy : No_Server::down);
}

// Somebody who looks at a client that hangs is to see that it is not the statement that is slow.
void PgSQL_Session::tell_of_waiting() {
	request_.wait_told = true;
	const std::string hostgroup = "hostgroup " + std::to_string(request_.plan.hostgroup);
	Error notice = make_error("00000", "waiting for a server connection of " + hostgroup);
	notice.detail = parked_at_ != nullptr
	                    ? "All connections that max_connections of its servers allows are in use."
	                    : "No server of the hostgroup is online.";
	std::string out;
	append_notice_response(out, notice);
	send_to_client(out);
}

// The server has done its part: it is the client that does not read, does not send the data of its
// COPY, or has ended its messages with a Flush and says no more.
bool PgSQL_Session::waits_for_client() const {
	if (stream_.unsent_bytes() > 0) {
		return true;
	}
	if (request_.copy_in) {
		return backend_->unsent_bytes() == 0;
	}
	return request_.open && !request_.has_operation() && !request_.syncing;
}

// A client that keeps a server connection and does nothing is as idle as one in a transaction is.
// True: it has ended the session.
bool PgSQL_Session::check_stalled_client() {
	const bool waits = waits_for_client();
	const uint64_t progress = waits ? stream_.progress() : client_quiet_at_;
	if (!waits || progress != client_quiet_at_) {
		client_quiet_at_ = progress;
		client_quiet_since_us_ = worker_.now_us;
		return false;
	}
	if (worker_.now_us <
	    limit_us(client_quiet_since_us_, worker_.config->max_transaction_idle_time)) {
		return false;
	}
	end_by_limit(make_error("25P03", "terminating connection due to idle-in-transaction timeout"));
	return true;
}

void PgSQL_Session::check_running_deadline() {
	const int64_t now = worker_.now_us;
	if (check_stalled_client() || check_transaction_deadline()) {
		return;
	}
	if (request_.wait_deadline_us != 0 && now >= request_.wait_deadline_us &&
	    !request_.result_started) {
		// The server's own bound has failed: give the connection up.
		request_.wait_deadline_us = 0;
		worker_.services.send_cancel(backend_->cancel_target(), std::make_shared<Cancel_Ticket>());
		worker_.counters.add(Counter::PolarDB_Wait_Error_Timeout);
		on_backend_lost("the wait for the replica's position did not end");
		return;
	}
	if (request_.open && waits_for_client()) {
		// Between two parts of a pipeline nothing runs: the next part has its own time.
		request_.query_deadline_us = now + request_.query_timeout_ms * kMicrosPerMilli;
		return;
	}
	if (now < request_.query_deadline_us) {
		return;
	}
	if (!request_.timed_out) {
		request_.timed_out = true;
		cancel_statement(std::make_shared<Cancel_Ticket>());
	} else if (now >= request_.query_deadline_us + kTimeoutGraceUs) {
		on_backend_lost("the server did not end a statement whose time was over");
	}
}

} // namespace proxy
