#include "auth/Scram_Md5.h"
#include "auth/Unicode.h"

#include <algorithm>

namespace proxy {

namespace {

std::u32string map_characters(std::u32string_view text) {
	std::u32string out;
	for (const char32_t c : text) {
		// U+200B is in both classes; PostgreSQL asks for spaces first.
		if (is_space(c)) {
			out.push_back(U' ');
		} else if (!is_mapped_to_nothing(c)) {
			out.push_back(c);
		}
	}
	return out;
}

// A text with right-to-left characters begins and ends with one and has no left-to-right ones.
bool directions_are_fine(std::u32string_view text) {
	if (std::none_of(text.begin(), text.end(), is_right_to_left)) {
		return true;
	}
	return std::none_of(text.begin(), text.end(), is_left_to_right) &&
	       is_right_to_left(text.front()) && is_right_to_left(text.back());
}

} // namespace

std::string saslprep(std::string_view password) {
	const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
	if (std::all_of(password.begin(), password.end(), is_ascii)) {
		return std::string(password);
	}
	const std::optional<std::u32string> text = utf8_decode(password);
	const std::u32string mapped = text ? map_characters(*text) : std::u32string();
	const auto is_refused = [](char32_t c) { return is_prohibited(c) || is_unassigned(c); };
	if (mapped.empty() || std::any_of(mapped.begin(), mapped.end(), is_refused) ||
	    !directions_are_fine(mapped)) {
		return std::string(password);
	}
	return utf8_encode(nfkc(mapped));
}

} // namespace proxy
