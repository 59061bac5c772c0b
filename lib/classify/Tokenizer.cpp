#include "classify/Tokenizer.h"

namespace proxy {

namespace {

char lower(char c) {
	return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

} // namespace

// A comment at the current place: `--` to the end of the line, or `/* */`, which nests.
bool Tokenizer::skip_comment() {
	if (size_ - at_ < 2) {
		return false;
	}
	if (data_[at_] == '-' && data_[at_ + 1] == '-') {
		at_ += 2;
		while (at_ < size_ && data_[at_] != '\n' && data_[at_] != '\r') {
			++at_;
		}
	} else if (data_[at_] == '/' && data_[at_ + 1] == '*') {
		at_ += 2;
		uint32_t depth = 1;
		while (depth > 0 && at_ < size_) {
			const bool pair = size_ - at_ >= 2;
			if (pair && data_[at_] == '*' && data_[at_ + 1] == '/') {
				--depth;
				at_ += 2;
			} else if (pair && data_[at_] == '/' && data_[at_ + 1] == '*') {
				++depth;
				at_ += 2;
			} else {
				++at_;
			}
		}
		unterminated_ = unterminated_ || depth > 0;
	} else {
		return false;
	}
	return true;
}

std::string_view Tokenizer::next_comment() {
	while (at_ < size_ && char_is(data_[at_], kCharSpace)) {
		++at_;
	}
	const uint32_t start = at_;
	skip_comment();
	return {data_ + start, at_ - start};
}

// Strings that begin with a letter: E'', B'', X'', N'', U&'' and the name U&"".
bool Tokenizer::scan_prefixed(Token& token) {
	const char prefix = lower(data_[at_]);
	if (data_[at_ + 1] == '\'') {
		if (prefix != 'e' && prefix != 'b' && prefix != 'x' && prefix != 'n') {
			return false;
		}
		++at_;
		// N'' is a plain string to PostgreSQL.
		scan_string(token, prefix == 'e'   ? Quoting::extended
		                   : prefix == 'n' ? Quoting::plain
		                                   : Quoting::bits);
		return true;
	}
	if (prefix != 'u' || size_ - at_ < 3 || (data_[at_ + 2] != '\'' && data_[at_ + 2] != '"')) {
		return false;
	}
	at_ += 2;
	token.unicode_escape = true;
	if (data_[at_] == '"') {
		scan_quoted_name(token);
	} else {
		scan_string(token, Quoting::unicode);
	}
	return true;
}

// REQUIRES: at_ is on the opening quote. Includes the parts that continue it after a line break.
void Tokenizer::scan_string(Token& token, Quoting quoting) {
	const bool plain = quoting == Quoting::plain;
	const bool escapes = quoting == Quoting::extended || (plain && !standard_strings_);
	token.kind = Token_Kind::string;
	++at_;
	while (true) {
		if (at_ >= size_) {
			unterminated_ = true;
			break;
		}
		const char c = data_[at_++];
		if (c == '\\' && (escapes || plain)) {
			plain_backslash_ = plain_backslash_ || plain;
			if (escapes && at_ < size_) {
				++at_;
			}
		} else if (c == '\'') {
			if (quoting != Quoting::bits && at_ < size_ && data_[at_] == '\'') {
				++at_;
			} else if (!continues_on_next_line()) {
				break;
			}
		}
	}
	token.end = at_;
}

// After a closing quote: white space with a line break in it (and `--` comments), then a quote,
// joins two parts to one literal. Moves behind that quote when it does.
bool Tokenizer::continues_on_next_line() {
	uint32_t look = at_;
	bool line_break = false;
	while (look < size_) {
		const char c = data_[look];
		if (char_is(c, kCharSpace)) {
			line_break = line_break || c == '\n' || c == '\r';
			++look;
		} else if (c == '-' && size_ - look >= 2 && data_[look + 1] == '-') {
			while (look < size_ && data_[look] != '\n' && data_[look] != '\r') {
				++look;
			}
		} else {
			break;
		}
	}
	if (!line_break || look >= size_ || data_[look] != '\'') {
		return false;
	}
	at_ = look + 1;
	return true;
}

void Tokenizer::scan_quoted_name(Token& token) {
	token.kind = Token_Kind::quoted_name;
	++at_;
	while (true) {
		if (at_ >= size_) {
			unterminated_ = true;
			break;
		}
		if (data_[at_++] == '"') {
			if (at_ < size_ && data_[at_] == '"') {
				++at_;
			} else {
				break;
			}
		}
	}
	token.end = at_;
}

// `$tag$ ... $tag$`. False, and nothing consumed, when no tag stands here.
bool Tokenizer::scan_dollar(Token& token) {
	uint32_t look = at_ + 1;
	if (look < size_ && char_is(data_[look], kCharIdentStart)) {
		while (look < size_ && char_is(data_[look], kCharIdentPart) && data_[look] != '$') {
			++look;
		}
	}
	if (look >= size_ || data_[look] != '$') {
		return false;
	}
	const uint32_t tag_size = look + 1 - at_;
	const char* tag = data_ + at_;
	token.kind = Token_Kind::string;
	at_ = look + 1;
	while (true) {
		const void* found = at_ < size_ ? std::memchr(data_ + at_, '$', size_ - at_) : nullptr;
		if (found == nullptr) {
			at_ = size_;
			unterminated_ = true;
			break;
		}
		at_ = static_cast<uint32_t>(static_cast<const char*>(found) - data_);
		if (size_ - at_ >= tag_size && std::memcmp(data_ + at_, tag, tag_size) == 0) {
			at_ += tag_size;
			break;
		}
		++at_;
	}
	token.end = at_;
	return true;
}

// REQUIRES: at_ is on a digit, or on a dot before a digit.
void Tokenizer::scan_number() {
	const auto digits = [this](uint8_t bit) {
		while (at_ < size_) {
			const bool underscore =
			    data_[at_] == '_' && at_ + 1 < size_ && char_is(data_[at_ + 1], bit);
			if (!underscore && !char_is(data_[at_], bit)) {
				break;
			}
			++at_;
		}
	};
	if (data_[at_] == '0' && size_ - at_ >= 3) {
		const char base = lower(data_[at_ + 1]);
		const uint8_t bit = base == 'x' ? kCharHexDigit : kCharDigit;
		if ((base == 'x' || base == 'o' || base == 'b') && char_is(data_[at_ + 2], bit)) {
			at_ += 2;
			digits(bit);
			return;
		}
	}
	digits(kCharDigit);
	// `1..10` is a range in PL/pgSQL: the dots are no part of the number.
	if (at_ < size_ && data_[at_] == '.' && !(size_ - at_ >= 2 && data_[at_ + 1] == '.')) {
		++at_;
		digits(kCharDigit);
	}
	if (at_ < size_ && lower(data_[at_]) == 'e') {
		uint32_t look = at_ + 1;
		if (look < size_ && (data_[look] == '+' || data_[look] == '-')) {
			++look;
		}
		if (look < size_ && char_is(data_[look], kCharDigit)) {
			at_ = look;
			digits(kCharDigit);
		}
	}
}

// The longest run of operator characters, but no comment start inside, and no trailing + or -
// unless the operator has a character that no standard operator has ("Operators" in the manual).
void Tokenizer::scan_operator(Token& token) {
	token.kind = Token_Kind::op;
	const uint32_t begin = at_;
	if (begin >= signs_begin_ && begin < signs_end_) {
		at_ = token.end = begin + 1;
		return;
	}
	uint32_t end = at_;
	bool special = false;
	while (end < size_ && char_is(data_[end], kCharOperator)) {
		if (end > begin && end + 1 < size_ &&
		    ((data_[end] == '-' && data_[end + 1] == '-') ||
		     (data_[end] == '/' && data_[end + 1] == '*'))) {
			break;
		}
		const char c = data_[end];
		special = special || (c != '+' && c != '-' && c != '*' && c != '/' && c != '<' &&
		                      c != '>' && c != '=');
		++end;
	}
	signs_end_ = end;
	while (!special && end - begin > 1 && (data_[end - 1] == '-' || data_[end - 1] == '+')) {
		--end;
	}
	// What was cut off is known to be signs: looking at all of it again for each of them would be
	// quadratic.
	signs_begin_ = end;
	at_ = end;
	token.end = end;
}

void Tokenizer::scan_rest(char c, Token& token) {
	const bool has_next = size_ - at_ >= 2;
	const char next = has_next ? data_[at_ + 1] : '\0';
	const auto take = [this, &token](Token_Kind kind, uint32_t size) {
		token.kind = kind;
		at_ += size;
		token.end = at_;
	};
	if (char_is(c, kCharOperator)) {
		scan_operator(token);
	} else if (c == ',') {
		take(Token_Kind::comma, 1);
	} else if (c == '(') {
		take(Token_Kind::open_paren, 1);
	} else if (c == ')') {
		take(Token_Kind::close_paren, 1);
	} else if (c == '\'') {
		scan_string(token, Quoting::plain);
	} else if (c == '"') {
		scan_quoted_name(token);
	} else if (c == ';') {
		take(Token_Kind::semicolon, 1);
	} else if (c == '[') {
		take(Token_Kind::open_bracket, 1);
	} else if (c == ']') {
		take(Token_Kind::close_bracket, 1);
	} else if (c == ':' && next == ':') {
		take(Token_Kind::cast, 2);
	} else if ((c == ':' && next == '=') || (c == '.' && next == '.')) {
		take(Token_Kind::other, 2);
	} else if (c == '.' && has_next && char_is(next, kCharDigit)) {
		scan_number();
		token.kind = Token_Kind::number;
		token.end = at_;
	} else if (c == '$' && has_next && char_is(next, kCharDigit)) {
		++at_;
		while (at_ < size_ && char_is(data_[at_], kCharDigit)) {
			++at_;
		}
		token.kind = Token_Kind::parameter;
		token.end = at_;
	} else if (c != '$' || !scan_dollar(token)) {
		take(Token_Kind::other, 1);
	}
}

} // namespace proxy
