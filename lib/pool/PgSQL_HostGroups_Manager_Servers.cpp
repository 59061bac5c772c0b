// Status of servers: shunning, recovery, lag, addresses; and the servers that the monitor watches.
#include "HostGroups_State.h"
#include "backend/PgSQL_Connection.h"
#include "base/Clock.h"
#include "pool/PgSQL_HostGroups_Manager.h"
#include "pool/Resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace proxy {

namespace {
constexpr int64_t kUsPerSecond = 1'000'000;
// With no candidate left in a hostgroup a shunned server is tried after this part of its time.
constexpr int64_t kHurryFactor = 10;
} // namespace

void PgSQL_HostGroups_Manager::set_status_locked(PgSQL_SrvC& server, Server_Status status,
                                                 Aftermath& aftermath) {
	const Server_Status before = status_of(server);
	if (before == status) {
		return;
	}
	server.status.store(status, std::memory_order_relaxed);
	Known_Server* known = state_->find(server.hostgroup_id, server.hostname, server.port);
	if (before == Server_Status::online && known != nullptr) {
		aftermath.left_online.push_back(known->server);
	}
	if (status == Server_Status::offline_hard) {
		// Configured away or removed: used connections are closed at their next use.
		server.kill_before_us.store(monotonic_us() + 1, std::memory_order_relaxed);
	}
}

// A hostgroup must not lose its last candidate: a wrong suspicion would cost everything, a right
// one costs errors that there would be anyway. The reader of a pair is different: its reads have
// the writer to go to.
bool PgSQL_HostGroups_Manager::is_last_candidate_locked(const PgSQL_SrvC& server) const {
	const State& state = *state_;
	const auto has_other_candidate = [&](int hostgroup) {
		return std::any_of(state.endpoints.begin(), state.endpoints.end(), [&](const auto& entry) {
			const auto known = entry.second.by_hostgroup.find(hostgroup);
			if (known == entry.second.by_hostgroup.end() || entry.second.health == server.health ||
			    entry.second.health->fenced.load(std::memory_order_relaxed)) {
				return false;
			}
			const PgSQL_SrvC& other = *known->second.server;
			return status_of(other) == Server_Status::online &&
			       other.weight.load(std::memory_order_relaxed) > 0 &&
			       other.max_connections.load(std::memory_order_relaxed) > 0;
		});
	};
	if (has_other_candidate(server.hostgroup_id)) {
		return false;
	}
	return std::none_of(state.pairs.begin(), state.pairs.end(), [&](const auto& pair) {
		return pair.reader_hostgroup == server.hostgroup_id &&
		       has_other_candidate(pair.writer_hostgroup);
	});
}

void PgSQL_HostGroups_Manager::shun(const std::string& hostname, int port, Server_Status to,
                                    std::string_view reason) {
	Aftermath aftermath;
	Lock lock(mutex_);
	State::Endpoint_State* endpoint = state_->endpoint(hostname, port);
	if (endpoint == nullptr) {
		return;
	}
	const int64_t now_us = monotonic_us();
	for (auto& [hostgroup, known] : endpoint->by_hostgroup) {
		PgSQL_SrvC& server = *known.server;
		server.last_error_us.store(now_us, std::memory_order_relaxed);
		if (to == Server_Status::shunned) {
			server.kill_before_us.store(now_us, std::memory_order_relaxed);
			aftermath.close_free.push_back(known.server);
		}
		if (status_of(server) != Server_Status::online) {
			continue;
		}
		if (is_last_candidate_locked(server)) {
			aftermath.warnings.push_back(
			    fmt::format("Not shunning server {}:{} although it {}: hostgroup {} has no other",
			                hostname, port, reason, hostgroup));
			continue;
		}
		server.shunned_automatically.store(to == Server_Status::shunned, std::memory_order_relaxed);
		set_status_locked(server, to, aftermath);
		aftermath.warnings.push_back(fmt::format("Server {}:{} {}, shunning it in hostgroup {}",
		                                         hostname, port, reason, hostgroup));
	}
	publish_locked();
}

