// Hash of a fast routing key.
#pragma once

#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace proxy {

inline uint64_t fast_route_hash(std::string_view username, std::string_view database,
                                int64_t flag) {
	const uint64_t user =
	    XXH3_64bits_withSeed(username.data(), username.size(), static_cast<uint64_t>(flag));
	return XXH3_64bits_withSeed(database.data(), database.size(), user);
}

} // namespace proxy
