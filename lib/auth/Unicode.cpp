#include "auth/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <span>
#include <unordered_map>
#include <utility>

namespace proxy {

namespace {

struct Range {
	char32_t first;
	char32_t last;
};

#define X_RANGES(name, ...) constexpr Range k##name[] = {__VA_ARGS__};
#define X_TEXT(name, ...) constexpr std::string_view k##name = __VA_ARGS__;
#include "Unicode_Tables.def"
#undef X_TEXT
#undef X_RANGES

bool contains(std::span<const Range> ranges, char32_t c) {
	const auto at =
	    std::lower_bound(ranges.begin(), ranges.end(), c,
	                     [](const Range& range, char32_t value) { return range.last < value; });
	return at != ranges.end() && at->first <= c;
}

// Hangul syllables are composed by rule (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xac00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11a7; // one before the first
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

bool within(char32_t c, char32_t first, char32_t count) {
	return c >= first && c < first + count;
}

class Tables {
public:
	Tables() {
		for_each_row(kDecompositions, [this](const std::u32string& row) {
			decompositions_[row[0]] = row.substr(1);
		});
		for_each_row(kCombining, [this](const std::u32string& row) {
			for (char32_t c = row[0]; c <= row[1]; ++c) {
				classes_[c] = static_cast<uint8_t>(row[2]);
			}
		});
		for_each_row(kCompositions, [this](const std::u32string& row) {
			compositions_[pair_key(row[0], row[1])] = row[2];
		});
	}

	void append_decomposed(char32_t c, std::u32string& out) const {
		if (within(c, kSyllables, kSyllableCount)) {
			const char32_t index = c - kSyllables;
			out.push_back(kLeads + index / (kVowelCount * kTrailCount));
			out.push_back(kVowels + index % (kVowelCount * kTrailCount) / kTrailCount);
			if (index % kTrailCount != 0) {
				out.push_back(kTrails + index % kTrailCount);
			}
			return;
		}
		const auto found = decompositions_.find(c);
		if (found == decompositions_.end()) {
			out.push_back(c);
		} else {
			out += found->second;
		}
	}

	uint8_t combining_class(char32_t c) const {
		const auto found = classes_.find(c);
		return found == classes_.end() ? 0 : found->second;
	}

	// 0: the two have no composed form.
	char32_t compose(char32_t first, char32_t second) const {
		if (within(first, kLeads, kLeadCount) && within(second, kVowels, kVowelCount)) {
			return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
		}
		if (within(first, kSyllables, kSyllableCount) && (first - kSyllables) % kTrailCount == 0 &&
		    within(second, kTrails + 1, kTrailCount - 1)) {
			return first + (second - kTrails);
		}
		const auto found = compositions_.find(pair_key(first, second));
		return found == compositions_.end() ? 0 : found->second;
	}

private:
	static uint64_t pair_key(char32_t first, char32_t second) {
		return uint64_t{first} << 32 | second;
	}

	// "<hex> <hex> ...;<hex> ...;"
	template <typename Visitor>
	static void for_each_row(std::string_view text, const Visitor& visit) {
		std::u32string row;
		const char* at = text.data();
		const char* const end = text.data() + text.size();
		while (at != end) {
			uint32_t value = 0;
			at = std::from_chars(at, end, value, 16).ptr;
			row.push_back(value);
			if (*at == ';') {
				visit(row);
				row.clear();
			}
			++at;
		}
	}

	std::unordered_map<char32_t, std::u32string> decompositions_;
	std::unordered_map<char32_t, uint8_t> classes_;
	std::unordered_map<uint64_t, char32_t> compositions_;
};

const Tables& tables() {
	static const Tables unpacked;
	return unpacked;
}

// Marks that follow a base character come in the order of their classes.
void order_marks(std::u32string& text) {
	const Tables& all = tables();
	for (size_t i = 0; i < text.size();) {
		if (all.combining_class(text[i]) == 0) {
			++i;
			continue;
		}
		size_t end = i;
		while (end < text.size() && all.combining_class(text[end]) != 0) {
			++end;
		}
		std::stable_sort(std::next(text.begin(), static_cast<ptrdiff_t>(i)),
		                 std::next(text.begin(), static_cast<ptrdiff_t>(end)),
		                 [&all](char32_t left, char32_t right) {
			                 return all.combining_class(left) < all.combining_class(right);
		                 });
		i = end;
	}
}

std::u32string compose_all(std::u32string_view text) {
	const Tables& all = tables();
	std::u32string out;
	size_t base = std::u32string::npos; // in out: the last base character
	uint8_t last_class = 0;             // of what stands between it and here
	for (const char32_t c : text) {
		const uint8_t c_class = all.combining_class(c);
		const bool adjacent = base != std::u32string::npos && base + 1 == out.size();
		const bool blocked = !adjacent && (last_class == 0 || last_class >= c_class);
		const char32_t composed =
		    base == std::u32string::npos || blocked ? 0 : all.compose(out[base], c);
		if (composed != 0) {
			out[base] = composed;
			continue;
		}
		if (c_class == 0) {
			base = out.size();
		}
		last_class = c_class;
		out.push_back(c);
	}
	return out;
}

} // namespace

std::optional<std::u32string> utf8_decode(std::string_view text) {
	constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000}; // by length
	std::u32string out;
	for (size_t i = 0; i < text.size();) {
		const auto first = static_cast<uint8_t>(text[i]);
		const size_t length = first < 0x80             ? 1
		                      : (first & 0xe0) == 0xc0 ? 2
		                      : (first & 0xf0) == 0xe0 ? 3
		                      : (first & 0xf8) == 0xf0 ? 4
		                                               : 0;
		if (length == 0 || text.size() - i < length) {
			return std::nullopt;
		}
		char32_t c = length == 1 ? first : first & (0x7fU >> length);
		for (size_t k = 1; k < length; ++k) {
			const auto next = static_cast<uint8_t>(text[i + k]);
			if ((next & 0xc0) != 0x80) {
				return std::nullopt;
			}
			c = c << 6 | (next & 0x3fU);
		}
		if (c < kSmallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
			return std::nullopt;
		}
		out.push_back(c);
		i += length;
	}
	return out;
}

std::string utf8_encode(std::u32string_view text) {
	std::string out;
	for (const char32_t c : text) {
		if (c < 0x80) {
			out.push_back(static_cast<char>(c));
			continue;
		}
		constexpr uint32_t kLeading[] = {0, 0xc0, 0xe0, 0xf0};
		const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
		out.push_back(static_cast<char>(kLeading[more] | c >> (6 * more)));
		for (int k = more - 1; k >= 0; --k) {
			out.push_back(static_cast<char>(0x80U | (c >> (6 * k) & 0x3fU)));
		}
	}
	return out;
}

std::u32string nfkc(std::u32string_view text) {
	std::u32string decomposed;
	for (const char32_t c : text) {
		tables().append_decomposed(c, decomposed);
	}
	order_marks(decomposed);
	return compose_all(decomposed);
}

bool is_space(char32_t c) {
	return contains(kSpace, c);
}

bool is_mapped_to_nothing(char32_t c) {
	return contains(kMapped_to_nothing, c);
}

bool is_prohibited(char32_t c) {
	return contains(kProhibited, c);
}

bool is_unassigned(char32_t c) {
	return contains(kUnassigned, c);
}

bool is_right_to_left(char32_t c) {
	return contains(kRight_to_left, c);
}

bool is_left_to_right(char32_t c) {
	return contains(kLeft_to_right, c);
}

} // namespace proxy
