// Looks at admin statements as text: where one ends, what is a comment, which names it contains.
// Pure; quotes and comments follow SQLite. Fuzzed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// Cuts a Query message at semicolons outside quotes and comments. Statements that are only blanks
// or comments are left out. A CREATE TRIGGER is never cut: its body has semicolons.
std::vector<std::string_view> split_statements(std::string_view text);

// The form commands are matched in: no comments before the first word, runs of blanks as one, no
// blanks or semicolons at the ends. Case is kept.
std::string collapse(std::string_view statement);

// The statement without comments and blanks in front, as a view.
std::string_view skip_leading_comments(std::string_view statement);

// The first word in upper case ("SELECT").
std::string first_word(std::string_view statement);

// Names outside string literals and comments, in lower case, in order of appearance.
std::vector<std::string> names_in(std::string_view statement);

// For the log: quoted texts as ?, and nothing behind the name that a SET assigns to.
std::string without_literals(std::string_view statement);

// Removes "stats." in front of names: a stats user's main schema is the stats database.
std::string without_stats_prefix(std::string_view statement);

// 'text' or "text" without its quotes, doubled quotes undone; other text unchanged.
std::string unquote(std::string_view text);

std::string to_upper(std::string_view text);
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix);

} // namespace proxy
