// What the scanner shows of the server's answer, message by message: hide what is the proxy's own,
// answer local operations in their turn, learn, and forward the rest.
#include "base/Check.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace proxy {

namespace {
constexpr char kParseComplete[] = {'1', 0, 0, 0, 4};
constexpr char kCloseComplete[] = {'3', 0, 0, 0, 4};
constexpr char kReadyIdle[] = {'Z', 0, 0, 0, 5, 'I'};
constexpr char kReadyTransaction[] = {'Z', 0, 0, 0, 5, 'T'};
constexpr char kReadyFailed[] = {'Z', 0, 0, 0, 5, 'E'};

std::string_view as_text(std::span<const uint8_t> body) {
	return {reinterpret_cast<const char*>(body.data()), body.size()};
}

// An ErrorResponse or NoticeResponse with fields changed: `change` gets each with its letter in
// front.
template <typename Change>
std::string with_fields(char type, std::span<const uint8_t> body, const Change& change) {
	std::string out;
	Message_Writer message(out, type);
	const std::string_view text = as_text(body);
	for (size_t at = 0; at < text.size() && text[at] != 0;) {
		const size_t end = std::min(text.find('\0', at), text.size());
		std::string field(text.substr(at, end - at));
		change(field);
		append_cstring(out, field);
		at = end + 1;
	}
	out.push_back('\0');
	message.finish();
	return out;
}

// With its position counted in the client's own text: the server counted the SQL in front of it as
// well.
std::string with_earlier_position(char type, std::span<const uint8_t> body, size_t prefix) {
	return with_fields(type, body, [prefix](std::string& field) {
		size_t position = 0;
		if (field[0] == 'P') {
			std::from_chars(field.data() + 1, field.data() + field.size(), position);
		}
		if (position > prefix) {
			field = "P" + std::to_string(position - prefix);
		}
	});
}

// With the client's name of the statement in the place of the servers' one.
std::string with_client_name(std::span<const uint8_t> body, const std::string& server_name,
                             const std::string& name) {
	return with_fields('E', body, [&server_name, &name](std::string& field) {
		const size_t at = field.find('"' + server_name + '"');
		if (field[0] == 'M' && at != std::string::npos) {
			field.replace(at + 1, server_name.size(), name);
		}
	});
}

// Said by the server's scanner, for the whole text before any of it runs: a name that is cut, a
// backslash in a plain string.
bool is_of_scanner(std::string_view sqlstate) {
	return sqlstate == "42622" || sqlstate == "22P06";
}
} // namespace

bool PgSQL_Session::emit(const char* bytes, size_t length) {
	if (pieces_.add(bytes, length)) {
		return true;
	}
	return flush_pieces() && pieces_.add(bytes, length);
}

bool PgSQL_Session::emit_copy(std::string_view bytes) {
	request_.result_started = request_.result_started || request_.kind != Request_Kind::none;
	return flush_pieces() && stream_.send(bytes);
}

// Answers of local operations whose turn came with the last message.
void PgSQL_Session::emit_pending_local() {
	for (const char type : request_.pending_local) {
		emit(type == '1' ? kParseComplete : kCloseComplete, sizeof(kParseComplete));
	}
	request_.pending_local.clear();
}

Message_Fate PgSQL_Session::on_row(char type) {
	if (!request_.pending_local.empty()) {
		emit_pending_local();
	}
	if (request_.hidden_cycles > 0 || request_.hidden_failed || request_.retry_on_writer) {
		return Message_Fate::hide;
	}
	if (request_.closing.step != Closing::none) {
		return request_.closing.step == Closing::checking ? Message_Fate::keep : Message_Fate::hide;
	}
	if (type == 'D') {
		++request_.rows_sent;
	}
	return Message_Fate::forward;
}

Message_Fate PgSQL_Session::on_message(char type, std::span<const uint8_t> body) {
	if (!request_.pending_local.empty()) {
		emit_pending_local();
	}
	if (type == 'S') {
		return on_parameter_status(body);
	}
	if (type == 'A') {
		return on_native_notification(body);
	}
	if (request_.hidden_cycles > 0) {
		return on_hidden_cycle(type, body);
	}
	if (request_.closing.step != Closing::none) {
		return on_closing_reply(type);
	}
	switch (type) {
	case 'Z':
		return on_ready(body);
	case 'E':
		return on_error(body);
	case 'C':
		return on_command_complete(body);
	case 'G':
		return on_copy_in();
	case 'N':
		return on_notice(body);
	case '1':
	case '2':
	case '3':
	case 'T':
	case 'n':
	case 't':
	case 'I':
	case 's':
		return on_operation_reply(type, body);
	default:
		return request_.answer_dropped() ? Message_Fate::hide : Message_Fate::forward;
	}
}

