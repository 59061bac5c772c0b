#include "admin/Admin_Turns.h"

namespace proxy {

bool Admin_Turns::is_next(uint64_t ticket, bool administrator) const {
	if (busy_) {
		return false;
	}
	return administrator ? administrators_.front() == ticket
	                     : administrators_.empty() && stats_users_.front() == ticket;
}

void Admin_Turns::enter(bool administrator) {
	constexpr int64_t kLookAgainMs = 1000; // notified in time; this is for a lost one
	Lock lock(mutex_);
	const uint64_t ticket = next_ticket_++;
	std::deque<uint64_t>& queue = administrator ? administrators_ : stats_users_;
	queue.push_back(ticket);
	waiting_.fetch_add(1, std::memory_order_relaxed);
	while (!is_next(ticket, administrator)) {
		changed_.wait_for(mutex_, kLookAgainMs);
	}
	waiting_.fetch_sub(1, std::memory_order_relaxed);
	queue.pop_front();
	busy_ = true;
}

void Admin_Turns::leave() {
	Lock lock(mutex_);
	busy_ = false;
	changed_.notify_all();
}

} // namespace proxy
