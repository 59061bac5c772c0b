// The type after `::`: how far does it reach? Written out because types of several words have no
// brackets around them ("timestamp (3) with time zone", "interval day to second").
#include "classify/Digest.h"
#include "classify/Words.h"

namespace proxy {

namespace {

// Reads tokens and remembers the last place up to which everything belonged to the type.
class Type_Reader {
public:
	explicit Type_Reader(Tokenizer& tokens) : tokens_(tokens), good_(tokens.offset()) {}

	bool read() {
		if (!name()) {
			return false;
		}
		if (!simple_) {
			while (qualified()) {
			}
			modifier();
		} else if (is_first("timestamp") || is_first("time")) {
			modifier();
			words({"with", "time", "zone"}) || words({"without", "time", "zone"});
		} else if (is_first("interval")) {
			interval_fields();
			modifier();
		} else if (is_first("double")) {
			words({"precision"});
		} else if (is_first("national")) {
			words({"character"}) || words({"char"});
			words({"varying"});
			modifier();
		} else {
			const bool text_type =
			    is_first("character") || is_first("char") || is_first("nchar") || is_first("bit");
			if (text_type && words({"varying"})) {
				modifier();
			} else {
				while (qualified()) {
				}
				modifier();
			}
		}
		bounds();
		tokens_.seek(good_);
		return true;
	}

private:
	bool is_first(std::string_view word) const { return same_word(first_, word); }
	bool accept() {
		good_ = tokens_.offset();
		return true;
	}
	bool reject() {
		tokens_.seek(good_);
		return false;
	}

	bool name() {
		const Token token = tokens_.next();
		if (token.kind != Token_Kind::word && token.kind != Token_Kind::quoted_name) {
			return reject();
		}
		simple_ = token.kind == Token_Kind::word;
		first_ = tokens_.text_of(token);
		return accept();
	}

	bool qualified() {
		const Token dot = tokens_.next();
		if (dot.kind != Token_Kind::other || tokens_.text_of(dot) != ".") {
			return reject();
		}
		const Token token = tokens_.next();
		const bool is_name =
		    token.kind == Token_Kind::word || token.kind == Token_Kind::quoted_name;
		return is_name ? accept() : reject();
	}

	bool words(std::initializer_list<std::string_view> expected) {
		for (const std::string_view word : expected) {
			const Token token = tokens_.next();
			if (token.kind != Token_Kind::word || !same_word(tokens_.text_of(token), word)) {
				return reject();
			}
		}
		return accept();
	}

	bool field() {
		return words({"year"}) || words({"month"}) || words({"day"}) || words({"hour"}) ||
		       words({"minute"}) || words({"second"});
	}

	void interval_fields() {
		if (field() && words({"to"})) {
			field();
		}
	}

	// (10,2): only literals and plain names, so that nothing of weight is left out.
	bool modifier() {
		if (tokens_.next().kind != Token_Kind::open_paren) {
			return reject();
		}
		while (true) {
			const Token token = tokens_.next();
			switch (token.kind) {
			case Token_Kind::number:
			case Token_Kind::string:
			case Token_Kind::word:
			case Token_Kind::quoted_name:
			case Token_Kind::comma:
				continue;
			case Token_Kind::close_paren:
				return accept();
			case Token_Kind::op: // numeric(3,-2)
				if (tokens_.text_of(token) == "-") {
					continue;
				}
				return reject();
			case Token_Kind::end:
			case Token_Kind::parameter:
			case Token_Kind::cast:
			case Token_Kind::open_paren:
			case Token_Kind::open_bracket:
			case Token_Kind::close_bracket:
			case Token_Kind::semicolon:
			case Token_Kind::other:
				return reject();
			}
		}
	}

	bool bound() {
		if (tokens_.next().kind != Token_Kind::open_bracket) {
			return reject();
		}
		Token token = tokens_.next();
		if (token.kind == Token_Kind::number) {
			token = tokens_.next();
		}
		return token.kind == Token_Kind::close_bracket ? accept() : reject();
	}

	void bounds() {
		words({"array"});
		while (bound()) {
		}
	}

	Tokenizer& tokens_;
	uint32_t good_;
	std::string_view first_;
	bool simple_ = false;
};

} // namespace

bool Digest_Builder::swallow_type(Tokenizer& tokens, const Token& cast) {
	Type_Reader reader(tokens);
	if (!reader.read()) {
		return false;
	}
	mix({data_ + cast.begin, tokens.offset() - cast.begin});
	return true;
}

} // namespace proxy
