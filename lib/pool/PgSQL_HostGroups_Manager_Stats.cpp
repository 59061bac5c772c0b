// Rows for the admin layer, and the housekeeping of idle connections.
#include "HostGroups_State.h"
#include "backend/PgSQL_Connection.h"
#include "pool/PgSQL_HostGroups_Manager.h"

#include <algorithm>

namespace proxy {

namespace {
// An idle connection above the wanted number is closed only after this time, so that a burst does
// not close what the next one opens again.
constexpr int64_t kIdleBeforeTrimUs = 5'000'000;
constexpr int64_t kUsPerMs = 1000;
// Lifetimes differ by up to 1/8 from connection to connection of different servers, so that they do
// not all end in the same second.
constexpr int64_t kAgeSpread = 8;

uint64_t take(std::atomic<uint64_t>& counter, bool reset) {
	return reset ? counter.exchange(0, std::memory_order_relaxed)
	             : counter.load(std::memory_order_relaxed);
}
} // namespace

Pgsql_Servers_Config PgSQL_HostGroups_Manager::runtime_config() const {
	Pgsql_Servers_Config config;
	Lock lock(mutex_);
	for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
		for (const auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			// Servers that LOAD or a role change removed are gone from the configuration.
			if (status_of(*known.server) == Server_Status::offline_hard && !known.seen) {
				continue;
			}
			Pgsql_Server_Row row = known.row;
			row.status = status_of(*known.server);
			config.servers.push_back(std::move(row));
		}
	}
	std::sort(config.servers.begin(), config.servers.end(), [](const auto& a, const auto& b) {
		return std::tie(a.hostgroup_id, a.hostname, a.port) <
		       std::tie(b.hostgroup_id, b.hostname, b.port);
	});
	config.replication_hostgroups = state_->pairs;
	for (const auto& [hostgroup, row] : state_->attributes) {
		config.hostgroup_attributes.push_back(row);
	}
	for (const auto& row : state_->ssl_params) {
		config.ssl_params.push_back(*row);
	}
	return config;
}

std::vector<PgSQL_HostGroups_Manager::Pool_Row> PgSQL_HostGroups_Manager::pool_rows(bool reset) {
	std::vector<Pool_Row> rows;
	const Hostgroup_View_Ptr view = view_.get().value;
	for (const Hostgroup& group : view->hostgroups) {
		for (const Server_Ptr& server : group.servers) {
			Server_Counters& counters = server->counters;
			Pool_Row row;
			row.server = server;
			row.used = server->used.load(std::memory_order_relaxed);
			row.free = server->free_count();
			row.waiting = server->waiting.load(std::memory_order_relaxed);
			row.connect_ok = take(counters.connect_ok, reset);
			row.connect_err = take(counters.connect_err, reset);
			row.queries = take(counters.queries, reset);
			row.bytes_sent = take(counters.bytes_sent, reset);
			row.bytes_received = take(counters.bytes_received, reset);
			row.max_used = reset ? counters.max_used.exchange(row.used, std::memory_order_relaxed)
			                     : counters.max_used.load(std::memory_order_relaxed);
			rows.push_back(std::move(row));
		}
	}
	return rows;
}

void PgSQL_HostGroups_Manager::trim_free_connections(int64_t now_us) {
	int64_t max_age_us = 0;
	bool pruned = false;
	{
		Lock lock(mutex_);
		max_age_us = state_->config->connection_max_age_ms * kUsPerMs;
		// Servers that were removed go once nothing refers to them but this map and one view.
		for (auto endpoint = state_->endpoints.begin(); endpoint != state_->endpoints.end();) {
			pruned |= std::erase_if(endpoint->second.by_hostgroup, [](const auto& entry) {
				          const Known_Server& known = entry.second;
				          return !known.seen &&
				                 status_of(*known.server) == Server_Status::offline_hard &&
				                 known.server->used.load(std::memory_order_relaxed) == 0;
			          }) > 0;
			endpoint = endpoint->second.by_hostgroup.empty() ? state_->endpoints.erase(endpoint)
			                                                 : std::next(endpoint);
		}
		if (pruned) {
			publish_locked();
		}
	}
	// Destroyed here, outside every lock.
	std::vector<std::unique_ptr<PgSQL_Connection>> gone;
	const auto add = [&gone](std::vector<std::unique_ptr<PgSQL_Connection>> more) {
		std::move(more.begin(), more.end(), std::back_inserter(gone));
	};
	const Hostgroup_View_Ptr view = view_.get().value;
	for (const Hostgroup& group : view->hostgroups) {
		for (const Server_Ptr& server : group.servers) {
			if (status_of(*server) != Server_Status::online) {
				add(server->take_free(INT64_MAX));
				continue;
			}
			const int64_t max = server->max_connections.load(std::memory_order_relaxed);
			const int64_t keep =
			    std::max<int64_t>(1, max * group.attributes.free_connections_pct / 100);
			add(server->take_excess(static_cast<size_t>(keep), now_us - kIdleBeforeTrimUs));
			if (max_age_us > 0) {
				const int64_t spread = server->port % kAgeSpread;
				add(server->take_aged(now_us - max_age_us +
				                      max_age_us * spread / (kAgeSpread * kAgeSpread)));
			}
			server->wake_for_slots(now_us);
		}
	}
}

} // namespace proxy