void PgSQL_HostGroups_Manager::recover_locked(Known_Server& known, Aftermath& aftermath) {
	PgSQL_SrvC& server = *known.server;
	if (status_of(server) != Server_Status::shunned ||
	    server.health->fenced.load(std::memory_order_relaxed) ||
	    !server.shunned_automatically.load(std::memory_order_relaxed)) {
		return;
	}
	server.shunned_automatically.store(false, std::memory_order_relaxed);
	set_status_locked(server, Server_Status::online, aftermath);
	aftermath.infos.push_back(fmt::format("Server {}:{} of hostgroup {} is back ONLINE",
	                                      server.hostname, server.port, server.hostgroup_id));
}

void PgSQL_HostGroups_Manager::unshun(const std::string& hostname, int port) {
	Aftermath aftermath;
	Lock lock(mutex_);
	State::Endpoint_State* endpoint = state_->endpoint(hostname, port);
	if (endpoint == nullptr) {
		return;
	}
	for (auto& [hostgroup, known] : endpoint->by_hostgroup) {
		recover_locked(known, aftermath);
	}
}

void PgSQL_HostGroups_Manager::note_connect_error(PgSQL_SrvC& server, int64_t now_us) {
	const int64_t errors = server.note_connect_error(now_us);
	Connect_Error_Listener* const listener =
	    connect_error_listener_.load(std::memory_order_acquire);
	if (listener != nullptr) {
		listener->on_connect_error(server.hostname, server.port);
	}
	Aftermath aftermath;
	Lock lock(mutex_);
	const int64_t limit =
	    std::min(state_->config->shun_on_failures, state_->config->connect_retries_on_failure + 1);
	if (errors < limit || status_of(server) != Server_Status::online ||
	    is_last_candidate_locked(server)) {
		return;
	}
	server.shunned_automatically.store(true, std::memory_order_relaxed);
	set_status_locked(server, Server_Status::shunned, aftermath);
	aftermath.warnings.push_back(
	    fmt::format("Shunning server {}:{} with {} errors/sec. Shunning for {} seconds",
	                server.hostname, server.port, errors, state_->config->shun_recovery_time_sec));
}

void PgSQL_HostGroups_Manager::recover_shunned(int64_t now_us) {
	Aftermath aftermath;
	Lock lock(mutex_);
	const Pgsql_Config& config = *state_->config;
	if (config.shun_recovery_time_sec == 0) {
		return; // never by time
	}
	const int64_t wait_us =
	    std::max<int64_t>(1, std::min(config.shun_recovery_time_sec,
	                                  config.connect_timeout_server_max / 1000 - 1)) *
	    kUsPerSecond;
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		if (!endpoint_state.health->reachable.load(std::memory_order_relaxed)) {
			continue; // the monitor sees that it is still away
		}
		bool recovered = false;
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			const PgSQL_SrvC& server = *known.server;
			if (!server.shunned_automatically.load(std::memory_order_relaxed)) {
				continue;
			}
			const int64_t due_us =
			    is_last_candidate_locked(server) ? wait_us / kHurryFactor : wait_us;
			if (now_us - server.last_error_us.load(std::memory_order_relaxed) > due_us) {
				recover_locked(known, aftermath);
				recovered = true;
			}
		}
		if (recovered && config.unshun_algorithm == 1) {
			for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
				recover_locked(known, aftermath);
			}
		}
	}
}

