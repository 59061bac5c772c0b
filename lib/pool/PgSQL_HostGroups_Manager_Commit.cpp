// LOAD PGSQL SERVERS TO RUNTIME: validate, resolve, merge.
#include "HostGroups_State.h"
#include "backend/PgSQL_Connection.h"
#include "config/Hostgroup_Settings.h"
#include "pool/PgSQL_HostGroups_Manager.h"
#include "pool/Resolver.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace proxy {

namespace {
constexpr int64_t kUsPerMs = 1000;

std::string describe(const Pgsql_Server_Row& row) {
	return fmt::format("pgsql_servers ({}, {}, {})", row.hostgroup_id, row.hostname, row.port);
}

void validate_servers(const std::vector<Pgsql_Server_Row>& rows,
                      std::vector<std::string>& problems) {
	std::set<std::tuple<int, std::string, int>> seen;
	for (const Pgsql_Server_Row& row : rows) {
		const std::string name = describe(row);
		if (row.hostgroup_id < 0) {
			problems.push_back(name + ": hostgroup_id is negative");
		}
		if (row.hostname.empty()) {
			problems.push_back(name + ": hostname is empty");
		}
		if (row.port < 0 || row.port > 65535) {
			problems.push_back(name + ": port is not between 0 and 65535");
		}
		if (row.port == 0 && !row.hostname.empty() && row.hostname.front() != '/') {
			problems.push_back(name + ": with port 0 hostname is the directory of a socket");
		}
		if (row.weight < 0 || row.max_connections < 0 || row.max_replication_lag < 0 ||
		    row.max_latency_ms < 0) {
			problems.push_back(name + ": weight, max_connections, max_replication_lag and "
			                          "max_latency_ms cannot be negative");
		}
		if (!seen.emplace(row.hostgroup_id, row.hostname, row.port).second) {
			problems.push_back(name + ": listed twice");
		}
	}
}

void validate_pairs(const std::vector<Replication_Hostgroup_Row>& rows,
                    std::vector<std::string>& problems) {
	std::set<int> writers;
	std::set<int> readers;
	for (const Replication_Hostgroup_Row& row : rows) {
		const std::string name = fmt::format("pgsql_replication_hostgroups ({}, {})",
		                                     row.writer_hostgroup, row.reader_hostgroup);
		if (row.writer_hostgroup < 0 || row.reader_hostgroup < 0) {
			problems.push_back(name + ": a hostgroup is negative");
		}
		if (row.writer_hostgroup == row.reader_hostgroup) {
			problems.push_back(name + ": writer_hostgroup and reader_hostgroup are the same");
		}
		if (!writers.insert(row.writer_hostgroup).second) {
			problems.push_back(name + ": writer_hostgroup is in another pair already");
		}
		if (!readers.insert(row.reader_hostgroup).second) {
			problems.push_back(name + ": reader_hostgroup is in another pair already");
		}
		if (row.max_lag_bytes < -1 || row.lsn_wait_timeout_ms < -1) {
			problems.push_back(name + ": max_lag_bytes and lsn_wait_timeout_ms are -1 (inherit), "
			                          "0 or positive");
		}
	}
	for (const int hostgroup : writers) {
		if (readers.contains(hostgroup)) {
			problems.push_back(fmt::format("pgsql_replication_hostgroups: hostgroup {} is writer "
			                               "of one pair and reader of another",
			                               hostgroup));
		}
	}
}

Result<void> validate(const Pgsql_Servers_Config& config) {
	std::vector<std::string> problems;
	validate_servers(config.servers, problems);
	validate_pairs(config.replication_hostgroups, problems);
	std::set<int> attributes;
	for (const Hostgroup_Attributes_Row& row : config.hostgroup_attributes) {
		const std::string name = fmt::format("pgsql_hostgroup_attributes ({})", row.hostgroup_id);
		if (!attributes.insert(row.hostgroup_id).second) {
			problems.push_back(name + ": listed twice");
		}
		if (row.free_connections_pct < 0 || row.free_connections_pct > 100) {
			problems.push_back(name + ": free_connections_pct is not between 0 and 100");
		}
		if (const auto settings = parse_hostgroup_settings(row.hostgroup_settings);
		    !settings.ok()) {
			problems.push_back(name + ": " + settings.error().message);
		}
	}
	std::set<std::tuple<std::string, int, std::string>> ssl;
	for (const Server_Ssl_Params_Row& row : config.ssl_params) {
		if (!ssl.emplace(row.hostname, row.port, row.username).second) {
			problems.push_back(fmt::format("pgsql_servers_ssl_params ({}, {}, {}): listed twice",
			                               row.hostname, row.port, row.username));
		}
	}
	if (problems.empty()) {
		return {};
	}
	std::string text;
	for (const std::string& problem : problems) {
		text += (text.empty() ? "" : "; ") + problem;
	}
	return make_error("22023", text);
}

// Empty value: there is no such name.
std::map<std::string, std::string> resolve_all(const std::vector<Pgsql_Server_Row>& rows) {
	std::map<std::string, std::string> addresses;
	for (const Pgsql_Server_Row& row : rows) {
		if (row.port != 0 && needs_resolving(row.hostname) && !addresses.contains(row.hostname)) {
			addresses[row.hostname] = resolve_host(row.hostname);
		}
	}
	return addresses;
}
} // namespace

