// Outcomes of the monitor's checks, kept for monitor.pgsql_server_*_log. In memory, bounded by time
// and number. Any thread.
#pragma once

#include "base/Mutex.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace proxy {

struct Check_Log_Row {
	std::string hostname;
	int port = 0;
	int64_t time_start_us = 0;              // unix time
	std::optional<int64_t> success_time_us; // how long it took; absent: it failed
	std::optional<int64_t> value;           // read_only (0, 1) or lag (seconds)
	std::optional<std::string> error;
};

class Check_Log {
public:
	// Drops rows older than `history_ms` before the new one, and the oldest beyond kMaxRows.
	void add(Check_Log_Row row, int64_t history_ms);
	std::vector<Check_Log_Row> rows() const;
	uint64_t ok_count() const;
	uint64_t error_count() const;

	// Some 30 MiB a table; with thousands of servers the history is shorter than asked for.
	static constexpr size_t kMaxRows = 200'000;

private:
	mutable Mutex mutex_{Lock_Rank::shared_maps};
	std::deque<Check_Log_Row> rows_ GUARDED_BY(mutex_);
	uint64_t ok_ GUARDED_BY(mutex_) = 0;
	uint64_t errors_ GUARDED_BY(mutex_) = 0;
};

} // namespace proxy
