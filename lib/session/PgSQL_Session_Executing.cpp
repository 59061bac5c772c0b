// Sends the request to backend_, moves the answer, ends the request.
#include "base/Check.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <array>

namespace proxy {

namespace {
// Queries counted on the connection before the server's shared counters are touched.
constexpr uint32_t kCountBatch = 64;
constexpr uint64_t kByteBatch = 64 * 1024;
// Name of the proxy's own statement and portal for the hidden SETs of a wait.
constexpr std::string_view kWaitStatement = "polar_ps_wait";
} // namespace

// ---- sending ----

// REQUIRES: backend_ is connected and ours. Sends what the request needs, hidden parts first.
void PgSQL_Session::dispatch() {
	std::string& out = worker_.send_buffer;
	out.clear();
	request_.operations.clear();
	request_.hidden_commands = 0;
	request_.excluded = nullptr;
	backend_->set_busy();
	if (backend_->superuser() != told_superuser_) {
		tell_superuser();
		if (state_ == Session_State::ended) {
			return;
		}
	}
	// A failed transaction refuses everything but its end; a SET would only add a second error.
	if (transaction_status_ != 'E' && append_parameter_sync(out)) {
		// A read may run right behind the hidden batch: if that fails, its answer is dropped.
		// Anything else waits until the parameters are known to be right.
		request_.syncing = !request_.statement->is_read() || transaction_status_ != 'I';
	}
	if (request_.syncing) {
		set_state(Session_State::processing_statement);
		if (!backend_->send(out)) {
			on_backend_lost(backend_->error());
		}
		return;
	}
	send_request(out);
}

// A login asks no server, so the client may have been told an older truth about its user.
void PgSQL_Session::tell_superuser() {
	told_superuser_ = backend_->superuser();
	user_->superuser->store(told_superuser_, std::memory_order_relaxed);
	std::string status;
	append_parameter_status(status, "is_superuser", told_superuser_ ? "on" : "off");
	send_to_client(status);
}

bool PgSQL_Session::append_parameter_sync(std::string& out) {
	Backend_State& state = backend_->backend_state;
	const bool doubtful = state.changed_by != 0 && state.changed_by != id_;
	// Inside a transaction both are equal but for SET LOCAL, which is not in wanted_: a comparison
	// with the value that the server reports would take it back.
	const bool differs = transaction_status_ == 'I' && !state.matches(wanted_);
	if (!doubtful && !differs && !request_.statement->asks_channels) {
		return false;
	}
	Parameter_Sql sql;
	if (doubtful) {
		sql = Backend_State::reset_sql(wanted_);
	} else if (differs) {
		sql = state.difference_sql(wanted_);
	}
	append_own_channels(sql.rest);
	if (sql.empty()) {
		return false;
	}
	if (sql.needs_two()) {
		append_query(out, sql.encoding);
		append_query(out, sql.rest);
		request_.hidden_cycles = 2;
	} else {
		append_query(out, sql.encoding + sql.rest);
		request_.hidden_cycles = 1;
	}
	state.unnamed_statement = 0; // a simple query drops it
	worker_.counters.add(Counter::Backend_parameter_sync);
	return true;
}

// The replica is not known to have replayed the session's position.
bool PgSQL_Session::needs_wait() const {
	return request_.plan.to_reader && request_.plan.wait == Wait_Kind::target &&
	       backend_->server().health->lsn() < request_.plan.target_lsn;
}

void PgSQL_Session::send_request(std::string& out) {
	request_.waiting_for_position = needs_wait();
	if (request_.waiting_for_position) {
		request_.plan.reason = Route_Reason::read_with_wait;
		worker_.counters.add(Counter::PolarDB_Wait_LSN_Sent);
		if (request_.plan.wait_timeout_ms > 0) {
			request_.wait_deadline_us =
			    worker_.now_us + request_.plan.wait_timeout_ms * kMicrosPerMilli + kWaitGraceUs;
			worker_.services.wake_by(*this, request_.wait_deadline_us);
		}
	} else if (request_.plan.to_reader && request_.plan.wait == Wait_Kind::target) {
		request_.plan.reason = Route_Reason::read_at_target;
		worker_.counters.add(Counter::PolarDB_Wait_Wrap_Bypassed);
	}
	last_reason_ = request_.plan.reason;
	last_server_ = backend_->server().hostname;
	last_server_port_ = backend_->server().port;
	last_hostgroup_ = backend_->server().hostgroup_id;
	worker_.routes.add(last_hostgroup_, last_reason_);
	worker_.counters.add(request_.plan.to_reader ? Counter::PolarDB_Route_To_Reader
	                                             : Counter::PolarDB_Route_To_Writer);
	count_query();
	std::string_view direct; // client bytes that go out as they came
	switch (request_.kind) {
	case Request_Kind::simple:
		align_names(*request_.statement, out);
		note_execution(*request_.statement);
		backend_->backend_state.unnamed_statement = 0;
		if (request_.waiting_for_position || !request_.rewritten.empty()) {
			std::string sql;
			if (request_.waiting_for_position) {
				append_wait_simple(sql);
				request_.hidden_commands = 3;
				request_.prefix_bytes = sql.size(); // plain ASCII: as many characters
			}
			if (request_.rewritten.empty()) {
				// Without the terminating NUL of the client's text.
				sql.append(in_, in_begin_ + kFrameHeaderBytes,
				           request_end_ - in_begin_ - kFrameHeaderBytes - 1);
			} else {
				sql += request_.rewritten;
			}
			append_query(out, sql);
			break;
		}
		[[fallthrough]];
	case Request_Kind::function_call:
		if (request_.kind == Request_Kind::function_call) {
			backend_->backend_state.changed_by = id_; // any function
		}
		direct = std::string_view(in_).substr(in_begin_, request_end_ - in_begin_);
		break;
	case Request_Kind::extended:
		if (request_.waiting_for_position) {
			append_wait_extended(out);
		}
		if (!(request_.streamed ? translate_long(in_begin_, out)
		                        : translate_extended(in_begin_, request_end_, out))) {
			return;
		}
		break;
	case Request_Kind::none:
		PROXY_BUG(request_.kind == Request_Kind::none);
		return;
	}
	set_state(request_.waiting_for_position ? Session_State::replica_with_wait
	                                        : Session_State::processing_statement);
	const std::array<iovec, 2> parts = {iovec{out.data(), out.size()},
	                                    iovec{const_cast<char*>(direct.data()), direct.size()}};
	const bool sent = direct.empty() ? backend_->send_all(out)
	                  : out.empty()  ? backend_->send(direct)
	                                 : backend_->send(parts.data(), 2);
	if (!sent) {
		on_backend_lost(backend_->error());
	} else if (request_.streamed) {
		stream_rest();
	} else if (request_.open) {
		process_input(); // the server says nothing before it has what is here already
	}
}

void PgSQL_Session::count_query() {
	if (++backend_->uncounted_queries < kCountBatch && backend_->uncounted_received < kByteBatch &&
	    backend_->uncounted_sent < kByteBatch) {
		return;
	}
	Thread_Conn_Cache::flush_counters(*backend_);
}

std::string PgSQL_Session::wait_mode_word() const {
	return worker_.config->policy.lsn_timeout == Lsn_Timeout_Action::warning ? "best_effort"
	                                                                         : "strict";
}

// The three SETs of the published protocol, in its order (wire.md, section 4.2).
void PgSQL_Session::append_wait_simple(std::string& prefix) const {
	prefix += "SET polar_consistency_mode='" + wait_mode_word() +
	          "';SET polar_proxy_wait_timeout_ms=" + std::to_string(request_.plan.wait_timeout_ms) +
	          ";SET polar_xact_split_wait_lsn='" + std::to_string(request_.plan.target_lsn) + "';";
}

void PgSQL_Session::append_wait_extended(std::string& out) {
	if (backend_->protocol() == Proxy_Protocol::v15_wait) {
		Wait_View wait;
		wait.mode = wait_mode_word() == "strict" ? Wait_Mode::strict : Wait_Mode::best_effort;
		wait.timeout_ms = static_cast<uint32_t>(request_.plan.wait_timeout_ms);
		wait.target_lsn = request_.plan.target_lsn;
		append_wait(out, wait);
		return;
	}
	const std::array<std::string, 3> statements = {
	    "SET polar_consistency_mode='" + wait_mode_word() + "'",
	    "SET polar_proxy_wait_timeout_ms=" + std::to_string(request_.plan.wait_timeout_ms),
	    "SET polar_xact_split_wait_lsn='" + std::to_string(request_.plan.target_lsn) + "'"};
	for (const std::string& sql : statements) {
		append_parse(out, kWaitStatement, sql);
		append_bind_empty(out, kWaitStatement, kWaitStatement);
		append_execute(out, kWaitStatement);
		// Closing a statement leaves its portal, and a second Bind to that name would be refused.
		append_close(out, Target_Kind::portal, kWaitStatement);
		append_close(out, Target_Kind::statement, kWaitStatement);
		for (const Operation_Kind kind :
		     {Operation_Kind::parse, Operation_Kind::bind, Operation_Kind::execute,
		      Operation_Kind::close, Operation_Kind::close}) {
			Operation operation;
			operation.kind = kind;
			operation.hidden = true;
			request_.operations.push(std::move(operation));
		}
	}
}

// ---- receiving ----

void PgSQL_Session::on_backend_readable(PgSQL_Connection& connection) {
	std::vector<char>& buffer = worker_.read_buffer;
	for (int reads = 0; reads < kMaxReadsPerEvent; ++reads) {
		const ssize_t got = connection.receive(buffer.data(), buffer.size());
		if (got == 0) {
			return;
		}
		if (got < 0) {
			on_backend_lost(connection.error());
			return;
		}
		const bool understood = scanner_.scan(buffer.data(), static_cast<size_t>(got), *this);
		emit_pending_local();
		if (!flush_pieces()) {
			end(Session_End::client_vanished);
			return;
		}
		if (!understood) {
			on_backend_lost("the server broke the protocol");
			return;
		}
		if (request_.done) {
			complete_request();
			return;
		}
		if (request_.closing.answered || request_.closing.step == Closing::due) {
			step_closing();
			return;
		}
		if (request_.syncing && request_.hidden_cycles == 0) {
			finish_hidden_sync();
			process_input(); // what an open batch has brought meanwhile
			return;
		}
		check_backpressure();
		const bool more =
		    static_cast<size_t>(got) == buffer.size() || connection.has_pending_input();
		if (!more || stream_.unsent_bytes() > 0) {
			break;
		}
	}
	if (request_.copy_in || request_.copy_left > 0 ||
	    (request_.open && (request_end_ < in_.size() || stream_.reading_paused()))) {
		process_input();
	}
}

void PgSQL_Session::on_backend_broken(PgSQL_Connection& connection) {
	on_backend_lost(connection.error());
}

// The hidden parameter batch has been answered: now the statement itself.
void PgSQL_Session::finish_hidden_sync() {
	request_.syncing = false;
	if (request_.hidden_failed) {
		complete_request();
		return;
	}
	worker_.send_buffer.clear();
	send_request(worker_.send_buffer);
}

bool PgSQL_Session::flush_pieces() {
	if (pieces_.count() == 0) {
		return true;
	}
	// From here on the client has seen part of the answer: nothing is run again.
	request_.result_started = request_.result_started || request_.kind != Request_Kind::none;
	const bool sent = stream_.send(pieces_.data(), pieces_.count());
	pieces_.clear();
	return sent;
}

// The last ReadyForQuery of the request is there.
void PgSQL_Session::complete_request() {
	if (request_.copy_left > 0) {
		// The COPY has failed in the middle of a message of the client's: its rest still belongs
		// to the server, which would take what comes next for it.
		return;
	}
	if (request_.hidden_failed && takes_back_parameters()) {
		rewind_request();
		dispatch();
		return;
	}
	if (request_.hidden_failed) {
		// The client's parameters could not be set: its statement must not count as answered by a
		// connection with other ones. The server's own words say what is wrong.
		Error_Fields fields;
		const std::string body = request_.hidden_error;
		parse(std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(body.data()), body.size()),
		      fields);
		Error error = make_error(fields.sqlstate, std::string(fields.message));
		error.detail = fields.detail;
		error.hint = fields.hint;
		backend_->tainted = true;
		if (transaction_status_ == 'I' && pinned_ == 0) {
			release_backend();
		}
		answer_error(error);
		process_input();
		return;
	}
	if (request_.retry_on_writer) {
		request_.retry_on_writer = false;
		release_backend();
		retry_elsewhere(request_.retry_reason);
		return;
	}
	if (request_.run_again) {
		rewind_request();
		dispatch();
		return;
	}
	if (request_.kind == Request_Kind::simple && !request_.error_seen) {
		account_statement(*request_.analysis, request_.rows_sent, request_.rows_affected);
	}
	in_begin_ = request_end_;
	request_.clear();
	set_state(Session_State::waiting_client_data);
	release_backend();
	last_activity_us_ = worker_.now_us;
	process_input();
}

