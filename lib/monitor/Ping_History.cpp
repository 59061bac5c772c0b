#include "Ping_History.h"

#include <algorithm>

namespace proxy {

Ping_History::Change Ping_History::on_success(int64_t latency_us) {
	latencies_us_[samples_ % latencies_us_.size()] = latency_us;
	++samples_;
	failures_ = 0;
	if (!dead_) {
		return Change::none;
	}
	dead_ = false;
	return Change::recovered;
}

Ping_History::Change Ping_History::on_failure(int64_t max_failures) {
	++failures_;
	if (dead_ || failures_ < max_failures) {
		return Change::none;
	}
	dead_ = true;
	return Change::died;
}

int64_t Ping_History::latency_us() const {
	const size_t count = std::min(samples_, latencies_us_.size());
	int64_t sum = 0;
	for (size_t i = 0; i < count; ++i) {
		sum += latencies_us_[i];
	}
	return count == 0 ? 0 : sum / static_cast<int64_t>(count);
}

} // namespace proxy
