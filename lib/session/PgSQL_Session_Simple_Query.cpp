// Query and FunctionCall: classify, rules, route; and the few statements the proxy answers itself.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <array>
#include <optional>

namespace proxy {

namespace {

struct Mode_Word {
	std::string_view word;
	Route_Mode mode;
};
constexpr std::array<Mode_Word, 3> kRouteModes = {{{"auto", Route_Mode::automatic},
                                                   {"primary", Route_Mode::primary},
                                                   {"replica", Route_Mode::replica}}};

struct Consistency_Word {
	std::string_view word;
	Consistency_Mode mode;
};
// Both spellings: ours and the names existing deployments use.
constexpr std::array<Consistency_Word, 7> kConsistencyWords = {
    {{"eventual", Consistency_Mode::eventual},
     {"session", Consistency_Mode::session_lsn},
     {"session_lsn", Consistency_Mode::session_lsn},
     {"global", Consistency_Mode::global_lsn},
     {"global_lsn", Consistency_Mode::global_lsn},
     {"off", Consistency_Mode::off},
     {"default", Consistency_Mode::inherit}}};

std::string_view unquoted(std::string_view value) {
	if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
		return value.substr(1, value.size() - 2);
	}
	return value;
}

bool is_proxy_setting(std::string_view name) {
	return name.starts_with("polarproxy.") || name.starts_with("proxysql.polardb_");
}

bool is_consistency_setting(std::string_view name) {
	return name == "polarproxy.consistency" || name == "proxysql.polardb_consistency_mode";
}

} // namespace

void PgSQL_Session::begin_simple(const Frame& frame) {
	request_.clear();
	request_.kind = Request_Kind::simple;
	request_.started_us = worker_.now_us;
	request_end_ = in_begin_ + frame.size;
	worker_.counters.add(Counter::Questions);
	Query_View query;
	if (!parse(frame.body, query)) {
		fatal(make_error("08P01", "invalid Query message"), Session_End::protocol_violation);
		return;
	}
	request_.analysis = worker_.queries.analyse(query.sql, standard_conforming_strings_);
	request_.statement = &request_.analysis->statement;
	if (poisoned_) {
		answer_poisoned(request_.statement->kind);
		return;
	}
	if (is_proxy_statement(*request_.statement) && answer_locally(*request_.statement)) {
		return;
	}
	plan_and_start(query.sql);
}