// A notice of a hidden SET is nobody's business; a wait's best-effort warning is the client's.
Message_Fate PgSQL_Session::on_notice(std::span<const uint8_t> body) {
	if (request_.retry_on_writer || request_.run_again ||
	    (request_.has_operation() && request_.front().hidden)) {
		return Message_Fate::hide;
	}
	if (request_.hidden_commands == 0 && request_.prefix_bytes == 0) {
		return Message_Fate::forward;
	}
	Error_Fields fields;
	parse(body, fields);
	const std::string notice = with_earlier_position('N', body, request_.prefix_bytes);
	if (request_.hidden_commands == 0) {
		emit_copy(notice);
	} else if (is_of_scanner(fields.sqlstate)) {
		// Kept until the wait in front has ended: till then the read may move to another server.
		request_.early_notices += notice;
	}
	return Message_Fate::hide;
}

// Inside the hidden parameter batch.
Message_Fate PgSQL_Session::on_hidden_cycle(char type, std::span<const uint8_t> body) {
	if (type == 'E' && request_.hidden_error.empty()) {
		request_.hidden_failed = true;
		request_.hidden_error = as_text(body);
	}
	if (type == 'Z') {
		--request_.hidden_cycles;
		if (!request_.hidden_failed && request_.hidden_cycles == 0) {
			backend_->backend_state.apply(wanted_);
		}
	}
	return Message_Fate::hide;
}

void PgSQL_Session::pop_operation() {
	request_.operations.pop();
	while (request_.has_operation() && request_.front().local) {
		Operation& local = request_.front();
		request_.pending_local.push_back(local.kind == Operation_Kind::parse ? '1' : '3');
		request_.operations.pop();
	}
}

Message_Fate PgSQL_Session::on_operation_reply(char type, std::span<const uint8_t>) {
	const bool dropped = request_.answer_dropped();
	if (!request_.has_operation() || request_.front().kind == Operation_Kind::query) {
		if (type == 'I' && request_.kind == Request_Kind::simple) {
			request_.hidden_commands = 0;
		}
		return dropped ? Message_Fate::hide : Message_Fate::forward;
	}
	Operation& operation = request_.front();
	const bool hidden = operation.hidden || dropped;
	bool finished = false;
	switch (type) {
	case '1':
		finished = operation.kind == Operation_Kind::parse;
		if (finished) {
			on_parse_complete(operation);
		}
		break;
	case '2':
		finished = operation.kind == Operation_Kind::bind;
		break;
	case '3':
		finished = operation.kind == Operation_Kind::close;
		break;
	case 'T':
	case 'n':
		finished = operation.kind == Operation_Kind::describe;
		break;
	case 'I':
	case 's':
		finished = operation.kind == Operation_Kind::execute;
		if (finished && operation.statement != nullptr && !hidden) {
			account_statement(*operation.statement->analysis, request_.rows_sent, 0);
			if (type == 's' && !operation.statement->analysis->statement.sets.empty()) {
				pinned_ |= kStickySet; // it has run, and will not say that it is done
				check_due_ |= kStickySet;
			}
		}
		break;
	default: // 't': RowDescription or NoData follows
		return hidden ? Message_Fate::hide : Message_Fate::forward;
	}
	if (PROXY_BUG(!finished && type != 'T')) {
		backend_->tainted = true;
	}
	if (finished) {
		pop_operation();
	}
	return hidden ? Message_Fate::hide : Message_Fate::forward;
}

void PgSQL_Session::on_parse_complete(Operation& operation) {
	if (operation.unnamed_id != 0) {
		backend_->backend_state.unnamed_statement = operation.unnamed_id;
	} else if (operation.statement != nullptr) {
		backend_->backend_state.statements.put(operation.statement->id, {});
	}
}

