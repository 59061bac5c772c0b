#include "classify/Digest.h"

#include "classify/Words.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace proxy {

namespace {

// Words after which + and - are signs. Any other word may be a column.
bool precedes_operand(std::string_view word) {
	static constexpr std::string_view kWords[] = {
	    "all",  "and",       "any",    "between", "by",   "case",  "default", "distinct", "else",
	    "from", "having",    "ilike",  "in",      "like", "limit", "not",     "offset",   "on",
	    "or",   "returning", "select", "some",    "then", "to",    "using",   "when",     "where"};
	return std::any_of(std::begin(kWords), std::end(kWords),
	                   [word](std::string_view known) { return same_word(word, known); });
}

} // namespace

inline void Digest_Builder::copy(std::string_view text) {
	std::memcpy(out_ + size_, text.data(), text.size());
	size_ += static_cast<uint32_t>(text.size());
}

// Copies a token of the statement. Most are short: one copy of a fixed size, which may take what
// follows the token along (the output has room, and the next token overwrites it), is cheaper than
// one of the exact size.
inline void Digest_Builder::copy_token(const Token& token) {
	constexpr uint32_t kBlock = 16;
	std::memcpy(out_ + size_, data_ + token.begin, kBlock);
	if (token.size() > kBlock) {
		std::memcpy(out_ + size_, data_ + token.begin, token.size());
	}
	size_ += token.size();
}

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

