#include "classify/Function_Safety.h"

#include <algorithm>
#include <iterator>

namespace proxy {

namespace {

struct Known_Function {
	std::string_view name;
	Function_Class function_class;
};

// Built-in functions whose catalog entry does not tell the whole story. Sorted by name (checked by
// a unit test through known_functions_sorted()).
constexpr Known_Function kKnown[] = {
    {"age", Function_Class::transaction_time}, // with one argument: since today
    {"any_value", Function_Class::safe},       // from PostgreSQL 16 on, as the next few
    {"array_sample", Function_Class::safe},
    {"array_shuffle", Function_Class::safe},
    {"clock_timestamp", Function_Class::safe},
    {"current_query", Function_Class::safe},
    {"current_setting", Function_Class::server_state},
    {"currval", Function_Class::session},
    {"date_add", Function_Class::safe},
    {"date_subtract", Function_Class::safe},
    {"gen_random_uuid", Function_Class::safe},
    {"inet_client_addr", Function_Class::session},
    {"inet_client_port", Function_Class::session},
    {"lastval", Function_Class::session},
    {"nextval", Function_Class::sequence},
    {"now", Function_Class::transaction_time},
    {"pg_advisory_lock", Function_Class::advisory_lock},
    {"pg_advisory_lock_shared", Function_Class::advisory_lock},
    {"pg_advisory_unlock", Function_Class::advisory_unlock},
    {"pg_advisory_unlock_all", Function_Class::advisory_unlock_all},
    {"pg_advisory_unlock_shared", Function_Class::advisory_unlock},
    {"pg_advisory_xact_lock", Function_Class::xact_lock},
    {"pg_advisory_xact_lock_shared", Function_Class::xact_lock},
    {"pg_available_extension_versions", Function_Class::server_state}, // files of the node
    {"pg_available_extensions", Function_Class::server_state},
    {"pg_backend_pid", Function_Class::session},
    {"pg_blocking_pids", Function_Class::server_state},
    {"pg_column_size", Function_Class::safe},
    {"pg_conf_load_time", Function_Class::server_state},
    {"pg_config", Function_Class::server_state},
    {"pg_control_checkpoint", Function_Class::server_state},
    {"pg_control_init", Function_Class::server_state},
    {"pg_control_recovery", Function_Class::server_state},
    {"pg_control_system", Function_Class::server_state},
    {"pg_current_logfile", Function_Class::server_state},
    {"pg_current_snapshot", Function_Class::session},
    {"pg_current_wal_flush_lsn", Function_Class::server_state},
    {"pg_current_wal_insert_lsn", Function_Class::server_state},
    {"pg_current_wal_lsn", Function_Class::server_state},
    {"pg_current_xact_id", Function_Class::transaction_id},
    {"pg_current_xact_id_if_assigned", Function_Class::session},
    {"pg_cursor", Function_Class::session},
    {"pg_database_size", Function_Class::safe},
    {"pg_export_snapshot", Function_Class::session},
    {"pg_extension_update_paths", Function_Class::server_state},
    {"pg_get_backend_memory_contexts", Function_Class::session},
    {"pg_get_replication_slots", Function_Class::server_state},
    {"pg_get_shmem_allocations", Function_Class::server_state},
    {"pg_get_wal_replay_pause_state", Function_Class::server_state},
    {"pg_get_wal_resource_managers", Function_Class::server_state},
    {"pg_hba_file_rules", Function_Class::server_state},
    {"pg_ident_file_mappings", Function_Class::server_state},
    {"pg_indexes_size", Function_Class::safe},
    {"pg_is_in_recovery", Function_Class::server_state},
    {"pg_is_other_temp_schema", Function_Class::session},
    {"pg_is_wal_replay_paused", Function_Class::server_state},
    {"pg_jit_available", Function_Class::server_state},
    {"pg_last_committed_xact", Function_Class::server_state},
    {"pg_last_wal_receive_lsn", Function_Class::server_state},
    {"pg_last_wal_replay_lsn", Function_Class::server_state},
    {"pg_last_xact_replay_timestamp", Function_Class::server_state},
    {"pg_listening_channels", Function_Class::session},
    {"pg_lock_status", Function_Class::server_state},
    {"pg_my_temp_schema", Function_Class::session},
    {"pg_notification_queue_usage", Function_Class::server_state},
    {"pg_postmaster_start_time", Function_Class::server_state},
    {"pg_prepared_statement", Function_Class::session},
    {"pg_relation_size", Function_Class::safe},
    {"pg_replication_origin_session_progress", Function_Class::session},
    {"pg_replication_origin_session_setup", Function_Class::session_state},
    {"pg_safe_snapshot_blocking_pids", Function_Class::server_state},
    {"pg_sequence_last_value", Function_Class::server_state}, // logged ahead on a standby
    {"pg_settings_get_flags", Function_Class::server_state},
    {"pg_show_all_file_settings", Function_Class::server_state},
    {"pg_show_all_settings", Function_Class::server_state},
    {"pg_show_replication_origin_status", Function_Class::server_state},
    {"pg_sleep", Function_Class::safe},
    {"pg_sleep_for", Function_Class::safe},
    {"pg_sleep_until", Function_Class::safe},
    {"pg_table_size", Function_Class::safe},
    {"pg_tablespace_databases", Function_Class::server_state},
    {"pg_tablespace_location", Function_Class::server_state},
    {"pg_tablespace_size", Function_Class::safe},
    {"pg_total_relation_size", Function_Class::safe},
    {"pg_try_advisory_lock", Function_Class::advisory_lock},
    {"pg_try_advisory_lock_shared", Function_Class::advisory_lock},
    {"pg_try_advisory_xact_lock", Function_Class::xact_lock},
    {"pg_try_advisory_xact_lock_shared", Function_Class::xact_lock},
    {"pg_walfile_name", Function_Class::server_state}, // refused during recovery
    {"pg_walfile_name_offset", Function_Class::server_state},
    {"pg_xact_commit_timestamp", Function_Class::server_state},
    {"pg_xact_commit_timestamp_origin", Function_Class::server_state},
    {"pg_xact_status", Function_Class::server_state},
    {"random", Function_Class::safe},
    {"random_normal", Function_Class::safe},
    {"set_config", Function_Class::settings},
    {"setseed", Function_Class::session_state},
    {"setval", Function_Class::sequence},
    {"statement_timestamp", Function_Class::safe},
    {"timeofday", Function_Class::safe},
    {"transaction_timestamp", Function_Class::transaction_time},
    {"txid_current", Function_Class::transaction_id},
    {"txid_current_if_assigned", Function_Class::session},
    {"txid_current_snapshot", Function_Class::session},
    {"txid_status", Function_Class::server_state},
    {"uuidv4", Function_Class::safe},
    {"uuidv7", Function_Class::safe},
};

// "name volatility" of every other built-in.
constexpr std::string_view kCatalog[] = {
#define X(text) text,
#include "classify/builtin_functions.def"
#undef X
};

// Statistics live in each server's own memory; their functions share one prefix.
constexpr std::string_view kStatisticsPrefix = "pg_stat_get_";

template <size_t N> constexpr bool sorted_by_name(const Known_Function (&table)[N]) {
	for (size_t i = 1; i < N; ++i) {
		if (!(table[i - 1].name < table[i].name)) {
			return false;
		}
	}
	return true;
}
static_assert(sorted_by_name(kKnown));

Function_Class built_in_class(std::string_view name) {
	const auto* known = std::lower_bound(
	    std::begin(kKnown), std::end(kKnown), name,
	    [](const Known_Function& entry, std::string_view key) { return entry.name < key; });
	if (known != std::end(kKnown) && known->name == name) {
		return known->function_class;
	}
	if (name.substr(0, kStatisticsPrefix.size()) == kStatisticsPrefix) {
		return Function_Class::server_state;
	}
	const auto name_of_row = [](std::string_view row) { return row.substr(0, row.size() - 2); };
	const auto* row = std::lower_bound(
	    std::begin(kCatalog), std::end(kCatalog), name,
	    [&](std::string_view entry, std::string_view key) { return name_of_row(entry) < key; });
	if (row == std::end(kCatalog) || name_of_row(*row) != name) {
		return Function_Class::unknown;
	}
	return row->back() == 'v' ? Function_Class::writes : Function_Class::safe;
}

} // namespace

std::shared_ptr<const Function_Safety> Function_Safety::built_in() {
	static const std::shared_ptr<const Function_Safety> shared(new Function_Safety());
	return shared;
}

std::shared_ptr<const Function_Safety> Function_Safety::with_entries(std::vector<Entry> entries) {
	std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
		return a.name != b.name ? a.name < b.name : a.schema < b.schema;
	});
	std::shared_ptr<Function_Safety> made(new Function_Safety());
	made->entries_ = std::move(entries);
	return made;
}

