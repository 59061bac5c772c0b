// Dynamic tables: rebuilt when a statement names them, so that a SELECT always shows the present.
#include "admin/Admin_Core.h"
#include "admin/Admin_Text.h"
#include "admin/Config_Rows_Sql.h"
#include "base/Log.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace proxy {

namespace {
constexpr std::string_view kReset = "_reset";
constexpr std::string_view kRuntime = "runtime_";

// Tables that are written by commands and must not be emptied by a look at them.
bool filled_elsewhere(std::string_view table) {
	return table == "global_variables" || table == "stats_pgsql_query_events";
}

std::string schema_of(const Table_Definition& table) {
	switch (table.place) {
	case Table_Place::stats:
		return "stats.";
	case Table_Place::monitor:
		return "monitor.";
	case Table_Place::history:
		return "stats_history.";
	case Table_Place::config:
	case Table_Place::config_plain:
	case Table_Place::disk:
	case Table_Place::runtime:
		break;
	}
	return "main.";
}
} // namespace

Result<void> Admin_Core::refresh_named_tables(std::string_view sql, Admin_Role role) {
	std::set<std::string> names;
	for (std::string& name : names_in(sql)) {
		if (name == "stats_pgsql_stat_activity") {
			name = "stats_pgsql_processlist";
		}
		names.insert(std::move(name));
	}
	for (const std::string& name : names) {
		if (role == Admin_Role::admin && name.starts_with(kRuntime)) {
			PROXY_TRY(refresh_runtime_table(std::string_view(name).substr(kRuntime.size())));
			continue;
		}
		const bool reset = name.ends_with(kReset);
		const std::string base = reset ? name.substr(0, name.size() - kReset.size()) : name;
		const Table_Definition* table = find_table(base);
		if (table == nullptr ||
		    (table->place != Table_Place::stats && table->place != Table_Place::monitor) ||
		    (reset && table->reset_twin == Reset_Twin::no)) {
			continue;
		}
		// Both names in one statement: a plain look wins, as in ProxySQL.
		const bool both = reset && names.count(base) != 0;
		if (!both) {
			PROXY_TRY(refresh_stats_table(*table, reset ? Stats_Read::reset : Stats_Read::keep));
		}
	}
	return {};
}

Stats_Rows Admin_Core::stats_rows(std::string_view table, Stats_Read read) {
	Stats_Rows rows = control_.stats(table, read);
	if (table != "stats_pgsql_global" && table != "stats_memory_metrics") {
		return rows;
	}
	// What only this layer knows.
	const std::string name = "SQLite3_memory_bytes";
	const std::string bytes = std::to_string(SQLite3DB::memory_used());
	for (auto& row : rows) {
		if (row.size() > 1 && row[0] == name) {
			row[1] = bytes;
			return rows;
		}
	}
	rows.push_back({name, bytes});
	return rows;
}

Result<void> Admin_Core::refresh_stats_table(const Table_Definition& table, Stats_Read read) {
	if (filled_elsewhere(table.name)) {
		return {};
	}
	Stats_Rows rows = stats_rows(table.name, read);
	for (Sql_Row& row : rows) {
		row.resize(table.columns.size());
	}
	const std::string target = schema_of(table) + std::string(table.name);
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	PROXY_TRY(database_->admin().execute("DELETE FROM " + target));
	PROXY_TRY(database_->insert_rows(table, target, rows, Row_Conflict::replace));
	if (table.reset_twin == Reset_Twin::yes) {
		const std::string twin = target + std::string(kReset);
		PROXY_TRY(database_->admin().execute("DELETE FROM " + twin));
		PROXY_TRY(database_->insert_rows(table, twin, rows, Row_Conflict::replace));
	}
	return transaction.commit();
}

Result<void> Admin_Core::refresh_runtime_table(std::string_view name) {
	const Table_Definition* table = find_table(name);
	if (name == "checksums_values") {
		return refresh_checksums();
	}
	if (table == nullptr || table->place != Table_Place::config) {
		return {};
	}
	std::vector<Sql_Row> rows;
	if (name == "pgsql_servers") {
		rows = to_sql(control_.runtime_servers().servers);
	} else if (name == "pgsql_replication_hostgroups") {
		rows = to_sql(control_.runtime_servers().replication_hostgroups);
	} else if (name == "pgsql_hostgroup_attributes") {
		rows = to_sql(control_.runtime_servers().hostgroup_attributes);
	} else if (name == "pgsql_servers_ssl_params") {
		rows = to_sql(control_.runtime_servers().ssl_params);
	} else if (name == "pgsql_users") {
		rows = to_sql(split_users(control_.runtime_users()));
	} else if (name == "pgsql_query_rules") {
		rows = to_sql(control_.runtime_query_rules().rules);
	} else if (name == "pgsql_query_rules_fast_routing") {
		rows = to_sql(control_.runtime_query_rules().fast_routing);
	} else if (name == "global_variables") {
		for (const Variable_Map& values : {variable_texts(*admin_), variable_texts(*pgsql_)}) {
			for (const auto& [variable, value] : values) {
				rows.push_back({variable, value});
			}
		}
	} else {
		return {}; // a plain module: the table holds what was loaded
	}
	const std::string target = "main.runtime_" + std::string(name);
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	PROXY_TRY(database_->admin().execute("DELETE FROM " + target));
	PROXY_TRY(database_->insert_rows(*table, target, rows, Row_Conflict::replace));
	return transaction.commit();
}

Result<void> Admin_Core::refresh_checksums() {
	const auto modules = admin_modules();
	// The monitor moves servers without a LOAD: that is a new version too.
	for (const Admin_Module& module : modules) {
		const auto known = checksums_.find(module.checksum);
		if (module.kind != Module_Kind::servers || known == checksums_.end()) {
			continue;
		}
		const Result<std::string> now = checksum_of(module);
		if (now.ok() && now.value() != known->second.checksum) {
			note_loaded(module);
		}
	}
	std::vector<Sql_Row> rows;
	for (const auto& [name, entry] : checksums_) {
		rows.push_back(
		    {name, std::to_string(entry.version), std::to_string(entry.epoch_s), entry.checksum});
	}
	return database_->replace_rows(*find_table("runtime_checksums_values"),
	                               "main.runtime_checksums_values", rows);
}

Result<int64_t> Admin_Core::save_digests() {
	const Table_Definition& digests = *find_table("stats_pgsql_query_digest");
	PROXY_TRY(refresh_stats_table(digests, Stats_Read::reset));
	Result<Sql_Result> saved = database_->admin().run(
	    "INSERT INTO stats_history.history_pgsql_query_digest SELECT CAST(strftime('%s','now') AS "
	    "INT), hostgroup, database, username, client_address, digest, digest_text, count_star, "
	    "first_seen, last_seen, sum_time, min_time, max_time, sum_rows_affected, sum_rows_sent "
	    "FROM stats.stats_pgsql_query_digest");
	if (!saved.ok()) {
		return saved.take_error();
	}
	PROXY_TRY(database_->admin().execute("DELETE FROM stats.stats_pgsql_query_digest"));
	return saved.value().changes;
}

} // namespace proxy
