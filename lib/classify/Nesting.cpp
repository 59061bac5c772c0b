#include "classify/Nesting.h"

#include "classify/Tokenizer.h"
#include "classify/Words.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace proxy {

namespace {

// Words of which each may put one more node on top of what stands before it ("a IS NULL IS NULL",
// "SELECT .. UNION SELECT ..", "a JOIN b JOIN c", "NOT NOT a").
bool deepens(std::string_view word) {
	static constexpr std::string_view kWords[] = {
	    "at",     "between", "collate", "except",  "ilike",   "in",      "intersect", "is",
	    "isnull", "join",    "like",    "not",     "notnull", "similar", "union",     "operator",
	    "then",   "else",    "as",      "explain", "prepare", "declare", "array",     "row"};
	return std::any_of(std::begin(kWords), std::end(kWords),
	                   [word](std::string_view known) { return same_word(word, known); });
}

// Steps of the parser's lexer over one run of operator characters. From a comment's start and from
// a sign it reads on to the end of the run, and takes back all but two characters or one:
// `/**//**/` and `++++` are read anew at each. (`--` hides the rest of its line instead.)
uint64_t lexer_steps(std::string_view run) {
	uint64_t starts = 1;
	for (size_t i = 0; i + 1 < run.size(); ++i) {
		const char c = run[i];
		const bool lone_minus = c == '-' && run[i + 1] != '-' && (i == 0 || run[i - 1] != '-');
		starts += c == '+' || lone_minus || (c == '/' && run[i + 1] == '*') ? 1 : 0;
	}
	return starts * run.size();
}

// Wherever they stand: inside a comment or a string they cost less, which is no reason to look.
uint64_t lexer_steps_of_all_runs(std::string_view sql) {
	uint64_t steps = 0;
	size_t at = 0;
	while (at < sql.size()) {
		const size_t begin = at;
		while (at < sql.size() && char_is(sql[at], kCharOperator)) {
			++at;
		}
		if (at - begin > 1) {
			steps += lexer_steps(sql.substr(begin, at - begin));
		}
		++at;
	}
	return steps;
}

// Depth and cost of the tree that the tokens seen so far make. The depth is open brackets and
// CASEs, plus, at each level, the operators and deepening words of the current list element. AND
// and OR build flat lists, so they begin a new element, which is why a long WHERE clause is no deep
// one.
class Tree_Estimate {
public:
	void open() {
		chains_.push_back(0);
		// A level is a handful of nodes (sub-select, list, expression): count it as two.
		depth_ += 2;
	}
	void close() {
		if (chains_.size() > 1) {
			depth_ -= chains_.back() + 2;
			chains_.pop_back();
		}
	}
	void separate() {
		depth_ -= chains_.back();
		chains_.back() = 0;
	}
	void deepen() {
		++chains_.back();
		++depth_;
	}
	// A token becomes a few nodes, which every level around them copies (measured).
	void add_token(size_t bytes) {
		constexpr uint64_t kTokenNs = 600;
		constexpr uint64_t kNodeBytes = 200;
		constexpr uint64_t kBytesPerNs = 16;
		ns_ += kTokenNs + depth_ * (kNodeBytes + bytes) / kBytesPerNs;
	}
	size_t depth() const { return depth_; }
	uint64_t ns() const { return ns_; }

private:
	std::vector<size_t> chains_{0}; // per open level: nodes of the current element
	size_t depth_ = 0;              // sum of `chains_`, and the levels
	uint64_t ns_ = 0;
};

void add_word(Tree_Estimate& tree, std::string_view word) {
	if (same_word(word, "case")) {
		tree.open();
	} else if (same_word(word, "end")) {
		tree.close();
	} else if (same_word(word, "and") || same_word(word, "or")) {
		tree.separate();
	} else if (deepens(word)) {
		tree.deepen();
	}
}

} // namespace

bool is_cheap_to_parse(std::string_view sql, bool standard_conforming_strings) {
	constexpr uint64_t kStepNs = 3;
	if (lexer_steps_of_all_runs(sql) > kMaxParseNs / kStepNs) {
		return false;
	}
	Tokenizer tokens(sql, standard_conforming_strings);
	Tree_Estimate tree;
	while (true) {
		const Token token = tokens.next();
		switch (token.kind) {
		case Token_Kind::end:
			return true;
		case Token_Kind::open_paren:
		case Token_Kind::open_bracket:
			tree.open();
			break;
		case Token_Kind::close_paren:
		case Token_Kind::close_bracket:
			tree.close();
			break;
		case Token_Kind::comma:
		case Token_Kind::semicolon:
			tree.separate();
			break;
		case Token_Kind::op:
		case Token_Kind::cast:
			tree.deepen();
			break;
		case Token_Kind::word:
			add_word(tree, tokens.text_of(token));
			break;
		case Token_Kind::string:
			if (same_word(tokens.text_of(token).substr(0, 1), "n")) {
				tree.add_token(0); // N'' is a cast to a type of two names
				tree.add_token(0);
			}
			break;
		case Token_Kind::quoted_name:
		case Token_Kind::number:
		case Token_Kind::parameter:
		case Token_Kind::other:
			break;
		}
		tree.add_token(token.size());
		if (tree.depth() > kMaxNesting || tree.ns() > kMaxParseNs) {
			return false;
		}
	}
}

} // namespace proxy
