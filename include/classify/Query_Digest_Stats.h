// stats_pgsql_query_digest: one map a worker, merged when somebody reads. The worker updates its
// own map under its own lock (uncontended unless a reader is swapping it out), so nothing is
// shared between workers per query, and nothing is lost or counted twice by a concurrent reset.
#pragma once

#include "base/Mutex.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

struct Statement_Analysis;

// Buckets of the per-digest latency histogram: upper bounds in microseconds, last open.
inline constexpr int64_t kDigestBucketsUs[] = {100,    500,    1000,    5000,    10000,   50000,
                                               100000, 500000, 1000000, 5000000, 10000000};
inline constexpr size_t kDigestBucketCount = sizeof(kDigestBucketsUs) / sizeof(int64_t) + 1;

struct Query_Digest_Row {
	int hostgroup = 0;
	std::string database;
	std::string username;
	std::string client_address;
	uint64_t digest = 0;
	std::string digest_text;
	uint64_t count_star = 0;
	int64_t first_seen_s = 0; // unix seconds
	int64_t last_seen_s = 0;
	int64_t sum_time_us = 0;
	int64_t min_time_us = 0;
	int64_t max_time_us = 0;
	uint64_t sum_rows_affected = 0;
	uint64_t sum_rows_sent = 0;
	uint64_t buckets[kDigestBucketCount] = {};
};

// One executed statement.
struct Query_Digest_Event {
	int hostgroup = 0;
	std::string_view database;
	std::string_view username;
	std::string_view client_address; // empty unless pgsql-query_digests_track_hostname
	int64_t time_us = 0;
	int64_t now_s = 0; // unix seconds
	uint64_t rows_affected = 0;
	uint64_t rows_sent = 0;
};

class Query_Digest_Stats {
public:
	Query_Digest_Stats();
	~Query_Digest_Stats();
	Query_Digest_Stats(const Query_Digest_Stats&) = delete;
	Query_Digest_Stats& operator=(const Query_Digest_Stats&) = delete;

	// Owning worker only.
	void add(const Statement_Analysis& analysis, const Query_Digest_Event& event);
	// Any thread: the rows so far; take() also empties the map (each event lands in exactly one
	// reader's rows).
	std::vector<Query_Digest_Row> copy() const;
	std::vector<Query_Digest_Row> take();
	size_t memory_bytes() const;

	// Adds rows of several workers together (same key: sums, min, max).
	static std::vector<Query_Digest_Row> merge(std::vector<std::vector<Query_Digest_Row>> parts);

private:
	struct Impl;
	std::unique_ptr<Impl> impl_;
};

} // namespace proxy
