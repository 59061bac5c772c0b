// One server of one hostgroup: limits, status, counters, and every reusable connection to it.
//
// The FREE and USED counts, the FREE list and the waiting list change together under the server's
// one mutex (rank 30). No network I/O, callback or log line happens under it.
#pragma once

#include "backend/Conn_Key.h"
#include "base/Mutex.h"
#include "config/Config_Rows.h"
#include "pool/Server_Health.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

class PgSQL_Connection;
class Pool_Waiter_Sink;

// Counters of stats_pgsql_connection_pool; relaxed: statistics.
struct Server_Counters {
	std::atomic<uint64_t> connect_ok{0};
	std::atomic<uint64_t> connect_err{0};
	std::atomic<uint64_t> queries{0};
	std::atomic<uint64_t> bytes_sent{0};
	std::atomic<uint64_t> bytes_received{0};
	std::atomic<int64_t> max_used{0};
};

// One request for a connection that found the server full. Whoever returns a connection hands it
// to the first matching waiter, through that waiter's worker.
struct Pool_Waiter {
	Conn_Key key;
	Pool_Waiter_Sink* sink = nullptr; // the waiting worker's mailbox; outlives the entry
	uint64_t ticket = 0;              // the worker's name for the session
};

// Where a parked request gets its connection; implemented by the worker's mailbox. Any thread.
class Pool_Waiter_Sink {
public:
	virtual ~Pool_Waiter_Sink() = default;
	// A ready connection (counted USED) for `ticket`; null: a slot may be free, try again.
	virtual void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) = 0;
};

enum class Acquire_Status : uint8_t {
	connection,  // here it is, counted USED
	create,      // a slot is reserved (counted USED): connect, then give_back() or drop()
	busy,        // full: the waiter is queued when one was given
	unavailable, // not ONLINE
};

class PgSQL_SrvC {
public:
	PgSQL_SrvC(int hostgroup_id, std::string hostname, int port,
	           std::shared_ptr<Server_Health> health);
	~PgSQL_SrvC();
	PgSQL_SrvC(const PgSQL_SrvC&) = delete;
	PgSQL_SrvC& operator=(const PgSQL_SrvC&) = delete;

	const int hostgroup_id;
	const std::string hostname;
	const int port;
	const std::shared_ptr<Server_Health> health;

	// Settings and state: written by the manager, read by workers; relaxed.
	std::atomic<Server_Status> status{Server_Status::online};
	std::atomic<int64_t> weight{1};
	std::atomic<int64_t> max_connections{1000};
	std::atomic<int64_t> max_latency_us{0}; // 0: no cap
	std::atomic<int> use_ssl{0};
	std::atomic<int64_t> max_replication_lag_s{0};
	// Connections in use; also the load that the choice of server compares.
	std::atomic<int64_t> used{0};
	std::atomic<int64_t> waiting{0};
	Server_Counters counters;

	// Numeric address to connect to, resolved off the worker's loop; empty: hostname is numeric
	// or a socket directory.
	std::string address() const;
	void set_address(std::string address);

	// Takes a FREE connection with this key, or reserves a slot, or queues `waiter` (when given).
	// An incompatible FREE connection is evicted for a slot; it comes back in `evicted` for the
	// caller to close outside the lock.
	Acquire_Status acquire(const Conn_Key& key, const Pool_Waiter* waiter,
	                       std::unique_ptr<PgSQL_Connection>& connection,
	                       std::unique_ptr<PgSQL_Connection>& evicted);
	// Returns a clean, idle connection: to the first matching waiter, else to FREE. When the server
	// is not ONLINE the connection comes back to be closed (its slot is released already).
	std::unique_ptr<PgSQL_Connection> give_back(std::unique_ptr<PgSQL_Connection> connection);
	// A USED connection is gone (closed, or a connect that failed): frees the slot and wakes the
	// first waiter.
	void drop_used();
	// The waiter gave up or its session ended; false: a delivery is already under way.
	bool cancel_wait(Pool_Waiter_Sink* sink, uint64_t ticket);
	// Takes all FREE connections that are older than `idle_before_us` (monotonic; INT64_MAX: all).
	std::vector<std::unique_ptr<PgSQL_Connection>> take_free(int64_t idle_before_us);
	int64_t free_count() const;

	// Connect errors of traffic and monitor in the current second, for shunning. Returns the count.
	int64_t note_connect_error(int64_t now_us);
	std::atomic<int64_t> last_error_us{0};
	// Set when shunned by failures (not by configuration): recovers by time.
	std::atomic<bool> shunned_automatically{false};

private:
	void wake_first_waiter_locked() REQUIRES(mutex_);

	mutable Mutex mutex_{Lock_Rank::server_connections};
	std::vector<std::unique_ptr<PgSQL_Connection>> free_ GUARDED_BY(mutex_); // newest last
	std::deque<Pool_Waiter> waiters_ GUARDED_BY(mutex_);
	std::string address_ GUARDED_BY(mutex_);
	int64_t error_second_ GUARDED_BY(mutex_) = 0;
	int64_t errors_in_second_ GUARDED_BY(mutex_) = 0;
};

const char* name_of(Server_Status status);

} // namespace proxy