// The server refuses a parameter of the client's, perhaps the very one that this statement sets or
// resets: it may run without, or the client could never get rid of what is refused. Once.
bool PgSQL_Session::takes_back_parameters() {
	const Statement_Class& statement = *request_.statement;
	const bool resets =
	    (statement.kind == Statement_Kind::reset || statement.kind == Statement_Kind::discard) &&
	    statement.all;
	const bool sets =
	    statement.kind == Statement_Kind::reset || statement.kind == Statement_Kind::set;
	if (request_.healed || transaction_status_ != 'I' || request_.open || (!resets && !sets)) {
		return false;
	}
	request_.healed = true;
	// What the batch has done until it failed is not known.
	backend_->backend_state.changed_by = kChangedByNobody;
	if (resets) {
		wanted_.clear();
		return true;
	}
	for (const Set_Item& item : statement.sets) {
		wanted_.erase(item.name);
	}
	return true;
}

void PgSQL_Session::account_statement(const Statement_Analysis& analysis, uint64_t rows_sent,
                                      uint64_t rows_affected) {
	const int64_t elapsed_us = worker_.now_us - request_.started_us;
	if (elapsed_us > worker_.config->long_query_time * kMicrosPerMilli) {
		worker_.counters.add(Counter::Slow_queries);
	}
	if (!worker_.config->query_digests || analysis.digest_text.empty()) {
		return;
	}
	Query_Digest_Event event;
	event.hostgroup = last_hostgroup_;
	event.database = database_;
	event.username = username_;
	if (worker_.config->query_digests_track_hostname) {
		event.client_address = peer_.name();
	}
	event.time_us = elapsed_us;
	event.now_s = worker_.now_s;
	event.rows_sent = rows_sent;
	event.rows_affected = rows_affected;
	worker_.digests.add(analysis, event);
}

