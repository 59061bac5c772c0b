// Three kinds of check, by how sure we are and what can be done about a failure.
//   PROXY_DCHECK  provable by reading the code; tested in debug and sanitizer builds only.
//   PROXY_BUG     should hold; when it does not: log, count, go on (abort in debug builds).
//   PROXY_CHECK   cannot go on without it: abort.
// Bytes from a client, a server or a file are never checked by these: they are validated.
#pragma once

#include <atomic>
#include <cstdint>

namespace proxy {

#ifdef PROXY_DEBUG
inline constexpr bool kDebug = true;
#else
inline constexpr bool kDebug = false;
#endif

// Logs "internal error" with the place; aborts when `fatal` or in debug builds. Any thread.
void report_failed_check(const char* expression, const char* file, int line, bool fatal);

// Number of PROXY_BUG conditions met since start; shown in stats_pgsql_global. Any thread.
uint64_t failed_check_count();

} // namespace proxy

#define PROXY_DCHECK(condition)                                                                    \
	do {                                                                                           \
		if constexpr (::proxy::kDebug) {                                                           \
			if (!(condition)) {                                                                    \
				::proxy::report_failed_check(#condition, __FILE__, __LINE__, true);                \
			}                                                                                      \
		}                                                                                          \
	} while (false)

// True when the condition is violated, so that the caller can leave: if (PROXY_BUG(x)) return;
#define PROXY_BUG(violated)                                                                        \
	((violated) ? (::proxy::report_failed_check(#violated, __FILE__, __LINE__, false), true)       \
	            : false)

#define PROXY_CHECK(condition)                                                                     \
	do {                                                                                           \
		if (!(condition)) {                                                                        \
			::proxy::report_failed_check(#condition, __FILE__, __LINE__, true);                    \
		}                                                                                          \
	} while (false)
