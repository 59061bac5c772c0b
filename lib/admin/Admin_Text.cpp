#include "admin/Admin_Text.h"

#include "config/Config_Words.h"

#include <algorithm>

namespace proxy {

namespace {
bool is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_name_char(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

enum class Piece : uint8_t { blank, comment, text_literal, quoted_name, name, other };

// The piece of `text` that starts at `at` (REQUIRES: at < text.size()); `end` is behind it. An
// unfinished quote or comment reaches to the end of the text.
Piece next_piece(std::string_view text, size_t at, size_t& end) {
	const char c = text[at];
	const auto through = [&](std::string_view closing, size_t from) {
		const size_t found = text.find(closing, from);
		end = found == std::string_view::npos ? text.size() : found + closing.size();
	};
	if (is_blank(c)) {
		end = at + 1;
		return Piece::blank;
	}
	if (text.substr(at, 2) == "--") {
		through("\n", at + 2);
		return Piece::comment;
	}
	if (text.substr(at, 2) == "/*") {
		through("*/", at + 2);
		return Piece::comment;
	}
	if (c == '\'' || c == '"' || c == '`') {
		// A doubled quote inside reads as two literals side by side: the same for our purposes.
		through(std::string_view(&c, 1), at + 1);
		return c == '\'' ? Piece::text_literal : Piece::quoted_name;
	}
	if (is_name_char(c)) {
		end = at + 1;
		while (end < text.size() && is_name_char(text[end])) {
			++end;
		}
		return Piece::name;
	}
	end = at + 1;
	return Piece::other;
}

bool creates_trigger(std::string_view statement) {
	std::vector<std::string> names = names_in(statement.substr(0, 200));
	if (names.size() < 2 || names[0] != "create") {
		return false;
	}
	const std::string& second = names[1];
	return second == "trigger" ||
	       (names.size() > 2 && (second == "temp" || second == "temporary") &&
	        names[2] == "trigger");
}
} // namespace

std::vector<std::string_view> split_statements(std::string_view text) {
	std::vector<std::string_view> out;
	size_t start = 0;
	bool content = false;
	for (size_t at = 0, end = 0; at < text.size(); at = end) {
		const Piece piece = next_piece(text, at, end);
		if (piece != Piece::other || text[at] != ';') {
			content = content || (piece != Piece::blank && piece != Piece::comment);
			continue;
		}
		if (content && creates_trigger(text.substr(start))) {
			break;
		}
		if (content) {
			out.push_back(text.substr(start, at - start));
		}
		start = end;
		content = false;
	}
	if (content) {
		out.push_back(text.substr(start));
	}
	return out;
}

std::string_view skip_leading_comments(std::string_view statement) {
	size_t at = 0;
	for (size_t end = 0; at < statement.size(); at = end) {
		const Piece piece = next_piece(statement, at, end);
		if (piece != Piece::blank && piece != Piece::comment) {
			break;
		}
	}
	return statement.substr(at);
}

std::string collapse(std::string_view statement) {
	std::string out;
	for (const char c : skip_leading_comments(statement)) {
		if (!is_blank(c)) {
			out += c;
		} else if (!out.empty() && out.back() != ' ') {
			out += ' ';
		}
	}
	while (!out.empty() && (out.back() == ' ' || out.back() == ';')) {
		out.pop_back();
	}
	return out;
}

std::string first_word(std::string_view statement) {
	const std::string_view rest = skip_leading_comments(statement);
	size_t length = 0;
	while (length < rest.size() && is_name_char(rest[length])) {
		++length;
	}
	return to_upper(rest.substr(0, length));
}

std::vector<std::string> names_in(std::string_view statement) {
	std::vector<std::string> out;
	for (size_t at = 0, end = 0; at < statement.size(); at = end) {
		switch (next_piece(statement, at, end)) {
		case Piece::name:
			out.push_back(to_lower(statement.substr(at, end - at)));
			break;
		case Piece::quoted_name:
			if (end - at >= 2) {
				out.push_back(to_lower(statement.substr(at + 1, end - at - 2)));
			}
			break;
		case Piece::blank:
		case Piece::comment:
		case Piece::text_literal:
		case Piece::other:
			break;
		}
	}
	return out;
}

std::string without_literals(std::string_view statement) {
	const bool sets = first_word(statement) == "SET";
	std::string out;
	for (size_t at = 0, end = 0; at < statement.size(); at = end) {
		const Piece piece = next_piece(statement, at, end);
		if (piece == Piece::text_literal || piece == Piece::quoted_name) {
			out += '?';
		} else if (sets && statement[at] == '=') {
			return out + "=?";
		} else {
			out += statement.substr(at, end - at);
		}
	}
	return out;
}

std::string without_stats_prefix(std::string_view statement) {
	std::string out;
	for (size_t at = 0, end = 0; at < statement.size(); at = end) {
		const Piece piece = next_piece(statement, at, end);
		const bool prefix = piece == Piece::name &&
		                    equal_ignoring_case(statement.substr(at, end - at), "stats") &&
		                    end < statement.size() && statement[end] == '.';
		if (prefix) {
			++end;
		} else {
			out += statement.substr(at, end - at);
		}
	}
	return out;
}

std::string unquote(std::string_view text) {
	if (text.size() < 2 || (text[0] != '\'' && text[0] != '"' && text[0] != '`') ||
	    text.back() != text[0]) {
		return std::string(text);
	}
	const char quote = text[0];
	std::string out;
	for (size_t i = 1; i + 1 < text.size(); ++i) {
		out += text[i];
		if (text[i] == quote && text[i + 1] == quote && i + 2 < text.size()) {
			++i;
		}
	}
	return out;
}

std::string to_upper(std::string_view text) {
	std::string out(text);
	std::transform(out.begin(), out.end(), out.begin(), [](char c) {
		return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
	});
	return out;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
	return equal_ignoring_case(text.substr(0, prefix.size()), prefix);
}

} // namespace proxy
