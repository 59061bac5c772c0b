// Where nothing is automatic.
#include "Route_Stage.h"

namespace proxy {

std::optional<Route_Plan> stage_scope(const Route_Context& context) {
	if (context.pair == nullptr) {
		return to_hostgroup(context.home_hostgroup, Route_Reason::no_pair);
	}
	switch (context.consistency) {
	case Consistency_Mode::inherit: // resolved before; an unresolved one promises nothing
	case Consistency_Mode::off:
		return to_hostgroup(context.home_hostgroup, Route_Reason::mode_off);
	case Consistency_Mode::eventual:
	case Consistency_Mode::session_lsn:
	case Consistency_Mode::global_lsn:
		break;
	}
	return std::nullopt;
}

} // namespace proxy
