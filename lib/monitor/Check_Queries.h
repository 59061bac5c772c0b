// What the monitor asks, and what it understands of the answers. Pure.
#pragma once

#include "pool/Server_Health.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

using Check_Row = std::vector<std::optional<std::string>>;
using Check_Rows = std::vector<Check_Row>;

// ---- role: read_only, or polar_node_type() on PolarDB ----
extern const char* const kRoleQuery;
extern const char* const kPolarRoleQuery;

struct Role_Facts {
	bool read_only = true;
	bool available = true;
	uint64_t lsn = 0;      // flushed (primary) or replayed (replica); 0 unknown
	uint32_t timeline = 0; // of a primary; 0 unknown
};
// Absent: not an answer to the query.
std::optional<Role_Facts> parse_role(const Check_Rows& rows, bool polar);

// ---- replication lag of a replica ----
extern const char* const kLagQuery;

struct Lag_Facts {
	bool caught_up = false; // has replayed all it has received
	uint64_t replayed_lsn = 0;
	std::optional<int64_t> age_ms; // since the last replayed transaction was committed
};
std::optional<Lag_Facts> parse_lag(const Check_Rows& rows);
// Seconds. `primary_lsn`: where the primary was some time ago (0 unknown). A replica that has
// replayed all it received is still behind when the primary was further: its receiver is stuck.
int64_t lag_seconds(const Lag_Facts& facts, uint64_t primary_lsn);

// ---- capabilities ----
extern const char* const kCapabilityQuery;
extern const char* const kIdentityQuery; // system identifier; plain users may be refused

struct Capability_Facts {
	uint32_t capabilities = 0; // by settings that exist; not what ReadyForQuery carries
	uint64_t wal_segment_size = 0;
};
std::optional<Capability_Facts> parse_capabilities(const Check_Rows& rows);

// "16/B374D848"; absent: no LSN.
std::optional<uint64_t> parse_lsn(const std::string& text);

} // namespace proxy
