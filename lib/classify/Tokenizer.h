// PostgreSQL's lexical rules over a text that may be anything: total, linear, never reads past the
// end. One token a call; white space and comments are skipped and reported on the token after them.
//
// Manual: "Lexical Structure". Follows the lexer of PostgreSQL 15 and, for numbers, of 16 too
// (0x1F, 1_000), so that a newer server's statement is cut where that server cuts it.
#pragma once

#include <bit>
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

// How many of eight bytes, from the first on, can be part of an identifier. All eight at once: a
// loop would be mispredicted at nearly every word's end, which costs more than the whole word.
inline uint32_t ident_prefix(const char* bytes) {
	constexpr uint64_t kOnes = 0x0101010101010101u;
	constexpr uint64_t kHigh = kOnes * 0x80;
	uint64_t word = 0;
	std::memcpy(&word, bytes, sizeof(word));
	const uint64_t low = word & ~kHigh;
	const uint64_t folded = (word | kOnes * 0x20) & ~kHigh;
	// Bit 7 of each byte: value >= limit, for values and limits below 0x80.
	const auto at_least = [](uint64_t value, uint64_t limit) {
		return value + kOnes * (0x80 - limit);
	};
	const auto equal = [](uint64_t value, uint64_t other) {
		return ~((value ^ (kOnes * other)) + kOnes * 0x7f);
	};
	const uint64_t letter = at_least(folded, 'a') & ~at_least(folded, 'z' + 1);
	const uint64_t digit = at_least(low, '0') & ~at_least(low, '9' + 1);
	const uint64_t part = letter | digit | equal(low, '_') | equal(low, '$') | word;
	const uint64_t others = ~part & kHigh;
	return others == 0 ? 8 : static_cast<uint32_t>(std::countr_zero(others)) / 8;
}

class Tokenizer {
public:
	// `text` must be shorter than 4 GiB and outlive the tokenizer.
	Tokenizer(std::string_view text, bool standard_conforming_strings)
	    : data_(text.data()), size_(static_cast<uint32_t>(text.size())),
	      standard_strings_(standard_conforming_strings) {}

	Token next() {
		Token token;
		next(token);
		return token;
	}
	// The same into the caller's object: field by field, for the one caller that is in a hurry.
	void next(Token& token) {
		token.space_before = skip_space();
		token.unicode_escape = false;
		const uint32_t begin = at_;
		token.begin = begin;
		if (begin >= size_) {
			token.kind = Token_Kind::end;
			token.end = begin;
			return;
		}
		const char c = data_[begin];
		if (char_is(c, kCharIdentStart)) {
			if (size_ - begin > 1 && (data_[begin + 1] == '\'' || data_[begin + 1] == '&') &&
			    scan_prefixed(token)) {
				return;
			}
			uint32_t end = begin + 1;
			while (size_ - end >= 8) {
				const uint32_t taken = ident_prefix(data_ + end);
				end += taken;
				if (taken < 8) {
					token.kind = Token_Kind::word;
					token.end = at_ = end;
					return;
				}
			}
			while (end < size_ && char_is(data_[end], kCharIdentPart)) {
				++end;
			}
			token.kind = Token_Kind::word;
			token.end = at_ = end;
			return;
		}
		if (char_is(c, kCharDigit)) {
			scan_number();
			token.kind = Token_Kind::number;
			token.end = at_;
			return;
		}
		if (char_is(c, kCharOperator) && size_ - begin > 1 &&
		    !char_is(data_[begin + 1], kCharOperator)) {
			token.kind = Token_Kind::op; // of one character, as most are
			token.end = at_ = begin + 1;
			return;
		}
		scan_rest(c, token);
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
	// Behind white space, the comment that stands here, which is passed; empty: none does.
	std::string_view next_comment();

private:
	bool skip_space() {
		const uint32_t start = at_;
		uint32_t at = start;
		while (at < size_) {
			const char c = data_[at];
			if (char_is(c, kCharSpace)) {
				++at;
				continue;
			}
			if (c != '-' && c != '/') {
				break;
			}
			at_ = at;
			if (!skip_comment()) {
				break;
			}
			at = at_;
		}
		at_ = at;
		return at != start;
	}
	bool scan_prefixed(Token& token);
	bool skip_comment();
	void scan_number();
	void scan_rest(char c, Token& token);
	enum class Quoting : uint8_t {
		plain,    // '': a backslash counts or not by standard_conforming_strings
		extended, // E''
		unicode,  // U&''
		bits,     // B'' and X'': no doubled quotes inside
	};
	void scan_string(Token& token, Quoting quoting);
	void scan_quoted_name(Token& token);
	bool scan_dollar(Token& token);
	void scan_operator(Token& token);
	bool continues_on_next_line();

	const char* data_;
	uint32_t size_;
	uint32_t at_ = 0;
	bool standard_strings_;
	bool unterminated_ = false;
	bool plain_backslash_ = false;
	// A run of + and - behind an operator, up to which all characters of the run were seen.
	uint32_t signs_begin_ = 0;
	uint32_t signs_end_ = 0;
};

} // namespace proxy