// The worst entry for a name: of one schema, or of any schema that has one.
const Function_Safety::Entry* Function_Safety::worst(std::string_view schema, bool any_schema,
                                                     std::string_view name) const {
	const Entry* found = nullptr;
	auto entry =
	    std::lower_bound(entries_.begin(), entries_.end(), name,
	                     [](const Entry& a, std::string_view key) { return a.name < key; });
	for (; entry != entries_.end() && entry->name == name; ++entry) {
		const bool fits = any_schema ? !entry->schema.empty() : entry->schema == schema;
		if (fits && (found == nullptr || entry->function_class > found->function_class)) {
			found = &*entry;
		}
	}
	return found;
}

Function_Class Function_Safety::classify(std::string_view schema, std::string_view name) const {
	if (const Entry* rule = worst({}, false, name); rule != nullptr) {
		return rule->function_class;
	}
	if (!schema.empty()) {
		if (const Entry* entry = worst(schema, false, name); entry != nullptr) {
			return entry->function_class;
		}
		return schema == "pg_catalog" ? built_in_class(name) : Function_Class::unknown;
	}
	const Function_Class own = built_in_class(name);
	const Entry* other = worst({}, true, name);
	if (other == nullptr) {
		return own;
	}
	if (own == Function_Class::unknown) {
		return other->function_class;
	}
	return std::max(own, other->function_class);
}

} // namespace proxy
