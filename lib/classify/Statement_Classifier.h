// Text -> Statement_Class, by PostgreSQL's own parser. Pure: no session, no server, no cache.
//
// What no text shows is not seen here: a view or SQL function that hides a volatile call, or a
// column that is a function (t.f for f(t)). Knowledge of the catalogs has to name those.
#pragma once

#include "classify/Function_Safety.h"
#include "classify/Statement_Class.h"

#include <cstddef>
#include <string_view>

namespace proxy {

// Longer texts are not parsed (unknown: they go to the primary): parsing one would hold up the
// worker for milliseconds, and reads that long are rare.
inline constexpr size_t kMaxParsedBytes = size_t{1} << 20;

// Names kept in Statement_Class::functions and ::relations, each.
inline constexpr size_t kMaxNamesKept = 64;

// Any thread (libpg_query keeps its state per thread).
Statement_Class classify_statement(std::string_view sql, bool standard_conforming_strings,
                                   const Function_Safety& functions);

} // namespace proxy
