// Sends CancelRequests to servers from threads that may block: a cancel needs a connection of its
// own, and no worker waits for that. Bounded: at most kMaxQueued wait, each takes at most
// kTimeLimitMs (bug bank BB-151).
#pragma once

#include "backend/PgSQL_Connection.h"
#include "base/Mutex.h"
#include "session/Cancel_Ticket.h"

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace proxy {

class Cancel_Sender {
public:
	static constexpr size_t kMaxQueued = 4096;
	static constexpr int kTimeLimitMs = 5000;

	Cancel_Sender();
	~Cancel_Sender(); // stops
	Cancel_Sender(const Cancel_Sender&) = delete;
	Cancel_Sender& operator=(const Cancel_Sender&) = delete;

	// Any thread. The ticket is settled when the server has closed the cancel's connection (it has
	// acted by then), uncertain at the time limit, or at once when the queue is full.
	void send(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket);

private:
	struct Job {
		PgSQL_Connection::Cancel_Target target;
		Cancel_Ticket_Ptr ticket;
	};
	void run();
	// True: the server has closed the connection.
	static bool perform(const PgSQL_Connection::Cancel_Target& target);

	Mutex mutex_{Lock_Rank::mailbox};
	Cond_Var wake_;
	std::deque<Job> jobs_ GUARDED_BY(mutex_);
	bool stopping_ GUARDED_BY(mutex_) = false;
	std::vector<std::thread> threads_;
};

} // namespace proxy
