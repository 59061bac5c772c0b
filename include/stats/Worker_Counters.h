// Counters of one worker: written by that worker only, read by anybody. A read adds up all workers.
//
// Relaxed everywhere: statistics. The single writer makes load+store enough; no locked instruction
// per query.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace proxy {

enum class Counter : uint8_t {
#define X(name, doc) name,
#include "stats/counters.def"
#undef X
	count_,
};
inline constexpr size_t kCounterCount = static_cast<size_t>(Counter::count_);

// Name as a row of stats_pgsql_global, and one line of documentation.
const char* name_of(Counter counter);
const char* doc_of(Counter counter);

class Worker_Counters {
public:
	void add(Counter counter, uint64_t amount = 1) {
		std::atomic<uint64_t>& value = values_[static_cast<size_t>(counter)];
		value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
	}
	// For gauges.
	void subtract(Counter counter, uint64_t amount = 1) {
		std::atomic<uint64_t>& value = values_[static_cast<size_t>(counter)];
		value.store(value.load(std::memory_order_relaxed) - amount, std::memory_order_relaxed);
	}
	uint64_t get(Counter counter) const {
		return values_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
	}

private:
	std::array<std::atomic<uint64_t>, kCounterCount> values_{};
};

} // namespace proxy
