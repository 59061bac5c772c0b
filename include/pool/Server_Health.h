// What is known about one server (host and port), whatever hostgroups it is in.
//
// Written by the monitor, and by workers when an answer carries evidence; read by every worker
// without a lock. All loads and stores are relaxed: a reader may see a value that is a moment old,
// which is why a read that must see a write carries its own wait (routing.md, section 4).
#pragma once

#include "base/Clock.h"

#include <atomic>
#include <cstdint>

namespace proxy {

enum class Server_Role : uint8_t { unknown, primary, replica };

// Capability bits, found by looking at the server (polardb.md, section 1).
enum Server_Capability : uint32_t {
	kCapabilityLsnRfq = 1u << 0,      // ReadyForQuery carries the LSN
	kCapabilityXidRfq = 1u << 1,      // ... and the transaction's XIDs
	kCapabilityBoundedWait = 1u << 2, // polar_consistency_mode, polar_proxy_wait_timeout_ms
	kCapabilityInbandWait = 1u << 3,  // message W
	kCapabilityXidImport = 1u << 4,   // polar_xact_split_xids
	kCapabilityLegacyNames = 1u << 5, // only the PolarDB 11 names of startup parameters work
	kCapabilityProbed = 1u << 31,     // the monitor has looked
};

class Server_Health {
public:
	std::atomic<Server_Role> role{Server_Role::unknown};
	std::atomic<uint32_t> capabilities{0};
	std::atomic<uint32_t> timeline{0};
	std::atomic<uint64_t> wal_segment_size{16u << 20}; // bytes
	std::atomic<uint64_t> system_identifier{0};
	// Round trip of the last monitor ping, microseconds; 0 unknown.
	std::atomic<int64_t> latency_us{0};
	// Replication lag the monitor measured, milliseconds; -1 unknown.
	std::atomic<int64_t> lag_ms{-1};
	// False while the monitor cannot reach it; true when there is no monitor.
	std::atomic<bool> reachable{true};
	// Claims to be primary on an older timeline than another primary of its pair: never used.
	std::atomic<bool> fenced{false};

	// Highest replayed (replica) or flushed (primary) position seen; 0 unknown.
	uint64_t lsn() const { return lsn_.load(std::memory_order_relaxed); }
	// Monotonic microseconds of the newest sample; 0 never.
	int64_t lsn_sampled_us() const { return lsn_sampled_us_.load(std::memory_order_relaxed); }

	// Raises the position; never lowers it. `now_us` is monotonic time. Any thread.
	void note_lsn(uint64_t lsn, int64_t now_us) {
		uint64_t seen = lsn_.load(std::memory_order_relaxed);
		while (seen < lsn && !lsn_.compare_exchange_weak(seen, lsn, std::memory_order_relaxed)) {
		}
		lsn_sampled_us_.store(now_us, std::memory_order_relaxed);
	}
	// After a restart, a promotion or a new writer epoch nothing learnt before counts. The
	// time stamp goes first, so that a fresh stamp is never paired with an old position.
	void forget_lsn() {
		lsn_sampled_us_.store(0, std::memory_order_relaxed);
		lsn_.store(0, std::memory_order_relaxed);
	}

private:
	std::atomic<uint64_t> lsn_{0};
	std::atomic<int64_t> lsn_sampled_us_{0};
};

} // namespace proxy
