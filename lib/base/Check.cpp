#include "base/Check.h"

#include "base/Log.h"

#include <cstdlib>

namespace proxy {

namespace {
// Relaxed: a statistics counter, nothing is ordered by it.
std::atomic<uint64_t> failed_checks{0};
} // namespace

void report_failed_check(const char* expression, const char* file, int line, bool fatal) {
	failed_checks.fetch_add(1, std::memory_order_relaxed);
	log_error("internal error: {} at {}:{}", expression, file, line);
	if (fatal || kDebug) {
		std::abort();
	}
}

uint64_t failed_check_count() {
	return failed_checks.load(std::memory_order_relaxed);
}

} // namespace proxy
