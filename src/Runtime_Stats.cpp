// Rows of the stats and monitor tables, in the column order of ProxySQL_Admin_Tables_Definitions.
#include "Runtime.h"
#include "base/Check.h"
#include "base/Clock.h"

#include <fmt/format.h>

#include <map>

// jemalloc's statistics; absent (null) in builds without it.
extern "C" __attribute__((weak)) int mallctl(const char* name, void* old_value, size_t* old_length,
                                             void* new_value, size_t new_length);

namespace proxy {

namespace {
using Cell = std::optional<std::string>;

template <typename Number> Cell number(Number value) {
	return std::to_string(value);
}

struct Sticky_Name {
	uint32_t bit;
	const char* name;
};
constexpr Sticky_Name kStickyNames[] = {
    {kStickyTempTable, "temp_table"},
    {kStickyListen, "listen"},
    {kStickyHoldCursor, "hold_cursor"},
    {kStickyAdvisoryLock, "advisory_lock"},
    {kStickySet, "untracked_set"},
    {kStickyPrepare, "sql_prepare"},
    {kStickyCopy, "copy"},
    {kStickySequence, "sequence"},
    {kStickySessionFunction, "session_function"},
    {kStickyLoad, "load"},
    {kStickyRule, "rule"},
};

Cell pin_reasons(uint32_t bits) {
	std::string text;
	for (const Sticky_Name& entry : kStickyNames) {
		if ((bits & entry.bit) != 0) {
			text += (text.empty() ? "" : ",") + std::string(entry.name);
		}
	}
	return text.empty() ? Cell() : Cell(text);
}

Stats_Rows log_rows(const std::vector<Check_Log_Row>& rows, bool with_value) {
	Stats_Rows result;
	result.reserve(rows.size());
	for (const Check_Log_Row& row : rows) {
		Stats_Row cells = {row.hostname, number(row.port), number(row.time_start_us),
		                   number(row.success_time_us.value_or(0))};
		if (with_value) {
			cells.push_back(row.value.has_value() ? number(*row.value) : Cell());
		}
		cells.push_back(row.error);
		result.push_back(std::move(cells));
	}
	return result;
}
} // namespace

Stats_Rows Runtime::stats(std::string_view table, Stats_Read read) {
	if (table == "stats_pgsql_global") {
		return global_rows();
	}
	if (table == "stats_pgsql_connection_pool") {
		return connection_pool_rows(read);
	}
	if (table == "stats_pgsql_query_digest") {
		return digest_rows(read);
	}
	if (table == "stats_pgsql_processlist") {
		return processlist_rows();
	}
	if (table == "stats_pgsql_users") {
		return user_rows();
	}
	if (table == "stats_pgsql_query_rules") {
		return rule_rows();
	}
	if (table == "stats_pgsql_route_reasons") {
		return route_rows();
	}
	if (table == "stats_pgsql_prepared_statements_info") {
		return statement_rows();
	}
	if (table == "stats_memory_metrics") {
		return memory_rows();
	}
	if (table == "pgsql_server_connect_log") {
		return log_rows(monitor_.connect_log(), false);
	}
	if (table == "pgsql_server_ping_log") {
		return log_rows(monitor_.ping_log(), false);
	}
	if (table == "pgsql_server_read_only_log") {
		return log_rows(monitor_.read_only_log(), true);
	}
	if (table == "pgsql_server_replication_lag_log") {
		return log_rows(monitor_.replication_lag_log(), true);
	}
	return {};
}

Stats_Rows Runtime::global_rows() {
	Stats_Rows rows;
	rows.push_back({"ProxySQL_Uptime", number((monotonic_us() - started_us_) / 1'000'000)});
	for (size_t i = 0; i < kCounterCount; ++i) {
		uint64_t sum = 0;
		for (const auto& worker : threads_.workers()) {
			sum += worker->counters().get(static_cast<Counter>(i));
		}
		rows.push_back({name_of(static_cast<Counter>(i)), number(sum)});
	}
	int64_t server_connections = 0;
	for (const auto& row : hostgroups_.pool_rows(false)) {
		server_connections += row.used + row.free;
	}
	Query_Processor::Cache_Stats cache;
	for (const auto& worker : threads_.workers()) {
		const Query_Processor::Cache_Stats part = worker->cache_stats();
		cache.hits += part.hits;
		cache.misses += part.misses;
		cache.entries += part.entries;
		cache.bytes += part.bytes;
	}
	rows.push_back({"Server_Connections_connected", number(server_connections)});
	rows.push_back({"Servers_table_version", number(hostgroups_.view().version())});
	rows.push_back({"PgSQL_Thread_Workers", number(threads_.workers().size())});
	rows.push_back({"Stmt_Max_Stmt_id", number(shared_.statements.last_id())});
	rows.push_back({"Stmt_Cached", number(shared_.statements.size())});
	rows.push_back({"Statement_Cache_hits", number(cache.hits)});
	rows.push_back({"Statement_Cache_misses", number(cache.misses)});
	rows.push_back({"Statement_Cache_entries", number(cache.entries)});
	rows.push_back({"Statement_Cache_bytes", number(cache.bytes)});
	rows.push_back({"Internal_errors", number(failed_check_count())});
	rows.push_back({"pgsql_listener_paused", threads_.paused() ? "true" : "false"});
	for (const auto& [name, value] : monitor_.counters()) {
		rows.push_back({name, number(value)});
	}
	return rows;
}

Stats_Rows Runtime::connection_pool_rows(Stats_Read read) {
	// Connections idle in a worker's cache count as used at their server; here they are free.
	std::map<const PgSQL_SrvC*, int64_t> cached;
	Mutex guard(Lock_Rank::shared_maps);
	threads_.run_on_all([&](PgSQL_Thread& worker) {
		worker.flush_counters();
		Lock lock(guard);
		worker.count_idle_connections(cached);
	});
	Stats_Rows rows;
	for (const auto& row : hostgroups_.pool_rows(read == Stats_Read::reset)) {
		const PgSQL_SrvC& server = *row.server;
		const auto idle = cached.find(&server);
		const int64_t in_caches = idle == cached.end() ? 0 : std::min(idle->second, row.used);
		rows.push_back({number(server.hostgroup_id), server.hostname, number(server.port),
		                name_of(server.status.load()), number(row.used - in_caches),
		                number(row.free + in_caches), number(row.connect_ok),
		                number(row.connect_err), number(row.max_used), number(row.queries),
		                number(row.bytes_sent), number(row.bytes_received),
		                number(server.health->latency_us.load())});
	}
	return rows;
}

Stats_Rows Runtime::digest_rows(Stats_Read read) {
	std::vector<std::vector<Query_Digest_Row>> parts;
	for (const auto& worker : threads_.workers()) {
		parts.push_back(read == Stats_Read::reset ? worker->digests().take()
		                                          : worker->digests().copy());
	}
	Stats_Rows rows;
	for (const Query_Digest_Row& row : Query_Digest_Stats::merge(std::move(parts))) {
		rows.push_back({number(row.hostgroup), row.database, row.username, row.client_address,
		                fmt::format("0x{:016X}", row.digest), row.digest_text,
		                number(row.count_star), number(row.first_seen_s), number(row.last_seen_s),
		                number(row.sum_time_us), number(row.min_time_us), number(row.max_time_us),
		                number(row.sum_rows_affected), number(row.sum_rows_sent)});
	}
	return rows;
}

Stats_Rows Runtime::processlist_rows() {
	Stats_Rows rows;
	Mutex guard(Lock_Rank::shared_maps);
	threads_.run_on_all([&](PgSQL_Thread& worker) {
		const std::vector<PgSQL_Session::Info> infos = worker.session_infos();
		Lock lock(guard);
		for (const PgSQL_Session::Info& info : infos) {
			const bool has_server = !info.server_host.empty();
			Stats_Row row = {number(worker.index()), number(info.id), info.user, info.database};
			row.push_back(info.client_host.empty() ? "localhost" : info.client_host);
			row.push_back(info.client_host.empty() ? Cell() : number(info.client_port));
			row.push_back(has_server ? number(info.hostgroup) : Cell());
			row.push_back(Cell()); // l_srv_host
			row.push_back(Cell()); // l_srv_port
			row.push_back(has_server ? Cell(info.server_host) : Cell());
			row.push_back(has_server ? number(info.server_port) : Cell());
			row.push_back(has_server ? number(info.server_pid) : Cell());
			row.push_back(Cell()); // backend_state
			row.push_back(info.command);
			row.push_back(number(info.time_ms));
			row.push_back(info.info.empty() ? Cell() : Cell(info.info));
			row.push_back(number(0)); // status_flags
			row.push_back(Cell());    // extended_info
			row.push_back(pin_reasons(info.pinned));
			row.push_back(info.route_reason);
			row.push_back(Cell()); // reader_srv_host
			row.push_back(Cell()); // reader_srv_port
			rows.push_back(std::move(row));
		}
	});
	return rows;
}

Stats_Rows Runtime::user_rows() {
	Stats_Rows rows;
	for (const User_Entry_Ptr& user : shared_.users.get().value->entries()) {
		if (user->has_frontend) {
			rows.push_back(
			    {user->username, number(user->connections->load()), number(user->max_connections)});
		}
	}
	return rows;
}

Stats_Rows Runtime::rule_rows() {
	Stats_Rows rows;
	for (const auto& [rule_id, hits] : shared_.rules.get().value->hits()) {
		rows.push_back({number(rule_id), number(hits)});
	}
	return rows;
}

Stats_Rows Runtime::route_rows() {
	std::map<std::pair<int, Route_Reason>, uint64_t> sums;
	for (const auto& worker : threads_.workers()) {
		for (const Route_Counters::Row& row : worker->routes().rows()) {
			sums[{row.hostgroup, row.reason}] += row.count;
		}
	}
	Stats_Rows rows;
	for (const auto& [key, count] : sums) {
		rows.push_back({number(key.first), name_of(key.second), doc_of(key.second), number(count)});
	}
	return rows;
}

Stats_Rows Runtime::statement_rows() {
	Stats_Rows rows;
	for (const auto& [statement, holders] : shared_.statements.list()) {
		rows.push_back({number(statement->id), "", "",
		                fmt::format("0x{:016X}", statement->analysis->digest), number(holders),
		                number(0), number(statement->parameter_types.size() / 4),
		                statement->analysis->digest_text});
	}
	return rows;
}

Stats_Rows Runtime::memory_rows() {
	Stats_Rows rows;
	size_t digests = 0;
	for (const auto& worker : threads_.workers()) {
		digests += worker->digests().memory_bytes();
	}
	rows.push_back({"pgsql_query_digest_memory", number(digests)});
	rows.push_back({"prepared_statement_memory", number(shared_.statements.memory_bytes())});
	if (mallctl == nullptr) {
		return rows; // a sanitizer build has its own allocator
	}
	uint64_t epoch = 1;
	size_t size = sizeof(epoch);
	mallctl("epoch", &epoch, &size, &epoch, size);
	for (const char* name : {"resident", "active", "allocated", "mapped", "metadata", "retained"}) {
		size_t value = 0;
		size_t length = sizeof(value);
		const std::string path = std::string("stats.") + name;
		if (mallctl(path.c_str(), &value, &length, nullptr, 0) == 0) {
			rows.push_back({std::string("jemalloc_") + name, number(value)});
		}
	}
	return rows;
}

} // namespace proxy
