// What the session knows and keeps right from answer to answer: transaction, tracked parameters,
// pins, positions.
#include "base/Check.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

// A statement is on its way: what it may leave behind on the connection binds the session to it
// even if the statement fails, is cancelled or does not run to its end (an advisory lock taken
// before the error stays).
void PgSQL_Session::note_execution(const Statement_Class& statement) {
	pinned_ |= statement.sticky;
	note_to_check(statement);
	if (statement.calls_unknown) {
		backend_->backend_state.changed_by = id_;
	}
}

// The request is this one statement and nothing else.
bool PgSQL_Session::runs_alone(const Statement_Class& statement) const {
	if (request_.kind == Request_Kind::simple) {
		return statement.kind != Statement_Kind::multiple;
	}
	return request_.executions == 1 && !request_.open;
}

// A statement was completed by the server with `tag`.
void PgSQL_Session::note_statement_done(const Statement_Analysis& analysis, std::string_view tag) {
	if (analysis.statement.kind == Statement_Kind::multiple) {
		note_batch(analysis, tag);
	} else {
		note_one_done(analysis.statement, tag);
	}
}

void PgSQL_Session::note_one_done(const Statement_Class& statement, std::string_view tag) {
	switch (statement.kind) {
	case Statement_Kind::commit:
		worker_.counters.add(Counter::Commit);
		// COMMIT of a failed transaction answers ROLLBACK (bug bank BB-044).
		end_of_transaction(tag == "COMMIT");
		break;
	case Statement_Kind::rollback:
		worker_.counters.add(Counter::Rollback);
		end_of_transaction(false);
		break;
	case Statement_Kind::prepare_transaction:
		if (tag == "PREPARE TRANSACTION") {
			end_of_transaction(true); // parameters stay set
		}
		break;
	case Statement_Kind::savepoint:
	case Statement_Kind::rollback_to:
	case Statement_Kind::release:
		note_savepoint(statement);
		break;
	case Statement_Kind::deallocate:
		if (statement.all) {
			forget_statements();
		}
		break;
	case Statement_Kind::discard:
		if (statement.all) {
			reset_session_state();
		}
		break;
	case Statement_Kind::unlisten:
		if (listen_ != nullptr) {
			listen_->unlistens.push_back(statement.name);
		}
		break;
	case Statement_Kind::unknown:
		// Longer or newer than the parser takes: it may have been anything.
		check_due_ |= kCheckAll;
		check_calls_ = 1;
		break;
	default:
		break;
	}
	// Only what is certain to last unbinds: a rollback would bring back what has ended.
	if (statement.sticky_ends != 0 && statement.kind != Statement_Kind::select &&
	    transaction_status_ == 'I' && runs_alone(statement)) {
		pinned_ &= ~statement.sticky_ends;
	}
	if (!statement.sets.empty() && tag != "SELECT 0") { // a set_config() of no row
		note_parameters(statement);
	}
}

// Several statements in one Query: each of them answers with one CommandComplete.
void PgSQL_Session::note_batch(const Statement_Analysis& analysis, std::string_view tag) {
	const Statement_Class& statement = analysis.statement;
	const auto place = static_cast<size_t>(request_.completed - 1);
	if (place < statement.parts.size()) {
		note_one_done(statement.parts[place], tag);
	} else if (!statement.sets.empty() || statement.controls_transaction) {
		pinned_ |= kStickySet; // too many to tell apart
		check_due_ |= kStickySet;
	}
}

namespace {
// RESET ALL leaves these as they are (GUC_NO_RESET_ALL).
bool outlives_reset_all(const std::string& name) {
	return name == "role" || name == "session_authorization" || name == "seed";
}

void reset_all(Parameter_Set& parameters, const Parameter_Set& to) {
	const Parameter_Set before = parameters;
	parameters = to;
	for (const auto& [name, value] : before.values()) {
		if (outlives_reset_all(name)) {
			parameters.set(name, value);
		}
	}
}

// Parameters that act on the connection itself, whoever holds it, or on where objects are made.
uint32_t sticky_of(const Set_Item& item) {
	if (item.name == "idle_session_timeout") {
		return kStickySet;
	}
	if (item.name == "search_path" && item.value.find("pg_temp") != std::string::npos) {
		return kStickyTempTable;
	}
	return kStickyNone;
}
} // namespace

