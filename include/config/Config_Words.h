// The words of the configuration's enums: what tables, variables and the configuration file show
// and accept. Pure functions, any thread.
//
// E is one of: Server_Status, Check_Type, Consistency_Mode, Proxy_Protocol and the enums of
// Polardb_Policy.h.
#pragma once

#include "config/Config_Rows.h"
#include "config/Polardb_Policy.h"

#include <optional>
#include <string>
#include <string_view>

namespace proxy {

// The word shown for a value; Consistency_Mode::inherit is "default".
template <typename E> std::string_view word_of(E value);

// Any case, and the aliases of older versions; nullopt: no such word. SHUNNED_REPLICATION_LAG is
// shown but not accepted: only the monitor sets it.
template <typename E> std::optional<E> from_word(std::string_view text);

// The accepted words without aliases, "a, b, c", for messages.
template <typename E> std::string words_of();

// ASCII only, independent of the locale.
std::string to_lower(std::string_view text);
bool equal_ignoring_case(std::string_view left, std::string_view right);

} // namespace proxy
