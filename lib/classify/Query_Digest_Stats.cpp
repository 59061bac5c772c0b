#include "classify/Query_Digest_Stats.h"

#include "classify/Query_Processor.h"

#include <algorithm>
#include <unordered_map>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace proxy {

namespace {

// Rows one worker keeps. A client that sends ever new statements cannot take more memory than
// this (about 100 MB at 500 bytes a row); what does not fit is counted in one common row.
constexpr size_t kMaxRows = 200000;
constexpr size_t kMaxBytes = size_t{128} << 20;
constexpr std::string_view kOtherText = "(statements beyond the limit)";
constexpr size_t kFirstBuckets = 256;

uint64_t hash_of(std::string_view text, uint64_t seed) {
	return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

struct Row_Key {
	int hostgroup;
	std::string_view database;
	std::string_view username;
	std::string_view client_address;
	uint64_t digest;

	uint64_t hash() const {
		uint64_t value = digest ^ (static_cast<uint64_t>(static_cast<uint32_t>(hostgroup)) << 32);
		value = hash_of(database, value);
		value = hash_of(username, value);
		return client_address.empty() ? value : hash_of(client_address, value);
	}
	bool fits(const Query_Digest_Row& row) const {
		return row.digest == digest && row.hostgroup == hostgroup && row.database == database &&
		       row.username == username && row.client_address == client_address;
	}
};

Row_Key key_of(const Query_Digest_Row& row) {
	return {row.hostgroup, row.database, row.username, row.client_address, row.digest};
}

void count(Query_Digest_Row& row, const Query_Digest_Event& event) {
	if (row.count_star == 0) {
		row.first_seen_s = event.now_s;
		row.min_time_us = event.time_us;
	}
	++row.count_star;
	row.last_seen_s = std::max(row.last_seen_s, event.now_s);
	row.sum_time_us += event.time_us;
	row.min_time_us = std::min(row.min_time_us, event.time_us);
	row.max_time_us = std::max(row.max_time_us, event.time_us);
	row.sum_rows_affected += event.rows_affected;
	row.sum_rows_sent += event.rows_sent;
	size_t bucket = 0;
	while (bucket + 1 < kDigestBucketCount && event.time_us > kDigestBucketsUs[bucket]) {
		++bucket;
	}
	++row.buckets[bucket];
}

// The rows of one worker: a hash table with chains, so that a look-up needs no key object.
class Row_Table {
public:
	Row_Table() : buckets_(kFirstBuckets) {}
	~Row_Table() { clear(); }
	Row_Table(const Row_Table&) = delete;
	Row_Table& operator=(const Row_Table&) = delete;

	Query_Digest_Row& row_for(const Row_Key& key, std::string_view digest_text) {
		const uint64_t hash = key.hash();
		if (Query_Digest_Row* found = find(key, hash); found != nullptr) {
			return *found;
		}
		if (size_ < kMaxRows && bytes_ < kMaxBytes) {
			return add(key, hash, digest_text);
		}
		const Row_Key other{-1, {}, {}, {}, 0};
		Query_Digest_Row* found = find(other, other.hash());
		return found != nullptr ? *found : add(other, other.hash(), kOtherText);
	}

	template <typename Take> void for_each(const Take& take) const {
		for (const std::unique_ptr<Node>& bucket : buckets_) {
			for (Node* node = bucket.get(); node != nullptr; node = node->next.get()) {
				take(node->row);
			}
		}
	}
	size_t size() const { return size_; }
	size_t bytes() const { return bytes_ + buckets_.capacity() * sizeof(buckets_[0]); }
	void swap(Row_Table& other) {
		buckets_.swap(other.buckets_);
		std::swap(size_, other.size_);
		std::swap(bytes_, other.bytes_);
	}

private:
	struct Node {
		Query_Digest_Row row;
		uint64_t hash = 0;
		std::unique_ptr<Node> next;
	};

	Query_Digest_Row* find(const Row_Key& key, uint64_t hash) {
		Node* node = buckets_[hash & (buckets_.size() - 1)].get();
		while (node != nullptr && !(node->hash == hash && key.fits(node->row))) {
			node = node->next.get();
		}
		return node != nullptr ? &node->row : nullptr;
	}

	Query_Digest_Row& add(const Row_Key& key, uint64_t hash, std::string_view digest_text) {
		if (size_ >= buckets_.size()) {
			grow();
		}
		auto node = std::make_unique<Node>();
		Query_Digest_Row& row = node->row;
		row.hostgroup = key.hostgroup;
		row.database = key.database;
		row.username = key.username;
		row.client_address = key.client_address;
		row.digest = key.digest;
		row.digest_text = digest_text;
		node->hash = hash;
		++size_;
		bytes_ += sizeof(Node) + row.database.capacity() + row.username.capacity() +
		          row.client_address.capacity() + row.digest_text.capacity();
		std::unique_ptr<Node>& bucket = buckets_[hash & (buckets_.size() - 1)];
		node->next = std::move(bucket);
		bucket = std::move(node);
		return row;
	}

	void grow() {
		std::vector<std::unique_ptr<Node>> old(buckets_.size() * 2);
		old.swap(buckets_);
		for (std::unique_ptr<Node>& bucket : old) {
			while (bucket != nullptr) {
				std::unique_ptr<Node> node = std::move(bucket);
				bucket = std::move(node->next);
				std::unique_ptr<Node>& place = buckets_[node->hash & (buckets_.size() - 1)];
				node->next = std::move(place);
				place = std::move(node);
			}
		}
	}

	// Chains are cut one by one: a recursive clean-up could run deep.
	void clear() {
		for (std::unique_ptr<Node>& bucket : buckets_) {
			while (bucket != nullptr) {
				bucket = std::move(bucket->next);
			}
		}
		size_ = bytes_ = 0;
	}

	std::vector<std::unique_ptr<Node>> buckets_;
	size_t size_ = 0;
	size_t bytes_ = 0;
};

std::vector<Query_Digest_Row> rows_of(const Row_Table& table) {
	std::vector<Query_Digest_Row> rows;
	rows.reserve(table.size());
	table.for_each([&rows](const Query_Digest_Row& row) { rows.push_back(row); });
	return rows;
}

void add_up(Query_Digest_Row& sum, const Query_Digest_Row& part) {
	sum.count_star += part.count_star;
	sum.first_seen_s = std::min(sum.first_seen_s, part.first_seen_s);
	sum.last_seen_s = std::max(sum.last_seen_s, part.last_seen_s);
	sum.sum_time_us += part.sum_time_us;
	sum.min_time_us = std::min(sum.min_time_us, part.min_time_us);
	sum.max_time_us = std::max(sum.max_time_us, part.max_time_us);
	sum.sum_rows_affected += part.sum_rows_affected;
	sum.sum_rows_sent += part.sum_rows_sent;
	for (size_t i = 0; i < kDigestBucketCount; ++i) {
		sum.buckets[i] += part.buckets[i];
	}
}

} // namespace

struct Query_Digest_Stats::Impl {
	mutable Mutex mutex{Lock_Rank::shared_maps};
	Row_Table rows GUARDED_BY(mutex);
};

Query_Digest_Stats::Query_Digest_Stats() : impl_(std::make_unique<Impl>()) {}
Query_Digest_Stats::~Query_Digest_Stats() = default;

void Query_Digest_Stats::add(const Statement_Analysis& analysis, const Query_Digest_Event& event) {
	const Row_Key key{event.hostgroup, event.database, event.username, event.client_address,
	                  analysis.digest};
	const Lock lock(impl_->mutex);
	count(impl_->rows.row_for(key, analysis.digest_text), event);
}

std::vector<Query_Digest_Row> Query_Digest_Stats::copy() const {
	const Lock lock(impl_->mutex);
	return rows_of(impl_->rows);
}

std::vector<Query_Digest_Row> Query_Digest_Stats::take() {
	// The table is taken out whole, so that the worker waits for a few pointers at most.
	Row_Table taken;
	{
		const Lock lock(impl_->mutex);
		taken.swap(impl_->rows);
	}
	return rows_of(taken);
}

size_t Query_Digest_Stats::memory_bytes() const {
	const Lock lock(impl_->mutex);
	return impl_->rows.bytes();
}

std::vector<Query_Digest_Row>
Query_Digest_Stats::merge(std::vector<std::vector<Query_Digest_Row>> parts) {
	std::vector<Query_Digest_Row> merged;
	std::unordered_multimap<uint64_t, size_t> places;
	for (std::vector<Query_Digest_Row>& part : parts) {
		for (Query_Digest_Row& row : part) {
			const Row_Key key = key_of(row);
			const uint64_t hash = key.hash();
			const auto [first, last] = places.equal_range(hash);
			const auto place = std::find_if(
			    first, last, [&](const auto& entry) { return key.fits(merged[entry.second]); });
			if (place != last) {
				add_up(merged[place->second], row);
			} else {
				places.emplace(hash, merged.size());
				merged.push_back(std::move(row));
			}
		}
	}
	return merged;
}

} // namespace proxy
