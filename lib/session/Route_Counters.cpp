#include "session/Route_Counters.h"

namespace proxy {

Route_Counters::Entry& Route_Counters::entry_of(int hostgroup) {
	if (last_ < entries_.size() && entries_[last_]->hostgroup == hostgroup) {
		return *entries_[last_];
	}
	for (size_t i = 0; i < entries_.size(); ++i) {
		if (entries_[i]->hostgroup == hostgroup) {
			last_ = i;
			return *entries_[i];
		}
	}
	auto entry = std::make_unique<Entry>();
	entry->hostgroup = hostgroup;
	Lock lock(mutex_);
	entries_.push_back(std::move(entry));
	last_ = entries_.size() - 1;
	return *entries_.back();
}

std::vector<Route_Counters::Row> Route_Counters::rows() const {
	std::vector<Row> result;
	Lock lock(mutex_);
	for (const auto& entry : entries_) {
		for (size_t i = 0; i < kRouteReasonCount; ++i) {
			const uint64_t count = entry->counts[i].load(std::memory_order_relaxed);
			if (count > 0) {
				result.push_back({entry->hostgroup, static_cast<Route_Reason>(i), count});
			}
		}
	}
	return result;
}

} // namespace proxy