void PgSQL_Session::note_parameters(const Statement_Class& statement) {
	Parameter_Set& here = backend_->backend_state.parameters;
	if (!sets_in_transaction_) {
		// Every statement is part of a transaction, be it one up to the next Sync: an error there
		// takes the parameter back.
		committed_ = wanted_;
		sets_in_transaction_ = true;
	}
	backend_->backend_state.equal_to_hash = 0;
	if (statement.kind == Statement_Kind::reset && statement.all) {
		request_.resets = true;
		reset_all(wanted_, startup_parameters_);
		reset_all(here, {});
		return;
	}
	for (const Set_Item& item : statement.sets) {
		if (item.scope == Set_Scope::local) {
			continue; // gone at the end of the transaction, on the server too
		}
		pinned_ |= sticky_of(item);
		if (item.has_value) {
			const std::string value =
			    item.name == "datestyle" ? full_datestyle(datestyle_now(), item.value) : item.value;
			wanted_.set(item.name, value);
			here.set(item.name, value);
		} else {
			// On the server back to its own default; for the client to its startup value.
			here.erase(item.name);
			request_.resets = true;
			const std::string* startup = startup_parameters_.find(item.name);
			if (startup == nullptr) {
				wanted_.erase(item.name);
			} else {
				wanted_.set(item.name, *startup);
			}
		}
	}
}

// DateStyle before the statement: as set by this request, else as the server has told.
std::string PgSQL_Session::datestyle_now() const {
	const std::string* set = backend_->backend_state.parameters.find("datestyle");
	if (set != nullptr) {
		return *set;
	}
	const auto told = backend_->backend_state.reported.find("DateStyle");
	return told == backend_->backend_state.reported.end() ? std::string() : told->second;
}

// The server went back to what it had at an earlier moment, and so do both our records.
void PgSQL_Session::rollback_parameters(const Parameter_Set& to) {
	wanted_ = to;
	if (backend_ != nullptr) {
		backend_->backend_state.parameters = to;
		backend_->backend_state.equal_to_hash = 0;
	}
}

void PgSQL_Session::note_savepoint(const Statement_Class& statement) {
	if (statement.kind == Statement_Kind::savepoint) {
		savepoints_.push_back({statement.name, wanted_,
		                       listen_ == nullptr ? 0 : listen_->unlistens.size(), own_,
		                       own_kept_});
		return;
	}
	// The innermost of that name, as the server does.
	const auto found =
	    std::find_if(savepoints_.rbegin(), savepoints_.rend(),
	                 [&statement](const auto& entry) { return entry.name == statement.name; });
	if (found == savepoints_.rend()) {
		if (sets_in_transaction_ && statement.kind == Statement_Kind::rollback_to) {
			pinned_ |= kStickySet; // made inside a batch: what it takes back is not known
			check_due_ |= kStickySet;
		}
		return;
	}
	const auto place = std::prev(found.base());
	if (statement.kind == Statement_Kind::release) {
		savepoints_.erase(place, savepoints_.end());
		return;
	}
	if (sets_in_transaction_) {
		rollback_parameters(place->parameters);
	}
	own_ = place->own;
	own_kept_ = place->own_kept;
	if (listen_ != nullptr && listen_->unlistens.size() > place->unlistens) {
		listen_->unlistens.resize(place->unlistens);
	}
	savepoints_.erase(std::next(place), savepoints_.end());
}

// A transaction has ended, explicit or up to a Sync; with AND CHAIN the next one has begun.
void PgSQL_Session::end_of_transaction(bool committed) {
	if (sets_in_transaction_ && !committed) {
		rollback_parameters(committed_);
	}
	sets_in_transaction_ = false;
	savepoints_.clear();
	own_before_ = committed ? own_kept_ : own_before_;
	own_ = own_kept_ = own_before_;
	if (listen_ != nullptr && !listen_->unlistens.empty()) {
		if (committed) {
			apply_unlistens();
		} else {
			listen_->unlistens.clear();
		}
	}
}

