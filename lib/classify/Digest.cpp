#include "classify/Digest.h"

#include "classify/Words.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace proxy {

void Digest_Builder::mix(std::string_view text) {
	shape_ = XXH3_64bits_withSeed(text.data(), text.size(), shape_ + 1);
}

// Something else than a literal shows as a question mark, or a word as a literal, at this place:
// `f(1) 'x'` is a constant of type f, while `f(1) true` and `f(1) ? x` call f.
void Digest_Builder::mix_place(char kind) {
	const uint64_t place = (static_cast<uint64_t>(size_) << 8) | static_cast<uint8_t>(kind);
	mix({reinterpret_cast<const char*>(&place), sizeof(place)});
}

void Digest_Builder::copy_name(const Token& token, bool quoted) {
	if (!options_.no_digits && (quoted || !options_.lowercase)) {
		copy_token(token);
		return;
	}
	const std::string_view text(data_ + token.begin, token.size());
	bool digits = false;
	for (size_t i = 0; i < text.size(); ++i) {
		const char c = text[i];
		if (options_.no_digits && char_is(c, kCharDigit)) {
			digits = true;
			if (i == 0 || !char_is(text[i - 1], kCharDigit)) {
				put('?');
			}
		} else {
			put(options_.lowercase && !quoted ? lower_ascii(c) : c);
		}
	}
	if (digits) {
		mix(text);
	}
}

// What a string begins with, behind its prefix and quote. (Spelt with escapes or over several lines
// it may read as something else; nobody writes 'now' that way.)
inline std::string_view inside_string(std::string_view text) {
	const size_t quote = text[0] == '$' ? text.find('$', 1) : text.find('\'');
	return text.substr(std::min(quote, text.size() - 1) + 1);
}

inline void Digest_Builder::take(Tokenizer& tokens, const Token& token) {
	const std::string_view text = tokens.text_of(token);
	switch (token.kind) {
	case Token_Kind::end:
		return;
	case Token_Kind::word:
		take_word(tokens, token);
		return;
	case Token_Kind::quoted_name:
		if (after_password_) {
			take_literal(token);
			break;
		}
		space(token);
		copy_name(token, true);
		spoil();
		previous_ = Previous::name;
		break;
	case Token_Kind::string:
		if (names_moment(inside_string(text))) {
			mix_place('m');
		}
		take_literal(token);
		if (token.unicode_escape) {
			swallow_uescape(tokens);
		}
		break;
	case Token_Kind::number:
		take_literal(token);
		break;
	case Token_Kind::parameter:
		space(token);
		copy_token(token);
		spoil();
		previous_ = Previous::name;
		break;
	case Token_Kind::op:
		take_operator(token);
		break;
	case Token_Kind::cast:
		if (previous_ == Previous::literal && swallow_type(tokens, token)) {
			return;
		}
		copy(text);
		spoil();
		previous_ = Previous::other;
		after_cast_ = true;
		is_state_ = 0;
		return;
	case Token_Kind::open_paren:
		take_open(token, false);
		break;
	case Token_Kind::close_paren:
		take_close(false);
		break;
	case Token_Kind::open_bracket:
		take_open(token, true);
		break;
	case Token_Kind::close_bracket:
		take_close(true);
		break;
	case Token_Kind::comma:
		end_element();
		put(',');
		run_alive_ = run_alive_ && previous_ == Previous::literal;
		previous_ = Previous::comma;
		break;
	case Token_Kind::semicolon:
		end_element();
		spoil();
		put(';');
		previous_ = Previous::other;
		statement_words_ = 0;
		role_statement_ = defining_statement_ = false;
		break;
	case Token_Kind::other:
		space(token);
		copy_token(token);
		spoil();
		previous_ = Previous::other;
		break;
	}
	is_state_ = 0;
	after_cast_ = false;
	after_password_ = false;
}

