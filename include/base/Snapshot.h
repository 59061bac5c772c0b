// Snapshot<T>: one immutable value that service threads replace whole and workers pick up when
// they choose to (configuration, users, query rules, hostgroup view).
//
// Invariants
//   1. The value is never null.
//   2. version() rises with every publish, and is raised after the value was replaced: whoever
//      sees a version gets that value or a later one.
#pragma once

#include "base/Check.h"
#include "base/Mutex.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace proxy {

template <typename T> class Snapshot {
public:
	struct Versioned {
		std::shared_ptr<const T> value;
		uint64_t version = 0;
	};

	// REQUIRES: initial is not null. The first version is 1, so that 0 can mean "none seen".
	explicit Snapshot(std::shared_ptr<const T> initial) : value_(std::move(initial)) {
		PROXY_CHECK(value_ != nullptr); // invariant 1
	}
	Snapshot(const Snapshot&) = delete;
	Snapshot& operator=(const Snapshot&) = delete;

	// One load without a lock; what a worker asks once a loop turn. Acquire pairs with the release
	// in publish() (invariant 2).
	uint64_t version() const { return version_.load(std::memory_order_acquire); }

	// The present value and its version. Takes the lock for two copies: not per statement.
	Versioned get() const EXCLUDES(mutex_) {
		Lock lock(mutex_);
		return Versioned{value_, version_.load(std::memory_order_relaxed)};
	}

	// Replaces the value and returns its version. The old one lives as long as someone holds it;
	// when this was the last reference it is destroyed here, outside the lock.
	uint64_t publish(std::shared_ptr<const T> next) EXCLUDES(mutex_) {
		PROXY_CHECK(next != nullptr); // invariant 1
		Lock lock(mutex_);
		value_.swap(next);
		const uint64_t version = version_.load(std::memory_order_relaxed) + 1;
		version_.store(version, std::memory_order_release);
		return version;
	}

	// Takes a newer value into the caller's own copy; true when there was one. For holders that
	// are handed around as plain pointers.
	bool refresh(std::shared_ptr<const T>& mine, uint64_t& my_version) const {
		if (version() == my_version) {
			return false;
		}
		Versioned now = get();
		mine = std::move(now.value);
		my_version = now.version;
		return true;
	}

private:
	mutable Mutex mutex_{Lock_Rank::snapshot};
	std::shared_ptr<const T> value_ GUARDED_BY(mutex_);
	std::atomic<uint64_t> version_{1};
};

// One thread's hold on a Snapshot. Not thread-safe: each worker has its own.
template <typename T> class Snapshot_Reader {
public:
	explicit Snapshot_Reader(const Snapshot<T>& source) : source_(source), held_(source.get()) {}

	// Picks up a newer value, if there is one; true when it did.
	bool refresh() {
		if (source_.version() == held_.version) {
			return false;
		}
		held_ = source_.get();
		return true;
	}

	const T& operator*() const { return *held_.value; }
	const T* operator->() const { return held_.value.get(); }
	// For work that outlives the next refresh().
	const std::shared_ptr<const T>& pointer() const { return held_.value; }
	uint64_t version() const { return held_.version; }

private:
	const Snapshot<T>& source_;
	typename Snapshot<T>::Versioned held_;
};

} // namespace proxy
