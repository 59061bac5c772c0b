// Statements seen before: bounded LRU over both keys a class may be kept under, the digest (text
// and shape) or, where literals matter, the exact text. A key always counts as a whole; the hash
// only finds it. Owned by one worker.
#pragma once

#include "base/Intrusive_List.h"
#include "classify/Query_Processor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

struct Cache_Key {
	std::string_view text;
	uint64_t hash = 0;
	// Digest keys: the shape. Text keys: 0 or 1, the setting of standard_conforming_strings.
	uint64_t extra = 0;
	bool exact = false; // text is the statement itself
};

class Statement_Cache {
public:
	// Longer keys are not kept: comparing and storing them costs more than it saves.
	static constexpr size_t kMaxKeyBytes = 16384;

	Statement_Cache();
	~Statement_Cache();
	Statement_Cache(const Statement_Cache&) = delete;
	Statement_Cache& operator=(const Statement_Cache&) = delete;

	void set_limits(size_t entries, size_t bytes);
	void clear();

	// nullptr: not there. The answer is the most recently used from now on.
	const Statement_Analysis_Ptr* find(const Cache_Key& key);
	// Keeps a new entry, if its size allows. REQUIRES: find(key) == nullptr.
	void insert(const Cache_Key& key, const Statement_Analysis_Ptr& analysis);

	size_t entries() const { return recent_.size(); }
	size_t bytes() const { return bytes_; }

private:
	struct Entry : List_Node<Entry> {
		std::string text;
		uint64_t hash = 0;
		uint64_t extra = 0;
		bool exact = false;
		size_t bytes = 0;
		Statement_Analysis_Ptr analysis;
		std::unique_ptr<Entry> next; // in the bucket
	};

	void remove(Entry& entry);
	void grow();
	size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }

	std::vector<std::unique_ptr<Entry>> buckets_;
	Intrusive_List<Entry> recent_; // front: used last
	size_t max_entries_ = 10000;
	size_t max_bytes_ = size_t{16} << 20;
	size_t bytes_ = 0;
};

} // namespace proxy
