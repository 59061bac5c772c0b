// The extended protocol: a batch of messages up to Sync (or Flush) is classified as one, sent to
// one server connection with the client's statement names translated, and answered in order.
#include "base/Check.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>
#include <utility>

namespace proxy {

namespace {
const Statement_Analysis_Ptr& unknown_analysis() {
	static const Statement_Analysis_Ptr unknown = std::make_shared<Statement_Analysis>();
	return unknown;
}

} // namespace

// ---- batches ----

// End of the batch that starts at `from`: behind Sync, Flush, or a Query. `closed`: the batch ends
// the request (Sync or Query). 0: it is not there yet, or a message in it has ended the session.
size_t PgSQL_Session::extended_batch_end(size_t from, bool& closed) {
	size_t at = from;
	closed = false;
	while (true) {
		Frame_Header frame;
		const Frame_Status status = check_header(at, frame);
		if (status == Frame_Status::malformed) {
			return 0;
		}
		if (status == Frame_Status::complete && is_long(frame)) {
			return at > from ? at : 0; // what is in front of it goes first
		}
		if (status == Frame_Status::incomplete || in_.size() - at < frame.size()) {
			if (status == Frame_Status::complete) {
				make_room_for_rest(at, frame);
			}
			// A long pipeline without Sync goes out in pieces.
			return at - from > kMaxBatchBytes ? at : 0;
		}
		at += frame.size();
		switch (frame.type) {
		case 'Q':
		case 'F':
			if (request_.error_seen) {
				break; // the server skips it: only a Sync ends this request
			}
			[[fallthrough]];
		case 'S':
			closed = true;
			return at;
		case 'H':
			return at;
		case 'X':
			return at - frame.size() > from ? at - frame.size() : 0;
		default:
			break;
		}
	}
}

// True: a batch was taken (or refused); false: more bytes are needed.
bool PgSQL_Session::begin_extended() {
	bool closed = false;
	const size_t end = extended_batch_end(in_begin_, closed);
	if (end == 0) {
		return false;
	}
	Frame first;
	next_frame(unread(), kMaxFrameLength, first);
	if (skip_to_sync_ || (first.type == 'S' && backend_ == nullptr)) {
		// The Sync that ends a refused batch, or one with nothing before it.
		skip_to_sync_ = false;
		in_begin_ += first.size;
		std::string out;
		append_ready_for_query(
		    out, static_cast<Transaction_Status>(poisoned_ ? 'E' : transaction_status_));
		send_to_client(out);
		return state_ != Session_State::ended;
	}
	if (first.type == 'H' && backend_ == nullptr) {
		in_begin_ += first.size; // nothing to flush
		return true;
	}
	request_.clear();
	request_.kind = Request_Kind::extended;
	request_.started_us = worker_.now_us;
	request_end_ = end;
	request_.open = !closed;
	worker_.counters.add(Counter::Questions);
	classify_extended(in_begin_, end);
	if (state_ == Session_State::ended) {
		return false;
	}
	if (poisoned_) {
		answer_poisoned_batch();
		return state_ != Session_State::ended;
	}
	if (own_statement_ != nullptr) {
		answer_own_batch();
		return state_ != Session_State::ended;
	}
	plan_and_start(request_.analysis->digest_text.empty() ? std::string_view() : batch_text());
	return state_ != Session_State::ended;
}

// More messages of a request that was sent without Sync.
bool PgSQL_Session::continue_extended() {
	while (request_.open && request_end_ < in_.size()) {
		Frame_Header header;
		const Frame_Status status = check_header(request_end_, header);
		if (status == Frame_Status::malformed) {
			return false;
		}
		if (status == Frame_Status::complete && is_long(header)) {
			if (!continue_long(header)) {
				return false;
			}
			continue;
		}
		bool closed = false;
		const size_t end = extended_batch_end(request_end_, closed);
		if (end == 0) {
			return false;
		}
		const size_t from = request_end_;
		request_end_ = end;
		request_.open = !closed;
		std::string& out = worker_.send_buffer;
		out.clear();
		if (!translate_extended(from, end, out)) {
			return false;
		}
		if (!out.empty() && !backend_->send_all(out)) {
			on_backend_lost(backend_->error());
			return false;
		}
		if (state_ == Session_State::ended) {
			return false;
		}
		if (request_.result_started) {
			in_begin_ = end; // no retry any more: the bytes are not needed
		}
	}
	return true;
}

// What the batch as a whole is: a read only if each of its statements is one.
void PgSQL_Session::classify_extended(size_t from, size_t to) {
	Statement_Analysis_Ptr chosen;
	size_t statements = 0;
	batch_sql_.clear();
	batch_statement_.reset();
	own_statement_.reset();
	// Names given by this batch: what a Bind means by them was looked at when they were parsed.
	std::vector<std::string_view>& parsed = parsed_names_;
	parsed.clear();
	const auto known_before = [&](std::string_view name) {
		const bool here = std::find(parsed.begin(), parsed.end(), name) != parsed.end();
		return here ? nullptr : find_statement(name);
	};
	const auto consider = [&](const Statement_Analysis_Ptr& text) {
		++statements;
		if (is_own_statement(text->statement)) {
			own_statement_ = text;
		}
		const Statement_Analysis_Ptr analysis = resolve_prepared(text);
		if (chosen == nullptr || (chosen->statement.is_read() && !analysis->statement.is_read())) {
			chosen = analysis;
		}
	};
	for_each_frame(
	    std::string_view(in_).substr(from, to - from), [&](const Frame& frame, std::string_view) {
		    Parse_View parse_view;
		    Bind_View bind_view;
		    Describe_View describe_view;
		    Query_View query_view;
		    if (frame.type == 'P' && parse(frame.body, parse_view)) {
			    consider(worker_.queries.analyse(parse_view.sql, standard_conforming_strings_));
			    batch_sql_ = parse_view.sql.substr(
			        0, static_cast<size_t>(worker_.config->threshold_query_length));
			    batch_statement_.reset();
			    parsed.push_back(parse_view.statement);
		    } else if (frame.type == 'B' && parse(frame.body, bind_view)) {
			    if (const Prepared_Statement_Ptr* known = known_before(bind_view.statement)) {
				    consider((*known)->analysis);
				    batch_statement_ = *known;
			    } else if (statements == 0) {
				    consider(unknown_analysis());
			    }
		    } else if (frame.type == 'D' && parse(frame.body, describe_view) &&
		               describe_view.kind == Target_Kind::statement) {
			    if (const Prepared_Statement_Ptr* known = known_before(describe_view.name)) {
				    consider((*known)->analysis);
				    batch_statement_ = *known;
			    }
		    } else if (frame.type == 'Q' && parse(frame.body, query_view)) {
			    consider(analyse_query(query_view.sql));
		    } else if (frame.type == 'F') {
			    consider(unknown_analysis());
		    }
		    return true;
	    });
	// An open batch may go on with anything, so it is not a read.
	request_.analysis = chosen == nullptr || request_.open ? open_batch(chosen) : chosen;
	request_.statement = &request_.analysis->statement;
}

// Statement of a batch that is not complete: what it begins with, but never a read.
Statement_Analysis_Ptr PgSQL_Session::open_batch(const Statement_Analysis_Ptr& chosen) const {
	if (chosen == nullptr || !chosen->statement.is_read()) {
		return chosen == nullptr ? unknown_analysis() : chosen;
	}
	auto copy = std::make_shared<Statement_Analysis>(*chosen);
	copy->statement.veto = Read_Veto::unparsed;
	return copy;
}

// nullptr: the client has no such statement.
const Prepared_Statement_Ptr* PgSQL_Session::find_statement(std::string_view name) const {
	if (name.empty()) {
		return unnamed_ == nullptr ? nullptr : &unnamed_;
	}
	const auto found = statements_.find(name);
	return found == statements_.end() ? nullptr : &found->second;
}

// What the last batch runs, for the rules and the processlist.
std::string_view PgSQL_Session::batch_text() const {
	return batch_statement_ == nullptr ? batch_sql_ : batch_statement_->sql;
}

// ---- translation ----

bool PgSQL_Session::translate_extended(size_t from, size_t to, std::string& out) {
	char bad = 0;
	const bool whole =
	    for_each_frame(std::string_view(in_).substr(from, to - from),
	                   [&](const Frame& frame, std::string_view raw) {
		                   bad = frame.type;
		                   return translate_frame(frame, raw, out) || refuse_frame(frame, raw, out);
	                   });
	if (!whole) {
		fatal(make_error("08P01", std::string("invalid message of type ") + bad),
		      Session_End::protocol_violation);
	}
	return whole;
}

// A message that is whole but not well formed is the server's to refuse, in its turn and without
// ending the session. One that may name a statement goes without its body: by bytes that we do not
// understand the server might find another client's statement.
bool PgSQL_Session::refuse_frame(const Frame& frame, std::string_view raw, std::string& out) {
	switch (frame.type) {
	case 'D':
	case 'C':
		if (!frame.body.empty() && frame.body.front() != 'S') {
			out.append(raw);
			queue({.kind = Operation_Kind::execute});
			return true;
		}
		[[fallthrough]];
	case 'P':
	case 'B':
		Message_Writer(out, frame.type).finish();
		queue({.kind = Operation_Kind::execute});
		return true;
	case 'E':
		out.append(raw);
		queue({.kind = Operation_Kind::execute});
		return true;
	default:
		return false;
	}
}

// Appends what the server gets for one message and queues its answer. False: malformed.
bool PgSQL_Session::translate_frame(const Frame& frame, std::string_view raw, std::string& out) {
	if (request_.error_seen && frame.type != 'S') {
		return true; // the server skips to Sync, so it need not see it
	}
	switch (frame.type) {
	case 'P':
		return translate_parse(frame, out);
	case 'B': {
		Bind_View view;
		if (!parse(frame.body, view)) {
			return false;
		}
		translate_bind(view, 0, out);
		return true;
	}
	case 'D':
		return translate_describe(frame, out);
	case 'E':
		return translate_execute(frame, raw, out);
	case 'C':
		return translate_close(frame, out);
	case 'H':
		out.append(raw);
		// Local answers at the front are due now: the server has nothing to say.
		if (!request_.pending_local.empty()) {
			emit_pending_local();
			return flush_pieces();
		}
		return true;
	case 'S':
		request_.sync_sent = true;
		queue({.kind = Operation_Kind::sync});
		out.append(raw);
		return true;
	case 'Q':
	case 'F':
		translate_query(frame, raw, out);
		return true;
	case 'd':
		out.append(raw);
		return true;
	case 'c':
	case 'f':
		queue({.kind = Operation_Kind::copy_end});
		out.append(raw);
		return true;
	default:
		return false;
	}
}

void PgSQL_Session::queue(Operation operation) {
	request_.operations.push(std::move(operation));
}

// A local answer: due at once when nothing is outstanding before it, else in its turn.
void PgSQL_Session::queue_local(Operation operation) {
	if (!request_.has_operation()) {
		request_.pending_local.push_back(operation.kind == Operation_Kind::parse ? '1' : '3');
		return;
	}
	operation.local = true;
	queue(std::move(operation));
}

// In a failed transaction a server takes nothing but its end.
bool PgSQL_Session::refused_in_failed_transaction(Statement_Kind kind) const {
	return transaction_status_ == 'E' && kind != Statement_Kind::commit &&
	       kind != Statement_Kind::rollback && kind != Statement_Kind::rollback_to &&
	       kind != Statement_Kind::prepare_transaction;
}

// The message behind this one asks for the columns of statement `name`: how drivers prepare.
bool PgSQL_Session::is_described_next(const Frame& frame, std::string_view name) const {
	const auto* end = reinterpret_cast<const uint8_t*>(in_.data()) + request_end_;
	const uint8_t* at = frame.body.data() + frame.body.size();
	Frame next;
	Describe_View describe;
	return next_frame({at, static_cast<size_t>(end - at)}, kMaxFrameLength, next) ==
	           Frame_Status::complete &&
	       next.type == 'D' && parse(next.body, describe) &&
	       describe.kind == Target_Kind::statement && describe.name == name;
}

bool PgSQL_Session::translate_parse(const Frame& frame, std::string& out) {
	Parse_View view;
	if (!parse(frame.body, view)) {
		return false;
	}
	if (view.statement.empty()) {
		const Prepared_Statement_Ptr before = unnamed_;
		const uint64_t id_before = unnamed_id_;
		if (described_ != nullptr) {
			described_->erase(0);
		}
		align_for(*learn_statement(view), out);
		append_parse(out, {}, view.sql, view.parameter_types);
		queue({.kind = Operation_Kind::parse,
		       .unnamed_id = unnamed_id_,
		       .before = before,
		       .unnamed_before = id_before});
		return true;
	}
	const std::string name(view.statement);
	const auto existing = statements_.find(name);
	if (existing != statements_.end() && !request_.replaying) {
		// Let the server refuse it, so that its transaction fails as it should.
		if (existing->second->by_sql) {
			align_name(name, Name_Need::itself, out);
			append_parse(out, name, view.sql, view.parameter_types);
			queue({.kind = Operation_Kind::parse});
			return true;
		}
		const Prepared_Statement_Ptr known = ensure_statement(existing->second, out);
		append_parse(out, known->name, view.sql, view.parameter_types);
		queue({.kind = Operation_Kind::parse,
		       .duplicate_name = true,
		       .statement = known,
		       .client_name = name});
		return true;
	}
	const Prepared_Statement_Ptr statement = learn_statement(view);
	align_for(*statement, out);
	if (is_described_next(frame, name) && !request_.operations.parses(statement->id) &&
	    backend_->backend_state.statements.contains(statement->id)) {
		// What the driver learns now it keeps: from the catalog of now, as a server would tell it,
		// and not from a plan of before the table changed.
		backend_->backend_state.doubt_statement(statement->id);
	}
	const bool held = backend_->backend_state.statements.contains(statement->id) ||
	                  request_.operations.parses(statement->id);
	if (held && !refused_in_failed_transaction(statement->analysis->statement.kind)) {
		queue_local({.kind = Operation_Kind::parse, .client_name = name});
		return true;
	}
	make_room_for(*statement, out);
	append_parse(out, statement->name, view.sql, view.parameter_types);
	queue({.kind = Operation_Kind::parse, .statement = statement, .client_name = name});
	return true;
}

// A Query (or FunctionCall) behind extended messages ends the batch in the place of a Sync.
void PgSQL_Session::translate_query(const Frame& frame, std::string_view raw, std::string& out) {
	Query_View query;
	const bool is_query = frame.type == 'Q' && parse(frame.body, query);
	queue_query(is_query ? analyse_query(query.sql) : nullptr, raw, out);
}

// `analysis` is null for a FunctionCall.
void PgSQL_Session::queue_query(const Statement_Analysis_Ptr& analysis, std::string_view raw,
                                std::string& out) {
	Operation operation{.kind = Operation_Kind::query};
	if (analysis != nullptr) {
		auto change = std::make_shared<Prepared_Change>();
		change->resolved = analysis;
		align_names(change->resolved->statement, out);
		note_execution(change->resolved->statement);
		operation.change = std::move(change);
		operation.closes_unnamed = true;
		operation.before = std::exchange(unnamed_, nullptr);
		operation.unnamed_before = std::exchange(unnamed_id_, 0);
	}
	request_.sync_sent = true;
	queue(std::move(operation));
	out.append(raw);
	backend_->backend_state.unnamed_statement = 0;
}

// `to_come`: bytes of a long one that are not here yet.
void PgSQL_Session::translate_bind(const Bind_View& view, size_t to_come, std::string& out) {
	Prepared_Statement_Ptr statement;
	const std::string_view name = server_name(view.statement, statement, out);
	if (view.portal.empty()) {
		unnamed_portal_ = statement;
	} else {
		portals_[std::string(view.portal)] = statement;
	}
	append_bind_renamed(out, view, name, to_come);
	queue({.kind = Operation_Kind::bind, .statement = statement});
}

bool PgSQL_Session::translate_describe(const Frame& frame, std::string& out) {
	Describe_View view;
	if (!parse(frame.body, view)) {
		return false;
	}
	std::string_view name = view.name;
	Prepared_Statement_Ptr statement;
	if (view.kind == Target_Kind::statement) {
		name = server_name(view.name, statement, out);
		if (statement != nullptr) {
			note_described(statement->id);
		}
	}
	request_.describes = true;
	append_describe(out, view.kind, name);
	queue({.kind = Operation_Kind::describe, .statement = statement});
	return true;
}

// The client knows the columns of this statement (0: of its unnamed one) by a Describe of its own.
void PgSQL_Session::note_described(uint64_t statement_id) {
	// Ids of statements that are closed since stay: harmless, but not without end.
	constexpr size_t kMost = 4096;
	if (described_ == nullptr) {
		described_ = std::make_unique<std::unordered_set<uint64_t>>();
	} else if (described_->size() >= kMost) {
		described_->clear();
	}
	described_->insert(statement_id);
}

bool PgSQL_Session::translate_execute(const Frame& frame, std::string_view raw, std::string& out) {
	Execute_View view;
	if (!parse(frame.body, view)) {
		return false;
	}
	Operation operation{.kind = Operation_Kind::execute};
	if (view.portal.empty()) {
		operation.statement = unnamed_portal_;
	} else if (const auto found = portals_.find(view.portal); found != portals_.end()) {
		operation.statement = found->second;
	}
	++request_.executions;
	if (operation.statement != nullptr) {
		use_prepared(operation, out);
	}
	out.append(raw);
	queue(std::move(operation));
	return true;
}

bool PgSQL_Session::translate_close(const Frame& frame, std::string& out) {
	Close_View view;
	if (!parse(frame.body, view)) {
		return false;
	}
	if (view.kind == Target_Kind::statement) {
		const auto found = statements_.find(view.name);
		if (found != statements_.end()) {
			// The server's statement serves other clients too (or is closed when its name is
			// wanted for another one): only the name goes.
			const Prepared_Statement_Ptr before = found->second;
			statements_.erase(found);
			queue_local({.kind = Operation_Kind::close,
			             .client_name = std::string(view.name),
			             .before = before});
			return true;
		}
		if (view.name.empty()) {
			append_close(out, view.kind, view.name);
			queue({.kind = Operation_Kind::close,
			       .closes_unnamed = true,
			       .before = unnamed_,
			       .unnamed_before = unnamed_id_});
			unnamed_.reset();
			unnamed_id_ = 0;
			backend_->backend_state.unnamed_statement = 0;
			return true;
		}
		if (view.name.starts_with(kStatementPrefix)) {
			queue_local({.kind = Operation_Kind::close});
			return true;
		}
	} else {
		const auto found = portals_.find(view.name);
		if (found != portals_.end()) {
			portals_.erase(found);
		}
	}
	if (view.kind == Target_Kind::statement) {
		align_name(std::string(view.name), Name_Need::itself, out);
	}
	append_close(out, view.kind, view.name);
	queue({.kind = Operation_Kind::close});
	return true;
}

} // namespace proxy
