// Keys derived from plain passwords, so that each password costs its 4096 rounds once and not
// once a login. Any thread. Entries are found by a keyed hash of user and password: a changed
// password is simply another entry, and the cache holds nothing that reads as a password.
#pragma once

#include "auth/Scram_Md5.h"
#include "base/Mutex.h"

#include <list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace proxy {

class Scram_Key_Cache {
public:
	// `hash_key`: random, per process. `capacity`: least recently used entries go beyond it.
	explicit Scram_Key_Cache(std::string hash_key, size_t capacity = kDefaultCapacity)
	    : hash_key_(std::move(hash_key)), capacity_(capacity) {}

	// Never derives; nullopt: not there. For workers.
	std::optional<Scram_Derived> find(std::string_view user, std::string_view password,
	                                  std::string_view salt,
	                                  uint32_t iterations = kScramDefaultIterations)
	    EXCLUDES(mutex_);
	// Derives on a miss, outside the lock: a millisecond or two on the calling thread, which must
	// not be a worker's. Several that want the same at once wait for the one that derives. nullopt:
	// the crypto library refused, or there are too many iterations. `salt`: the one this user is
	// always shown, or a server's.
	std::optional<Scram_Derived> get(std::string_view user, std::string_view password,
	                                 std::string_view salt,
	                                 uint32_t iterations = kScramDefaultIterations)
	    EXCLUDES(mutex_);
	bool contains(std::string_view user, std::string_view password, std::string_view salt)
	    EXCLUDES(mutex_);
	void clear() EXCLUDES(mutex_);
	size_t size() EXCLUDES(mutex_);
	// How often get() had to derive.
	uint64_t derivations() EXCLUDES(mutex_);

	// About 250 bytes an entry.
	static constexpr size_t kDefaultCapacity = 20000;

private:
	struct Entry {
		std::string id;
		Scram_Derived derived;
	};
	using Entries = std::list<Entry>; // most recently used first

	std::optional<Scram_Derived> look_up(const std::string& id) REQUIRES(mutex_);
	std::string id_of(std::string_view user, std::string_view password, std::string_view salt,
	                  uint32_t iterations) const;

	const std::string hash_key_;
	const size_t capacity_;
	Mutex mutex_{Lock_Rank::shared_maps};
	Entries entries_ GUARDED_BY(mutex_);
	std::unordered_map<std::string, Entries::iterator> by_id_ GUARDED_BY(mutex_);
	std::unordered_set<std::string> deriving_ GUARDED_BY(mutex_);
	Cond_Var derived_;
	uint64_t derivations_ GUARDED_BY(mutex_) = 0;
};

} // namespace proxy
