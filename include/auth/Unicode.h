// What SASLprep needs of Unicode: UTF-8, character classes, normal form KC. Pure; any thread. The
// tables are unpacked at the first use, which only passwords beyond ASCII ever come to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace proxy {

// nullopt: not UTF-8 as PostgreSQL accepts it (overlong forms, surrogates, beyond U+10FFFF).
std::optional<std::u32string> utf8_decode(std::string_view text);
std::string utf8_encode(std::u32string_view text);
std::u32string nfkc(std::u32string_view text);

// Tables of RFC 3454, by the use SASLprep (RFC 4013) has for them.
bool is_space(char32_t c);             // C.1.2
bool is_mapped_to_nothing(char32_t c); // B.1
bool is_prohibited(char32_t c);        // C.1.2, C.2 to C.9
bool is_unassigned(char32_t c);        // A.1
bool is_right_to_left(char32_t c);     // D.1
bool is_left_to_right(char32_t c);     // D.2

} // namespace proxy
