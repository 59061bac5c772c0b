// When something fails: run again elsewhere, tell the client, or end. Nothing else retries.
//
//	failure                    nothing sent to the client yet      answer begun
//	replica lost, a read       another replica once, then primary  error, or end when mid-message
//	wait ran out, a read       primary                             error
//	server lost, a write       error (it may have been done)       error, or end when mid-message
//	server lost, transaction   25P02 until ROLLBACK                the same, or end when mid-message
#include "base/Log.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

// The request may be run again: a read outside any transaction of which the client has seen
// nothing. A write is never run twice.
bool PgSQL_Session::may_retry() const {
	return request_.kind != Request_Kind::none && request_.kind != Request_Kind::function_call &&
	       request_.statement != nullptr && request_.statement->is_read() &&
	       request_.closing.step == Closing::none && transaction_status_ == 'I' && pinned_ == 0 &&
	       !request_.result_started && !request_.copy_in && !request_.canceled && !request_.open &&
	       request_.reader_retries <= worker_.config->query_retries_on_failure + 1;
}

// Forgets the answer so far, so that the request can be sent once more.
void PgSQL_Session::rewind_request() {
	request_.hidden_cycles = 0;
	request_.hidden_commands = 0;
	request_.hidden_failed = false;
	request_.hidden_error.clear();
	request_.early_notices.clear();
	request_.fatal_error.clear();
	request_.syncing = false;
	request_.sync_sent = false;
	request_.error_seen = false;
	request_.done = false;
	request_.waiting_for_position = false;
	request_.wait_deadline_us = 0;
	request_.rows_sent = 0;
	request_.rows_affected = 0;
	request_.operations.clear();
	request_.pending_local.clear();
	request_.executions = 0;
	request_.completed = 0;
	request_.run_again = false;
	request_.replaying = true;
}

void PgSQL_Session::retry_elsewhere(Route_Reason reason) {
	++request_.reader_retries;
	rewind_request();
	// A lost connection is tried on another replica once; anything the replica said itself would
	// be said by the next one too.
	const bool other_replica = reason == Route_Reason::no_replica && request_.reader_retries == 1;
	if (other_replica) {
		worker_.counters.add(Counter::PolarDB_Wait_Reads_Retried_On_Reader);
	} else if (fall_back_to_writer(
	               reason == Route_Reason::no_replica ? Route_Reason::retry_on_primary : reason)) {
		worker_.counters.add(Counter::PolarDB_Wait_Reads_Retried_On_Writer);
	}
	set_state(Session_State::waiting_server);
	restart_request();
}

// The server's own last word is the client's, whose messages it cannot tell apart any more.
void PgSQL_Session::end_by_server(std::string_view error_body) {
	discard_backend();
	flush_pieces();
	std::string out;
	Message_Writer message(out, 'E');
	out.append(error_body);
	message.finish();
	stream_.send(out);
	end(Session_End::protocol_violation);
}

void PgSQL_Session::on_backend_lost(std::string_view what) {
	if (backend_ == nullptr) {
		return;
	}
	PgSQL_SrvC& server = backend_->server();
	const Server_Ptr keep_alive = backend_->server_ptr();
	worker_.counters.add(Counter::Server_Connections_aborted);
	// Whatever position was learnt may belong to a life of the server that is over.
	server.health->forget_lsn();
	const bool from_shutdown = !request_.fatal_error.empty();
	if (!from_shutdown) {
		worker_.services.report_server_failure(server);
	}
	const bool between_messages = scanner_.between_messages();
	const bool in_transaction = transaction_status_ != 'I';
	Error error = make_error("08006", std::string(what));
	if (from_shutdown) {
		Error_Fields fields;
		const std::string body = request_.fatal_error;
		parse(std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(body.data()), body.size()),
		      fields);
		error = make_error(fields.sqlstate, std::string(fields.message));
		if (fields.sqlstate == "08P01") {
			// Not the server's fault: the client has sent what must not be (a Query within COPY).
			end_by_server(body);
			return;
		}
	}
	error.detail = "server " + server.hostname + ":" + std::to_string(server.port) +
	               " (hostgroup " + std::to_string(server.hostgroup_id) + ")";
	if (request_.canceled && request_.timed_out) {
		error = canceled_error();
	}
	const bool retry = request_.kind != Request_Kind::none && may_retry();
	const bool was_pinned = pinned_ != 0;
	static thread_local Log_Rate_Limit limit(5);
	if (limit.allow()) {
		log_warning("session {}: connection to {}:{} (hostgroup {}) lost in state {}: {}; {}", id_,
		            server.hostname, server.port, server.hostgroup_id, name_of(state_),
		            error.message,
		            retry ? "the read runs again elsewhere"
		                  : (request_.kind == Request_Kind::none ? "idle" : "the client is told"));
	}
	discard_backend();
	pieces_.clear();
	pinned_ = 0;
	lost_copy_left_ = request_.copy_left;
	if (retry) {
		request_.excluded = &server;
		retry_elsewhere(Route_Reason::no_replica);
		return;
	}
	if (request_.closing.step != Closing::none && !was_pinned) {
		finish_lost_closing();
		return;
	}
	if (!between_messages) {
		// The client is in the middle of a message that will never end.
		end(Session_End::server_lost);
		return;
	}
	if (in_transaction) {
		worker_.counters.add(Counter::pgsql_tx_poisoned_total);
		worker_.counters.subtract(Counter::Active_Transactions);
		if (!worker_.config->preserve_client_on_broken_backend_in_tx) {
			fatal(error, Session_End::server_lost);
			return;
		}
		poisoned_ = true;
		poison_told_ = request_.kind != Request_Kind::none;
		if (!sets_in_transaction_) {
			committed_ = wanted_;
		}
		sets_in_transaction_ = false;
		savepoints_.clear();
		portals_.clear();
		transaction_status_ = 'I';
		if (request_.kind != Request_Kind::none && was_to_end_transaction()) {
			// Done or not, nobody knows; but the client has ended the block and is told by the
			// error.
			end_poisoned_transaction();
		}
	} else if (was_pinned) {
		// Temporary tables, LISTEN, ... are gone with the connection: going on would be a lie.
		fatal(error, Session_End::server_lost);
		return;
	}
	if (request_.kind == Request_Kind::none) {
		return; // idle in a transaction: the next statement is told
	}
	forget_skipped();
	answer_error(error);
	process_input();
}

} // namespace proxy
