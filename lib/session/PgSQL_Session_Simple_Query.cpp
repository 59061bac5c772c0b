// Query and FunctionCall: classify, rules, route.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

namespace {
const Statement_Analysis_Ptr& unknown_analysis() {
	static const Statement_Analysis_Ptr unknown = std::make_shared<Statement_Analysis>();
	return unknown;
}
} // namespace

void PgSQL_Session::begin_simple(const Frame& frame) {
	request_.clear();
	request_.kind = Request_Kind::simple;
	request_.started_us = worker_.now_us;
	request_end_ = in_begin_ + frame.size;
	worker_.counters.add(Counter::Questions);
	Query_View query;
	if (parse(frame.body, query)) {
		unnamed_.reset(); // as the server drops it
		unnamed_id_ = 0;
		request_.analysis = analyse_query(query.sql);
	} else {
		// Whole but not well formed: the server refuses it, and its transaction fails as it should.
		request_.analysis = unknown_analysis();
	}
	request_.statement = &request_.analysis->statement;
	if (poisoned_) {
		answer_poisoned(request_.statement->kind);
		return;
	}
	if (is_own_statement(*request_.statement)) {
		answer_locally(*request_.statement);
		return;
	}
	plan_and_start(query.sql);
}

void PgSQL_Session::begin_function_call(const Frame& frame) {
	// The fast path calls any function by number: nothing is known of it, so the writer.
	const Statement_Analysis_Ptr& unknown = unknown_analysis();
	request_.clear();
	request_.kind = Request_Kind::function_call;
	request_.started_us = worker_.now_us;
	request_end_ = in_begin_ + frame.size;
	request_.analysis = unknown;
	request_.statement = &unknown->statement;
	if (poisoned_) {
		answer_poisoned(request_.statement->kind);
		return;
	}
	plan_and_start({});
}

// The query rules. False: they answered the statement.
bool PgSQL_Session::apply_rules(std::string_view sql) {
	Query_Origin origin;
	origin.username = username_;
	origin.database = database_;
	origin.client_addr = peer_.name();
	origin.proxy_addr = peer_.local_host;
	origin.proxy_port = peer_.local_port;
	origin.flag_in = next_query_flag_in_;
	request_.rules = worker_.queries.process(origin, sql, *request_.analysis);
	next_query_flag_in_ = std::max<int64_t>(0, request_.rules.next_query_flag_in);
	if (request_.rules.error_msg != nullptr) {
		answer_error(make_error("42501", *request_.rules.error_msg));
		return false;
	}
	if (request_.rules.ok_msg != nullptr && request_.kind == Request_Kind::simple) {
		finish_locally({.tag = *request_.rules.ok_msg});
		return false;
	}
	if (request_.rules.rewritten != nullptr && request_.kind == Request_Kind::simple &&
	    !request_.streamed) {
		request_.rewritten = *request_.rules.rewritten;
		// What runs is the new text, so that is what must be classified.
		request_.analysis = analyse_query(request_.rewritten);
		request_.statement = &request_.analysis->statement;
	}
	return true;
}

void PgSQL_Session::plan_and_start(std::string_view sql) {
	if (request_.kind != Request_Kind::function_call && !apply_rules(sql)) {
		return;
	}
	// Before the plan: a session that keeps its connection keeps one to the primary.
	if (request_.rules.multiplex == 0) {
		pinned_ |= kStickyRule;
	} else if (request_.rules.multiplex == 1) {
		pinned_ &= ~static_cast<uint32_t>(kStickyRule);
	}
	if (!sql.empty()) {
		request_.hints = worker_.queries.hints(sql);
	}
	start_request();
}

} // namespace proxy
