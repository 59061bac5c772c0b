// Any bytes: the tokenizer and the digest end, stay inside the text, and say the same twice.
#include "Fuzz_Check.h"
#include "classify/Digest.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

using namespace proxy;

namespace {

// Tokens follow each other, cover what is no white space, and end with the text.
void check_tokens(std::string_view sql, bool standard_strings) {
	Tokenizer tokens(sql, standard_strings);
	uint32_t last = 0;
	while (true) {
		const Token token = tokens.next();
		FUZZ_CHECK(token.begin >= last && token.end >= token.begin && token.end <= sql.size());
		if (token.kind == Token_Kind::end) {
			break;
		}
		FUZZ_CHECK(token.end > token.begin);
		last = token.end;
	}
	FUZZ_CHECK(tokens.offset() == sql.size());
}

Digest_Options options_of(uint8_t bits) {
	Digest_Options options;
	options.lowercase = (bits & 2) != 0;
	options.replace_null = (bits & 4) != 0;
	options.no_digits = (bits & 8) != 0;
	options.keep_comment = (bits & 16) != 0;
	options.grouping_limit = 1 + (bits >> 6);
	options.groups_grouping_limit = (bits >> 5) & 3;
	options.max_query_length = (bits & 32) != 0 ? 16 : 65000;
	return options;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	if (size == 0) {
		return 0;
	}
	// A copy of exactly this size: the address sanitizer sees a read one byte too far.
	const size_t length = size - 1;
	const std::unique_ptr<char[]> exact = std::make_unique<char[]>(length);
	std::copy(data + 1, data + size, exact.get());
	const std::string_view sql(exact.get(), length);
	const bool standard_strings = (data[0] & 1) != 0;
	check_tokens(sql, standard_strings);

	static Digest_Builder builder; // used again and again, as a worker does
	builder.set_options(options_of(data[0]));
	const Digest_View view = builder.build(sql, standard_strings);
	FUZZ_CHECK(view.text.size() <= sql.size() + 64);
	FUZZ_CHECK(view.shown.size() <= view.text.size());
	const std::string text(view.text);
	const uint64_t shape = view.shape;
	Digest_Builder fresh(builder.options());
	const Digest_View again = fresh.build(sql, standard_strings);
	FUZZ_CHECK(again.text == text && again.shape == shape);
	const size_t limit = 16 + data[0];
	FUZZ_CHECK(shorten_digest(text, limit).size() <= limit);
	return 0;
}
