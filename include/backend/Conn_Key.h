// Key of a pooled server connection.
#pragma once

#include <cstdint>
#include <string>

namespace proxy {

// What must match for a pooled connection to be reused; compared in full after the hash.
// Tracked parameters and prepared statements are not part of it: they are brought in line after
// the match.
struct Conn_Key {
	uint64_t hash = 0;       // of the fields below; 0 never
	uint32_t generation = 0; // startup profile; changes when what we ask for at startup changes
	std::string username;
	std::string database;
	// Hash of the secret the connection logged in with, so that a changed password is taken up.
	uint64_t credential = 0;

	void seal(); // computes hash
	bool operator==(const Conn_Key& other) const;
};

} // namespace proxy
