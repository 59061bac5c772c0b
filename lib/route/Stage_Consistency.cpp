// Which position a replica must have replayed before it may answer (routing.md, section 4).
//
// Invariant: a plan for a reader carries a target at least as high as every position the session
// has learnt under the writer's present epoch, unless the mode is eventual.
#include "Route_Stage.h"

#include <algorithm>

namespace proxy {

namespace {
Route_Plan to_reader(const Route_Context& context, Route_Reason reason) {
	Route_Plan plan = to_hostgroup(context.pair->reader_hostgroup, reason);
	plan.to_reader = true;
	plan.fallback_hostgroup = context.pair->writer_hostgroup;
	return plan;
}

Route_Plan to_writer(const Route_Context& context, Route_Reason reason) {
	return to_hostgroup(context.pair->writer_hostgroup, reason);
}

// What the session itself must see. Positions of another epoch mean nothing: that writer's log is
// not the one the replicas replay now.
struct Session_Target {
	uint64_t lsn = 0;
	bool observed_unknown = false;
};

Session_Target session_target(const Route_Context& context) {
	const Route_Request& request = context.request;
	if (request.lsn_epoch != context.view.epoch_of(context.pair->writer_hostgroup)) {
		return {};
	}
	return Session_Target{std::max(request.write_lsn, request.observed_lsn),
	                      request.observed_unknown};
}

Route_Plan with_target(const Route_Context& context, uint64_t target_lsn) {
	if (target_lsn == 0) {
		return to_reader(context, Route_Reason::read_to_replica);
	}
	const int64_t hinted_ms = context.request.hints.wait_timeout_ms;
	Route_Plan plan = to_reader(context, Route_Reason::read_with_wait);
	plan.wait = Wait_Kind::target;
	plan.target_lsn = target_lsn;
	plan.wait_timeout_ms = hinted_ms >= 0 ? hinted_ms : context.pair->lsn_wait_timeout_ms;
	return plan;
}
} // namespace

std::optional<Route_Plan> stage_consistency(const Route_Context& context) {
	if (context.consistency == Consistency_Mode::eventual) {
		return to_reader(context, Route_Reason::read_to_replica);
	}
	if (!context.view.replicas_can_wait(*context.pair)) {
		return to_writer(context, Route_Reason::dialect_unsupported);
	}
	// A write without a position stays unknown across epochs too: where it went is not known.
	if (context.request.write_unknown) {
		return to_writer(context, Route_Reason::write_lsn_unknown);
	}
	const Session_Target session = session_target(context);
	if (session.observed_unknown) {
		return to_writer(context, Route_Reason::observed_lsn_unknown);
	}
	if (context.consistency == Consistency_Mode::session_lsn) {
		return with_target(context, session.lsn);
	}
	const uint64_t group_lsn = context.view.group_lsn(context.pair->writer_hostgroup);
	if (group_lsn == 0) {
		return to_writer(context, Route_Reason::group_lsn_unknown);
	}
	return with_target(context, std::max(session.lsn, group_lsn));
}

} // namespace proxy
