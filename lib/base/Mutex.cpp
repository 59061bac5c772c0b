#include "base/Mutex.h"

#include "base/Check.h"

#include <array>

namespace proxy {

namespace {
// Ranks held by this thread, in order of acquisition; debug builds only.
constexpr size_t kMaxHeld = 16;
struct Held_Ranks {
	std::array<int, kMaxHeld> ranks{};
	size_t count = 0;
};
[[maybe_unused]] thread_local Held_Ranks held; // release builds do not look

void note_acquired(int rank) {
	if constexpr (kDebug) {
		PROXY_DCHECK(held.count < kMaxHeld);
		PROXY_DCHECK(held.count == 0 || held.ranks[held.count - 1] < rank);
		held.ranks[held.count++] = rank;
	}
}

void note_released(int rank) {
	if constexpr (kDebug) {
		for (size_t i = held.count; i > 0; --i) {
			if (held.ranks[i - 1] == rank) {
				for (size_t j = i; j < held.count; ++j) {
					held.ranks[j - 1] = held.ranks[j];
				}
				--held.count;
				return;
			}
		}
		PROXY_DCHECK(false && "released a lock that is not held");
	}
}
} // namespace

void Mutex::lock() NO_THREAD_SAFETY_ANALYSIS {
	note_acquired(rank_);
	mutex_.lock();
}

void Mutex::unlock() NO_THREAD_SAFETY_ANALYSIS {
	mutex_.unlock();
	note_released(rank_);
}

void Cond_Var::wait_for(Mutex& mutex, int64_t timeout_ms) NO_THREAD_SAFETY_ANALYSIS {
	std::unique_lock<std::mutex> native(mutex.mutex_, std::adopt_lock);
	condition_.wait_for(native, std::chrono::milliseconds(timeout_ms));
	native.release();
}

void Thread_Role::bind_to_this_thread() {
	owner_ = std::this_thread::get_id();
}

void Thread_Role::assert_held() const {
	PROXY_DCHECK(owner_ == std::thread::id() || owner_ == std::this_thread::get_id());
}

} // namespace proxy
