// The service threads behind Login_Wait.h: one lane for key derivation, one for whatever asks a
// server. Owned by Runtime_Shared; PgSQL_Threads_Handler starts it before the workers and stops it
// while their mailboxes are still there. Bounded: what does not fit is refused at once.
#pragma once

#include "base/Mutex.h"
#include "session/Login_Wait.h"

#include <array>
#include <deque>
#include <thread>
#include <vector>

namespace proxy {

class Login_Service {
public:
	static constexpr size_t kMaxQueued = 4096; // a lane

	Login_Service() = default;
	~Login_Service();
	Login_Service(const Login_Service&) = delete;
	Login_Service& operator=(const Login_Service&) = delete;

	// One caller at a time. stop() waits for the jobs that run and refuses the rest.
	void start();
	void stop();
	// Any thread.
	void run(Login_Lane lane, Login_Job job, Login_Reply reply);

private:
	struct Task {
		Login_Job job;
		Login_Reply reply;
	};
	static constexpr size_t kLanes = 2;
	void work(size_t lane);

	Mutex mutex_{Lock_Rank::mailbox};
	std::array<Cond_Var, kLanes> wake_;
	std::array<std::deque<Task>, kLanes> tasks_ GUARDED_BY(mutex_);
	bool running_ GUARDED_BY(mutex_) = false;
	std::vector<std::thread> threads_;
};

} // namespace proxy