inline void Digest_Builder::take_word(Tokenizer& tokens, const Token& token) {
	const std::string_view word = tokens.text_of(token);
	if (statement_words_ < 2) {
		if (statement_words_++ == 0) {
			defining_statement_ = same_word(word, "alter") || same_word(word, "create");
		} else {
			role_statement_ =
			    defining_statement_ &&
			    (same_word(word, "role") || same_word(word, "user") || same_word(word, "group"));
		}
	}
	const uint32_t size = token.size();
	const bool maybe_special = size <= 5 || after_password_ || role_statement_;
	if (!maybe_special) {
		is_state_ = 0;
	} else if (special_word(tokens, token, word)) {
		return;
	}
	end_element_before(word);
	space(token);
	copy_name(token, false);
	spoil();
	previous_ = Previous::word;
	last_word_ = token;
	after_cast_ = false;
}

// Letters (a = bit 1) with which special words of a length begin; see special_word().
constexpr uint32_t letter_bit(char c) {
	return uint32_t{1} << (static_cast<uint8_t>(c) & 31);
}
constexpr uint32_t kSpecialFirst[] = {0,
                                      0,
                                      letter_bit('i'),
                                      letter_bit('n'),
                                      letter_bit('t') | letter_bit('n'),
                                      letter_bit('f') | letter_bit('a'),
                                      0,
                                      0,
                                      0};

// The plain run of a statement: ordinary words, commas and dots with at most one space in between,
// which is most of any text. Does what take() would do for them, with everything in registers, and
// stops in front of the first token that needs more.
void Digest_Builder::take_plain_words(Tokenizer& tokens, uint32_t limit) {
	if (role_statement_ || after_password_ || (run_alive_ && previous_ == Previous::literal)) {
		return; // a row of literals: whether it ends or goes on is decided elsewhere
	}
	// Copies: a write through out_ could change any member, as far as the compiler knows.
	const char* const data = data_;
	char* out = out_ + size_;
	uint32_t at = tokens.offset();
	uint32_t last_begin = 0;
	uint32_t last_end = 0;
	Previous previous = previous_;
	// No space is written in front of what comes next.
	bool tight = previous == Previous::start || previous == Previous::open ||
	             previous == Previous::comma || after_cast_;
	// ALTER and CREATE may begin a statement about a role.
	bool may_define = statement_words_ == 1 && defining_statement_;
	uint32_t first_letters = statement_words_ == 0 ? letter_bit('a') | letter_bit('c') : 0;
	bool any = false;
	while (at < limit) {
		const uint32_t begin = at + (data[at] == ' ' ? 1 : 0);
		const char c = data[begin];
		if (char_is(c, kCharIdentStart)) {
			uint32_t length = ident_prefix(data + begin);
			while (length % 8 == 0 && char_is(data[begin + length], kCharIdentPart)) {
				length += ident_prefix(data + begin + length);
			}
			const uint32_t letter = letter_bit(c);
			const uint32_t special = length < std::size(kSpecialFirst) ? kSpecialFirst[length] : 0;
			const char after = data[begin + 1];
			if (((special | first_letters) & letter) != 0 || may_define || after == '\'' ||
			    after == '&' || begin + length > limit) {
				break;
			}
			*out = ' ';
			out += begin != at && !tight ? 1 : 0;
			std::memcpy(out, data + begin, 16);
			if (length > 16) {
				std::memcpy(out, data + begin, length);
			}
			out += length;
			at = last_end = begin + length;
			last_begin = begin;
			previous = Previous::word;
			first_letters = 0;
			tight = false;
		} else if (c == ',') {
			*out++ = ',';
			at = begin + 1;
			previous = Previous::comma;
			tight = true;
		} else if (c == '.' && previous == Previous::word &&
		           char_is(data[begin + 1], kCharIdentStart)) {
			*out = ' ';
			out += begin != at ? 1 : 0;
			*out++ = '.';
			at = begin + 1;
			previous = Previous::other;
		} else {
			break;
		}
		any = true;
	}
	if (!any) {
		return;
	}
	if (last_end != 0) {
		spoil(); // at least one word
		last_word_.begin = last_begin;
		last_word_.end = last_end;
		statement_words_ = 2;
	}
	run_alive_ = false;
	is_state_ = 0;
	after_cast_ = false;
	size_ = static_cast<uint32_t>(out - out_);
	previous_ = previous;
	tokens.seek(at);
}