void PgSQL_HostGroups_Manager::note_replication_lag(const std::string& hostname, int port,
                                                    int64_t lag_s) {
	Aftermath aftermath;
	Lock lock(mutex_);
	State::Endpoint_State* endpoint = state_->endpoint(hostname, port);
	if (endpoint == nullptr) {
		return;
	}
	for (auto& [hostgroup, known] : endpoint->by_hostgroup) {
		PgSQL_SrvC& server = *known.server;
		const int64_t limit_s = known.row.max_replication_lag;
		if (limit_s == 0 || lag_s <= limit_s) {
			known.lagging_samples = 0;
			if (status_of(server) == Server_Status::shunned_lag) {
				set_status_locked(server, Server_Status::online, aftermath);
				aftermath.infos.push_back(
				    fmt::format("Re-enabling server {}:{} in HG {} with replication lag of {} "
				                "second",
				                hostname, port, hostgroup, lag_s));
			}
			continue;
		}
		++known.lagging_samples;
		if (status_of(server) != Server_Status::online) {
			continue;
		}
		if (known.lagging_samples < state_->config->monitor_replication_lag_count ||
		    is_last_candidate_locked(server)) {
			aftermath.infos.push_back(
			    fmt::format("Not shunning server {}:{} from HG {} with replication lag of {} "
			                "second, count number: '{}'",
			                hostname, port, hostgroup, lag_s, known.lagging_samples));
			continue;
		}
		set_status_locked(server, Server_Status::shunned_lag, aftermath);
		aftermath.warnings.push_back(
		    fmt::format("Shunning server {}:{} from HG {} with replication lag of {} second, "
		                "count number: '{}'",
		                hostname, port, hostgroup, lag_s, known.lagging_samples));
	}
}

void PgSQL_HostGroups_Manager::set_address(const std::string& hostname,
                                           const std::string& address) {
	if (address.empty()) {
		return;
	}
	Aftermath aftermath;
	Lock lock(mutex_);
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		if (endpoint.first != hostname) {
			continue;
		}
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			const std::string before = known.server->address();
			if (before == address) {
				continue;
			}
			known.server->set_address(address);
			if (before.empty()) {
				endpoint_state.health->reachable.store(true, std::memory_order_relaxed);
				recover_locked(known, aftermath);
			} else {
				// The name points elsewhere now: what is open leads to the old place.
				known.server->kill_before_us.store(monotonic_us(), std::memory_order_relaxed);
				aftermath.close_free.push_back(known.server);
			}
			aftermath.infos.push_back(
			    fmt::format("Hostname {} of hostgroup {} is now {}", hostname, hostgroup, address));
		}
	}
}

std::vector<PgSQL_HostGroups_Manager::Watched_Server>
PgSQL_HostGroups_Manager::watched_servers() const {
	std::vector<Watched_Server> watched;
	const Hostgroup_View_Ptr view = view_.get().value;
	Lock lock(mutex_);
	for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
		Watched_Server entry;
		entry.hostname = endpoint.first;
		entry.port = endpoint.second;
		entry.health = endpoint_state.health;
		bool wanted = false;
		for (const auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			if (status_of(*known.server) == Server_Status::offline_hard) {
				continue;
			}
			wanted = true;
			entry.address = known.server->address();
			entry.use_ssl = known.row.use_ssl;
			entry.watch_lag = entry.watch_lag || known.row.max_replication_lag > 0;
			const Hostgroup_Pair* const as_writer = view->pair_of_writer(hostgroup);
			const Hostgroup_Pair* const pair =
			    as_writer != nullptr ? as_writer : view->pair_of_reader(hostgroup);
			if (pair != nullptr) {
				entry.in_pair = true;
				entry.writer_hostgroup = pair->writer_hostgroup;
				entry.check_type = pair->check_type;
				entry.protocol = pair->protocol;
			}
		}
		if (wanted) {
			watched.push_back(std::move(entry));
		}
	}
	return watched;
}

std::vector<std::string> PgSQL_HostGroups_Manager::host_names() const {
	std::set<std::string> names;
	Lock lock(mutex_);
	for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
		if (endpoint.second != 0 && needs_resolving(endpoint.first)) {
			names.insert(endpoint.first);
		}
	}
	return {names.begin(), names.end()};
}

} // namespace proxy
