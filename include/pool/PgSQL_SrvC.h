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
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
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
	// A ready connection (counted USED) for `ticket`; null: a slot may be free, try again. With
	// null the slot is kept for this ticket for kSlotHoldUs: acquire() with the same waiter takes
	// it, cancel_wait() gives it up. Called without any lock held.
	virtual void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) = 0;
};

enum class Acquire_Status : uint8_t {
	connection,  // here it is, counted USED
	create,      // a slot is reserved (counted USED): connect, then give_back() or drop()
	busy,        // full: the waiter is queued when one was given
	unavailable, // not ONLINE, or max_connections is 0
};

// How long a freed slot is kept for the waiter that was told of it. Long enough for a loop pass of
// a loaded worker; short, because a waiter that never comes costs a slot for that time.
inline constexpr int64_t kSlotHoldUs = 1'000'000;
// A waiter at the head of the queue is passed over by at most this many later ones whose key fits
// the returned connection better: reuse is cheap and a reconnect dear, but nobody starves.
inline constexpr int kMaxPassedOver = 16;

// Invariants (under mutex_)
//   1. used + FREE + kept slots <= max_connections, unless max_connections was lowered.
//   2. While anybody waits nothing is FREE and no unkept slot is left.
//   3. Each FREE connection is in the index under its key's hash, exactly once.
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
	// The hostgroup is the reader of a pair and this server is also its current writer: automatic
	// reads pass it over even before the monitor has seen its role.
	std::atomic<bool> is_writer{false};
	// Connections created before this moment are to be closed, used ones too: the server was found
	// dead. Workers look when they take up or put back a connection.
	std::atomic<int64_t> kill_before_us{0};
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
	// The waiter gave up, found another server, or its session ended. False: a connection is on
	// its way to the sink already. After true only a null may still arrive.
	bool cancel_wait(Pool_Waiter_Sink* sink, uint64_t ticket);
	// Takes all FREE connections that are older than `idle_before_us` (monotonic; INT64_MAX: all).
	std::vector<std::unique_ptr<PgSQL_Connection>> take_free(int64_t idle_before_us);
	// Takes FREE connections opened before `created_before_us`.
	std::vector<std::unique_ptr<PgSQL_Connection>> take_aged(int64_t created_before_us);
	// Takes the oldest FREE connections that exceed `keep` and were idle since `idle_before_us`.
	std::vector<std::unique_ptr<PgSQL_Connection>> take_excess(size_t keep, int64_t idle_before_us);
	int64_t free_count() const;
	// After max_connections rose, or a kept slot expired: tells as many waiters as slots are free.
	void wake_for_slots(int64_t now_us);
	// After the server left ONLINE: every waiter is told to try elsewhere.
	void wake_all();

	// Connect errors of traffic and monitor in the current second, for shunning. Returns the count.
	int64_t note_connect_error(int64_t now_us);
	std::atomic<int64_t> last_error_us{0};
	// Set when shunned by failures (not by configuration): recovers by time.
	std::atomic<bool> shunned_automatically{false};

private:
	struct Waiter_Id {
		Pool_Waiter_Sink* sink = nullptr;
		uint64_t ticket = 0;
		bool operator==(const Waiter_Id&) const = default;
	};
	struct Waiter_Id_Hash {
		size_t operator()(const Waiter_Id& id) const {
			return std::hash<const void*>()(id.sink) ^ (id.ticket * 0x9E3779B97F4A7C15u);
		}
	};
	struct Waiting {
		Pool_Waiter waiter;
		int passed_over = 0;
	};
	// A freed slot kept for a waiter that was told of it.
	struct Kept_Slot {
		Waiter_Id id;
		int64_t since_us = 0;
	};
	using Free_List = std::list<std::unique_ptr<PgSQL_Connection>>;
	using Waiter_List = std::list<Waiting>;

	std::unique_ptr<PgSQL_Connection> take_match_locked(const Conn_Key& key) REQUIRES(mutex_);
	std::unique_ptr<PgSQL_Connection> unlink_free_locked(Free_List::iterator place)
	    REQUIRES(mutex_);
	void push_free_locked(std::unique_ptr<PgSQL_Connection> connection) REQUIRES(mutex_);
	int64_t open_slots_locked() const REQUIRES(mutex_);
	void add_used_locked() REQUIRES(mutex_);
	void enqueue_locked(const Pool_Waiter& waiter, bool in_front) REQUIRES(mutex_);
	Waiter_Id dequeue_locked(Waiter_List::iterator place) REQUIRES(mutex_);
	Waiter_List::iterator waiter_for_locked(const Conn_Key& key) REQUIRES(mutex_);
	bool take_kept_slot_locked(const Waiter_Id& id) REQUIRES(mutex_);
	// Keeps free slots for the first waiters and adds them to `told`, for tell() after unlocking.
	void keep_slots_locked(std::vector<Waiter_Id>& told) REQUIRES(mutex_);
	static void tell(const std::vector<Waiter_Id>& told);

	mutable Mutex mutex_{Lock_Rank::server_connections};
	Free_List free_ GUARDED_BY(mutex_);        // longest idle first
	Free_List spare_nodes_ GUARDED_BY(mutex_); // empty list nodes, so that reuse allocates nothing
	std::unordered_map<uint64_t, std::vector<Free_List::iterator>> free_index_ GUARDED_BY(mutex_);
	Waiter_List waiters_ GUARDED_BY(mutex_);
	std::unordered_map<Waiter_Id, Waiter_List::iterator, Waiter_Id_Hash>
	    waiter_index_ GUARDED_BY(mutex_);
	std::vector<Kept_Slot> kept_slots_ GUARDED_BY(mutex_);
	std::string address_ GUARDED_BY(mutex_);
	int64_t error_second_ GUARDED_BY(mutex_) = 0;
	int64_t errors_in_second_ GUARDED_BY(mutex_) = 0;
};

const char* name_of(Server_Status status);

} // namespace proxy
