// PostgreSQL's lexical rules over a text that may be anything: total, linear, never reads past the
// end. One token a call; white space and comments are skipped and reported on the token after them.
//
// Manual: "Lexical Structure". Follows the lexer of PostgreSQL 15 and, for numbers, of 16 too
// (0x1F, 1_000), so that a newer server's statement is cut where that server cuts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace proxy {

enum class Token_Kind : uint8_t {
	end,
	word,        // identifier or keyword, as written
	quoted_name, // "..." or U&"..."
	string,      // '...', E'', U&'', B'', X'', N'', $$...$$, with all its continuation lines
	number,
	parameter, // $1
	op,        // operator, all characters of it
	cast,      // ::
	open_paren,
	close_paren,
	open_bracket,
	close_bracket,
	comma,
	semicolon,
	other, // . .. : := and bytes that belong to no token
};

struct Token {
	Token_Kind kind = Token_Kind::end;
	bool space_before = false;   // white space or a comment stands before it
	bool unicode_escape = false; // U&'...' or U&"...": an UESCAPE clause may follow
	uint32_t begin = 0;
	uint32_t end = 0;
	uint32_t size() const { return end - begin; }
};

// Character classes, one bit each.
enum Char_Bit : uint8_t {
	kCharSpace = 1,
	kCharIdentStart = 2,
	kCharIdentPart = 4,
	kCharDigit = 8,
	kCharOperator = 16,
	kCharHexDigit = 32,
};

struct Char_Table {
	uint8_t bits[256] = {};
	constexpr Char_Table() {
		for (const char* c = " \t\n\r\f\v"; *c != 0; ++c) {
			mark(*c, kCharSpace);
		}
		for (int c = 0; c < 256; ++c) {
			const bool letter =
			    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
			if (letter) {
				bits[c] |= kCharIdentStart | kCharIdentPart;
			}
			if (c >= '0' && c <= '9') {
				bits[c] |= kCharDigit | kCharIdentPart | kCharHexDigit;
			}
			if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
				bits[c] |= kCharHexDigit;
			}
		}
		mark('$', kCharIdentPart);
		for (const char* c = "~!@#^&|`?+-*/%<>="; *c != 0; ++c) {
			mark(*c, kCharOperator);
		}
	}
	constexpr void mark(char c, uint8_t bit) {
		bits[static_cast<uint8_t>(c)] = static_cast<uint8_t>(bits[static_cast<uint8_t>(c)] | bit);
	}
};
inline constexpr Char_Table kCharTable;

inline bool char_is(char c, uint8_t bits) {
	return (kCharTable.bits[static_cast<uint8_t>(c)] & bits) != 0;
}

class Tokenizer {
public:
	// `text` must be shorter than 4 GiB and outlive the tokenizer.
	Tokenizer(std::string_view text, bool standard_conforming_strings)
	    : data_(text.data()), size_(static_cast<uint32_t>(text.size())),
	      standard_strings_(standard_conforming_strings) {}

	Token next() {
		Token token;
		token.space_before = skip_space();
		token.begin = token.end = at_;
		if (at_ >= size_) {
			return token;
		}
		const char c = data_[at_];
		if (char_is(c, kCharIdentStart)) {
			if (size_ - at_ > 1 && (data_[at_ + 1] == '\'' || data_[at_ + 1] == '&') &&
			    scan_prefixed(token)) {
				return token;
			}
			token.kind = Token_Kind::word;
			++at_;
			while (at_ < size_ && char_is(data_[at_], kCharIdentPart)) {
				++at_;
			}
			token.end = at_;
			return token;
		}
		if (char_is(c, kCharDigit)) {
			scan_number();
			token.kind = Token_Kind::number;
			token.end = at_;
			return token;
		}
		scan_rest(c, token);
		return token;
	}

	std::string_view text_of(const Token& token) const {
		return {data_ + token.begin, token.size()};
	}
	uint32_t offset() const { return at_; }
	// Back to an offset that offset() gave.
	void seek(uint32_t offset) { at_ = offset; }

	// A quote, comment or dollar quote was still open at the end.
	bool unterminated() const { return unterminated_; }
	// A plain string held a backslash: its reading depends on standard_conforming_strings.
	bool plain_backslash() const { return plain_backslash_; }
	// Where the comment that skip_space() passed last began and ended; empty: none since
	// forget_comment().
	std::string_view last_comment() const { return {data_ + comment_begin_, comment_size_}; }
	void forget_comment() { comment_size_ = 0; }

private:
	bool skip_space() {
		const uint32_t start = at_;
		while (at_ < size_) {
			const char c = data_[at_];
			if (char_is(c, kCharSpace)) {
				++at_;
			} else if ((c == '-' || c == '/') && skip_comment()) {
				continue;
			} else {
				break;
			}
		}
		return at_ != start;
	}
	bool scan_prefixed(Token& token);
	bool skip_comment();
	void scan_number();
	void scan_rest(char c, Token& token);
	void scan_string(Token& token, bool backslash_escapes, bool plain);
	void scan_quoted_name(Token& token);
	bool scan_dollar(Token& token);
	void scan_operator(Token& token);
	bool continues_on_next_line();

	const char* data_;
	uint32_t size_;
	uint32_t at_ = 0;
	uint32_t comment_begin_ = 0;
	uint32_t comment_size_ = 0;
	bool standard_strings_;
	bool unterminated_ = false;
	bool plain_backslash_ = false;
};

} // namespace proxy
