// Routing's input and output as plain values (routing.md, sections 1 to 4). Pure: the same request
// always gives the same plan; EXPLAIN ROUTE calls the same functions.
#pragma once

#include "classify/Query_Processor.h"
#include "config/Config_Rows.h"
#include "pool/Hostgroup_View.h"
#include "route/Route_Reason.h"

#include <cstdint>
#include <vector>

namespace proxy {

enum class Route_Mode : uint8_t { automatic, primary, replica };

// Facts about one statement and its session.
struct Route_Request {
	const Statement_Class* statement = nullptr; // worst case of a batch
	const Query_Processor_Output* rules = nullptr;
	Statement_Hints hints;
	int default_hostgroup = 0; // the user's
	bool extended = false;

	// Session state.
	bool in_transaction = false;     // status T
	bool failed_transaction = false; // status E
	bool transaction_persistent = true;
	int transaction_hostgroup = -1; // hostgroup of the attached connection, -1 none
	uint32_t pinned = 0;            // Sticky_Bit set
	Route_Mode mode = Route_Mode::automatic;
	Consistency_Mode session_consistency = Consistency_Mode::inherit;

	// Positions learnt by this session under `lsn_epoch` (0: none).
	uint64_t write_lsn = 0;
	uint64_t observed_lsn = 0;
	bool write_unknown = false;
	bool observed_unknown = false;
	uint64_t lsn_epoch = 0;

	bool read_target_primary = false; // pgsql-polardb_read_target
};

enum class Wait_Kind : uint8_t { none, target };

struct Route_Plan {
	int hostgroup = 0;            // where to look for a server
	bool to_reader = false;       // automatic read: falls back to fallback_hostgroup
	int fallback_hostgroup = -1;  // the writer, for automatic reads
	bool keep_connection = false; // stay on the attached connection
	Wait_Kind wait = Wait_Kind::none;
	uint64_t target_lsn = 0;
	int64_t wait_timeout_ms = 0; // 0: no bound
	Route_Reason reason = Route_Reason::write;
};

// Stages in order, first match wins.
Route_Plan plan_route(const Route_Request& request, const Hostgroup_View& view);

// The same with the stages that were asked, for EXPLAIN ROUTE; the last one decided.
struct Route_Step {
	const char* stage = "";
	bool decided = false;
};
Route_Plan plan_route(const Route_Request& request, const Hostgroup_View& view,
                      std::vector<Route_Step>& trace);

} // namespace proxy
