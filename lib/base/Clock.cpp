#include "base/Clock.h"

#include <ctime>

namespace proxy {

namespace {
constexpr int64_t kMicrosPerSecond = 1'000'000;

int64_t read_clock_us(clockid_t clock) {
	timespec now{};
	clock_gettime(clock, &now);
	return static_cast<int64_t>(now.tv_sec) * kMicrosPerSecond + now.tv_nsec / 1000;
}
} // namespace

int64_t monotonic_us() {
	return read_clock_us(CLOCK_MONOTONIC);
}

int64_t unix_time_us() {
	return read_clock_us(CLOCK_REALTIME);
}

int64_t unix_time_s() {
	return unix_time_us() / kMicrosPerSecond;
}

} // namespace proxy
