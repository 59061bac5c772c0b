// Literals and what is around them: signs, rows `?,?,?,...`, groups `(?,?),...`, ARRAY[...].
#include "classify/Digest.h"
#include "classify/Words.h"

#include <algorithm>
#include <iterator>

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

// A word that begins the next clause ends a list as a bracket does.
void Digest_Builder::end_element_before(std::string_view word) {
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

} // namespace proxy
