// Why a statement went where it went: one enum, one name, one line of documentation, in one table.
// Counted per hostgroup (stats_pgsql_route_reasons), shown in the processlist and by EXPLAIN ROUTE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proxy {

enum class Route_Reason : uint8_t {
#define X(name, doc) name,
#include "route/route_reasons.def"
#undef X
	count_,
};

inline constexpr size_t kRouteReasonCount = static_cast<size_t>(Route_Reason::count_);

const char* name_of(Route_Reason reason);
const char* doc_of(Route_Reason reason);

} // namespace proxy