Message_Fate PgSQL_Session::on_command_complete(std::span<const uint8_t> body) {
	const bool of_execute =
	    request_.has_operation() && request_.front().kind == Operation_Kind::execute;
	if (of_execute && request_.front().hidden) {
		pop_operation();
		return Message_Fate::hide;
	}
	if (request_.hidden_commands > 0) {
		if (--request_.hidden_commands == 0 && !request_.early_notices.empty()) {
			emit(request_.early_notices.data(), request_.early_notices.size());
		}
		return Message_Fate::hide;
	}
	if (request_.answer_dropped()) {
		return Message_Fate::hide;
	}
	request_.copy_in = false;
	++request_.completed;
	Command_Tag tag;
	parse(body, tag);
	if (request_.kind == Request_Kind::extended && of_execute) {
		const Operation operation = std::move(request_.front());
		pop_operation();
		if (operation.statement != nullptr) {
			account_statement(*operation.statement->analysis, request_.rows_sent, tag.rows);
			note_statement_done(operation.analysis(), tag.tag);
		}
		request_.rows_sent = 0;
		return Message_Fate::forward;
	}
	request_.rows_affected += tag.rows;
	const bool behind_batch = request_.has_operation() && request_.front().change != nullptr;
	const Statement_Analysis_Ptr analysis =
	    behind_batch ? request_.front().change->resolved : request_.analysis;
	if (analysis != nullptr && request_.kind != Request_Kind::none) {
		note_statement_done(*analysis, tag.tag);
		note_prepared_done(*analysis, tag.tag);
	}
	return Message_Fate::forward;
}

// SQLSTATEs with which a replica refuses what the primary can do: a misjudged read (25006, 0A000 of
// an unlogged table, 55000), a conflict with recovery (40001), a server going down (57P0x).
bool PgSQL_Session::retriable_on_writer(std::string_view sqlstate) const {
	static constexpr std::array<std::string_view, 8> kStates = {"25006", "0A000", "55000", "40001",
	                                                            "40P01", "57P01", "57P02", "57P03"};
	return std::find(kStates.begin(), kStates.end(), sqlstate) != kStates.end();
}

// The message when it names the statement that the front operation is about; empty: it does not.
std::string PgSQL_Session::error_with_client_name(std::span<const uint8_t> body) const {
	if (!request_.has_operation() ||
	    as_text(body).find(kStatementPrefix) == std::string_view::npos) {
		return {};
	}
	const Operation& operation = request_.operations.front();
	if (operation.hidden || operation.statement == nullptr || operation.statement->by_sql) {
		return {};
	}
	const std::string& server_name = operation.statement->name;
	if (operation.duplicate_name) {
		return with_client_name(body, server_name, operation.client_name);
	}
	for (const auto& [name, statement] : statements_) {
		if (statement == operation.statement) {
			return with_client_name(body, server_name, name);
		}
	}
	return {};
}

Message_Fate PgSQL_Session::on_error(std::span<const uint8_t> body) {
	if (request_.answer_dropped()) {
		return Message_Fate::hide;
	}
	Error_Fields fields;
	parse(body, fields);
	if (fields.is_fatal() && request_.done) {
		// Behind a complete answer, which stays: only the connection is at its end.
		backend_->tainted = true;
		return Message_Fate::hide;
	}
	if (fields.is_fatal()) {
		// The connection closes next; on_backend_lost() decides what the client is told.
		request_.fatal_error = as_text(body);
		if (may_retry()) {
			pieces_.clear(); // the beginning of an answer that will not end: run again unseen
		}
		return Message_Fate::hide;
	}
	if (request_.kind == Request_Kind::none) {
		return Message_Fate::forward;
	}
	request_.error_seen = true;
	request_.copy_in = false;
	const bool hidden_operation = request_.has_operation() && request_.front().hidden;
	const bool hidden = request_.hidden_commands > 0 || hidden_operation;
	if (hidden_operation && request_.kind == Request_Kind::simple) {
		// The Query behind it is skipped: its ReadyForQuery comes with a Sync.
		std::string sync;
		append_sync(sync);
		backend_->send(sync);
	}
	const bool timed_out = is_lsn_wait_timeout(fields);
	if (timed_out) {
		worker_.counters.add(Counter::PolarDB_Wait_Error_Timeout);
	}
	const std::string renamed = error_with_client_name(body);
	const bool heals = note_lost_statement(fields);
	forget_skipped();
	if (request_.plan.to_reader && !request_.result_started && !request_.canceled &&
	    (hidden || timed_out || retriable_on_writer(fields.sqlstate)) && may_retry()) {
		request_.retry_on_writer = true;
		pieces_.clear(); // what was about to go out belongs to the answer that is given up
		request_.retry_reason =
		    timed_out ? Route_Reason::wait_timeout : Route_Reason::retry_on_primary;
		return Message_Fate::hide;
	}
	if (heals) {
		request_.run_again = request_.healed = true;
		pieces_.clear();
		return Message_Fate::hide;
	}
	if (request_.hidden_commands > 0 && !request_.early_notices.empty()) {
		emit_copy(request_.early_notices);
	}
	request_.hidden_commands = 0;
	if (request_.timed_out && fields.sqlstate == "57014") {
		// The server only knows that it was cancelled, and would call it the user's request.
		std::string out;
		append_error_response(out, canceled_error());
		emit_copy(out);
		return Message_Fate::hide;
	}
	if (!renamed.empty()) {
		emit_copy(renamed);
		return Message_Fate::hide;
	}
	if (request_.prefix_bytes > 0 && !hidden_operation) {
		emit_copy(with_earlier_position('E', body, request_.prefix_bytes));
		return Message_Fate::hide;
	}
	return Message_Fate::forward;
}

