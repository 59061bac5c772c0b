// Time. Workers read the clock once per loop pass and hand the value down.
#pragma once

#include <cstdint>

namespace proxy {

// Microseconds of CLOCK_MONOTONIC; never goes backwards. Any thread.
int64_t monotonic_us();

// Seconds and microseconds since the Unix epoch. Any thread.
int64_t unix_time_s();
int64_t unix_time_us();

} // namespace proxy
