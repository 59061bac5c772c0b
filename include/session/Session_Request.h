// One request of a client: a Query, or extended-protocol messages up to a Sync. Plain data of
// PgSQL_Session.
#pragma once

#include "classify/Query_Processor.h"
#include "route/Route_Plan.h"
#include "session/Operation_Queue.h"
#include "session/Session_Closing.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

enum class Request_Kind : uint8_t { none, simple, extended, function_call };

// What is set back to its defaults between two requests by one assignment: no memory of its own.
struct Request_Progress {
	Request_Kind kind = Request_Kind::none;
	// Of `analysis`, or of the extended batch's worst statement.
	const Statement_Class* statement = nullptr;
	Query_Processor_Output rules;
	Route_Plan plan;
	int64_t started_us = 0;
	int64_t acquire_deadline_us = 0;
	int64_t query_deadline_us = 0;
	int64_t query_timeout_ms = 0;
	int64_t wait_deadline_us = 0;
	int64_t retry_at_us = 0;        // waiting for any server to come online
	const void* excluded = nullptr; // server that failed this request
	int reader_retries = 0;
	int connect_attempts = 0;
	uint64_t keys_job = 0; // the server's login waits for this answer, see Login_Wait.h

	// Answers.
	int hidden_cycles = 0;   // whole hidden requests in front, each up to its ReadyForQuery
	int hidden_commands = 0; // leading results of the simple query that are the proxy's
	bool syncing = false;    // only the hidden parameter batch was sent; the request follows it
	bool hidden_failed = false;
	bool sync_sent = false;      // extended: a Sync (or Query) is on its way
	bool open = false;           // extended: ended with Flush, more messages may follow
	bool result_started = false; // bytes of the answer went to the client
	bool error_seen = false;
	bool resets = false;          // has led parameters back to what they were at startup
	bool describes = false;       // extended: asks for columns
	bool replaying = false;       // translated a second time: names it made known are its own
	bool healed = false;          // has run again once, on the connection it was on
	bool run_again = false;       // drop the answer up to ReadyForQuery, then run again here
	bool retry_on_writer = false; // drop the answer up to ReadyForQuery, then run again
	Route_Reason retry_reason = Route_Reason::retry_on_primary;
	bool done = false;
	bool copy_in = false;
	bool waiting_for_position = false; // sent behind a wait
	bool canceled = false;
	bool timed_out = false;
	bool wait_told = false; // the client knows that it waits for a server
	size_t copy_left = 0;   // bytes of the client's message under way to the server
	bool streamed = false;  // a long message: only its front was ever here
	size_t stream_left = 0; // the rest of it, while the front is not sent
	uint64_t rows_sent = 0;
	uint64_t rows_affected = 0;
	size_t prefix_bytes = 0;  // simple: the proxy's own SQL in front of the client's
	int executions = 0;       // extended: Execute messages sent
	int completed = 0;        // CommandCompletes of the client's own
	uint32_t leaves = 0;      // Sticky_Bits that begin with its statements
	size_t prepared_done = 0; // simple: entries of Statement_Class::prepared that have completed
};

struct Session_Request : Request_Progress {
	Statement_Analysis_Ptr analysis; // simple: the statement; extended: the worst of the batch
	Statement_Hints hints;
	std::string rewritten;     // simple: after a rule's replace_pattern; empty: as it came
	std::string hidden_error;  // ErrorResponse body of a hidden statement
	std::string early_notices; // of the client's own text, behind a wait: due when it has ended
	std::string fatal_error;   // body of a FATAL ErrorResponse: the connection closes next
	std::string pending_local; // types of local answers due behind the current message: '1', '3'
	Operation_Queue operations;
	Closing_Progress closing;

	bool has_operation() const { return !operations.empty(); }
	Operation& front() { return operations.front(); }

	// Nothing of the answer is for the client any more.
	bool answer_dropped() const { return retry_on_writer || run_again || hidden_failed; }
	// Ready for the next request; keeps the memory of strings and of the queue.
	void clear() {
		static_cast<Request_Progress&>(*this) = Request_Progress{};
		analysis.reset();
		if (hints.any) {
			hints = Statement_Hints{};
		}
		rewritten.clear();
		hidden_error.clear();
		early_notices.clear();
		fatal_error.clear();
		pending_local.clear();
		operations.clear();
		closing.step = Closing::none;
		closing.answered = closing.failed = false;
		if (!closing.rows.empty()) {
			closing.rows = std::string();
		}
	}
};

} // namespace proxy