// Words that are literals, or that change what the next one is. True: the word is dealt with.
bool Digest_Builder::special_word(Tokenizer& tokens, const Token& token, std::string_view word) {
	const uint8_t is_state = is_state_;
	is_state_ = 0;
	if (after_password_ && !same_word(word, "null")) {
		after_password_ = false;
		mix_place('w');
		take_literal(token);
		return true;
	}
	after_password_ = false;
	const char first = lower_ascii(word[0]);
	switch (word.size()) {
	case 2:
		is_state_ = first == 'i' && same_word(word, "is") ? 1 : 0;
		return false;
	case 3:
		is_state_ = is_state == 1 && same_word(word, "not") ? 2 : 0;
		return false;
	case 4:
		if (is_state != 0 || previous_ == Previous::other) {
			return false;
		}
		if (first == 't' && same_word(word, "true")) {
			mix_place('w');
			take_literal(token);
			return true;
		}
		if (first == 'n' && options_.replace_null && same_word(word, "null")) {
			const std::string_view before = tokens.text_of(last_word_);
			if (previous_ == Previous::word &&
			    (same_word(before, "not") || same_word(before, "set") ||
			     same_word(before, "returns") || same_word(before, "on"))) {
				return false;
			}
			mix_place('w');
			take_literal(token);
			return true;
		}
		return false;
	case 5:
		if (first == 'f' && is_state == 0 && previous_ != Previous::other &&
		    same_word(word, "false")) {
			mix_place('w');
			take_literal(token);
			return true;
		}
		if (first == 'a' && same_word(word, "array")) {
			space(token);
			array_begin_ = size_;
			array_pure_ = top().pure;
			copy_name(token, false);
			spoil();
			previous_ = Previous::array_word;
			last_word_ = token;
			after_cast_ = false;
			return true;
		}
		return false;
	case 8:
		if (role_statement_ && same_word(word, "password")) {
			space(token);
			copy_name(token, false);
			spoil();
			previous_ = Previous::word;
			last_word_ = token;
			after_password_ = true;
			password_end_ = size_;
			return true;
		}
		return false;
	default:
		return false;
	}
}

void Digest_Builder::swallow_uescape(Tokenizer& tokens) {
	const uint32_t back = tokens.offset();
	const Token word = tokens.next();
	if (word.kind == Token_Kind::word && same_word(tokens.text_of(word), "uescape")) {
		if (tokens.next().kind == Token_Kind::string) {
			return;
		}
	}
	tokens.seek(back);
}

// The comments between two tokens, each as it stands, with one space around it.
void Digest_Builder::copy_comments(uint32_t begin, uint32_t end) {
	Tokenizer source({data_ + begin, end - begin}, true);
	while (true) {
		const std::string_view comment = source.next_comment();
		if (comment.empty()) {
			return;
		}
		end_element();
		run_alive_ = false;
		if (size_ > 0 && out_[size_ - 1] != ' ') {
			put(' ');
		}
		copy(comment);
		// The text alone does not say where a line comment ended.
		mix(comment);
		previous_ = Previous::other;
	}
}

