// How many statements went to which hostgroup for which reason. One object a worker: that worker
// writes, anybody reads (relaxed: statistics).
#pragma once

#include "base/Mutex.h"
#include "route/Route_Reason.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace proxy {

class Route_Counters {
public:
	// Owning worker only.
	void add(int hostgroup, Route_Reason reason) {
		Entry& entry = entry_of(hostgroup);
		std::atomic<uint64_t>& count = entry.counts[static_cast<size_t>(reason)];
		count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	}

	struct Row {
		int hostgroup = 0;
		Route_Reason reason = Route_Reason::write;
		uint64_t count = 0;
	};
	// Any thread; the rows that are not zero.
	std::vector<Row> rows() const;

private:
	struct Entry {
		int hostgroup = 0;
		std::array<std::atomic<uint64_t>, kRouteReasonCount> counts{};
	};
	Entry& entry_of(int hostgroup);

	// Guards the shape of the list; the worker itself reads it without the lock, since only the
	// worker changes it.
	mutable Mutex mutex_{Lock_Rank::shared_maps};
	std::vector<std::unique_ptr<Entry>> entries_;
	size_t last_ = 0;
};

} // namespace proxy
