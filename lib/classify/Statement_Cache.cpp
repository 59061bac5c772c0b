#include "classify/Statement_Cache.h"

namespace proxy {

namespace {

constexpr size_t kFirstBuckets = 256; // a power of two, as every size after it

// Heap memory of a class.
size_t bytes_of(const Statement_Class& statement) {
	size_t bytes = 0;
	for (const Set_Item& item : statement.sets) {
		bytes += sizeof(Set_Item) + item.name.capacity() + item.value.capacity();
	}
	for (const std::string& name : statement.functions) {
		bytes += sizeof(std::string) + name.capacity();
	}
	for (const std::string& name : statement.relations) {
		bytes += sizeof(std::string) + name.capacity();
	}
	for (const Statement_Class& part : statement.parts) {
		bytes += sizeof(Statement_Class) + bytes_of(part);
	}
	for (const Prepared_Use& use : statement.prepared) {
		bytes += sizeof(Prepared_Use) + use.name.capacity() + use.text.capacity();
		bytes += use.body == nullptr ? 0 : sizeof(Statement_Class) + bytes_of(*use.body);
	}
	return bytes + statement.name.capacity();
}

size_t bytes_of(const Statement_Analysis& analysis) {
	return sizeof(Statement_Analysis) + analysis.digest_text.capacity() +
	       bytes_of(analysis.statement);
}

} // namespace

Statement_Cache::Statement_Cache() : buckets_(kFirstBuckets) {}

Statement_Cache::~Statement_Cache() {
	clear();
}

void Statement_Cache::clear() {
	// Entries leave the list as they go; chains are cut one by one, not by recursion.
	for (std::unique_ptr<Entry>& bucket : buckets_) {
		while (bucket != nullptr) {
			bucket = std::move(bucket->next);
		}
	}
	bytes_ = 0;
}

void Statement_Cache::set_limits(size_t entries, size_t bytes) {
	max_entries_ = entries;
	max_bytes_ = bytes;
	while (recent_.size() > max_entries_ || bytes_ > max_bytes_) {
		remove(*recent_.back());
	}
}

const Statement_Analysis_Ptr* Statement_Cache::find(const Cache_Key& key) {
	for (Entry* entry = buckets_[bucket_of(key.hash)].get(); entry != nullptr;
	     entry = entry->next.get()) {
		if (entry->hash == key.hash && entry->extra == key.extra && entry->exact == key.exact &&
		    entry->text == key.text) {
			if (recent_.front() != entry) {
				recent_.push_front(*entry);
			}
			return &entry->analysis;
		}
	}
	return nullptr;
}

void Statement_Cache::insert(const Cache_Key& key, const Statement_Analysis_Ptr& analysis) {
	if (key.text.size() > kMaxKeyBytes) {
		return;
	}
	auto entry = std::make_unique<Entry>();
	entry->text = key.text;
	entry->hash = key.hash;
	entry->extra = key.extra;
	entry->exact = key.exact;
	entry->analysis = analysis;
	entry->bytes = sizeof(Entry) + entry->text.capacity() + bytes_of(*analysis);
	if (entry->bytes > max_bytes_ || max_entries_ == 0) {
		return;
	}
	while (recent_.size() + 1 > max_entries_ || bytes_ + entry->bytes > max_bytes_) {
		remove(*recent_.back());
	}
	if (recent_.size() >= buckets_.size()) {
		grow();
	}
	bytes_ += entry->bytes;
	recent_.push_front(*entry);
	std::unique_ptr<Entry>& bucket = buckets_[bucket_of(key.hash)];
	entry->next = std::move(bucket);
	bucket = std::move(entry);
}

void Statement_Cache::remove(Entry& entry) {
	std::unique_ptr<Entry>* link = &buckets_[bucket_of(entry.hash)];
	while (link->get() != &entry) {
		link = &(*link)->next;
	}
	bytes_ -= entry.bytes;
	*link = std::move(entry.next);
}

void Statement_Cache::grow() {
	std::vector<std::unique_ptr<Entry>> old(buckets_.size() * 2);
	old.swap(buckets_);
	for (std::unique_ptr<Entry>& bucket : old) {
		while (bucket != nullptr) {
			std::unique_ptr<Entry> entry = std::move(bucket);
			bucket = std::move(entry->next);
			std::unique_ptr<Entry>& place = buckets_[bucket_of(entry->hash)];
			entry->next = std::move(place);
			place = std::move(entry);
		}
	}
}

} // namespace proxy
