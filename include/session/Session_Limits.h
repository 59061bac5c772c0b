// Numbers shared by the session's files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace proxy {

inline constexpr int64_t kMicrosPerMilli = 1000;
inline constexpr int64_t kMicrosPerSecond = 1'000'000;
// Reads of one server connection before the other descriptors get their turn.
inline constexpr int kMaxReadsPerEvent = 4;
// An extended batch is sent when it is this long even without Sync or Flush.
inline constexpr size_t kMaxBatchBytes = 1024 * 1024;
// The proxy's own timer stands this long behind a server-side wait.
// A cancel that has not settled is looked at this often, and not waited for longer than that.
inline constexpr int64_t kCancelPollUs = 2'000;
inline constexpr int64_t kCancelLimitUs = 10'000'000;
inline constexpr int64_t kWaitGraceUs = 1'000'000;
// While no server of a hostgroup is online, it is looked for again this often.
inline constexpr int64_t kNoServerRetryUs = 50'000;

} // namespace proxy
