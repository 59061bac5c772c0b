// Reads that are to stay on the primary although they need not.
#include "Route_Stage.h"

namespace proxy {

std::optional<Route_Plan> stage_read_target(const Route_Context& context) {
	if (context.request.read_target_primary && !context.asks_for_replica) {
		return to_hostgroup(context.home_hostgroup, Route_Reason::read_target_primary);
	}
	return std::nullopt;
}

} // namespace proxy