// ---- COPY FROM STDIN ----

// Moves the client's copy messages to the server without waiting for whole ones.
void PgSQL_Session::forward_copy_data() {
	size_t at = in_begin_;
	const size_t start = at;
	while ((request_.copy_in || request_.copy_left > 0) && at < in_.size()) {
		if (request_.copy_left > 0) {
			const size_t take = std::min(request_.copy_left, in_.size() - at);
			request_.copy_left -= take;
			at += take;
			continue;
		}
		Frame_Header header;
		const std::string_view rest = std::string_view(in_).substr(at);
		const Frame_Status status = next_header(
		    {reinterpret_cast<const uint8_t*>(rest.data()), rest.size()}, kMaxFrameLength, header);
		if (status == Frame_Status::incomplete) {
			break;
		}
		if (status == Frame_Status::malformed) {
			fatal(make_error("08P01", "invalid message length"), Session_End::protocol_violation);
			return;
		}
		if (header.type == 'X') {
			end(Session_End::client_terminated);
			return;
		}
		if (header.type == 'c' || header.type == 'f') {
			// Kept until it is whole; data is passed on as it comes.
			if (check_header(at, header) == Frame_Status::malformed) {
				return;
			}
			if (rest.size() < header.size()) {
				break;
			}
			request_.copy_in = false;
			if (request_.kind == Request_Kind::extended) {
				request_.open = true;
			}
		}
		request_.copy_left = header.size();
		if (!request_.copy_in) {
			at += request_.copy_left;
			request_.copy_left = 0;
		}
	}
	const std::string_view bytes = std::string_view(in_).substr(start, at - start);
	const bool sent = bytes.empty() || backend_->send(bytes);
	in_begin_ = at;
	request_end_ = at;
	if (!sent) {
		on_backend_lost(backend_->error());
		return;
	}
	if (request_.done && request_.copy_left == 0) {
		complete_request();
	} else if (!request_.copy_in && request_.open) {
		continue_extended();
	}
}

} // namespace proxy
