// What the classifier found that keeps a statement on the writer.
#include "Route_Stage.h"

namespace proxy {

namespace {
Route_Reason reason_of(const Statement_Class& statement) {
	switch (statement.veto) {
	case Read_Veto::none:
	case Read_Veto::not_a_query:
		return statement.may_write ? Route_Reason::write : Route_Reason::not_a_read;
	case Read_Veto::unparsed:
		return Route_Reason::unparsed;
	case Read_Veto::row_lock:
		return Route_Reason::row_lock;
	case Read_Veto::modifying_cte:
	case Read_Veto::select_into:
	case Read_Veto::explain_of_write:
		return Route_Reason::write;
	case Read_Veto::volatile_function:
		return Route_Reason::volatile_function;
	case Read_Veto::unknown_function:
		return Route_Reason::unknown_function;
	case Read_Veto::session_function:
		return Route_Reason::session_function;
	case Read_Veto::server_state:
		return Route_Reason::server_state;
	case Read_Veto::multi_statement:
		return Route_Reason::multi_statement;
	case Read_Veto::temp_object:
		return Route_Reason::temp_object;
	}
	return Route_Reason::not_a_read;
}
} // namespace

std::optional<Route_Plan> stage_statement_shape(const Route_Context& context) {
	const Statement_Class* const statement = context.request.statement;
	if (statement == nullptr) {
		return to_hostgroup(context.home_hostgroup, Route_Reason::unparsed);
	}
	// Both must say so: a read that is also marked as writing is a fault of the classifier, and the
	// writer is right for either.
	if (statement->is_read() && !statement->may_write) {
		return std::nullopt;
	}
	return to_hostgroup(context.home_hostgroup, reason_of(*statement));
}

} // namespace proxy
