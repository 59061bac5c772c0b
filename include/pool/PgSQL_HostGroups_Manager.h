// Owner of hostgroups and servers; publishes Hostgroup_View. Every change builds a new view under
// mu_ (rank 20) and swaps it; workers read the view without a lock.
#pragma once

#include "base/Mutex.h"
#include "base/Result.h"
#include "base/Snapshot.h"
#include "config/Config_Rows.h"
#include "config/Pgsql_Config.h"
#include "pool/Hostgroup_View.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

class PgSQL_HostGroups_Manager {
public:
	PgSQL_HostGroups_Manager();
	~PgSQL_HostGroups_Manager();
	PgSQL_HostGroups_Manager(const PgSQL_HostGroups_Manager&) = delete;
	PgSQL_HostGroups_Manager& operator=(const PgSQL_HostGroups_Manager&) = delete;

	const Snapshot<Hostgroup_View>& view() const { return view_; }

	// LOAD PGSQL SERVERS TO RUNTIME: merges by (hostgroup, host, port), keeping connections and
	// counters. Validated before anything changes. Resolves host names, so it may block: admin only.
	Result<void> commit(const Pgsql_Servers_Config& config);
	// Pairs inherit from the global settings: called when pgsql variables change.
	void set_config(std::shared_ptr<const Pgsql_Config> config);
	// What runs, for runtime_pgsql_servers & co: with the monitor's moves and shunnings.
	Pgsql_Servers_Config runtime_config() const;

	// Monitor's findings. `read_only` as in pg_is_in_recovery(). Moves the server between the
	// hostgroups of its pairs (pgsql-monitor_writer_is_also_reader) and publishes when it moved.
	void set_read_only(const std::string& hostname, int port, bool read_only);
	// Timeline of the current writer: a change is a new writer epoch.
	void set_timeline(const std::string& hostname, int port, uint32_t timeline);
	// Shuns (or brings back) the server in all its hostgroups. `kill`: used connections are
	// closed too as soon as their worker notices.
	void shun(const std::string& hostname, int port, Server_Status to, std::string_view reason);
	void unshun(const std::string& hostname, int port);
	// A worker's failed connect attempt: counts, shuns after pgsql-shun_on_failures in a second;
	// never the last ONLINE server of a hostgroup.
	void note_connect_error(PgSQL_SrvC& server, int64_t now_us);
	// Lazy recovery: brings back servers shunned by failures after pgsql-shun_recovery_time_sec.
	void recover_shunned(int64_t now_us);

	// ParameterStatus values of a live primary (server_version, TimeZone, ...), for logins.
	void set_reported_parameters(std::map<std::string, std::string> parameters);
	const Snapshot<std::map<std::string, std::string>>& reported_parameters() const {
		return reported_parameters_;
	}

	// One row a (hostgroup, server), for stats_pgsql_connection_pool. `reset` zeroes counters.
	struct Pool_Row {
		Server_Ptr server;
		int64_t used = 0;
		int64_t free = 0;
		int64_t waiting = 0;
		uint64_t connect_ok = 0;
		uint64_t connect_err = 0;
		int64_t max_used = 0;
		uint64_t queries = 0;
		uint64_t bytes_sent = 0;
		uint64_t bytes_received = 0;
	};
	std::vector<Pool_Row> pool_rows(bool reset);

	// SSL parameters for (hostname, port, username), then (hostname, port, any); null: none.
	std::shared_ptr<const Server_Ssl_Params_Row> ssl_params(const std::string& hostname, int port,
	                                                        const std::string& username) const;
	// Closes FREE connections that are too old or belong to servers that are not ONLINE. Service
	// thread.
	void trim_free_connections(int64_t now_us);

private:
	struct State;
	void publish_locked() REQUIRES(mutex_);
	Server_Ptr find_or_make_locked(int hostgroup, const std::string& hostname, int port)
	    REQUIRES(mutex_);
	std::shared_ptr<Server_Health> health_of_locked(const std::string& hostname, int port)
	    REQUIRES(mutex_);
	void move_locked(const std::string& hostname, int port, bool read_only) REQUIRES(mutex_);

	mutable Mutex mutex_{Lock_Rank::hostgroups_manager};
	std::unique_ptr<State> state_ GUARDED_BY(mutex_);
	Snapshot<Hostgroup_View> view_;
	Snapshot<std::map<std::string, std::string>> reported_parameters_;
};

} // namespace proxy
