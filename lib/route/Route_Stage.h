// What the stages of routing share. Each stage looks at the context and either decides (a plan) or
// leaves the statement to the next one. Pure: no I/O, no lock, no allocation.
#pragma once

#include "route/Route_Plan.h"

#include <optional>

namespace proxy {

// The request with everything resolved that more than one stage needs.
struct Route_Context {
	const Route_Request& request;
	const Hostgroup_View& view;
	// Where the statement goes when nothing else is said: the user's hostgroup, or the one that a
	// rule for automatic routing names.
	int home_hostgroup = 0;
	const Hostgroup_Pair* pair = nullptr;                 // whose writer home_hostgroup is
	Consistency_Mode consistency = Consistency_Mode::off; // hint > session > pair
	// A hint or the session asks for a replica: stronger than a preference for the primary, never
	// stronger than what makes a read safe.
	bool asks_for_replica = false;
};

using Route_Stage = std::optional<Route_Plan> (*)(const Route_Context&);

Route_Context collect(const Route_Request& request, const Hostgroup_View& view);

// Session_State: failed transaction, pins, open transaction.
std::optional<Route_Plan> stage_session_state(const Route_Context& context);
// Manual: rules, hints, the session's own choice.
std::optional<Route_Plan> stage_manual(const Route_Context& context);
// Scope: no pair, or consistency off: nothing is automatic.
std::optional<Route_Plan> stage_scope(const Route_Context& context);
// Statement_Shape: what is no safe read goes to the writer.
std::optional<Route_Plan> stage_statement_shape(const Route_Context& context);
// Read_Target: reads are to stay on the primary.
std::optional<Route_Plan> stage_read_target(const Route_Context& context);
// Consistency: what a replica must have replayed. Decides every read that comes this far.
std::optional<Route_Plan> stage_consistency(const Route_Context& context);

inline Route_Plan to_hostgroup(int hostgroup, Route_Reason reason) {
	Route_Plan plan;
	plan.hostgroup = hostgroup;
	plan.reason = reason;
	return plan;
}

} // namespace proxy
