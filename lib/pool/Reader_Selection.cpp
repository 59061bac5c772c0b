#include "pool/Reader_Selection.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace proxy {

namespace {

// Above this many servers a few draws are tried before everything is evaluated; below it a full
// look costs no more and keeps the alternation of two exact.
constexpr size_t kFewServers = 8;
constexpr int kDrawAttempts = 8;
constexpr size_t kOnStack = 32;

enum class Verdict : uint8_t { usable, busy, lagging, primary, unusable };

// Widened so that weight times count cannot overflow.
using Wide = __int128;

int64_t load_of(const PgSQL_SrvC& server) {
	return server.used.load(std::memory_order_relaxed);
}

int64_t weight_of(const PgSQL_SrvC& server) {
	return server.weight.load(std::memory_order_relaxed);
}

bool reached_target(const PgSQL_SrvC& server, const Reader_Request& request) {
	return request.target_lsn == 0 || server.health->lsn() >= request.target_lsn ||
	       server.health->role.load(std::memory_order_relaxed) == Server_Role::primary;
}

bool within_lag(const PgSQL_SrvC& server, const Reader_Request& request) {
	if (request.max_lag_bytes == 0) {
		return true;
	}
	const uint64_t lsn = server.health->lsn();
	const int64_t sampled_us = server.health->lsn_sampled_us();
	if (request.group_lsn == 0 || lsn == 0 || sampled_us == 0 ||
	    request.now_us - sampled_us > request.max_sample_age_us) {
		return false; // unknown is too far
	}
	return lsn >= request.group_lsn || request.group_lsn - lsn <= request.max_lag_bytes;
}

Verdict judge(const PgSQL_SrvC& server, const Reader_Request& request) {
	const Server_Health& health = *server.health;
	const int64_t max_connections = server.max_connections.load(std::memory_order_relaxed);
	if (server.status.load(std::memory_order_relaxed) != Server_Status::online ||
	    weight_of(server) <= 0 || max_connections <= 0 ||
	    health.fenced.load(std::memory_order_relaxed)) {
		return Verdict::unusable;
	}
	if (request.excluded != nullptr &&
	    (&server == request.excluded || server.health == request.excluded->health)) {
		return Verdict::unusable;
	}
	const int64_t latency_cap_us = server.max_latency_us.load(std::memory_order_relaxed);
	if (latency_cap_us > 0 && health.latency_us.load(std::memory_order_relaxed) > latency_cap_us) {
		return Verdict::unusable;
	}
	const bool primary = health.role.load(std::memory_order_relaxed) == Server_Role::primary ||
	                     server.is_writer.load(std::memory_order_relaxed);
	if (request.replicas_only && primary) {
		return Verdict::primary;
	}
	if (!primary) {
		const uint32_t found = health.capabilities.load(std::memory_order_relaxed);
		if ((found & kCapabilityProbed) != 0 &&
		    (found & request.required_capabilities) != request.required_capabilities) {
			return Verdict::unusable;
		}
		if (!within_lag(server, request)) {
			return Verdict::lagging;
		}
	}
	return load_of(server) >= max_connections ? Verdict::busy : Verdict::usable;
}

// Lower used/weight wins; a draw is decided by a coin.
PgSQL_SrvC* less_loaded(PgSQL_SrvC* a, PgSQL_SrvC* b, Random_Source& random) {
	const Wide load_a = static_cast<Wide>(load_of(*a)) * weight_of(*b);
	const Wide load_b = static_cast<Wide>(load_of(*b)) * weight_of(*a);
	if (load_a == load_b) {
		return random.below(2) == 0 ? a : b;
	}
	return load_a < load_b ? a : b;
}

Reader_Choice chosen(PgSQL_SrvC* server, const Reader_Request& request) {
	return Reader_Choice{server, reached_target(*server, request), Reader_Choice::Why::chosen};
}

// Index of a server drawn by weight, from the running sums of the view.
size_t draw(const std::vector<int64_t>& sums, Random_Source& random) {
	const int64_t point = static_cast<int64_t>(random.below(static_cast<uint64_t>(sums.back())));
	return static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), point) - sums.begin());
}

// Two usable servers at the target found by a few draws; null: look at all of them. Rejecting the
// others leaves the weights among the usable ones as they are.
PgSQL_SrvC* quick_choice(const Hostgroup& hostgroup, const Reader_Request& request,
                         Random_Source& random) {
	const std::vector<int64_t>& sums = hostgroup.weight_sums;
	if (sums.size() != hostgroup.servers.size() || sums.empty() || sums.back() <= 0) {
		return nullptr;
	}
	PgSQL_SrvC* first = nullptr;
	for (int attempt = 0; attempt < kDrawAttempts; ++attempt) {
		PgSQL_SrvC* const server = hostgroup.servers[draw(sums, random)].get();
		if (server == first || judge(*server, request) != Verdict::usable ||
		    !reached_target(*server, request)) {
			continue;
		}
		if (first == nullptr) {
			first = server;
			continue;
		}
		return less_loaded(first, server, random);
	}
	return nullptr;
}

// Turn `turn` of an even interleaving in which both come up in proportion to their weights.
bool first_has_turn(uint64_t turn, int64_t weight_a, int64_t weight_b) {
	const int64_t divisor = std::gcd(weight_a, weight_b);
	const Wide a = weight_a / divisor;
	const Wide total = a + weight_b / divisor;
	const Wide position = static_cast<Wide>(turn) % total;
	return (position + 1) * a / total > position * a / total;
}

