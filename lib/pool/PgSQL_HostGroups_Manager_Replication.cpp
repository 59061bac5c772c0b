// Roles: who of a pair writes. Fed by the monitor's findings.
#include "HostGroups_State.h"
#include "backend/PgSQL_Connection.h"
#include "pool/PgSQL_HostGroups_Manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace proxy {

// Gives the server a row in `to` that copies the one in `from`.
bool PgSQL_HostGroups_Manager::copy_into_locked(int from, int to, const std::string& hostname,
                                                int port, Aftermath& aftermath) {
	const Known_Server* source = state_->find(from, hostname, port);
	const Known_Server* present = state_->find(to, hostname, port);
	if (source == nullptr ||
	    (present != nullptr && status_of(*present->server) != Server_Status::offline_hard)) {
		return false;
	}
	Pgsql_Server_Row row = source->row;
	row.hostgroup_id = to;
	const bool shunned = status_of(*source->server) == Server_Status::shunned &&
	                     source->server->shunned_automatically.load(std::memory_order_relaxed);
	if (row.status == Server_Status::offline_hard) {
		row.status = Server_Status::online;
	}
	apply_row_locked(row, aftermath);
	aftermath.infos.push_back(
	    fmt::format("Server {}:{} is now in hostgroup {}", hostname, port, to));
	if (shunned) {
		// It has just answered the monitor, so what it was shunned for is over.
		recover_locked(*state_->find(from, hostname, port), aftermath);
	}
	return true;
}

bool PgSQL_HostGroups_Manager::remove_locked(int hostgroup, const std::string& hostname, int port,
                                             Aftermath& aftermath) {
	Known_Server* known = state_->find(hostgroup, hostname, port);
	if (known == nullptr || status_of(*known->server) == Server_Status::offline_hard) {
		return false;
	}
	known->row.status = Server_Status::offline_hard;
	known->seen = false;
	known->server->shunned_automatically.store(false, std::memory_order_relaxed);
	set_status_locked(*known->server, Server_Status::offline_hard, aftermath);
	aftermath.infos.push_back(
	    fmt::format("Server {}:{} is no longer in hostgroup {}", hostname, port, hostgroup));
	return true;
}

bool PgSQL_HostGroups_Manager::move_locked(const std::string& hostname, int port, bool read_only,
                                           Aftermath& aftermath) {
	State& state = *state_;
	const auto active = [&](int hostgroup) {
		const Known_Server* known = state.find(hostgroup, hostname, port);
		return known != nullptr && status_of(*known->server) != Server_Status::offline_hard;
	};
	std::set<size_t> pairs; // of this server: seldom more than one
	for (const auto& [hostgroup, known] :
	     state.endpoints[State::Endpoint(hostname, port)].by_hostgroup) {
		const auto found = state.pair_of_hostgroup.find(hostgroup);
		if (found != state.pair_of_hostgroup.end() && active(hostgroup)) {
			pairs.insert(found->second);
		}
	}
	bool moved = false;
	for (const size_t index : pairs) {
		const Replication_Hostgroup_Row& pair = state.pairs[index];
		if (read_only) {
			if (active(pair.writer_hostgroup)) {
				copy_into_locked(pair.writer_hostgroup, pair.reader_hostgroup, hostname, port,
				                 aftermath);
				moved |= remove_locked(pair.writer_hostgroup, hostname, port, aftermath);
			}
			continue;
		}
		if (!active(pair.writer_hostgroup)) {
			moved |= copy_into_locked(pair.reader_hostgroup, pair.writer_hostgroup, hostname, port,
			                          aftermath);
			fence_locked(pair.writer_hostgroup, aftermath);
		}
		if (active(pair.reader_hostgroup) && !state.config->monitor_writer_is_also_reader) {
			moved |= remove_locked(pair.reader_hostgroup, hostname, port, aftermath);
		}
	}
	return moved;
}

