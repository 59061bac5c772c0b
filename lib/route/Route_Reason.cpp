#include "route/Route_Reason.h"

namespace proxy {

namespace {
struct Reason_Row {
	const char* name;
	const char* doc;
};

constexpr Reason_Row kReasons[] = {
#define X(name, doc) {#name, doc},
#include "route/route_reasons.def"
#undef X
};
static_assert(sizeof(kReasons) / sizeof(kReasons[0]) == kRouteReasonCount);
} // namespace

const char* name_of(Route_Reason reason) {
	return reason < Route_Reason::count_ ? kReasons[static_cast<size_t>(reason)].name : "unknown";
}

const char* doc_of(Route_Reason reason) {
	return reason < Route_Reason::count_ ? kReasons[static_cast<size_t>(reason)].doc : "";
}

} // namespace proxy
