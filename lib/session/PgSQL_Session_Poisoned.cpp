// A session whose server was lost inside a transaction: as in a failed transaction, only its end is
// accepted (pgsql-preserve_client_on_broken_backend_in_tx), and no server is asked for it. A client
// that has not been told yet is told by the first answer, by an error even for COMMIT: its work is
// lost.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

namespace proxy {

namespace {
Error lost_in_transaction(std::string_view consequence) {
	return make_error("08006", "the connection to the server was lost during the transaction" +
	                               std::string(consequence));
}
} // namespace

void PgSQL_Session::end_poisoned_transaction() {
	poisoned_ = false;
	poison_told_ = true;
	transaction_status_ = 'I';
	wanted_ = committed_;
	own_ = own_kept_ = own_before_;
	sets_in_transaction_ = false;
	worker_.counters.add(Counter::pgsql_tx_poisoned_recovered_total);
}

// A statement that does not end the transaction, or a COMMIT of a client that knows of nothing.
void PgSQL_Session::refuse_poisoned(Statement_Kind kind) {
	const bool told = poison_told_;
	poison_told_ = true;
	if (kind == Statement_Kind::commit) {
		end_poisoned_transaction();
		answer_error(lost_in_transaction(", which is rolled back"));
		return;
	}
	worker_.counters.add(Counter::pgsql_tx_poisoned_rejected_statements_total);
	answer_error(told ? make_error("25P02", "current transaction is aborted, commands ignored "
	                                        "until end of transaction block")
	                  : lost_in_transaction("; commands are ignored until end of transaction "
	                                        "block"));
}

bool PgSQL_Session::ends_poisoned(Statement_Kind kind) const {
	return kind == Statement_Kind::rollback || (kind == Statement_Kind::commit && poison_told_);
}

// The request under way ends the transaction, and no other begins with it.
bool PgSQL_Session::was_to_end_transaction() const {
	return request_.statement != nullptr && !request_.statement->and_chain &&
	       (request_.statement->kind == Statement_Kind::commit ||
	        request_.statement->kind == Statement_Kind::rollback);
}

void PgSQL_Session::answer_poisoned(Statement_Kind kind) {
	if (!ends_poisoned(kind)) {
		refuse_poisoned(kind);
		return;
	}
	end_poisoned_transaction();
	finish_locally({.tag = "ROLLBACK"});
}

// The same for a batch, which must hold the end of the transaction and nothing else.
void PgSQL_Session::answer_poisoned_batch() {
	request_.sync_sent = !request_.open;
	const Statement_Kind kind = request_.statement->kind;
	std::string out;
	const int executions =
	    request_.open || !ends_poisoned(kind) ? -1 : append_batch_answers(out, {.tag = "ROLLBACK"});
	if (executions < 0 || executions > 1) {
		refuse_poisoned(kind);
		return;
	}
	if (executions == 1) {
		end_poisoned_transaction();
	}
	append_ready_for_query(out, poisoned_ ? Transaction_Status::failed : Transaction_Status::idle);
	in_begin_ = request_end_;
	request_.clear();
	send_to_client(out);
}

} // namespace proxy
