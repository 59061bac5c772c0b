// A map that knows which entry was not used for longest. Each call takes constant time; references
// stay valid until their entry goes. One thread, or under the owner's lock.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace proxy {

template <typename Key, typename Value> class Lru_Map {
public:
	bool empty() const { return places_.empty(); }
	size_t size() const { return places_.size(); }
	bool contains(const Key& key) const { return places_.contains(key); }

	// nullptr: not there. use() makes it the one that was used last.
	Value* find(const Key& key) {
		const auto place = places_.find(key);
		return place == places_.end() ? nullptr : &place->second->second;
	}
	Value* use(const Key& key) {
		const auto place = places_.find(key);
		if (place == places_.end()) {
			return nullptr;
		}
		order_.splice(order_.begin(), order_, place->second);
		return &place->second->second;
	}
	// Adds or replaces it, used last.
	void put(const Key& key, Value value) {
		if (Value* here = use(key)) {
			*here = std::move(value);
			return;
		}
		order_.emplace_front(key, std::move(value));
		places_.emplace(key, order_.begin());
	}
	// Adds it as the next one to go; nothing happens when it is there.
	void put_oldest(const Key& key, Value value) {
		if (!contains(key)) {
			order_.emplace_back(key, std::move(value));
			places_.emplace(key, std::prev(order_.end()));
		}
	}
	bool erase(const Key& key) {
		const auto place = places_.find(key);
		if (place == places_.end()) {
			return false;
		}
		order_.erase(place->second);
		places_.erase(place);
		return true;
	}
	// REQUIRES: !empty().
	const std::pair<Key, Value>& oldest() const { return order_.back(); }
	void drop_oldest() {
		places_.erase(order_.back().first);
		order_.pop_back();
	}
	void clear() {
		places_.clear();
		order_.clear();
	}

	// From the last used one to the oldest. An entry must not go while it is visited.
	auto begin() { return order_.begin(); }
	auto end() { return order_.end(); }
	auto begin() const { return order_.begin(); }
	auto end() const { return order_.end(); }

private:
	std::list<std::pair<Key, Value>> order_; // last used first
	std::unordered_map<Key, typename std::list<std::pair<Key, Value>>::iterator> places_;
};

} // namespace proxy
