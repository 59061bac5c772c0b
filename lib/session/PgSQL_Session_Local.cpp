// The statements the proxy answers itself, in both protocols: SET, RESET and SHOW of its own
// settings, and DEALLOCATE of what was prepared by protocol messages, whose names the servers do
// not know.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>
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

bool sets_proxy_setting(const Statement_Class& statement) {
	return std::any_of(statement.sets.begin(), statement.sets.end(),
	                   [](const Set_Item& item) { return is_proxy_setting(item.name); });
}

bool is_reserved(const Prepared_Use& use) {
	return use.name.starts_with(kStatementPrefix);
}

bool names_reserved(const Statement_Class& statement) {
	return std::any_of(statement.prepared.begin(), statement.prepared.end(), is_reserved);
}

// REQUIRES: names_reserved().
Error reserved_name(const Statement_Class& statement) {
	const auto use =
	    std::find_if(statement.prepared.begin(), statement.prepared.end(), is_reserved);
	return make_error("42602", "prepared statement name \"" + use->name +
	                               "\" is reserved: names that begin with polar_ps_ belong to the "
	                               "proxy");
}
} // namespace

bool PgSQL_Session::is_own_statement(const Statement_Class& statement) const {
	if (names_reserved(statement)) {
		return true;
	}
	switch (statement.kind) {
	case Statement_Kind::show:
		return is_proxy_setting(statement.name);
	case Statement_Kind::deallocate:
		// As a Query of its own no server need be asked; a pipeline, and a failed transaction, are
		// the server's.
		return request_.kind == Request_Kind::simple && !statement.all &&
		       transaction_status_ != 'E' && statements_.find(statement.name) != statements_.end();
	default:
		return sets_proxy_setting(statement);
	}
}

// REQUIRES: is_own_statement(). Answers it, or says why not.
void PgSQL_Session::answer_locally(const Statement_Class& statement) {
	if (transaction_status_ == 'E') {
		answer_error(make_error("25P02", "current transaction is aborted, commands ignored until "
		                                 "end of transaction block"));
		return;
	}
	if (names_reserved(statement)) {
		answer_error(reserved_name(statement));
		return;
	}
	switch (statement.kind) {
	case Statement_Kind::show:
		answer_show(statement);
		return;
	case Statement_Kind::deallocate:
		statements_.erase(statement.name);
		finish_locally({.tag = "DEALLOCATE"});
		return;
	default:
		answer_proxy_setting(statement);
		return;
	}
}

// A batch with a statement for the proxy: it must hold that one and nothing else.
void PgSQL_Session::answer_own_batch() {
	int parses = 0;
	int executions = 0;
	bool others = request_.open;
	for_each_frame(request_bytes(), [&](const Frame& frame, std::string_view) {
		parses += frame.type == 'P' ? 1 : 0;
		executions += frame.type == 'E' ? 1 : 0;
		others = others || std::string_view("PBDECS").find(frame.type) == std::string_view::npos;
		return true;
	});
	if (others || parses > 1 || executions > 1) {
		answer_error(make_error("0A000", "a statement for the proxy cannot be part of a pipeline"));
		return;
	}
	const Statement_Analysis_Ptr own = own_statement_;
	if (executions == 0) {
		// Prepared for later, or described: nothing happens yet.
		finish_locally(own->statement.kind == Statement_Kind::show
		                   ? Local_Answer{.tag = "SHOW", .column = own->statement.name}
		                   : Local_Answer{});
		return;
	}
	answer_locally(own->statement);
}

// What a server answers to the messages of one statement before their Sync. Returns how often it is
// executed, -1: there are messages of another kind.
int PgSQL_Session::append_batch_answers(std::string& out, const Local_Answer& answer) {
	const std::array<std::string_view, 1> names = {answer.column};
	int executions = 0;
	bool others = false;
	for_each_frame(request_bytes(), [&](const Frame& frame, std::string_view) {
		Parse_View parse_view;
		Describe_View describe_view;
		Close_View close_view;
		if (frame.type == 'P' && parse(frame.body, parse_view)) {
			learn_statement(parse_view);
			append_parse_complete(out);
		} else if (frame.type == 'B') {
			append_bind_complete(out);
		} else if (frame.type == 'D' && parse(frame.body, describe_view)) {
			if (describe_view.kind == Target_Kind::statement) {
				append_no_parameters(out);
			}
			if (answer.column.empty()) {
				append_no_data(out);
			} else {
				append_row_description(out, names);
			}
		} else if (frame.type == 'E') {
			++executions;
			append_local_result(out, answer);
		} else if (frame.type == 'C' && parse(frame.body, close_view)) {
			if (close_view.kind == Target_Kind::statement && !close_view.name.empty()) {
				const auto found = statements_.find(close_view.name);
				if (found != statements_.end()) {
					statements_.erase(found);
				}
			}
			append_close_complete(out);
		} else if (frame.type != 'S') {
			others = true;
		}
		return true;
	});
	return others ? -1 : executions;
}

