// The way into a worker from other threads: a bounded-by-use queue and one wake-up of its loop.
// Drained by the worker at the start of its pass; wake-ups are coalesced.
#pragma once

#include "backend/PgSQL_Connection.h"
#include "base/Mutex.h"
#include "net/Event_Loop.h"
#include "pool/Hostgroup_View.h"
#include "pool/PgSQL_SrvC.h"
#include "session/Cancel_Ticket.h"
#include "session/Login_Wait.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

class PgSQL_Thread;

class Worker_Mailbox final : public Pool_Waiter_Sink, public Login_Answer_Sink {
public:
	explicit Worker_Mailbox(Event_Loop& loop) : loop_(loop) {}

	struct Delivery {
		uint64_t ticket = 0;
		std::unique_ptr<PgSQL_Connection> connection; // null: a slot may be free
	};
	struct Cancel {
		uint32_t pid = 0;
		std::string key;
		Cancel_Ticket_Ptr ticket;
	};
	struct Login {
		uint32_t session = 0;
		uint64_t serial = 0;
		Login_Answer_Ptr answer;
	};
	using Task = std::function<void(PgSQL_Thread&)>;

	// All from any thread. Logins are bounded by the sessions there are, deliveries and reclaims
	// by the connections there are, cancels by the clients', tasks by the admin's one statement at
	// a time and the clients' LISTENs, and notifications by what a server has sent in one read.
	void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) override;
	void deliver_login(uint32_t session, uint64_t serial, Login_Answer_Ptr answer) override;
	void post_cancel(Cancel cancel);
	// Somebody waits for this server: give back idle connections to it.
	void post_reclaim(Server_Ptr server);
	void post_task(Task task);

	struct Contents {
		std::vector<Delivery> deliveries;
		std::vector<Login> logins;
		std::vector<Cancel> cancels;
		std::vector<Server_Ptr> reclaims;
		std::vector<Task> tasks;
	};
	// The worker: everything that has come in.
	Contents take();

private:
	// Cancels beyond this are dropped: a flood of them must not fill the memory.
	static constexpr size_t kMaxCancels = 4096;

	Event_Loop& loop_;
	Mutex mutex_{Lock_Rank::mailbox};
	Contents contents_ GUARDED_BY(mutex_);
};

} // namespace proxy
