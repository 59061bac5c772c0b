#include "auth/Scram_Key_Cache.h"

namespace proxy {

namespace {
constexpr int kWaitMs = 1000;
} // namespace

std::string Scram_Key_Cache::id_of(std::string_view user, std::string_view password,
                                   std::string_view salt, uint32_t iterations) const {
	// Lengths in front keep ("ab", "c") and ("a", "bc") apart.
	std::string text = std::to_string(user.size()) + ":" + std::to_string(salt.size()) + ":" +
	                   std::to_string(iterations) + ":";
	text.append(user).append(salt).append(password);
	std::string id(as_text(hmac_sha256(hash_key_, text)));
	wipe({reinterpret_cast<uint8_t*>(text.data()), text.size()});
	return id;
}

std::optional<Scram_Derived> Scram_Key_Cache::look_up(const std::string& id) {
	const auto found = by_id_.find(id);
	if (found == by_id_.end()) {
		return std::nullopt;
	}
	entries_.splice(entries_.begin(), entries_, found->second);
	return found->second->derived;
}

std::optional<Scram_Derived> Scram_Key_Cache::find(std::string_view user, std::string_view password,
                                                   std::string_view salt, uint32_t iterations) {
	const std::string id = id_of(user, password, salt, iterations);
	Lock lock(mutex_);
	return look_up(id);
}

std::optional<Scram_Derived> Scram_Key_Cache::get(std::string_view user, std::string_view password,
                                                  std::string_view salt, uint32_t iterations) {
	std::string id = id_of(user, password, salt, iterations);
	{
		Lock lock(mutex_);
		while (deriving_.contains(id)) {
			derived_.wait_for(mutex_, kWaitMs);
		}
		if (std::optional<Scram_Derived> known = look_up(id)) {
			return known;
		}
		deriving_.insert(id);
	}
	std::optional<Scram_Derived> derived = derive_scram(password, salt, iterations);
	{
		Lock lock(mutex_);
		deriving_.erase(id);
		++derivations_;
		if (derived && capacity_ > 0) {
			entries_.push_front(Entry{id, *derived});
			by_id_.emplace(std::move(id), entries_.begin());
		}
		while (entries_.size() > capacity_) {
			by_id_.erase(entries_.back().id);
			entries_.pop_back();
		}
	}
	derived_.notify_all();
	return derived;
}

bool Scram_Key_Cache::contains(std::string_view user, std::string_view password,
                               std::string_view salt) {
	const std::string id = id_of(user, password, salt, kScramDefaultIterations);
	Lock lock(mutex_);
	return by_id_.find(id) != by_id_.end();
}

void Scram_Key_Cache::clear() {
	Lock lock(mutex_);
	by_id_.clear();
	entries_.clear();
}

size_t Scram_Key_Cache::size() {
	Lock lock(mutex_);
	return entries_.size();
}

uint64_t Scram_Key_Cache::derivations() {
	Lock lock(mutex_);
	return derivations_;
}

} // namespace proxy