PgSQL_SrvC* alternate(PgSQL_SrvC* a, PgSQL_SrvC* b, const Reader_Request& request,
                      Selection_State& state) {
	const uint64_t turn = state.turn++;
	const bool a_reached = reached_target(*a, request);
	const bool b_reached = reached_target(*b, request);
	if (a_reached != b_reached) {
		return a_reached ? a : b;
	}
	return first_has_turn(turn, weight_of(*a), weight_of(*b)) ? a : b;
}

// Two different draws by weight from `count` entries; the less loaded of them.
PgSQL_SrvC* power_of_two(PgSQL_SrvC* const* entries, size_t count, Random_Source& random) {
	if (count == 1) {
		return entries[0];
	}
	if (count == 2) {
		return less_loaded(entries[0], entries[1], random);
	}
	const auto pick = [&](size_t skip) {
		Wide total = 0;
		for (size_t i = 0; i < count; ++i) {
			total += i == skip ? 0 : weight_of(*entries[i]);
		}
		if (total <= 0) {
			return skip == 0 ? size_t{1} : size_t{0}; // weights were set to 0 meanwhile
		}
		Wide point = static_cast<Wide>(random.next() >> 1) % total;
		for (size_t i = 0; i < count; ++i) {
			if (i == skip) {
				continue;
			}
			point -= weight_of(*entries[i]);
			if (point < 0) {
				return i;
			}
		}
		return skip == count - 1 ? size_t{0} : count - 1;
	};
	const size_t first = pick(count);
	const size_t second = pick(first);
	return less_loaded(entries[first], entries[second], random);
}

// Growing list that stays on the stack for hostgroups of ordinary size.
class Candidates {
public:
	void add(PgSQL_SrvC* server) {
		if (count_ < kOnStack) {
			few_[count_++] = server;
			return;
		}
		if (many_.empty()) {
			many_.assign(few_.begin(), few_.end());
		}
		many_.push_back(server);
		++count_;
	}
	size_t size() const { return count_; }
	PgSQL_SrvC** begin() { return many_.empty() ? few_.data() : many_.data(); }

private:
	std::array<PgSQL_SrvC*, kOnStack> few_;
	std::vector<PgSQL_SrvC*> many_;
	size_t count_ = 0;
};

PgSQL_SrvC* full_choice(Candidates& usable, const Reader_Request& request, Selection_State& state,
                        Random_Source& random) {
	PgSQL_SrvC** const begin = usable.begin();
	if (usable.size() == 1) {
		return begin[0];
	}
	if (usable.size() == 2) {
		return alternate(begin[0], begin[1], request, state);
	}
	PgSQL_SrvC** const middle =
	    std::stable_partition(begin, begin + usable.size(), [&](const PgSQL_SrvC* server) {
		    return reached_target(*server, request);
	    });
	const size_t reached = static_cast<size_t>(middle - begin);
	return power_of_two(begin, reached > 0 ? reached : usable.size(), random);
}

// Where a parked request will be served soonest.
PgSQL_SrvC* shortest_queue(PgSQL_SrvC* a, PgSQL_SrvC* b) {
	if (a == nullptr) {
		return b;
	}
	const Wide wait_a = static_cast<Wide>(a->waiting.load(std::memory_order_relaxed)) *
	                    b->max_connections.load(std::memory_order_relaxed);
	const Wide wait_b = static_cast<Wide>(b->waiting.load(std::memory_order_relaxed)) *
	                    a->max_connections.load(std::memory_order_relaxed);
	return wait_b < wait_a ? b : a;
}

} // namespace

Reader_Choice choose_server(const Hostgroup& hostgroup, const Reader_Request& request,
                            Selection_State& state, Random_Source& random) {
	if (hostgroup.servers.size() > kFewServers) {
		PgSQL_SrvC* const quick = quick_choice(hostgroup, request, random);
		if (quick != nullptr) {
			return chosen(quick, request);
		}
	}
	Candidates usable;
	Candidates primaries;
	PgSQL_SrvC* busy = nullptr;
	bool lagging = false;
	for (const Server_Ptr& server : hostgroup.servers) {
		switch (judge(*server, request)) {
		case Verdict::usable:
			usable.add(server.get());
			break;
		case Verdict::busy:
			busy = shortest_queue(busy, server.get());
			break;
		case Verdict::lagging:
			lagging = true;
			break;
		case Verdict::primary:
			primaries.add(server.get());
			break;
		case Verdict::unusable:
			break;
		}
	}
	if (usable.size() > 0) {
		return chosen(full_choice(usable, request, state, random), request);
	}
	if (busy != nullptr) {
		return Reader_Choice{busy, reached_target(*busy, request), Reader_Choice::Why::all_busy};
	}
	if (request.primary_if_alone && primaries.size() > 0) {
		Reader_Request with_primary = request;
		with_primary.replicas_only = false;
		return choose_server(hostgroup, with_primary, state, random);
	}
	return Reader_Choice{nullptr, false,
	                     lagging ? Reader_Choice::Why::all_lagging
	                             : Reader_Choice::Why::none_online};
}

} // namespace proxy
