// Digest: a statement with its literals taken out, in ProxySQL's form. One pass over the text into
// a buffer that is used again; no allocation once the buffer has grown to the texts it meets.
//
// Besides the text there is the `shape`: a hash over everything that the text leaves out although
// a statement's class might depend on it (removed casts, removed digits). Two statements with
// equal text and equal shape differ only in literals.
#pragma once

#include "classify/Query_Processor.h"
#include "classify/Tokenizer.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

struct Digest_View {
	std::string_view text;  // the whole statement's digest; valid until the next build()
	std::string_view shown; // the part that stands for the first max_query_length bytes
	uint64_t shape = 0;
	bool unterminated = false; // a quote or comment was open at the end
	bool literals = false;     // something was replaced
};

class Digest_Builder {
public:
	explicit Digest_Builder(const Digest_Options& options = {}) { set_options(options); }
	void set_options(const Digest_Options& options) { options_ = options; }
	const Digest_Options& options() const { return options_; }

	// REQUIRES: sql.size() < 4 GiB.
	Digest_View build(std::string_view sql, bool standard_conforming_strings);

	size_t buffer_bytes() const { return buffer_.capacity() + source_.capacity(); }

private:
	enum class Previous : uint8_t {
		start,
		literal,
		word,
		array_word, // ARRAY, of which a constructor may follow
		name,       // quoted name or parameter
		open,
		close,
		comma,
		op,
		other,
	};

	// An open parenthesis or bracket.
	struct Frame {
		uint32_t begin = 0;    // its place in the output; of ARRAY for a constructor
		bool is_array = false; // ARRAY[ or a [ directly inside one
		bool pure = true;      // nothing but literals and commas so far
		bool empty = true;
		bool outer_pure = true; // `pure` of the frame around it before this one began
		// Groups `(?,?)` that stand in a row inside this frame.
		uint32_t group_begin = 0;
		uint32_t group_size = 0;
		uint32_t group_kept_end = 0;
		uint32_t group_count = 0;
		bool group_alive = false;
	};
	static constexpr uint32_t kMaxFrames = 64; // deeper ones are written as they are

	void take(Tokenizer& tokens, const Token& token);
	void take_plain_words(Tokenizer& tokens, uint32_t limit);
	void prepare(std::string_view sql);
	void take_word(Tokenizer& tokens, const Token& token);
	bool special_word(Tokenizer& tokens, const Token& token, std::string_view word);
	void take_literal(const Token& token);
	void take_open(const Token& token, bool bracket);
	void take_close(bool bracket);
	void take_operator(const Token& token);
	void close_group(const Frame& frame);
	void end_element();
	void spoil();
	bool unary_sign() const;
	void drop_signs(const Token& token, bool& spaced);
	void end_element_before(std::string_view word);
	bool swallow_type(Tokenizer& tokens, const Token& cast);
	void swallow_uescape(Tokenizer& tokens);
	void copy_comments(uint32_t begin, uint32_t end);
	void copy(std::string_view text);
	void copy_token(const Token& token);
	void copy_name(const Token& token, bool quoted);
	void mix(std::string_view text);
	void mix_place(char kind);

	void put(char c) { out_[size_++] = c; }
	void space(const Token& token) {
		if (token.space_before && previous_ != Previous::start && previous_ != Previous::open &&
		    previous_ != Previous::comma && !after_cast_) {
			put(' ');
		}
	}
	Frame& top() { return frames_[depth_ < kMaxFrames ? depth_ : kMaxFrames - 1]; }

	Digest_Options options_;
	std::vector<char> buffer_; // the digest
	std::vector<char> source_; // the statement, with room behind it to look ahead

	// State of one build().
	const char* data_ = nullptr;
	uint32_t source_size_ = 0;
	char* out_ = nullptr;
	uint32_t size_ = 0;
	uint64_t shape_ = 0;
	Previous previous_ = Previous::start;
	bool literals_ = false;
	bool after_cast_ = false;
	uint8_t is_state_ = 0; // 1 after IS, 2 after IS NOT
	uint8_t statement_words_ = 0;
	bool role_statement_ = false; // CREATE/ALTER ROLE/USER/GROUP
	bool defining_statement_ = false;
	bool after_password_ = false;
	uint32_t password_end_ = 0; // output size after PASSWORD, 0: none
	Token last_word_;
	// The operator last written, and the one right before it (`= - 5`).
	struct Operator {
		uint32_t begin = 0; // its place in the output, before its space
		bool spaced = false;
		bool pure = true;
		char character = 0; // 0: more than one character
		Previous before = Previous::start;
	};
	Operator op_;
	Operator outer_op_;
	// Row of literals `?,?,?`.
	uint32_t run_count_ = 0;
	uint32_t run_kept_end_ = 0;
	bool run_alive_ = false;
	uint32_t depth_ = 0;
	uint32_t overflow_ = 0; // frames open beyond kMaxFrames
	uint32_t array_begin_ = 0;
	bool array_pure_ = true;
	Frame frames_[kMaxFrames];
};

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

// The current element of a list is no bare literal, and the frame no row of literals.
inline void Digest_Builder::spoil() {
	run_alive_ = false;
	Frame& frame = top();
	frame.pure = false;
	frame.empty = false;
	frame.group_alive = false;
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

// Cuts `text` on a token border so that it fits `max_bytes` with a closing "...".
std::string shorten_digest(std::string_view text, size_t max_bytes);

} // namespace proxy
