#include "monitor/Check_Log.h"

#include <utility>

namespace proxy {

void Check_Log::add(Check_Log_Row row, int64_t history_ms) {
	constexpr int64_t kUsPerMs = 1000;
	const int64_t oldest_us = row.time_start_us - history_ms * kUsPerMs;
	Lock lock(mutex_);
	(row.error ? errors_ : ok_) += 1;
	while (!rows_.empty() &&
	       (rows_.size() >= kMaxRows || rows_.front().time_start_us < oldest_us)) {
		rows_.pop_front();
	}
	rows_.push_back(std::move(row));
}

std::vector<Check_Log_Row> Check_Log::rows() const {
	Lock lock(mutex_);
	return {rows_.begin(), rows_.end()};
}

uint64_t Check_Log::ok_count() const {
	Lock lock(mutex_);
	return ok_;
}

uint64_t Check_Log::error_count() const {
	Lock lock(mutex_);
	return errors_;
}

} // namespace proxy