// Of several servers that say they are primary the newest timeline is right: an older one was
// promoted away from and must not be written to.
void PgSQL_HostGroups_Manager::fence_locked(int writer_hostgroup, Aftermath& aftermath) {
	const auto writes = [&](const auto& entry) {
		const auto known = entry.second.by_hostgroup.find(writer_hostgroup);
		return known != entry.second.by_hostgroup.end() &&
		       status_of(*known->second.server) != Server_Status::offline_hard &&
		       entry.second.health->role.load(std::memory_order_relaxed) == Server_Role::primary;
	};
	uint32_t newest = 0;
	for (const auto& entry : state_->endpoints) {
		if (writes(entry)) {
			newest =
			    std::max(newest, entry.second.health->timeline.load(std::memory_order_relaxed));
		}
	}
	for (const auto& entry : state_->endpoints) {
		if (!writes(entry)) {
			continue;
		}
		Server_Health& health = *entry.second.health;
		const uint32_t timeline = health.timeline.load(std::memory_order_relaxed);
		const bool stale = timeline != 0 && timeline < newest;
		if (health.fenced.exchange(stale, std::memory_order_relaxed) == stale) {
			continue;
		}
		if (!stale) {
			continue;
		}
		aftermath.warnings.push_back(fmt::format(
		    "Server {}:{} says it is primary on timeline {}, but hostgroup {} has one on "
		    "timeline {}: it gets no traffic",
		    entry.first.first, entry.first.second, timeline, writer_hostgroup, newest));
		for (const auto& [hostgroup, known] : entry.second.by_hostgroup) {
			known.server->kill_before_us.store(monotonic_us() + 1, std::memory_order_relaxed);
			aftermath.close_free.push_back(known.server);
			if (status_of(*known.server) == Server_Status::online) {
				known.server->shunned_automatically.store(true, std::memory_order_relaxed);
				set_status_locked(*known.server, Server_Status::shunned, aftermath);
			}
		}
	}
}

void PgSQL_HostGroups_Manager::set_read_only(const std::string& hostname, int port,
                                             bool read_only) {
	Aftermath aftermath;
	Lock lock(mutex_);
	State::Endpoint_State* endpoint = state_->endpoint(hostname, port);
	if (endpoint == nullptr) {
		return;
	}
	const Server_Role role = read_only ? Server_Role::replica : Server_Role::primary;
	const Server_Role before = endpoint->health->role.exchange(role, std::memory_order_relaxed);
	if (read_only && endpoint->health->fenced.exchange(false, std::memory_order_relaxed)) {
		for (auto& [hostgroup, known] : endpoint->by_hostgroup) {
			recover_locked(known, aftermath);
		}
	}
	if (before != role && before != Server_Role::unknown) {
		// Connections opened in the other role may carry its rules (a session that was read-only
		// by recovery, a client address that only one role trusts), and a demoted server must not
		// be written to by whoever still holds one.
		for (auto& [hostgroup, known] : endpoint->by_hostgroup) {
			known.server->kill_before_us.store(monotonic_us() + 1, std::memory_order_relaxed);
			aftermath.close_free.push_back(known.server);
		}
		endpoint->health->forget_lsn();
		endpoint->health->capabilities.store(0, std::memory_order_relaxed);
		aftermath.warnings.push_back(fmt::format("Server {}:{} has become {}", hostname, port,
		                                         read_only ? "a replica" : "the primary"));
	}
	const bool moved = move_locked(hostname, port, read_only, aftermath);
	if (before != role) {
		for (const Replication_Hostgroup_Row& pair : state_->pairs) {
			if (endpoint->by_hostgroup.contains(pair.writer_hostgroup)) {
				fence_locked(pair.writer_hostgroup, aftermath);
			}
		}
	}
	if (moved || before != role) {
		publish_locked();
	}
}

bool PgSQL_HostGroups_Manager::assume_read_only(const std::string& hostname, int port) {
	{
		Lock lock(mutex_);
		for (const Replication_Hostgroup_Row& pair : state_->pairs) {
			const Known_Server* const known = state_->find(pair.writer_hostgroup, hostname, port);
			if (known != nullptr && status_of(*known->server) == Server_Status::online &&
			    is_last_candidate_locked(*known->server)) {
				return false;
			}
		}
	}
	set_read_only(hostname, port, true);
	return true;
}

void PgSQL_HostGroups_Manager::set_timeline(const std::string& hostname, int port,
                                            uint32_t timeline) {
	Aftermath aftermath;
	Lock lock(mutex_);
	State::Endpoint_State* endpoint = state_->endpoint(hostname, port);
	if (endpoint == nullptr ||
	    endpoint->health->timeline.exchange(timeline, std::memory_order_relaxed) == timeline) {
		return;
	}
	for (const Replication_Hostgroup_Row& pair : state_->pairs) {
		if (endpoint->by_hostgroup.contains(pair.writer_hostgroup)) {
			fence_locked(pair.writer_hostgroup, aftermath);
		}
	}
	publish_locked();
}

} // namespace proxy
