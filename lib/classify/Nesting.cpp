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

} // namespace

// The bound: open brackets and CASEs, plus, at each level, the operators and deepening words of
// the current list element. AND and OR build flat lists, so they begin a new element, which is why
// a long WHERE clause is no deep one.
bool nests_too_deep(std::string_view sql, bool standard_conforming_strings) {
	Tokenizer tokens(sql, standard_conforming_strings);
	std::vector<size_t> chains{0}; // per open level: nodes of the current element
	size_t total = 0;              // sum of `chains`
	while (true) {
		const Token token = tokens.next();
		const std::string_view text = tokens.text_of(token);
		bool opens = false;
		bool closes = false;
		bool separates = false;
		switch (token.kind) {
		case Token_Kind::end:
			return false;
		case Token_Kind::open_paren:
		case Token_Kind::open_bracket:
			opens = true;
			break;
		case Token_Kind::close_paren:
		case Token_Kind::close_bracket:
			closes = true;
			break;
		case Token_Kind::comma:
		case Token_Kind::semicolon:
			separates = true;
			break;
		case Token_Kind::op:
		case Token_Kind::cast:
			++chains.back();
			++total;
			break;
		case Token_Kind::word:
			opens = same_word(text, "case");
			closes = same_word(text, "end");
			separates = same_word(text, "and") || same_word(text, "or");
			if (deepens(text)) {
				++chains.back();
				++total;
			}
			break;
		case Token_Kind::quoted_name:
		case Token_Kind::string:
		case Token_Kind::number:
		case Token_Kind::parameter:
		case Token_Kind::other:
			break;
		}
		if (opens) {
			chains.push_back(0);
			// A level is a handful of nodes (sub-select, list, expression): count it as two.
			total += 2;
		} else if (closes && chains.size() > 1) {
			total -= chains.back() + 2;
			chains.pop_back();
		} else if (separates) {
			total -= chains.back();
			chains.back() = 0;
		}
		if (total > kMaxNesting) {
			return true;
		}
	}
}

} // namespace proxy
