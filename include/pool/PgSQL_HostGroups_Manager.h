// Owner of hostgroups and servers; publishes Hostgroup_View. Every change builds a new view under
// mu_ (rank 20) and swaps it; workers read the view without a lock.
#pragma once

#include "base/Mutex.h"
#include "base/Result.h"
#include "base/Snapshot.h"
#include "config/Config_Rows.h"
#include "config/Pgsql_Config.h"
#include "pool/Hostgroup_View.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

// Told of connection-level failures that traffic meets, so that the monitor looks at once. Any
// thread; must not block.
class Connect_Error_Listener {
public:
	virtual void on_connect_error(const std::string& hostname, int port) = 0;

protected:
	~Connect_Error_Listener() = default;
};

class PgSQL_HostGroups_Manager {
public:
	PgSQL_HostGroups_Manager();
	~PgSQL_HostGroups_Manager();
	PgSQL_HostGroups_Manager(const PgSQL_HostGroups_Manager&) = delete;
	PgSQL_HostGroups_Manager& operator=(const PgSQL_HostGroups_Manager&) = delete;

	const Snapshot<Hostgroup_View>& view() const { return view_; }

	// LOAD PGSQL SERVERS TO RUNTIME: merges by (hostgroup, host, port), keeping connections and
	// counters. Validated before anything changes. Resolves host names, so it may block: admin
	// only.
	Result<void> commit(const Pgsql_Servers_Config& config);
	// Pairs inherit from the global settings: called when pgsql variables change.
	void set_config(std::shared_ptr<const Pgsql_Config> config);
	// What runs, for runtime_pgsql_servers & co: with the monitor's moves and shunnings.
	Pgsql_Servers_Config runtime_config() const;

	// Monitor's findings. `read_only` as in pg_is_in_recovery(). Moves the server between the
	// hostgroups of its pairs (pgsql-monitor_writer_is_also_reader) and publishes when it moved.
	void set_read_only(const std::string& hostname, int port, bool read_only);
	// Checks of the role got no answer for too long: counts as a replica, if its pair has another
	// writer to go to. False: it has not, nothing is changed.
	bool assume_read_only(const std::string& hostname, int port);
	// Timeline of the current writer: a change is a new writer epoch.
	void set_timeline(const std::string& hostname, int port, uint32_t timeline);
	// Shuns the server in all its hostgroups, but never the last candidate of one (its connections
	// are closed all the same): FREE ones now, used ones as soon as their worker looks
	// (PgSQL_SrvC::kill_before_us). OFFLINE_SOFT and OFFLINE_HARD stay what they are.
	void shun(const std::string& hostname, int port, Server_Status to, std::string_view reason);
	// Brings back what was shunned automatically for failures.
	void unshun(const std::string& hostname, int port);
	// Replication lag in seconds: a replica over its max_replication_lag for
	// pgsql-monitor_replication_lag_count samples in a row is passed over until it is not.
	void note_replication_lag(const std::string& hostname, int port, int64_t lag_s);
	// A name was resolved (again); empty address: it could not be, nothing changes.
	void set_address(const std::string& hostname, const std::string& address);
	// Null takes the listener away; it must outlive all traffic otherwise.
	void set_connect_error_listener(Connect_Error_Listener* listener) {
		connect_error_listener_.store(listener, std::memory_order_release);
	}
	// A worker's failed connect attempt: shuns after pgsql-shun_on_failures in a second, never the
	// last ONLINE server of a hostgroup, and tells the listener. counters.connect_err is the
	// worker's.
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

	// Every address that is in use, once, with what the monitor must know to watch it.
	struct Watched_Server {
		std::string hostname;
		int port = 0;
		std::string address;
		int use_ssl = 0;
		bool in_pair = false;      // member of a replication pair: its role matters
		int writer_hostgroup = -1; // of that pair
		Check_Type check_type = Check_Type::read_only;
		Proxy_Protocol protocol = Proxy_Protocol::off; // of its pair: what to probe for
		bool watch_lag = false;                        // max_replication_lag > 0 somewhere
		std::shared_ptr<Server_Health> health;
	};
	std::vector<Watched_Server> watched_servers() const;
	// Names that need resolving: everything that is no numeric address or socket directory.
	std::vector<std::string> host_names() const;

	struct State; // private to lib/pool: HostGroups_State.h

private:
	struct Aftermath;
	struct Known_Server;
	void publish_locked() REQUIRES(mutex_);
	void publish_epochs_locked(Hostgroup_View& view) REQUIRES(mutex_);
	Known_Server& find_or_make_locked(int hostgroup, const std::string& hostname, int port)
	    REQUIRES(mutex_);
	void apply_row_locked(const Pgsql_Server_Row& row, Aftermath& aftermath) REQUIRES(mutex_);
	void apply_address_locked(Known_Server& known, const std::string& address, Aftermath& aftermath)
	    REQUIRES(mutex_);
	// Returns whether something moved.
	bool move_locked(const std::string& hostname, int port, bool read_only, Aftermath& aftermath)
	    REQUIRES(mutex_);
	bool copy_into_locked(int from, int to, const std::string& hostname, int port,
	                      Aftermath& aftermath) REQUIRES(mutex_);
	bool remove_locked(int hostgroup, const std::string& hostname, int port, Aftermath& aftermath)
	    REQUIRES(mutex_);
	void fence_locked(int writer_hostgroup, Aftermath& aftermath) REQUIRES(mutex_);
	bool is_last_candidate_locked(const PgSQL_SrvC& server) const REQUIRES(mutex_);
	void set_status_locked(PgSQL_SrvC& server, Server_Status status, Aftermath& aftermath)
	    REQUIRES(mutex_);
	void recover_locked(Known_Server& known, Aftermath& aftermath) REQUIRES(mutex_);

	mutable Mutex mutex_{Lock_Rank::hostgroups_manager};
	std::unique_ptr<State> state_ GUARDED_BY(mutex_);
	Snapshot<Hostgroup_View> view_;
	Snapshot<std::map<std::string, std::string>> reported_parameters_;
	std::atomic<Connect_Error_Listener*> connect_error_listener_{nullptr};
};

} // namespace proxy
