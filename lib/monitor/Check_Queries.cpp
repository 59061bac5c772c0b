#include "Check_Queries.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace proxy {

// A CASE evaluates only the branch it takes, which matters: each function here is an error on the
// other kind of server. The primary's position is the flushed one: a replica cannot have replayed
// what was not flushed, and every acknowledged commit is (unless synchronous_commit is off).
#define PROXY_POSITION_COLUMNS                                                                     \
	"CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()"            \
	" ELSE pg_catalog.pg_current_wal_flush_lsn() END,"                                             \
	" CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE"                                     \
	" pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END"

const char* const kRoleQuery =
    "SELECT pg_catalog.pg_is_in_recovery(), true, " PROXY_POSITION_COLUMNS;

const char* const kPolarRoleQuery =
    "SELECT polar_node_type()::text, polar_is_available(), " PROXY_POSITION_COLUMNS;

#undef PROXY_POSITION_COLUMNS

const char* const kLagQuery =
    "SELECT pg_catalog.pg_last_wal_receive_lsn() IS NOT DISTINCT FROM"
    " pg_catalog.pg_last_wal_replay_lsn(), pg_catalog.pg_last_wal_replay_lsn(),"
    " (EXTRACT(epoch FROM pg_catalog.clock_timestamp()"
    " - pg_catalog.pg_last_xact_replay_timestamp()) * 1000)::bigint";

// Names without a dot: a dotted name would be accepted by any server and prove nothing.
const char* const kCapabilityQuery =
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('wal_segment_size',"
    " 'polar_consistency_mode', 'polar_proxy_wait_timeout_ms', 'polar_xact_split_wait_lsn',"
    " 'polar_xact_split_xids')";

const char* const kIdentityQuery = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
	Number value = 0;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
	if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
		return std::nullopt;
	}
	return value;
}

std::optional<bool> parse_bool(const std::optional<std::string>& text) {
	if (text == "t") {
		return true;
	}
	if (text == "f") {
		return false;
	}
	return std::nullopt;
}

} // namespace

std::optional<uint64_t> parse_lsn(const std::string& text) {
	constexpr int kHex = 16;
	constexpr unsigned kHalfBits = 32;
	const size_t slash = text.find('/');
	if (slash == std::string::npos) {
		return std::nullopt;
	}
	const auto high = parse_number<uint32_t>(std::string_view(text).substr(0, slash), kHex);
	const auto low = parse_number<uint32_t>(std::string_view(text).substr(slash + 1), kHex);
	if (!high || !low) {
		return std::nullopt;
	}
	return (static_cast<uint64_t>(*high) << kHalfBits) | *low;
}

std::optional<Role_Facts> parse_role(const Check_Rows& rows, bool polar) {
	constexpr size_t kColumns = 4;
	constexpr int kHex = 16;
	if (rows.size() != 1 || rows[0].size() != kColumns) {
		return std::nullopt;
	}
	const Check_Row& row = rows[0];
	Role_Facts facts;
	if (polar) {
		if (!row[0]) {
			return std::nullopt;
		}
		// Whatever else it may be called, it does not write.
		facts.read_only = *row[0] != "primary" && *row[0] != "master";
	} else {
		const std::optional<bool> in_recovery = parse_bool(row[0]);
		if (!in_recovery) {
			return std::nullopt;
		}
		facts.read_only = *in_recovery;
	}
	const std::optional<bool> available = parse_bool(row[1]);
	if (!available) {
		return std::nullopt;
	}
	facts.available = *available;
	if (row[2]) {
		facts.lsn = parse_lsn(*row[2]).value_or(0);
	}
	if (row[3]) {
		facts.timeline = parse_number<uint32_t>(*row[3], kHex).value_or(0);
	}
	return facts;
}

std::optional<Lag_Facts> parse_lag(const Check_Rows& rows) {
	constexpr size_t kColumns = 3;
	if (rows.size() != 1 || rows[0].size() != kColumns) {
		return std::nullopt;
	}
	const Check_Row& row = rows[0];
	const std::optional<bool> caught_up = parse_bool(row[0]);
	if (!caught_up) {
		return std::nullopt;
	}
	Lag_Facts facts;
	facts.caught_up = *caught_up;
	if (row[1]) {
		facts.replayed_lsn = parse_lsn(*row[1]).value_or(0);
	}
	if (row[2]) {
		facts.age_ms = parse_number<int64_t>(*row[2]);
	}
	return facts;
}

int64_t lag_seconds(const Lag_Facts& facts, uint64_t primary_lsn) {
	constexpr int64_t kMsPerSecond = 1000;
	const bool behind_primary = primary_lsn != 0 && facts.replayed_lsn < primary_lsn;
	if (facts.caught_up && !behind_primary) {
		return 0;
	}
	return std::max<int64_t>(0, facts.age_ms.value_or(0) / kMsPerSecond);
}

std::optional<Capability_Facts> parse_capabilities(const Check_Rows& rows) {
	Capability_Facts facts;
	bool has_mode = false;
	bool has_timeout = false;
	bool has_target = false;
	for (const Check_Row& row : rows) {
		if (row.size() != 2 || !row[0]) {
			return std::nullopt;
		}
		const std::string& name = *row[0];
		has_mode |= name == "polar_consistency_mode";
		has_timeout |= name == "polar_proxy_wait_timeout_ms";
		has_target |= name == "polar_xact_split_wait_lsn";
		if (name == "polar_xact_split_xids") {
			facts.capabilities |= kCapabilityXidImport;
		}
		if (name == "wal_segment_size" && row[1]) {
			facts.wal_segment_size = parse_number<uint64_t>(*row[1]).value_or(0);
		}
	}
	if (has_mode && has_timeout && has_target) {
		facts.capabilities |= kCapabilityBoundedWait;
	}
	return facts;
}

} // namespace proxy
