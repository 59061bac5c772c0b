// What a request has left on its server connection, asked of the server itself by one hidden query
// behind it: only when something may have begun or ended that the answers do not tell, only outside
// transactions, and before the client gets its ReadyForQuery.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

namespace proxy {

namespace {
// A function of which nothing is known is looked after this often when it is new, and once in so
// many calls when nothing was ever found behind it.
constexpr uint32_t kTrialChecks = 16;
constexpr uint32_t kLaterCheck = 64;
constexpr size_t kMaxKnownCalls = 4096;

// Which functions the statement calls, as one number; 0: it does not say (DO).
uint64_t calls_of(const Statement_Class& statement, const std::string& database) {
	uint64_t hash = 0;
	for (const std::string& name : statement.functions) {
		hash ^= XXH3_64bits_withSeed(name.data(), name.size(),
		                             XXH3_64bits(database.data(), database.size()));
	}
	return hash;
}

// One value of a DataRow; nothing: NULL.
std::string_view next_value(std::string_view& row) {
	const auto byte = [&row](size_t i) { return static_cast<unsigned char>(row[i]); };
	if (row.size() < 4) {
		row = {};
		return {};
	}
	const uint32_t length = static_cast<uint32_t>(byte(0)) << 24 |
	                        static_cast<uint32_t>(byte(1)) << 16 |
	                        static_cast<uint32_t>(byte(2)) << 8 | byte(3);
	row.remove_prefix(4);
	if (length > row.size()) {
		return {};
	}
	const std::string_view value = row.substr(0, length);
	row.remove_prefix(length);
	return value;
}

std::string lower_name(std::string_view name) {
	std::string result(name);
	std::transform(result.begin(), result.end(), result.begin(),
	               [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
	return result;
}

// Everything is named with its schema: the session's search_path is the client's.
std::string check_sql(uint32_t asked, const std::string& username) {
	const auto column = [asked](uint32_t bit, const char* sql) {
		return (asked & bit) != 0 ? std::string(sql) : std::string("false");
	};
	std::string sql = "SELECT ";
	sql +=
	    column(kStickyTempTable, "EXISTS(SELECT FROM pg_catalog.pg_depend WHERE refclassid "
	                             "OPERATOR(pg_catalog.=) 2615 AND refobjid OPERATOR(pg_catalog.=) "
	                             "pg_catalog.pg_my_temp_schema())") +
	    ",";
	sql += column(kStickyAdvisoryLock,
	              "EXISTS(SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) "
	              "'advisory' AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())") +
	       ",";
	sql +=
	    column(kStickyHoldCursor, "EXISTS(SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)") +
	    ",";
	sql +=
	    (asked & kStickySet) == 0
	        ? std::string("false")
	        : "pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none' OR SESSION_USER "
	          "OPERATOR(pg_catalog.<>) " +
	              quote_literal(username);
	sql += ";";
	if ((asked & kStickyListen) != 0) {
		sql += "SELECT pg_catalog.pg_listening_channels();";
	}
	if ((asked & kStickySet) != 0) {
		sql += "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE "
		       "source OPERATOR(pg_catalog.=) 'session';";
	}
	return sql;
}
} // namespace

// ---- when ----

// A statement is sent: what is to be looked at behind it.
void PgSQL_Session::note_to_check(const Statement_Class& statement) {
	check_due_ |= (statement.sticky & (kStickyListen | kStickySet)) | statement.sticky_may_end |
	              statement.sticky_ends;
	request_.leaves |= statement.sticky;
	notified_ = notified_ || statement.notifies;
	if (!statement.calls_unknown) {
		return;
	}
	const uint64_t calls = calls_of(statement, database_);
	check_calls_ = check_calls_ == 0 || check_calls_ == calls ? calls : 1;
	if (calls != 0) {
		const auto known = worker_.clean_calls.find(calls);
		const uint32_t clean = known == worker_.clean_calls.end() ? 0 : known->second;
		if (clean >= kTrialChecks && (clean % kLaterCheck) != 0) {
			++known->second;
			return;
		}
	}
	check_due_ |= kCheckAll;
}

// Behind the server's last ReadyForQuery, outside a transaction. True: the client's waits.
bool PgSQL_Session::closing_is_due() {
	if (request_.error_seen) {
		// What begins with a statement may not have begun.
		check_due_ |= request_.leaves & kCheckable;
	}
	if ((check_due_ & kCheckAll) == 0) {
		check_due_ &= pinned_ & kCheckable;
	}
	if (check_due_ == 0 && (!notified_ || listen_ == nullptr)) {
		notified_ = false;
		return false;
	}
	return !backend_->tainted;
}

// ---- the steps ----

// REQUIRES: the hidden query of the step, if there was one, has been answered.
void PgSQL_Session::step_closing() {
	Closing_Progress& closing = request_.closing;
	closing.answered = false;
	switch (closing.step) {
	case Closing::due:
		if (check_due_ != 0) {
			closing.asked = (check_due_ & kCheckAll) != 0 ? kCheckable : check_due_;
			ask_in_closing(Closing::checking, check_sql(closing.asked, username_));
			return;
		}
		break;
	case Closing::checking:
		take_check();
		if (listen_ != nullptr && !listen_->found.empty()) {
			take_over_channels();
			return;
		}
		break;
	case Closing::unlistening:
		if (!closing.failed) {
			pinned_ &= ~static_cast<uint32_t>(kStickyListen);
		}
		break;
	case Closing::listening:
	case Closing::hearing:
	case Closing::none:
		break;
	}
	if (closing.failed && pinned_ == 0) {
		backend_->tainted = true; // what is left there is not known
	}
	if (notified_ && listen_ != nullptr && !listen_->channels.empty() &&
	    closing.step != Closing::hearing) {
		closing.step = Closing::hearing;
		order_listen(Listen_Action::hear, {});
		return;
	}
	finish_closing();
}

void PgSQL_Session::ask_in_closing(Closing step, const std::string& sql) {
	request_.closing.step = step;
	request_.closing.rows.clear();
	std::string out;
	append_query(out, sql);
	backend_->backend_state.unnamed_statement = 0; // a simple query drops it
	worker_.counters.add(Counter::Backend_state_checks);
	if (!backend_->send(out)) {
		on_backend_lost(backend_->error());
	}
}

Message_Fate PgSQL_Session::on_closing_reply(char type) {
	if (type == 'E') {
		request_.closing.failed = true;
	} else if (type == 'Z') {
		request_.closing.answered = true;
	}
	return Message_Fate::hide;
}

// Now the client's ReadyForQuery.
void PgSQL_Session::finish_closing() {
	static constexpr std::array<char, 6> kReady = {'Z', 0, 0, 0, 5, 'I'};
	notified_ = false;
	check_calls_ = 0;
	request_.closing.step = Closing::none;
	flush_notifications();
	emit(kReady.data(), kReady.size());
	if (!flush_pieces()) {
		end(Session_End::client_vanished);
		return;
	}
	request_.done = true;
	complete_request();
}

// The server was lost in between: the client's answer was complete already.
void PgSQL_Session::finish_lost_closing() {
	check_due_ = 0;
	notified_ = false;
	std::string out;
	append_ready_for_query(out, Transaction_Status::idle);
	in_begin_ = request_end_;
	request_.clear();
	set_state(Session_State::waiting_client_data);
	send_to_client(out);
	process_input();
}

// ---- what the server said ----

void PgSQL_Session::take_check() {
	Closing_Progress& closing = request_.closing;
	const bool all = (check_due_ & kCheckAll) != 0;
	check_due_ = 0;
	if (closing.failed) {
		return;
	}
	const uint32_t before = pinned_;
	uint32_t left = 0;
	std::map<std::string, std::string> settings;
	std::vector<std::string> channels;
	std::string_view rest = closing.rows;
	Frame frame;
	while (next_frame({reinterpret_cast<const uint8_t*>(rest.data()), rest.size()}, kMaxFrameLength,
	                  frame) == Frame_Status::complete) {
		std::string_view row(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
		rest.remove_prefix(frame.size);
		if (row.size() < 2) {
			continue;
		}
		const int columns = static_cast<unsigned char>(row[1]);
		row.remove_prefix(2);
		if (columns == 1) {
			channels.emplace_back(next_value(row));
		} else if (columns == 2) {
			const std::string name = lower_name(next_value(row));
			settings[name] = next_value(row);
		} else {
			for (const uint32_t bit :
			     {static_cast<uint32_t>(kStickyTempTable),
			      static_cast<uint32_t>(kStickyAdvisoryLock),
			      static_cast<uint32_t>(kStickyHoldCursor), static_cast<uint32_t>(kStickySet)}) {
				left |= next_value(row) == "t" ? bit : 0;
			}
		}
	}
	left |= channels.empty() ? 0 : static_cast<uint32_t>(kStickyListen);
	bool changed = false;
	if ((closing.asked & kStickySet) != 0) {
		changed = adopt_settings(settings);
		left |= settings.contains("idle_session_timeout") ? static_cast<uint32_t>(kStickySet) : 0;
	}
	const std::string* path = wanted_.find("search_path");
	if (path != nullptr && path->find("pg_temp") != std::string::npos) {
		left |= kStickyTempTable; // objects may be made there without a word
	}
	pinned_ = (pinned_ & ~closing.asked) | (left & closing.asked);
	if (all) {
		note_clean_calls(!changed && (pinned_ & ~before) == 0 && channels.empty());
	}
	if (!channels.empty()) {
		listening().found = std::move(channels);
	}
}

// Parameters as the server has them now, whoever set them. True: something was not known.
bool PgSQL_Session::adopt_settings(const std::map<std::string, std::string>& settings) {
	Backend_State& state = backend_->backend_state;
	bool changed = false;
	for (const auto& [name, value] : settings) {
		if (name.starts_with("transaction_") || name.starts_with("polar_")) {
			continue;
		}
		const std::string* known = wanted_.find(name);
		changed = changed || known == nullptr || *known != value;
		wanted_.set(name, value);
		state.parameters.set(name, value);
	}
	std::vector<std::string> gone;
	for (const auto& [name, value] : state.parameters.values()) {
		// Names with a dot and the two identities are in no list of the server's.
		const bool listed = name.find('.') == std::string::npos && name != "role" &&
		                    name != "session_authorization" && name != "seed";
		const bool as_reported = state.is_reported(name, value);
		if (listed && !settings.contains(name) && !as_reported) {
			gone.push_back(name);
		}
	}
	for (const std::string& name : gone) {
		state.parameters.erase(name);
		const std::string* startup = startup_parameters_.find(name);
		if (startup == nullptr) {
			wanted_.erase(name);
		} else {
			wanted_.set(name, *startup);
		}
	}
	state.equal_to_hash = 0;
	return changed || !gone.empty();
}

void PgSQL_Session::note_clean_calls(bool clean) {
	if (check_calls_ <= 1) {
		return; // several, or not named
	}
	if (worker_.clean_calls.size() >= kMaxKnownCalls) {
		worker_.clean_calls.clear();
	}
	uint32_t& count = worker_.clean_calls[check_calls_];
	count = clean ? count + 1 : 0;
}

} // namespace proxy
