// What PgSQL_HostGroups_Manager knows, guarded by its mutex. Private to lib/pool.
#pragma once

#include "pool/PgSQL_HostGroups_Manager.h"
#include "pool/PgSQL_SrvC.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

// One server of one hostgroup, with the row it runs by.
struct PgSQL_HostGroups_Manager::Known_Server {
	Server_Ptr server;
	Pgsql_Server_Row row; // row.status: as configured; server->status: as it is
	int lagging_samples = 0;
	bool seen = false; // named by the configuration that is being loaded
};

struct PgSQL_HostGroups_Manager::State {
	using Endpoint = std::pair<std::string, int>; // hostname, port
	struct Endpoint_State {
		std::shared_ptr<Server_Health> health;
		std::map<int, Known_Server> by_hostgroup;
	};
	// Who writes for a pair: positions of one epoch mean nothing in another.
	struct Writer_Epoch {
		std::map<Endpoint, uint32_t> timelines;
		uint64_t number = 0;
	};

	std::shared_ptr<const Pgsql_Config> config = std::make_shared<Pgsql_Config>();
	std::map<Endpoint, Endpoint_State> endpoints;
	std::vector<Replication_Hostgroup_Row> pairs;
	std::map<int, size_t> pair_of_hostgroup; // either half -> index into pairs
	std::map<int, Hostgroup_Attributes_Row> attributes;
	std::vector<std::shared_ptr<const Server_Ssl_Params_Row>> ssl_params;
	std::map<int, Writer_Epoch> epochs; // by writer hostgroup
	uint64_t last_epoch = 0;
	uint64_t version = 0;
	int64_t last_empty_log_us = 0;

	Known_Server* find(int hostgroup, const std::string& hostname, int port) {
		const auto endpoint = endpoints.find(Endpoint(hostname, port));
		if (endpoint == endpoints.end()) {
			return nullptr;
		}
		const auto known = endpoint->second.by_hostgroup.find(hostgroup);
		return known == endpoint->second.by_hostgroup.end() ? nullptr : &known->second;
	}
	Endpoint_State* endpoint(const std::string& hostname, int port) {
		const auto found = endpoints.find(Endpoint(hostname, port));
		return found == endpoints.end() ? nullptr : &found->second;
	}
};

// What has to happen once the manager's lock is released: no log line, destructor of a connection
// or delivery to a worker under a lock. Declare it before the Lock, so that it runs after it.
struct PgSQL_HostGroups_Manager::Aftermath {
	std::vector<std::string> infos;
	std::vector<std::string> warnings;
	std::vector<Server_Ptr> left_online; // close their FREE connections, send waiters elsewhere
	std::vector<Server_Ptr> more_slots;  // max_connections may have risen
	std::vector<Server_Ptr> close_free;  // connections are dead, the server stays a candidate

	Aftermath() = default;
	Aftermath(const Aftermath&) = delete;
	Aftermath& operator=(const Aftermath&) = delete;
	~Aftermath();
};

inline Server_Status status_of(const PgSQL_SrvC& server) {
	return server.status.load(std::memory_order_relaxed);
}

} // namespace proxy
