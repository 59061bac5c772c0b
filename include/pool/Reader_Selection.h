// Which server of a hostgroup. Pure choice: the pool's contents never steer it (pool.md).
#pragma once

#include "pool/Hostgroup_View.h"
#include "pool/PgSQL_SrvC.h"

#include <cstdint>

namespace proxy {

// Injected chance, so that tests are exact: xorshift of a seed.
class Random_Source {
public:
	explicit Random_Source(uint64_t seed) : state_(seed == 0 ? 1 : seed) {}
	uint64_t next() {
		state_ ^= state_ << 13;
		state_ ^= state_ >> 7;
		state_ ^= state_ << 17;
		return state_;
	}
	// Uniform in [0, bound); REQUIRES bound > 0.
	uint64_t below(uint64_t bound) { return next() % bound; }

private:
	uint64_t state_;
};

struct Reader_Request {
	uint64_t target_lsn = 0;              // 0: any position will do
	const PgSQL_SrvC* excluded = nullptr; // a server that failed this statement already
	bool replicas_only = false;           // automatic reads: the primary is no candidate ...
	bool primary_if_alone = false;        // ... unless nothing else is left
	// Byte-lag cap: a candidate further than this behind `group_lsn` is refused; 0 off.
	uint64_t max_lag_bytes = 0;
	uint64_t group_lsn = 0;
	int64_t max_sample_age_us = 5'000'000;
	int64_t now_us = 0;
	// Server_Capability bits a candidate must have shown when the monitor has probed it.
	uint32_t required_capabilities = 0;
};

struct Reader_Choice {
	// Null: see `why`. With all_busy the candidate with the shortest queue: acquire() parks there.
	PgSQL_SrvC* server = nullptr;
	bool at_target = false; // known to have replayed target_lsn
	enum class Why : uint8_t { chosen, none_online, all_busy, all_lagging } why = Why::none_online;
};

// Worker-local memory of the alternation between two readers, by hostgroup.
struct Selection_State {
	uint64_t turn = 0;
};

// 1 candidate: it. 2: weighted alternation, moved by the target. 3 and more: power of two choices
// on used/weight among those that reached the target, else among all.
Reader_Choice choose_server(const Hostgroup& hostgroup, const Reader_Request& request,
                            Selection_State& state, Random_Source& random);

} // namespace proxy