void PgSQL_Session::note_transaction_status(char status) {
	const bool was_open = transaction_status_ != 'I';
	const bool is_open = status != 'I';
	transaction_status_ = status;
	if (!is_open) {
		// What has not ended by a statement of its own ended here: by the Sync, or by an error
		// (also of a COMMIT that a deferred constraint refused).
		end_of_transaction(!request_.error_seen);
		portals_.clear();
		if (was_open) {
			// ON COMMIT DROP, and what was made in a transaction that was rolled back.
			check_due_ |= pinned_ & (kStickyTempTable | kStickyHoldCursor);
		}
	}
	if (was_open != is_open) {
		if (is_open) {
			transaction_since_us_ = request_.started_us;
			worker_.counters.add(Counter::Active_Transactions);
		} else {
			worker_.counters.subtract(Counter::Active_Transactions);
		}
	}
}

// DISCARD ALL: as after a new login.
void PgSQL_Session::reset_session_state() {
	request_.resets = true;
	wanted_ = startup_parameters_;
	backend_->backend_state.parameters.clear();
	backend_->backend_state.equal_to_hash = 0;
	backend_->backend_state.unnamed_statement = 0;
	forget_statements();
	portals_.clear();
	unnamed_.reset();
	unnamed_id_ = 0;
	unnamed_portal_.reset();
	stop_listening();
	pinned_ = 0;
	check_due_ = 0;
	own_ = own_kept_ = own_before_ = Own_Settings();
}

// ---- positions ----

PgSQL_Session::Positions* PgSQL_Session::positions_of(const Hostgroup_Pair& pair) {
	const uint64_t epoch = worker_.view->epoch_of(pair.writer_hostgroup);
	for (Positions& known : positions_) {
		if (known.writer_hostgroup == pair.writer_hostgroup) {
			if (known.epoch != epoch) {
				if (known.write_lsn != 0 || known.observed_lsn != 0) {
					worker_.counters.add(Counter::PolarDB_Session_Target_Epoch_Reset);
				}
				known = Positions{};
				known.writer_hostgroup = pair.writer_hostgroup;
				known.epoch = epoch;
			}
			return &known;
		}
	}
	Positions fresh;
	fresh.writer_hostgroup = pair.writer_hostgroup;
	fresh.epoch = epoch;
	positions_.push_back(fresh);
	return &positions_.back();
}

const PgSQL_Session::Positions* PgSQL_Session::find_positions(int hostgroup) {
	const Hostgroup_Pair* pair = worker_.view->pair_of_writer(hostgroup);
	if (pair == nullptr) {
		pair = worker_.view->pair_of_reader(hostgroup);
	}
	return pair == nullptr ? nullptr : positions_of(*pair);
}

// ReadyForQuery of backend_: the server's position, three-valued (routing.md, section 4).
void PgSQL_Session::learn_position(std::span<const uint8_t> ready_body) {
	if (!backend_->asked_lsn()) {
		return;
	}
	PgSQL_SrvC& server = backend_->server();
	const Hostgroup_Pair* as_writer = worker_.view->pair_of_writer(server.hostgroup_id);
	const Hostgroup_Pair* pair =
	    as_writer != nullptr ? as_writer : worker_.view->pair_of_reader(server.hostgroup_id);
	if (pair == nullptr) {
		return;
	}
	Positions& positions = *positions_of(*pair);
	const bool from_primary =
	    as_writer != nullptr || server.is_writer.load(std::memory_order_relaxed);
	Tail_Request asked;
	asked.lsn = backend_->asked_lsn();
	asked.xact = backend_->asked_xact();
	const Ready_Tail tail = parse_ready_tail(ready_body, asked);
	const bool wrote = request_.statement != nullptr && request_.statement->may_write;
	if (tail.lsn_state == Lsn_State::positioned) {
		const uint64_t lsn = normalise_lsn(
		    tail.lsn, server.health->wal_segment_size.load(std::memory_order_relaxed));
		server.health->note_lsn(lsn, worker_.now_us);
		positions.observed_lsn = std::max(positions.observed_lsn, lsn);
		if (from_primary) {
			if (wrote) {
				positions.write_lsn = std::max(positions.write_lsn, lsn);
			}
			positions.write_unknown = false;
			positions.observed_unknown = false;
		}
		return;
	}
	if (!from_primary) {
		return; // nothing learnt, nothing owed: the read before had its own target
	}
	if (wrote) {
		positions.write_unknown = true;
		worker_.counters.add(Counter::PolarDB_Write_Missing_LSN);
	} else if (tail.lsn_state == Lsn_State::missing) {
		positions.observed_unknown = true;
		worker_.counters.add(Counter::PolarDB_Read_Missing_LSN);
	}
}

} // namespace proxy
