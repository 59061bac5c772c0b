// Numbers of sessions: their process ids towards clients, unique over all workers while they live.
// A 31-bit counter, since clients print process ids as signed numbers.
#pragma once

#include "base/Mutex.h"

#include <cstdint>
#include <unordered_set>

namespace proxy {

class Session_Ids {
public:
	// Any thread, at connect and disconnect only.
	uint32_t take() {
		constexpr uint32_t kPositive = 0x7fffffff;
		Lock lock(mutex_);
		uint32_t id = 0;
		while (id == 0 || !taken_.insert(id).second) {
			id = ++next_ & kPositive;
		}
		return id;
	}
	void give_back(uint32_t id) {
		Lock lock(mutex_);
		taken_.erase(id);
	}

private:
	Mutex mutex_{Lock_Rank::mailbox};
	uint32_t next_ GUARDED_BY(mutex_) = 0;
	std::unordered_set<uint32_t> taken_ GUARDED_BY(mutex_);
};

} // namespace proxy
