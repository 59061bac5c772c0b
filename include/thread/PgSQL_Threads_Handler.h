// Starts and stops the workers and their listeners, and reaches all of them from service threads.
// Owned by main(); its calls come from the main and admin threads, one at a time.
#pragma once

#include "base/Result.h"
#include "net/Listener.h"
#include "net/Unix_Listener.h"
#include "thread/PgSQL_Thread.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

class PgSQL_Threads_Handler {
public:
	explicit PgSQL_Threads_Handler(Runtime_Shared& shared) : shared_(shared) {}
	~PgSQL_Threads_Handler();
	PgSQL_Threads_Handler(const PgSQL_Threads_Handler&) = delete;
	PgSQL_Threads_Handler& operator=(const PgSQL_Threads_Handler&) = delete;

	// Binds pgsql-interfaces and starts pgsql-threads workers. On an error nothing runs.
	Result<void> start();
	// Ends all sessions and joins the workers.
	void stop();
	bool running() const { return !workers_.empty(); }

	// Stops or restarts accepting; sessions go on. The error says that it is so already.
	Result<void> pause();
	Result<void> resume();
	bool paused() const { return paused_; }
	// Idle sessions end now, others after their transaction; waits up to `limit_ms`.
	void drain(int64_t limit_ms);

	// Runs `task` on every worker, in its thread, and waits; false: a worker did not answer in
	// time (its part is missing).
	bool run_on_all(const std::function<void(PgSQL_Thread&)>& task);
	const std::vector<std::unique_ptr<PgSQL_Thread>>& workers() const { return workers_; }

private:
	void close_shared_sockets();
	Result<void> bind_listeners(std::vector<std::vector<std::pair<int, bool>>>& sockets,
	                            const std::vector<Listen_Address>& addresses, mode_t socket_mode);

	Runtime_Shared& shared_;
	std::vector<std::unique_ptr<PgSQL_Thread>> workers_;
	std::vector<int> shared_sockets_; // Unix sockets: one descriptor for all workers
	std::vector<Socket_File> socket_files_;
	bool paused_ = false;
};

} // namespace proxy
