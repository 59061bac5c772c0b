// What a session sees of its worker: the snapshots of this loop pass, the worker's own caches and
// the few services that need another thread. Lives as long as the worker; its thread only.
#pragma once

#include "auth/PgSQL_Authentication.h"
#include "base/Mutex.h"
#include "classify/Query_Digest_Stats.h"
#include "classify/Query_Processor.h"
#include "config/Pgsql_Config.h"
#include "net/Event_Loop.h"
#include "net/Tls_Context.h"
#include "pool/Hostgroup_View.h"
#include "pool/PgSQL_HostGroups_Manager.h"
#include "pool/Reader_Selection.h"
#include "pool/Thread_Conn_Cache.h"
#include "prepared/PgSQL_STMT_Manager.h"
#include "session/Cancel_Ticket.h"
#include "session/Login_Wait.h"
#include "session/Route_Counters.h"
#include "session/Session_Ids.h"
#include "session/Session_Listen.h"
#include "stats/Worker_Counters.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace proxy {

class PgSQL_Session;

// Client connections of each database. Locked at login and logout only; any thread.
class Database_Counts {
public:
	// How many there were before this one.
	int64_t enter(const std::string& database) {
		Lock lock(mutex_);
		return counts_[database]++;
	}
	void leave(const std::string& database) {
		Lock lock(mutex_);
		const auto found = counts_.find(database);
		if (found != counts_.end() && --found->second == 0) {
			counts_.erase(found);
		}
	}

private:
	Mutex mutex_{Lock_Rank::shared_maps};
	std::unordered_map<std::string, int64_t> counts_ GUARDED_BY(mutex_);
};

// Counters that all workers change, at login and logout only. Relaxed: limits that may be off by
// the logins in flight.
struct Shared_Limits {
	std::atomic<int64_t> client_connections{0};
	Database_Counts databases;
	std::atomic<int64_t> logins{0}; // connections that are not logged in yet
	Session_Ids session_ids;
};

// What a session asks of its worker.
class Session_Services {
public:
	// The session is over: deleted at the end of the loop pass.
	virtual void session_ended(PgSQL_Session& session) = 0;
	// A waiter for this session was queued at `server`; the delivery comes to on_delivery().
	virtual void note_parked(PgSQL_Session& session, Server_Ptr server) = 0;
	// The session no longer waits there.
	virtual void forget_parked(PgSQL_Session& session) = 0;
	virtual Pool_Waiter_Sink& waiter_sink() = 0;
	// A CancelRequest: every worker looks for the session, or the proxy whose it is gets it.
	virtual void broadcast_cancel(const Cancel_Request& request,
	                              const Cancel_Ticket_Ptr& ticket) = 0;
	// Sends a cancel to a server from a thread that may block; the ticket tells the outcome.
	virtual void send_cancel(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) = 0;
	// Keeps a connection until the ticket is settled, then pools it; without a ticket it is closed
	// at the end of the pass.
	virtual void hold_until(std::unique_ptr<PgSQL_Connection> connection,
	                        Cancel_Ticket_Ptr ticket) = 0;
	// Runs `job` on a service thread; its answer comes to on_login_answer() with the number
	// returned.
	virtual uint64_t start_login_job(PgSQL_Session& session, Login_Lane lane, Login_Job job) = 0;
	// on_deadline() of the session is to run at about this monotonic time, or earlier when it was
	// asked for earlier: it looks at everything and asks again.
	virtual void wake_by(PgSQL_Session& session, int64_t deadline_us) = 0;
	// To the listener of the order's database; answered by on_listen_answer() of the session.
	virtual void order_listen(Listen_Order order) = 0;
	// A server connection failed at the connection level: the monitor looks at once.
	virtual void report_server_failure(const PgSQL_SrvC& server) = 0;

protected:
	~Session_Services() = default;
};

struct Worker_Context {
	Event_Loop& loop;
	Query_Processor& queries;
	Query_Digest_Stats& digests;
	Worker_Counters& counters;
	Route_Counters& routes;
	Thread_Conn_Cache& connections;
	PgSQL_STMT_Manager& statements;
	PgSQL_HostGroups_Manager& hostgroups;
	Shared_Limits& limits;
	Session_Services& services;

	// Snapshots of this pass.
	std::shared_ptr<const Pgsql_Config> config;
	std::shared_ptr<const Hostgroup_View> view;
	std::shared_ptr<const Users_Snapshot> users;
	Tls_Context_Ptr tls;
	std::shared_ptr<const std::map<std::string, std::string>> reported_parameters;

	// Clock of this pass: monotonic microseconds, Unix seconds; and the pass's number.
	int64_t now_us = 0;
	int64_t now_s = 0;
	uint64_t pass = 0;

	// One read buffer for all descriptors of the worker: nothing is kept in it between calls.
	std::vector<char> read_buffer;
	// Reused for the bytes of one request to a server.
	std::string send_buffer;
	Random_Source random{1};
	std::unordered_map<int, Selection_State> selection;
	// Calls of functions of which nothing is known: how often nothing was found behind them.
	std::unordered_map<uint64_t, uint32_t> clean_calls;
	// Startup parameters that a server has taken, and how it reports the value; empty: not.
	std::unordered_map<std::string, std::string> known_parameters;
};

} // namespace proxy
