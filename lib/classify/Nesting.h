// How deep can the parse tree of a text get? A bound found from the tokens alone, before the
// parser runs: its tree functions recurse, and a client must not choose how much stack they use.
#pragma once

#include <cstddef>
#include <string_view>

namespace proxy {

// Deepest nesting that is parsed. Real statements stay far below; 1,000 levels use well under a
// megabyte of stack in libpg_query.
inline constexpr size_t kMaxNesting = 1000;

// True when the nesting may exceed kMaxNesting.
bool nests_too_deep(std::string_view sql, bool standard_conforming_strings);

} // namespace proxy
