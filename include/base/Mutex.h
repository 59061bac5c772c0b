// Mutex and Lock with clang thread-safety annotations and lock ranks.
//
// Ranks (doc/internal/threads-and-locks.md): locks are taken in rising rank, never two of one rank.
// Debug builds abort on a violation.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#if defined(__clang__)
#define PROXY_ANNOTATE(x) __attribute__((x))
#else
#define PROXY_ANNOTATE(x)
#endif

#define PROXY_CAPABILITY(x) PROXY_ANNOTATE(capability(x))
#define PROXY_SCOPED_CAPABILITY PROXY_ANNOTATE(scoped_lockable)
#define GUARDED_BY(x) PROXY_ANNOTATE(guarded_by(x))
#define PT_GUARDED_BY(x) PROXY_ANNOTATE(pt_guarded_by(x))
#define REQUIRES(...) PROXY_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PROXY_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PROXY_ANNOTATE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) PROXY_ANNOTATE(release_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) PROXY_ANNOTATE(assert_capability(x))
#define NO_THREAD_SAFETY_ANALYSIS PROXY_ANNOTATE(no_thread_safety_analysis)

namespace proxy {

enum class Lock_Rank : int {
	admin_db = 10,
	hostgroups_manager = 20,
	server_connections = 30,
	shared_maps = 40, // prepared statements, digest statistics, users' derived keys
	snapshot = 80,    // a pointer swap, nothing is locked under it
	mailbox = 90,
	log = 100,
};

class PROXY_CAPABILITY("mutex") Mutex {
public:
	explicit Mutex(Lock_Rank rank) : rank_(static_cast<int>(rank)) {}
	Mutex(const Mutex&) = delete;
	Mutex& operator=(const Mutex&) = delete;

	void lock() ACQUIRE();
	void unlock() RELEASE();

private:
	friend class Cond_Var;
	std::mutex mutex_;
	const int rank_;
};

// Holds a Mutex for a scope.
class PROXY_SCOPED_CAPABILITY Lock {
public:
	explicit Lock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
	~Lock() RELEASE() { mutex_.unlock(); }
	Lock(const Lock&) = delete;
	Lock& operator=(const Lock&) = delete;

private:
	Mutex& mutex_;
};

// Condition variable for a Mutex; service threads only (workers never block).
class Cond_Var {
public:
	// Waits until notified or `timeout_ms` passed; spurious wake-ups happen.
	void wait_for(Mutex& mutex, int64_t timeout_ms) REQUIRES(mutex);
	void notify_all() { condition_.notify_all(); }

private:
	std::condition_variable condition_;
};

// A capability without a run-time lock: "this code runs on the worker that owns the data".
class PROXY_CAPABILITY("role") Thread_Role {
public:
	// Binds the role to the calling thread.
	void bind_to_this_thread();
	// Tells the analysis that the role is held; debug builds compare thread ids.
	void assert_held() const ASSERT_CAPABILITY(this);

private:
	std::thread::id owner_;
};

} // namespace proxy
