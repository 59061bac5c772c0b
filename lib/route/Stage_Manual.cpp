// Rules, hints and the session's own choice.
#include "Route_Stage.h"

namespace proxy {

namespace {
// The writer to use when `hostgroup` was named: itself, or the other half of its pair.
int writer_of(const Hostgroup_View& view, int hostgroup) {
	const Hostgroup_Pair* const pair = view.pair_of_reader(hostgroup);
	return pair == nullptr ? hostgroup : pair->writer_hostgroup;
}

std::optional<Route_Plan> by_rule(const Route_Context& context) {
	const Query_Processor_Output* const rules = context.request.rules;
	if (rules == nullptr) {
		return std::nullopt;
	}
	const int destination = rules->destination_hostgroup;
	if (rules->replica_eligible == 0) {
		const int named = destination >= 0 ? destination : context.home_hostgroup;
		return to_hostgroup(writer_of(context.view, named), Route_Reason::rule_writer);
	}
	if (rules->replica_eligible == -1 && destination >= 0) {
		return to_hostgroup(destination, Route_Reason::rule_hostgroup);
	}
	return std::nullopt; // no rule, one for automatic routing, or one about something else
}

// A hint comes from whoever writes the SQL, so it can ask for less load or fresher data, but never
// makes a write fail on a replica.
std::optional<Route_Plan> by_hint(const Route_Context& context) {
	const Statement_Hints& hints = context.request.hints;
	const bool is_read =
	    context.request.statement != nullptr && context.request.statement->is_read();
	switch (hints.route) {
	case Route_Hint::none:
	case Route_Hint::replica: // see Route_Context::asks_for_replica
		return std::nullopt;
	case Route_Hint::primary:
		return to_hostgroup(context.home_hostgroup, Route_Reason::hint_primary);
	case Route_Hint::hostgroup:
		break;
	}
	if (context.view.hostgroup(hints.hostgroup) == nullptr) {
		return std::nullopt; // there is no such hostgroup: as if it were not said
	}
	const int hostgroup = is_read ? hints.hostgroup : writer_of(context.view, hints.hostgroup);
	return to_hostgroup(hostgroup, Route_Reason::hint_hostgroup);
}
} // namespace

std::optional<Route_Plan> stage_manual(const Route_Context& context) {
	if (const std::optional<Route_Plan> plan = by_rule(context)) {
		return plan;
	}
	if (const std::optional<Route_Plan> plan = by_hint(context)) {
		return plan;
	}
	if (context.request.mode == Route_Mode::primary && !context.asks_for_replica) {
		return to_hostgroup(context.home_hostgroup, Route_Reason::session_primary);
	}
	return std::nullopt;
}

} // namespace proxy
