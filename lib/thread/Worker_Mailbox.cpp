#include "thread/Worker_Mailbox.h"

#include "backend/PgSQL_Connection.h"

#include <algorithm>

namespace proxy {

void Worker_Mailbox::deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) {
	{
		Lock lock(mutex_);
		contents_.deliveries.push_back({ticket, std::move(connection)});
	}
	loop_.wake();
}

void Worker_Mailbox::deliver_login(uint32_t session, uint64_t serial, Login_Answer_Ptr answer) {
	{
		Lock lock(mutex_);
		contents_.logins.push_back({session, serial, std::move(answer)});
	}
	loop_.wake();
}

void Worker_Mailbox::post_cancel(Cancel cancel) {
	{
		Lock lock(mutex_);
		if (contents_.cancels.size() >= kMaxCancels) {
			return;
		}
		contents_.cancels.push_back(std::move(cancel));
	}
	loop_.wake();
}

void Worker_Mailbox::post_reclaim(Server_Ptr server) {
	{
		Lock lock(mutex_);
		if (std::find(contents_.reclaims.begin(), contents_.reclaims.end(), server) !=
		    contents_.reclaims.end()) {
			return;
		}
		contents_.reclaims.push_back(std::move(server));
	}
	loop_.wake();
}

void Worker_Mailbox::post_task(Task task) {
	{
		Lock lock(mutex_);
		contents_.tasks.push_back(std::move(task));
	}
	loop_.wake();
}

Worker_Mailbox::Contents Worker_Mailbox::take() {
	Contents taken;
	Lock lock(mutex_);
	std::swap(taken, contents_);
	return taken;
}

} // namespace proxy