void PgSQL_Session::begin_function_call(const Frame& frame) {
	// The fast path calls any function by number: nothing is known of it, so the writer.
	static const Statement_Analysis_Ptr unknown = std::make_shared<Statement_Analysis>();
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

bool PgSQL_Session::is_proxy_statement(const Statement_Class& statement) const {
	switch (statement.kind) {
	case Statement_Kind::show:
		return is_proxy_setting(statement.name);
	case Statement_Kind::set:
	case Statement_Kind::reset:
		return statement.sets.size() == 1 && is_proxy_setting(statement.sets.front().name);
	case Statement_Kind::deallocate:
		return !statement.all && statements_.find(statement.name) != statements_.end();
	default:
		return false;
	}
}

void PgSQL_Session::complete_locally(std::string_view tag) {
	std::string out;
	append_command_complete(out, tag);
	append_ready_for_query(out, static_cast<Transaction_Status>(transaction_status_));
	in_begin_ = request_end_;
	request_.clear();
	send_to_client(out);
}

// Statements that no server sees. False: it is not one of them.
bool PgSQL_Session::answer_locally(const Statement_Class& statement) {
	if (statement.kind == Statement_Kind::show) {
		return answer_show(statement);
	}
	if (statement.kind == Statement_Kind::deallocate) {
		statements_.erase(statement.name);
		complete_locally("DEALLOCATE");
		return true;
	}
	return answer_proxy_setting(statement.sets.front());
}

bool PgSQL_Session::answer_proxy_setting(const Set_Item& item) {
	const std::string_view value = unquoted(item.value);
	const auto refuse = [&](std::string_view allowed) {
		Error error = make_error("22023", "invalid value for parameter \"" + item.name + "\": \"" +
		                                      std::string(value) + "\"");
		error.hint = "Available values: " + std::string(allowed) + ".";
		answer_error(error);
		return true;
	};
	if (item.name == "polarproxy.route_mode") {
		Route_Mode mode = Route_Mode::automatic;
		bool known = !item.has_value;
		for (const Mode_Word& entry : kRouteModes) {
			if (item.has_value && entry.word == value) {
				mode = entry.mode;
				known = true;
			}
		}
		if (!known) {
			return refuse("auto, primary, replica");
		}
		route_mode_ = mode;
	} else if (is_consistency_setting(item.name)) {
		Consistency_Mode mode = Consistency_Mode::inherit;
		bool known = !item.has_value;
		for (const Consistency_Word& entry : kConsistencyWords) {
			if (item.has_value && entry.word == value) {
				mode = entry.mode;
				known = true;
			}
		}
		if (!known) {
			return refuse("off, eventual, session, global, default");
		}
		consistency_ = mode;
	} else {
		answer_error(
		    make_error("42704", "unrecognized configuration parameter \"" + item.name + "\""));
		return true;
	}
	complete_locally(item.has_value ? "SET" : "RESET");
	return true;
}

bool PgSQL_Session::answer_show(const Statement_Class& statement) {
	std::string value;
	if (statement.name == "polarproxy.route_mode") {
		for (const Mode_Word& entry : kRouteModes) {
			if (entry.mode == route_mode_) {
				value = entry.word;
			}
		}
	} else if (is_consistency_setting(statement.name)) {
		for (const Consistency_Word& entry : kConsistencyWords) {
			if (entry.mode == consistency_ && value.empty()) {
				value = entry.word;
			}
		}
	} else if (statement.name == "polarproxy.last_route") {
		value = std::string(name_of(last_reason_)) +
		        (last_server_.empty()
		             ? std::string()
		             : " on " + last_server_ + ":" + std::to_string(last_server_port_));
	} else {
		answer_error(
		    make_error("42704", "unrecognized configuration parameter \"" + statement.name + "\""));
		return true;
	}
	std::string out;
	const std::array<std::string_view, 1> names = {statement.name};
	append_row_description(out, names);
	const std::array<std::optional<std::string_view>, 1> row = {value};
	append_data_row(out, row);
	append_command_complete(out, "SHOW");
	append_ready_for_query(out, static_cast<Transaction_Status>(transaction_status_));
	in_begin_ = request_end_;
	request_.clear();
	send_to_client(out);
	return true;
}

// The query rules. False: they answered the statement.
bool PgSQL_Session::apply_rules(std::string_view sql) {
	Query_Origin origin;
	origin.username = username_;
	origin.database = database_;
	origin.client_addr = peer_.host;
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
		complete_locally(*request_.rules.ok_msg);
		return false;
	}
	if (request_.rules.rewritten != nullptr && request_.kind == Request_Kind::simple) {
		request_.rewritten = *request_.rules.rewritten;
		// What runs is the new text, so that is what must be classified.
		request_.analysis =
		    worker_.queries.analyse(request_.rewritten, standard_conforming_strings_);
		request_.statement = &request_.analysis->statement;
	}
	return true;
}

void PgSQL_Session::plan_and_start(std::string_view sql) {
	if (request_.kind != Request_Kind::function_call && !apply_rules(sql)) {
		return;
	}
	if (!sql.empty()) {
		request_.hints = worker_.queries.hints(sql);
	}
	const int64_t timeout_ms = request_.rules.timeout_ms > 0
	                               ? request_.rules.timeout_ms
	                               : worker_.config->default_query_timeout;
	request_.query_deadline_us = worker_.now_us + timeout_ms * kMicrosPerMilli;
	if (request_.rules.timeout_ms > 0) {
		worker_.services.wake_by(*this, request_.query_deadline_us);
	}
	start_request();
}

} // namespace proxy
