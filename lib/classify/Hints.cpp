#include "classify/Hints.h"

#include "classify/Tokenizer.h"
#include "classify/Words.h"

#include <charconv>

namespace proxy {

namespace {

std::string_view trim(std::string_view text) {
	while (!text.empty() && char_is(text.front(), kCharSpace)) {
		text.remove_prefix(1);
	}
	while (!text.empty() && char_is(text.back(), kCharSpace)) {
		text.remove_suffix(1);
	}
	return text;
}

// A whole number from 0 to `max`; -1 when the text is anything else.
int64_t number_of(std::string_view text, int64_t max) {
	int64_t value = -1;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
	const bool whole = error == std::errc() && end == text.data() + text.size();
	return whole && value >= 0 && value <= max ? value : -1;
}

void set_route(Statement_Hints& hints, Route_Hint route) {
	hints.route = route;
	hints.any = true;
}

void apply_word(Statement_Hints& hints, std::string_view word) {
	if (same_word(word, "force_master") || same_word(word, "master")) {
		set_route(hints, Route_Hint::primary);
	} else if (same_word(word, "force_slave") || same_word(word, "slave")) {
		set_route(hints, Route_Hint::replica);
	}
}

void apply_pair(Statement_Hints& hints, std::string_view key, std::string_view value) {
	constexpr int64_t kMaxHostgroup = INT32_MAX;
	constexpr int64_t kMaxWaitMs = 86400000; // a day
	if (same_word(key, "route")) {
		if (same_word(value, "primary") || same_word(value, "master")) {
			set_route(hints, Route_Hint::primary);
		} else if (same_word(value, "replica") || same_word(value, "slave")) {
			set_route(hints, Route_Hint::replica);
		}
	} else if (same_word(key, "hostgroup")) {
		const int64_t hostgroup = number_of(value, kMaxHostgroup);
		if (hostgroup >= 0) {
			hints.hostgroup = static_cast<int>(hostgroup);
			set_route(hints, Route_Hint::hostgroup);
		}
	} else if (same_word(key, "split")) {
		if (same_word(value, "off")) {
			hints.split_off = true;
			hints.any = true;
		}
	} else if (same_word(key, "consistency")) {
		if (same_word(value, "eventual") || same_word(value, "session") ||
		    same_word(value, "global")) {
			hints.consistency = lower_copy(value);
			hints.any = true;
		}
	} else if (same_word(key, "wait_timeout_ms")) {
		const int64_t wait_ms = number_of(value, kMaxWaitMs);
		if (wait_ms >= 0) {
			hints.wait_timeout_ms = wait_ms;
			hints.any = true;
		}
	}
}

// One item between separators: a lone word, or pairs with white space between them.
void apply_item(Statement_Hints& hints, std::string_view item) {
	item = trim(item);
	if (item.find('=') == std::string_view::npos) {
		apply_word(hints, item);
		return;
	}
	while (!item.empty()) {
		const size_t equals = item.find('=');
		if (equals == std::string_view::npos) {
			return;
		}
		// The last word before the sign is the key, the first one after it the value.
		std::string_view key = trim(item.substr(0, equals));
		const size_t key_start = key.find_last_of(" \t\r\n\f\v");
		key = key_start == std::string_view::npos ? key : key.substr(key_start + 1);
		item = trim(item.substr(equals + 1));
		const size_t value_end = item.find_first_of(" \t\r\n\f\v");
		apply_pair(hints, key, item.substr(0, value_end));
		item = value_end == std::string_view::npos ? std::string_view() : item.substr(value_end);
	}
}

// The text inside the comment that starts at `at`, or at the next non-space; empty: none there.
std::string_view comment_at(std::string_view sql, size_t at) {
	while (at < sql.size() && char_is(sql[at], kCharSpace)) {
		++at;
	}
	if (sql.size() - at < 4 || sql[at] != '/' || sql[at + 1] != '*') {
		return {};
	}
	const size_t end = sql.find("*/", at + 2);
	if (end == std::string_view::npos) {
		return {};
	}
	return sql.substr(at + 2, end - at - 2);
}

} // namespace

Statement_Hints parse_hints(std::string_view sql) {
	Statement_Hints hints;
	size_t word = 0;
	while (word < sql.size() && char_is(sql[word], kCharSpace)) {
		++word;
	}
	std::string_view comment = comment_at(sql, word);
	if (comment.empty()) {
		while (word < sql.size() && char_is(sql[word], kCharIdentPart)) {
			++word;
		}
		comment = comment_at(sql, word);
	}
	if (!comment.empty() && comment.front() == '+') {
		comment.remove_prefix(1);
	}
	while (!comment.empty()) {
		const size_t end = comment.find_first_of(";,");
		apply_item(hints, comment.substr(0, end));
		comment = end == std::string_view::npos ? std::string_view() : comment.substr(end + 1);
	}
	return hints;
}

} // namespace proxy
