#include "backend/Conn_Key.h"

#include <xxhash.h>

namespace proxy {

void Conn_Key::seal() {
	// Chained: each part's hash is the seed of the next, so that ("ab", "c") and ("a", "bc")
	// differ.
	uint64_t value = XXH3_64bits_withSeed(&credential, sizeof(credential), generation);
	value = XXH3_64bits_withSeed(username.data(), username.size(), value);
	value = XXH3_64bits_withSeed(database.data(), database.size(), value);
	hash = value == 0 ? 1 : value;
}

bool Conn_Key::operator==(const Conn_Key& other) const {
	return hash == other.hash && generation == other.generation && credential == other.credential &&
	       username == other.username && database == other.database;
}

} // namespace proxy