PgSQL_HostGroups_Manager::Known_Server&
PgSQL_HostGroups_Manager::find_or_make_locked(int hostgroup, const std::string& hostname,
                                              int port) {
	State::Endpoint_State& endpoint = state_->endpoints[State::Endpoint(hostname, port)];
	if (!endpoint.health) {
		endpoint.health = std::make_shared<Server_Health>();
	}
	Known_Server& known = endpoint.by_hostgroup[hostgroup];
	if (!known.server) {
		known.server = std::make_shared<PgSQL_SrvC>(hostgroup, hostname, port, endpoint.health);
		known.server->status.store(Server_Status::offline_hard, std::memory_order_relaxed);
		known.row.status = Server_Status::offline_hard;
		for (const auto& [other_hostgroup, other] : endpoint.by_hostgroup) {
			if (other_hostgroup != hostgroup) {
				known.server->set_address(other.server->address());
			}
		}
	}
	return known;
}

void PgSQL_HostGroups_Manager::apply_row_locked(const Pgsql_Server_Row& row, Aftermath& aftermath) {
	Known_Server& known = find_or_make_locked(row.hostgroup_id, row.hostname, row.port);
	PgSQL_SrvC& server = *known.server;
	const Server_Status configured_before = known.row.status;
	known.row = row;
	known.seen = true;
	const int64_t cap_ms =
	    row.max_latency_ms > 0 ? row.max_latency_ms : state_->config->default_max_latency_ms;
	server.weight.store(row.weight, std::memory_order_relaxed);
	server.max_connections.store(row.max_connections, std::memory_order_relaxed);
	server.max_latency_us.store(cap_ms * kUsPerMs, std::memory_order_relaxed);
	server.use_ssl.store(row.use_ssl, std::memory_order_relaxed);
	server.max_replication_lag_s.store(row.max_replication_lag, std::memory_order_relaxed);
	aftermath.more_slots.push_back(known.server);

	// A server that is shunned automatically stays so while its row asks for nothing new: a LOAD
	// for another reason must not bring a dead server back. Also when the row says SHUNNED only
	// because runtime was saved while it was.
	const bool automatic = server.shunned_automatically.load(std::memory_order_relaxed) ||
	                       status_of(server) == Server_Status::shunned_lag;
	const bool asks_nothing_new = row.status == configured_before ||
	                              row.status == Server_Status::shunned ||
	                              row.status == Server_Status::shunned_lag;
	if (automatic && asks_nothing_new && configured_before != Server_Status::offline_hard) {
		known.row.status = Server_Status::online;
		if (status_of(server) == Server_Status::shunned_lag && row.max_replication_lag == 0) {
			set_status_locked(server, Server_Status::online, aftermath);
		}
		return;
	}
	server.shunned_automatically.store(false, std::memory_order_relaxed);
	set_status_locked(server, row.status, aftermath);
}

// With no address now or from before the server is out of service until there is one.
void PgSQL_HostGroups_Manager::apply_address_locked(Known_Server& known, const std::string& address,
                                                    Aftermath& aftermath) {
	PgSQL_SrvC& server = *known.server;
	if (!address.empty()) {
		server.set_address(address);
		return;
	}
	if (!known.seen || !server.address().empty()) {
		return;
	}
	aftermath.warnings.push_back(
	    fmt::format("Hostname {} of hostgroup {} cannot be resolved. Shunning it until it can",
	                server.hostname, server.hostgroup_id));
	server.health->reachable.store(false, std::memory_order_relaxed);
	if (status_of(server) == Server_Status::online) {
		server.shunned_automatically.store(true, std::memory_order_relaxed);
		set_status_locked(server, Server_Status::shunned, aftermath);
	}
}

Result<void> PgSQL_HostGroups_Manager::commit(const Pgsql_Servers_Config& config) {
	PROXY_TRY(validate(config));
	const std::map<std::string, std::string> addresses = resolve_all(config.servers);

	Aftermath aftermath;
	Lock lock(mutex_);
	state_->pairs = config.replication_hostgroups;
	state_->pair_of_hostgroup.clear();
	for (size_t i = 0; i < state_->pairs.size(); ++i) {
		state_->pair_of_hostgroup[state_->pairs[i].writer_hostgroup] = i;
		state_->pair_of_hostgroup[state_->pairs[i].reader_hostgroup] = i;
	}
	state_->attributes.clear();
	for (const Hostgroup_Attributes_Row& row : config.hostgroup_attributes) {
		state_->attributes[row.hostgroup_id] = row;
	}
	state_->ssl_params.clear();
	for (const Server_Ssl_Params_Row& row : config.ssl_params) {
		state_->ssl_params.push_back(std::make_shared<const Server_Ssl_Params_Row>(row));
	}
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			known.seen = false;
		}
	}
	for (const Pgsql_Server_Row& row : config.servers) {
		apply_row_locked(row, aftermath);
	}
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		const auto found = addresses.find(endpoint.first);
		if (found == addresses.end()) {
			continue;
		}
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			apply_address_locked(known, found->second, aftermath);
		}
	}
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			if (!known.seen) {
				known.row.status = Server_Status::offline_hard;
				known.server->shunned_automatically.store(false, std::memory_order_relaxed);
				set_status_locked(*known.server, Server_Status::offline_hard, aftermath);
			}
		}
	}
	// The rows may name as writer a server that has long been a replica: what the monitor knows is
	// applied before anybody sees the new view.
	if (state_->config->monitor_enabled) {
		const auto endpoints = state_->endpoints; // moves add and remove entries
		for (const auto& [endpoint, endpoint_state] : endpoints) {
			const Server_Role role = endpoint_state.health->role.load(std::memory_order_relaxed);
			if (role != Server_Role::unknown) {
				move_locked(endpoint.first, endpoint.second, role == Server_Role::replica,
				            aftermath);
			}
		}
	}
	publish_locked();
	return {};
}

} // namespace proxy
