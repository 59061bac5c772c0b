// What a text costs the parser, found from the tokens alone before it runs. A client must not
// choose how much stack its recursion uses, nor for how long it holds up the worker: its lexer is
// quadratic in runs of operator characters, and its tree is copied once for every level of nesting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace proxy {

// Deepest nesting that is parsed. Real statements stay far below; 1,000 levels use well under a
// megabyte of stack in libpg_query.
inline constexpr size_t kMaxNesting = 1000;

// Longest time that a text may be expected to take in the parser and the walk over its tree.
inline constexpr uint64_t kMaxParseNs = 80'000'000;

// False when the nesting may exceed kMaxNesting, or parsing may take longer than kMaxParseNs on an
// ordinary machine. Linear.
bool is_cheap_to_parse(std::string_view sql, bool standard_conforming_strings);

} // namespace proxy
