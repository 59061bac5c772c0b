// Who uses the admin's databases next. Administrators (and logins) come before stats users, each in
// the order of their arrival: a plain mutex would let whoever runs statement after statement keep
// the others out. The statement that runs sees that somebody waits and ends itself after a while.
#pragma once

#include "base/Mutex.h"

#include <atomic>
#include <cstdint>
#include <deque>

namespace proxy {

class Admin_Turns {
public:
	// Any thread. Returns when it is the caller's turn; leave() ends it.
	void enter(bool administrator) EXCLUDES(mutex_);
	void leave() EXCLUDES(mutex_);

	// How many wait. Relaxed: read by the running statement now and then.
	const std::atomic<int>& waiting() const { return waiting_; }

private:
	bool is_next(uint64_t ticket, bool administrator) const REQUIRES(mutex_);

	std::atomic<int> waiting_{0};
	Mutex mutex_{Lock_Rank::mailbox}; // nothing is locked under it
	Cond_Var changed_;
	bool busy_ GUARDED_BY(mutex_) = false;
	uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
	std::deque<uint64_t> administrators_ GUARDED_BY(mutex_);
	std::deque<uint64_t> stats_users_ GUARDED_BY(mutex_);
};

// A turn for a scope.
class Admin_Turn {
public:
	Admin_Turn(Admin_Turns& turns, bool administrator) : turns_(turns) {
		turns_.enter(administrator);
	}
	~Admin_Turn() { turns_.leave(); }
	Admin_Turn(const Admin_Turn&) = delete;
	Admin_Turn& operator=(const Admin_Turn&) = delete;

private:
	Admin_Turns& turns_;
};

} // namespace proxy
