// Whether a server is alive, from the outcomes of attempts to reach it. Pure.
//
//	alive --failure--> suspect --more failures--> dead --success--> alive
//	                     +--------- success ---------> alive
// A suspect is tried again quickly, whatever the ping interval is: the first failure may have been
// a restart, and a dead primary is to be known within two seconds.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace proxy {

class Ping_History {
public:
	enum class Change : uint8_t { none, died, recovered };

	Change on_success(int64_t latency_us);
	Change on_failure(int64_t max_failures);
	bool dead() const { return dead_; }
	int64_t failures() const { return failures_; }
	// Average of the last successes; 0 before the first.
	int64_t latency_us() const;
	// When to try again after a failure.
	int64_t retry_us() const { return dead_ ? kDeadRetryUs : kSuspectRetryUs; }

	static constexpr int64_t kSuspectRetryUs = 250'000;
	static constexpr int64_t kDeadRetryUs = 1'000'000;

private:
	std::array<int64_t, 3> latencies_us_ = {};
	size_t samples_ = 0;
	int64_t failures_ = 0;
	bool dead_ = false;
};

// A server that answers with an error of its own is alive, however little it likes us, unless it
// says that it is going down or coming up (class 57P). Empty: no server answered.
inline bool counts_as_dead(std::string_view sqlstate) {
	return sqlstate.empty() || sqlstate.substr(0, 3) == "57P";
}

} // namespace proxy