void Digest_Builder::prepare(std::string_view sql) {
	// Nothing is ever written longer than it was read, but for a few bytes around a fold, and
	// copies of fixed size reach a little further than what they are for. Comments that are kept
	// get a space on each side: half as much again for a row of `/**/`.
	constexpr size_t kSlack = 64;
	const size_t spaces = options_.keep_comment ? sql.size() / 2 : 0;
	// Buffers grown by one huge statement are given back by the next small one.
	constexpr size_t kKeepBytes = size_t{1} << 20;
	const auto fit = [&](std::vector<char>& buffer, size_t bytes) {
		if (buffer.size() < bytes + kSlack) {
			buffer.resize(std::max(bytes + kSlack, size_t{4096}));
		} else if (buffer.size() > kKeepBytes && bytes < kKeepBytes / 2) {
			buffer.resize(kKeepBytes / 2 + kSlack);
			buffer.shrink_to_fit();
		}
	};
	fit(buffer_, sql.size() + spaces);
	fit(source_, sql.size());
	// Eight bytes at a time is how words are read: behind the client's text that would be
	// somebody else's memory, behind this copy it is zeros.
	std::memcpy(source_.data(), sql.data(), sql.size());
	std::memset(source_.data() + sql.size(), 0, kSlack);
	data_ = source_.data();
	source_size_ = static_cast<uint32_t>(sql.size());
	out_ = buffer_.data();
	size_ = 0;
}

Digest_View Digest_Builder::build(std::string_view sql, bool standard_conforming_strings) {
	prepare(sql);
	shape_ = 0;
	previous_ = Previous::start;
	literals_ = after_cast_ = role_statement_ = defining_statement_ = after_password_ = false;
	is_state_ = statement_words_ = 0;
	password_end_ = 0;
	op_ = outer_op_ = Operator();
	run_count_ = 0;
	run_alive_ = false;
	depth_ = overflow_ = 0;
	frames_[0] = Frame();

	Tokenizer tokens({data_, source_size_}, standard_conforming_strings);
	const uint32_t look_bytes = static_cast<uint32_t>(std::max(options_.max_query_length, 1));
	uint32_t shown = UINT32_MAX;
	uint32_t last_end = 0;
	const bool plain = !options_.keep_comment && !options_.lowercase && !options_.no_digits;
	const uint32_t plain_end = std::min(look_bytes, source_size_);
	Token token;
	while (true) {
		if (plain) {
			take_plain_words(tokens, plain_end);
		}
		tokens.next(token);
		if (options_.keep_comment && token.space_before) {
			copy_comments(last_end, token.begin);
		}
		if (token.kind == Token_Kind::end) {
			break;
		}
		if (token.begin >= look_bytes && shown == UINT32_MAX) {
			shown = size_;
		}
		take(tokens, token);
		last_end = tokens.offset();
	}
	end_element();
	if (tokens.unterminated() && password_end_ != 0) {
		// Quotes that do not match may have turned part of a password into words.
		size_ = password_end_;
		copy(" ?");
	}
	while (size_ > 0 && (out_[size_ - 1] == ';' || out_[size_ - 1] == ' ')) {
		--size_;
	}
	if (tokens.plain_backslash()) {
		shape_ ^= standard_conforming_strings ? 0x9e3779b97f4a7c15u : 0xc2b2ae3d27d4eb4fu;
	}
	Digest_View view;
	view.text = {out_, size_};
	view.shown = view.text.substr(0, std::min(shown, size_));
	view.shape = shape_;
	view.unterminated = tokens.unterminated();
	view.literals = literals_;
	return view;
}

std::string shorten_digest(std::string_view text, size_t max_bytes) {
	if (text.size() <= max_bytes) {
		return std::string(text);
	}
	constexpr std::string_view kTail = "...";
	const size_t room = max_bytes > kTail.size() ? max_bytes - kTail.size() : 0;
	// A digest is made of the same tokens as the statement.
	Tokenizer tokens(text.substr(0, room), true);
	size_t cut = 0;
	while (true) {
		const Token token = tokens.next();
		if (token.kind == Token_Kind::end || token.end >= room) {
			break;
		}
		cut = token.end;
	}
	return std::string(text.substr(0, cut)).append(kTail);
}

} // namespace proxy