void PgSQL_Session::append_local_result(std::string& out, const Local_Answer& answer) {
	if (!answer.column.empty()) {
		const std::array<std::optional<std::string_view>, 1> row = {answer.value};
		append_data_row(out, row);
	}
	append_command_complete(out, answer.tag);
}

// Ends the request with the proxy's own answer.
void PgSQL_Session::finish_locally(const Local_Answer& answer) {
	std::string out;
	if (request_.kind == Request_Kind::extended) {
		append_batch_answers(out, answer);
	} else {
		if (!answer.column.empty()) {
			const std::array<std::string_view, 1> names = {answer.column};
			append_row_description(out, names);
		}
		append_local_result(out, answer);
	}
	append_ready_for_query(out, static_cast<Transaction_Status>(transaction_status_));
	in_begin_ = request_end_;
	lost_copy_left_ += request_.stream_left;
	request_.clear();
	send_to_client(out);
}

void PgSQL_Session::answer_proxy_setting(const Statement_Class& statement) {
	const bool plain =
	    statement.kind == Statement_Kind::set || statement.kind == Statement_Kind::reset;
	if (!plain || statement.sets.size() != 1) {
		Error error = make_error("0A000", "settings of the proxy are set by SET alone");
		error.hint = "Send SET without other statements.";
		answer_error(error);
		return;
	}
	const Set_Item& item = statement.sets.front();
	Result<void> outcome = apply_proxy_setting(item);
	if (!outcome.ok()) {
		answer_error(outcome.error());
		return;
	}
	keep_own_settings(item.scope);
	finish_locally({.tag = item.has_value ? "SET" : "RESET"});
}

// A setting has changed: in a transaction it is part of that.
void PgSQL_Session::keep_own_settings(Set_Scope scope) {
	const bool open = transaction_status_ != 'I';
	if (scope == Set_Scope::local) {
		own_ = open ? own_ : own_kept_; // outside a transaction it has no effect
		return;
	}
	own_kept_ = own_;
	if (!open) {
		own_before_ = own_;
	}
}

Result<void> PgSQL_Session::apply_proxy_setting(const Set_Item& item) {
	const std::string value(unquoted(item.value));
	const auto refuse = [&](std::string_view allowed) {
		Error error = make_error("22023", "invalid value for parameter \"" + item.name + "\": \"" +
		                                      value + "\"");
		error.hint = "Available values: " + std::string(allowed) + ".";
		return error;
	};
	if (item.name == "polarproxy.route_mode") {
		if (!item.has_value) {
			own_.route_mode = Route_Mode::automatic;
			return {};
		}
		for (const Mode_Word& entry : kRouteModes) {
			if (entry.word == value) {
				own_.route_mode = entry.mode;
				return {};
			}
		}
		return refuse("auto, primary, replica");
	}
	if (is_consistency_setting(item.name)) {
		if (!item.has_value) {
			own_.consistency = Consistency_Mode::inherit;
			return {};
		}
		for (const Consistency_Word& entry : kConsistencyWords) {
			if (entry.word == value) {
				own_.consistency = entry.mode;
				return {};
			}
		}
		return refuse("off, eventual, session, global, default");
	}
	return make_error("42704", "unrecognized configuration parameter \"" + item.name + "\"");
}

// A startup parameter, or one in `options`. False: it is none of the proxy's.
Result<bool> PgSQL_Session::take_proxy_setting(const std::string& name, const std::string& value) {
	if (!is_proxy_setting(name)) {
		return false;
	}
	Set_Item item;
	item.name = name;
	item.value = value;
	item.has_value = true;
	Result<void> outcome = apply_proxy_setting(item);
	if (!outcome.ok()) {
		return outcome.take_error();
	}
	keep_own_settings(Set_Scope::session);
	return true;
}

void PgSQL_Session::answer_show(const Statement_Class& statement) {
	Local_Answer answer{.tag = "SHOW", .column = statement.name};
	if (statement.name == "polarproxy.route_mode") {
		for (const Mode_Word& entry : kRouteModes) {
			if (entry.mode == own_.route_mode) {
				answer.value = entry.word;
			}
		}
	} else if (is_consistency_setting(statement.name)) {
		for (const Consistency_Word& entry : kConsistencyWords) {
			if (entry.mode == own_.consistency && answer.value.empty()) {
				answer.value = entry.word;
			}
		}
	} else if (statement.name == "polarproxy.last_route") {
		answer.value = std::string(name_of(last_reason_)) +
		               (last_server_.empty()
		                    ? std::string()
		                    : " on " + last_server_ + ":" + std::to_string(last_server_port_));
	} else {
		answer_error(
		    make_error("42704", "unrecognized configuration parameter \"" + statement.name + "\""));
		return;
	}
	finish_locally(answer);
}

} // namespace proxy
