// What the session knows and keeps right from answer to answer: transaction, tracked parameters,
// pins, positions.
#include "base/Check.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

// A statement was completed by the server with `tag`.
void PgSQL_Session::note_statement_done(const Statement_Analysis& analysis, std::string_view tag) {
	const Statement_Class& statement = analysis.statement;
	switch (statement.kind) {
	case Statement_Kind::commit:
		worker_.counters.add(Counter::Commit);
		// COMMIT of a failed transaction answers ROLLBACK (bug bank BB-044).
		last_end_committed_ = tag == "COMMIT";
		break;
	case Statement_Kind::rollback:
		worker_.counters.add(Counter::Rollback);
		last_end_committed_ = false;
		break;
	case Statement_Kind::savepoint:
	case Statement_Kind::rollback_to:
	case Statement_Kind::release:
		note_savepoint(statement);
		break;
	case Statement_Kind::deallocate:
		if (statement.all) {
			statements_.clear();
			backend_->backend_state.statements.clear();
			pinned_ &= ~static_cast<uint32_t>(kStickyPrepare);
		}
		break;
	case Statement_Kind::discard:
		if (statement.all) {
			reset_session_state();
		}
		break;
	default:
		break;
	}
	pinned_ |= statement.sticky;
	pinned_ &= ~statement.sticky_ends;
	if (statement.kind == Statement_Kind::multiple) {
		// Which part did what cannot be told from the answers: a parameter set somewhere in a
		// batch binds the session to its connection.
		if (!statement.sets.empty()) {
			pinned_ |= kStickySet;
		}
		last_end_committed_ = true;
		return;
	}
	if (statement.kind == Statement_Kind::set || statement.kind == Statement_Kind::reset ||
	    !statement.sets.empty()) {
		note_parameters(statement);
	}
}

void PgSQL_Session::note_parameters(const Statement_Class& statement) {
	Parameter_Set& here = backend_->backend_state.parameters;
	if (!sets_in_transaction_) {
		// The answer's ReadyForQuery has not come yet: whether a transaction is open is known from
		// the one before, and a SET that opens one does not exist.
		committed_ = wanted_;
		sets_in_transaction_ = transaction_status_ != 'I';
	}
	if (statement.kind == Statement_Kind::reset && statement.all) {
		wanted_ = startup_parameters_;
		here.clear();
		backend_->backend_state.equal_to_hash = 0;
		return;
	}
	for (const Set_Item& item : statement.sets) {
		if (item.scope == Set_Scope::local) {
			continue; // gone at the end of the transaction, on the server too
		}
		if (item.has_value) {
			wanted_.set(item.name, item.value);
			here.set(item.name, item.value);
		} else {
			// On the server back to its own default; for the client to its startup value.
			here.erase(item.name);
			const std::string* startup = startup_parameters_.find(item.name);
			if (startup == nullptr) {
				wanted_.erase(item.name);
			} else {
				wanted_.set(item.name, *startup);
			}
		}
	}
	backend_->backend_state.equal_to_hash = 0;
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
		savepoints_.emplace_back(statement.name, wanted_);
		return;
	}
	// The innermost of that name, as the server does.
	const auto found =
	    std::find_if(savepoints_.rbegin(), savepoints_.rend(),
	                 [&statement](const auto& entry) { return entry.first == statement.name; });
	if (found == savepoints_.rend()) {
		return;
	}
	const auto place = std::prev(found.base());
	if (statement.kind == Statement_Kind::release) {
		savepoints_.erase(place, savepoints_.end());
		return;
	}
	if (sets_in_transaction_) {
		rollback_parameters(place->second);
	}
	savepoints_.erase(std::next(place), savepoints_.end());
}

void PgSQL_Session::note_transaction_status(char status) {
	const bool was_open = transaction_status_ != 'I';
	const bool is_open = status != 'I';
	transaction_status_ = status;
	if (was_open == is_open) {
		return;
	}
	if (is_open) {
		worker_.counters.add(Counter::Active_Transactions);
		return;
	}
	worker_.counters.subtract(Counter::Active_Transactions);
	if (sets_in_transaction_ && !last_end_committed_) {
		rollback_parameters(committed_);
	}
	sets_in_transaction_ = false;
	last_end_committed_ = false;
	savepoints_.clear();
	portals_.clear();
	if (backend_ != nullptr && !backend_->tainted &&
	    backend_->backend_state.parameters.hash() != wanted_.hash() &&
	    backend_->backend_state.equal_to_hash != wanted_.hash()) {
		// Rolled-back parameters that were only set here: compared again before the next use.
		backend_->backend_state.equal_to_hash = 0;
	}
}

// DISCARD ALL: as after a new login.
void PgSQL_Session::reset_session_state() {
	wanted_ = startup_parameters_;
	backend_->backend_state.parameters.clear();
	backend_->backend_state.equal_to_hash = 0;
	backend_->backend_state.statements.clear();
	backend_->backend_state.unnamed_statement = 0;
	statements_.clear();
	portals_.clear();
	unnamed_.reset();
	unnamed_id_ = 0;
	unnamed_portal_.reset();
	pinned_ = 0;
	route_mode_ = Route_Mode::automatic;
	consistency_ = Consistency_Mode::inherit;
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
