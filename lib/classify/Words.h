// Comparing keywords without regard to case. PostgreSQL folds keywords by ASCII rules only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace proxy {

inline char lower_ascii(char c) {
	return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

inline bool char_is_digit(char c) {
	return c >= '0' && c <= '9';
}

// `known` is in lower case.
inline bool same_word(std::string_view word, std::string_view known) {
	if (word.size() != known.size()) {
		return false;
	}
	for (size_t i = 0; i < word.size(); ++i) {
		if (lower_ascii(word[i]) != known[i]) {
			return false;
		}
	}
	return true;
}

inline std::string lower_copy(std::string_view text) {
	std::string result(text);
	for (char& c : result) {
		c = lower_ascii(c);
	}
	return result;
}

// Does the inside of a string begin like a moment that the server works out: 'now', 'today'...?
// As a date or time it means the transaction's start, like now().
inline bool names_moment(std::string_view text) {
	while (!text.empty() &&
	       (text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r'))) {
		text.remove_prefix(1);
	}
	for (const std::string_view word : {"now", "today", "tomorrow", "yesterday"}) {
		if (same_word(text.substr(0, word.size()), word)) {
			return true;
		}
	}
	return false;
}

} // namespace proxy
