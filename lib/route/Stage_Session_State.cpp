// What binds the session to the server connection it has.
#include "Route_Stage.h"

namespace proxy {

namespace {
Route_Plan stay(const Route_Context& context, Route_Reason reason) {
	Route_Plan plan = to_hostgroup(context.request.transaction_hostgroup, reason);
	plan.keep_connection = true;
	return plan;
}
} // namespace

std::optional<Route_Plan> stage_session_state(const Route_Context& context) {
	const Route_Request& request = context.request;
	if (request.transaction_hostgroup < 0) {
		return std::nullopt; // nothing to be bound to
	}
	if (request.failed_transaction) {
		return stay(context, Route_Reason::failed_transaction);
	}
	if (request.pinned != 0) {
		return stay(context, Route_Reason::pinned);
	}
	if (!request.in_transaction) {
		return std::nullopt;
	}
	// transaction_persistent = 0: the administrator's rules may send a statement elsewhere in the
	// middle of a transaction. Nothing automatic ever does.
	const bool rule_leads_away =
	    !request.transaction_persistent && request.rules != nullptr &&
	    request.rules->replica_eligible == -1 && request.rules->destination_hostgroup >= 0 &&
	    request.rules->destination_hostgroup != request.transaction_hostgroup;
	if (rule_leads_away) {
		return std::nullopt;
	}
	return stay(context, Route_Reason::in_transaction);
}

} // namespace proxy