// The current element of a list is no bare literal, and the frame no row of literals.
inline void Digest_Builder::spoil() {
	run_alive_ = false;
	Frame& frame = top();
	frame.pure = false;
	frame.empty = false;
	frame.group_alive = false;
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
	uint32_t at = tokens.offset();
	uint32_t size = size_;
	Previous previous = previous_;
	bool names = false;
	while (at < limit) {
		const uint32_t begin = at + (data_[at] == ' ' ? 1 : 0);
		const char c = data_[begin];
		if (c == ',') {
			out_[size++] = ',';
			run_alive_ = false;
			is_state_ = 0;
			after_cast_ = false;
			previous = Previous::comma;
			at = begin + 1;
			continue;
		}
		const bool spaced = begin != at && previous != Previous::start &&
		                    previous != Previous::open && previous != Previous::comma &&
		                    !after_cast_;
		if (c == '.' && previous == Previous::word && char_is(data_[begin + 1], kCharIdentStart)) {
			out_[size] = ' ';
			size += spaced ? 1 : 0;
			out_[size++] = '.';
			previous = Previous::other;
			at = begin + 1;
			names = true;
			continue;
		}
		if (!char_is(c, kCharIdentStart) || data_[begin + 1] == '\'' || data_[begin + 1] == '&') {
			break;
		}
		uint32_t length = ident_prefix(data_ + begin);
		while (length % 8 == 0 && char_is(data_[begin + length], kCharIdentPart)) {
			length += ident_prefix(data_ + begin + length);
		}
		const bool special =
		    length < std::size(kSpecialFirst) && (kSpecialFirst[length] & letter_bit(c)) != 0;
		// ALTER and CREATE may begin a statement about a role.
		const bool may_define = statement_words_ == 0
		                            ? (letter_bit(c) & (letter_bit('a') | letter_bit('c'))) != 0
		                            : statement_words_ == 1 && defining_statement_;
		if (special || may_define || begin + length > limit) {
			break;
		}
		out_[size] = ' ';
		size += spaced ? 1 : 0;
		std::memcpy(out_ + size, data_ + begin, 16);
		if (length > 16) {
			std::memcpy(out_ + size, data_ + begin, length);
		}
		size += length;
		at = begin + length;
		last_word_.begin = begin;
		last_word_.end = at;
		previous = Previous::word;
		statement_words_ = 2;
		after_cast_ = false;
		names = true;
	}
	if (names) {
		spoil();
		is_state_ = 0;
	}
	size_ = size;
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

// + or - before a number is its sign, unless an operand stands before it.
bool Digest_Builder::unary_sign() const {
	switch (op_.before) {
	case Previous::start:
	case Previous::open:
	case Previous::comma:
	case Previous::op:
		return true;
	case Previous::word:
		return precedes_operand({data_ + last_word_.begin, last_word_.size()});
	case Previous::literal:
	case Previous::array_word:
	case Previous::name:
	case Previous::close:
	case Previous::other:
		return false;
	}
	return false;
}

// `= -5`, `(- 5`: the sign is part of the literal. `1 - 5` between literals loses its spaces.
void Digest_Builder::drop_signs(const Token& token, bool& spaced) {
	const auto is_sign = [this] { return op_.character == '-' || op_.character == '+'; };
	if (token.kind == Token_Kind::number) {
		while (previous_ == Previous::op && is_sign() && unary_sign()) {
			size_ = op_.begin;
			top().pure = op_.pure;
			previous_ = op_.before;
			spaced = op_.spaced;
			op_ = outer_op_;
			outer_op_ = Operator();
		}
	}
	if (previous_ == Previous::op && op_.before == Previous::literal &&
	    (is_sign() || op_.character == '*' || op_.character == '/')) {
		size_ = op_.begin;
		put(op_.character);
		spaced = false;
	}
}

void Digest_Builder::take_literal(const Token& token) {
	literals_ = true;
	Token shown = token;
	if (previous_ == Previous::op) {
		drop_signs(token, shown.space_before);
	}
	const bool bare = previous_ != Previous::op;
	space(shown);
	put('?');
	Frame& frame = top();
	frame.empty = false;
	frame.group_alive = false;
	if (!bare || previous_ == Previous::literal) {
		run_alive_ = false;
	} else if (previous_ == Previous::comma && run_alive_) {
		++run_count_;
	} else {
		run_count_ = 1;
		run_alive_ = true;
	}
	if (run_alive_ && run_count_ == static_cast<uint32_t>(options_.grouping_limit)) {
		run_kept_end_ = size_;
	}
	previous_ = Previous::literal;
	after_cast_ = false;
	is_state_ = 0;
}

// A list element has ended. `?,?,?,?,?` becomes `?,?,?,...` as soon as the fifth is known to be
// nothing but a literal (a limit of three).
inline void Digest_Builder::end_element() {
	if (previous_ == Previous::literal && run_alive_ &&
	    run_count_ >= static_cast<uint32_t>(options_.grouping_limit) + 2) {
		size_ = run_kept_end_;
		copy(",...");
	}
}

// A word that begins the next clause ends a list as a bracket does.
inline void Digest_Builder::end_element_before(std::string_view word) {
	if (previous_ != Previous::literal || !run_alive_ ||
	    run_count_ < static_cast<uint32_t>(options_.grouping_limit) + 2) {
		return;
	}
	static constexpr std::string_view kWords[] = {"except",    "for",   "from",  "group",
	                                              "intersect", "limit", "order", "returning",
	                                              "union",     "where"};
	if (std::any_of(std::begin(kWords), std::end(kWords),
	                [word](std::string_view known) { return same_word(word, known); })) {
		end_element();
	}
}

void Digest_Builder::take_operator(const Token& token) {
	const std::string_view text(data_ + token.begin, token.size());
	outer_op_ = previous_ == Previous::op ? op_ : Operator();
	op_.begin = size_;
	op_.spaced = token.space_before;
	op_.pure = top().pure;
	op_.character = text.size() == 1 ? text[0] : '\0';
	op_.before = previous_;
	space(token);
	copy_token(token);
	if (text.find('?') != std::string_view::npos) {
		mix_place('o');
	}
	// A sign may still turn out to be part of a literal, which keeps the row going.
	const bool run_alive = run_alive_ && previous_ == Previous::comma;
	spoil();
	run_alive_ = run_alive;
	previous_ = Previous::op;
}

void Digest_Builder::take_open(const Token& token, bool bracket) {
	const bool array = bracket && (previous_ == Previous::array_word ||
	                               (overflow_ == 0 && top().is_array &&
	                                (previous_ == Previous::open || previous_ == Previous::comma)));
	Frame frame;
	frame.is_array = array;
	frame.outer_pure = top().pure;
	if (array && previous_ == Previous::array_word) {
		frame.begin = array_begin_;
		frame.outer_pure = array_pure_;
	} else {
		space(token);
		frame.begin = size_;
	}
	put(bracket ? '[' : '(');
	Frame& outer = top();
	const bool group_alive = outer.group_alive && previous_ == Previous::comma;
	spoil();
	outer.group_alive = group_alive;
	previous_ = Previous::open;
	if (depth_ + 1 < kMaxFrames) {
		frames_[++depth_] = frame;
	} else {
		++overflow_;
	}
}

void Digest_Builder::take_close(bool bracket) {
	end_element();
	run_alive_ = false;
	if (overflow_ > 0) {
		--overflow_;
	} else if (depth_ > 0) {
		const Frame frame = frames_[depth_--];
		if (bracket && frame.is_array && frame.pure) {
			size_ = frame.begin;
			put('?');
			literals_ = true;
			top().pure = frame.outer_pure;
			previous_ = Previous::literal;
			return;
		}
		put(bracket ? ']' : ')');
		previous_ = Previous::close;
		if (!bracket && frame.pure && !frame.empty) {
			close_group(frame);
		} else {
			top().group_alive = false;
		}
		return;
	}
	put(bracket ? ']' : ')');
	previous_ = Previous::close;
}

// `(?,?),(?,?),...`: rows of equal groups, folded like rows of literals.
void Digest_Builder::close_group(const Frame& frame) {
	Frame& outer = top();
	const uint32_t limit = static_cast<uint32_t>(std::max(options_.groups_grouping_limit, 0));
	const uint32_t group_size = size_ - frame.begin;
	const bool same = outer.group_alive && outer.group_size == group_size &&
	                  std::memcmp(out_ + outer.group_begin, out_ + frame.begin, group_size) == 0;
	if (same) {
		++outer.group_count;
	} else {
		outer.group_count = 1;
		outer.group_begin = frame.begin;
		outer.group_size = group_size;
	}
	outer.group_alive = limit > 0;
	if (outer.group_count == limit) {
		outer.group_kept_end = size_;
	} else if (limit > 0 && outer.group_count >= limit + 2) {
		size_ = outer.group_kept_end;
		copy(",...");
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
	uint32_t at = begin;
	while (at < end) {
		if (char_is(data_[at], kCharSpace)) {
			++at;
			continue;
		}
		// One comment and the white space around it: the tokenizer knows where it ends.
		uint32_t stop = at + 1;
		if (data_[at] == '-') {
			while (stop < end && data_[stop] != '\n' && data_[stop] != '\r') {
				++stop;
			}
		} else {
			uint32_t depth = 0;
			stop = at;
			while (stop < end) {
				if (end - stop >= 2 && data_[stop] == '/' && data_[stop + 1] == '*') {
					++depth;
					stop += 2;
				} else if (end - stop >= 2 && data_[stop] == '*' && data_[stop + 1] == '/') {
					stop += 2;
					if (--depth == 0) {
						break;
					}
				} else {
					++stop;
				}
			}
		}
		const std::string_view comment(data_ + at, stop - at);
		end_element();
		run_alive_ = false;
		if (size_ > 0 && out_[size_ - 1] != ' ') {
			put(' ');
		}
		copy(comment);
		// The text alone does not say where a line comment ended.
		mix(comment);
		mix({out_, 0});
		previous_ = Previous::other;
		at = stop;
	}
}

void Digest_Builder::prepare(std::string_view sql) {
	// Nothing is ever written longer than it was read, but for a few bytes around a fold, and
	// copies of fixed size reach a little further than what they are for.
	constexpr size_t kSlack = 64;
	// Buffers grown by one huge statement are given back by the next small one.
	constexpr size_t kKeepBytes = size_t{1} << 20;
	const auto fit = [&](std::vector<char>& buffer) {
		if (buffer.size() < sql.size() + kSlack) {
			buffer.resize(std::max(sql.size() + kSlack, size_t{4096}));
		} else if (buffer.size() > kKeepBytes && sql.size() < kKeepBytes / 2) {
			buffer.resize(kKeepBytes / 2 + kSlack);
			buffer.shrink_to_fit();
		}
	};
	fit(buffer_);
	fit(source_);
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
