// The stages in their order, and what they are given.
#include "Route_Stage.h"

#include <string_view>

namespace proxy {

namespace {
struct Named_Stage {
	const char* name;
	Route_Stage decide;
};

constexpr Named_Stage kStages[] = {
    {"session state", stage_session_state},
    {"manual", stage_manual},
    {"scope", stage_scope},
    {"statement shape", stage_statement_shape},
    {"read target", stage_read_target},
    {"consistency", stage_consistency},
};

int home_hostgroup_of(const Route_Request& request, const Hostgroup_View& view) {
	int home = request.default_hostgroup;
	if (request.rules != nullptr && request.rules->replica_eligible == 1 &&
	    request.rules->destination_hostgroup >= 0) {
		home = request.rules->destination_hostgroup;
		const Hostgroup_Pair* const pair = view.pair_of_reader(home);
		if (pair != nullptr) {
			home = pair->writer_hostgroup; // automatic: the pair, whichever half was named
		}
	}
	return home;
}

Consistency_Mode consistency_of(const Route_Request& request, const Hostgroup_Pair* pair) {
	const std::string_view hint = request.hints.consistency;
	if (hint == "eventual") {
		return Consistency_Mode::eventual;
	}
	if (hint == "session") {
		return Consistency_Mode::session_lsn;
	}
	if (hint == "global") {
		return Consistency_Mode::global_lsn;
	}
	if (request.session_consistency != Consistency_Mode::inherit) {
		return request.session_consistency;
	}
	return pair == nullptr ? Consistency_Mode::off : pair->consistency;
}
} // namespace

Route_Context collect(const Route_Request& request, const Hostgroup_View& view) {
	Route_Context context{.request = request, .view = view};
	context.home_hostgroup = home_hostgroup_of(request, view);
	context.pair = view.pair_of_writer(context.home_hostgroup);
	context.consistency = consistency_of(request, context.pair);
	context.asks_for_replica =
	    request.hints.route == Route_Hint::replica || request.mode == Route_Mode::replica;
	if (context.asks_for_replica && context.consistency == Consistency_Mode::off) {
		context.consistency = Consistency_Mode::eventual; // asked for, without a promise of age
	}
	return context;
}

namespace {
template <typename On_Step>
Route_Plan run_stages(const Route_Request& request, const Hostgroup_View& view, On_Step on_step) {
	const Route_Context context = collect(request, view);
	for (const Named_Stage& stage : kStages) {
		const std::optional<Route_Plan> plan = stage.decide(context);
		on_step(stage.name, plan.has_value());
		if (plan) {
			return *plan;
		}
	}
	return to_hostgroup(context.home_hostgroup, Route_Reason::not_a_read); // unreachable
}
} // namespace

Route_Plan plan_route(const Route_Request& request, const Hostgroup_View& view) {
	return run_stages(request, view, [](const char*, bool) {});
}

Route_Plan plan_route(const Route_Request& request, const Hostgroup_View& view,
                      std::vector<Route_Step>& trace) {
	return run_stages(request, view, [&](const char* name, bool decided) {
		trace.push_back(Route_Step{name, decided});
	});
}

} // namespace proxy
