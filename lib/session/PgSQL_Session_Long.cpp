// Messages longer than pgsql-threshold_query_length: passed on while they arrive, and not looked
// into. Only their front is kept until a server connection is there; what follows is moved like the
// data of a COPY (forward_copy_data()), so that no size needs memory, and nothing is run twice.
//
// Query, FunctionCall and Bind. A Parse is kept whole, whatever its length: its statement must be
// prepared on another connection later.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

namespace {
// The names at the front of a Bind fit into this.
constexpr size_t kMaxFrontBytes = 64 * 1024;
} // namespace

bool PgSQL_Session::is_long(const Frame_Header& header) const {
	return (header.type == 'Q' || header.type == 'B' || header.type == 'F') &&
	       header.size() > static_cast<size_t>(worker_.config->threshold_query_length);
}

// The names of the Bind at `at` are here; `statement` gets the client's. False: they are not yet,
// or never will be, which has ended the session. Other messages need no more than their header.
bool PgSQL_Session::long_front_is_here(size_t at, const Frame_Header& header,
                                       std::string_view& statement) {
	if (header.type != 'B') {
		return true;
	}
	const std::string_view front = std::string_view(in_).substr(
	    at + kFrameHeaderBytes, std::min(header.body_size(), kMaxFrontBytes));
	const size_t portal_end = front.find('\0');
	const size_t statement_end =
	    portal_end == std::string_view::npos ? portal_end : front.find('\0', portal_end + 1);
	if (statement_end != std::string_view::npos) {
		statement = front.substr(portal_end + 1, statement_end - portal_end - 1);
		return true;
	}
	if (front.size() == std::min(header.body_size(), kMaxFrontBytes)) {
		fatal(make_error("08P01", "invalid message of type B"), Session_End::protocol_violation);
	}
	return false;
}

// Takes what is here of the long message at `at`: [at, request_end_) and stream_left behind it.
void PgSQL_Session::take_long_front(size_t at, const Frame_Header& header) {
	const size_t here = std::min(header.size(), in_.size() - at);
	request_end_ = at + here;
	request_.stream_left = header.size() - here;
}

// A long message begins a request. True: taken; false: more bytes are needed.
bool PgSQL_Session::begin_long(const Frame_Header& header) {
	if (skip_to_sync_) {
		lost_copy_left_ = header.size();
		return true;
	}
	std::string_view name;
	if (!long_front_is_here(in_begin_, header, name)) {
		return false;
	}
	request_.clear();
	request_.streamed = true;
	request_.started_us = worker_.now_us;
	worker_.counters.add(Counter::Questions);
	take_long_front(in_begin_, header);
	batch_sql_.clear();
	batch_statement_.reset();
	if (header.type == 'B') {
		request_.kind = Request_Kind::extended;
		request_.open = true;
		if (const Prepared_Statement_Ptr* known = find_statement(name)) {
			batch_statement_ = *known;
		}
	} else {
		request_.kind = header.type == 'Q' ? Request_Kind::simple : Request_Kind::function_call;
	}
	request_.analysis = open_batch(
	    batch_statement_ == nullptr ? nullptr : resolve_prepared(batch_statement_->analysis));
	request_.statement = &request_.analysis->statement;
	if (poisoned_) {
		refuse_poisoned(Statement_Kind::unknown);
		return state_ != Session_State::ended;
	}
	plan_and_start(request_.analysis->digest_text.empty() ? std::string_view() : batch_text());
	return state_ != Session_State::ended;
}

// Appends what the server gets for the front of the long message at `from`, which ends at
// request_end_, and queues its answer. False: it has ended the session.
bool PgSQL_Session::translate_long(size_t from, std::string& out) {
	const std::string_view raw = std::string_view(in_).substr(from, request_end_ - from);
	if (request_.error_seen) {
		out.append(raw); // the server reads it and skips it
		return true;
	}
	if (raw[0] != 'B') {
		queue_query(raw[0] == 'Q' ? open_batch(nullptr) : nullptr, raw, out);
		return true;
	}
	Bind_View view;
	const std::string_view body = raw.substr(kFrameHeaderBytes);
	if (!parse_front({reinterpret_cast<const uint8_t*>(body.data()), body.size()}, view)) {
		fatal(make_error("08P01", "invalid message of type B"), Session_End::protocol_violation);
		return false;
	}
	translate_bind(view, request_.stream_left, out);
	return true;
}

// The front has been sent: the rest follows as it comes.
void PgSQL_Session::stream_rest() {
	request_.copy_left = std::exchange(request_.stream_left, 0);
	in_begin_ = request_end_;
	process_input();
}

// A long message in an open batch. True: it has been passed on whole.
bool PgSQL_Session::continue_long(const Frame_Header& header) {
	std::string_view name;
	if (!long_front_is_here(request_end_, header, name)) {
		return false;
	}
	const size_t from = request_end_;
	take_long_front(from, header);
	if (header.type != 'B' && !request_.error_seen) {
		request_.open = false; // a Query ends the batch
	}
	std::string& out = worker_.send_buffer;
	out.clear();
	if (!translate_long(from, out)) {
		return false;
	}
	const bool sent = backend_->send(out);
	request_.copy_left = std::exchange(request_.stream_left, 0);
	in_begin_ = request_end_;
	if (!sent) {
		on_backend_lost(backend_->error());
		return false;
	}
	return request_.copy_left == 0;
}

} // namespace proxy