// After an error the server skips to Sync: nothing queued before it is answered, and nothing of it
// has happened; the first one is what the error is about.
void PgSQL_Session::forget_skipped() {
	std::vector<Operation> skipped;
	while (request_.has_operation()) {
		Operation& operation = request_.front();
		if (operation.kind == Operation_Kind::sync) {
			break;
		}
		if (operation.kind == Operation_Kind::query && skipped.empty()) {
			break; // the Query itself failed: its ReadyForQuery follows
		}
		if (operation.kind == Operation_Kind::query) {
			// Skipped like the rest: the request goes on to the client's Sync.
			request_.sync_sent = false;
			request_.open = true;
		}
		skipped.push_back(std::move(operation));
		request_.operations.pop();
	}
	for (size_t i = skipped.size(); i > 0; --i) {
		undo_names(skipped[i - 1], i == 1);
	}
}

Message_Fate PgSQL_Session::on_copy_in() {
	request_.copy_in = true;
	in_begin_ = request_end_; // no way back: the data is not kept
	if (request_.kind == Request_Kind::extended && request_.has_operation()) {
		// A Sync sent right behind the Execute is ignored by a server in copy mode; one that
		// follows the batch's own CopyDone is not.
		const Operation* next = request_.operations.second();
		if (next != nullptr && next->kind == Operation_Kind::copy_end) {
			request_.operations.drop_second();
			request_.copy_in = false;
		} else if (next != nullptr && next->kind == Operation_Kind::sync) {
			request_.operations.drop_all_but_front();
			request_.sync_sent = false;
		}
		request_.open = !request_.sync_sent;
	}
	return Message_Fate::forward;
}

Message_Fate PgSQL_Session::on_ready(std::span<const uint8_t> body) {
	const auto status = ready_status(body);
	if (PROXY_BUG(!status.has_value())) {
		backend_->tainted = true;
		return Message_Fate::hide;
	}
	const char letter = static_cast<char>(*status);
	while (request_.has_operation() && request_.front().kind != Operation_Kind::sync &&
	       request_.front().kind != Operation_Kind::query) {
		request_.operations.pop();
	}
	if (request_.has_operation()) {
		pop_operation();
	}
	backend_->set_transaction_status(letter);
	learn_position(body);
	request_.done = true;
	if (request_.answer_dropped()) {
		return Message_Fate::hide;
	}
	note_transaction_status(letter);
	if (letter == 'I' && (check_due_ | request_.leaves) + notified_ != 0 && closing_is_due()) {
		request_.done = false;
		request_.closing.step = Closing::due;
		return Message_Fate::hide;
	}
	if (letter == 'I' && listen_ != nullptr) {
		flush_notifications();
	}
	if (body.size() == 1) {
		return Message_Fate::forward;
	}
	// The tail is between the server and the proxy.
	const char* plain = letter == 'I'   ? kReadyIdle
	                    : letter == 'T' ? kReadyTransaction
	                                    : kReadyFailed;
	emit(plain, sizeof(kReadyIdle));
	return Message_Fate::hide;
}

} // namespace proxy
