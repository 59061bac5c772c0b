// A second look at the file's text. libconfig cuts numbers to 32 bits without a word, takes a
// comment that never ends for the rest of the file, and stops at a zero byte: each would start the
// proxy on something else than what was written. A quote that never closes it does refuse, but at
// the end of the file instead of where the text starts.
#include "Config_Sections.h"

#include <charconv>
#include <limits>

namespace proxy {

namespace {

bool is_digit(char letter) {
	return letter >= '0' && letter <= '9';
}

bool is_hex_digit(char letter) {
	return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}

bool is_name_start(char letter) {
	return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '*' ||
	       letter == '_';
}

bool is_name_part(char letter) {
	return is_name_start(letter) || is_digit(letter) || letter == '-';
}

class Scanner {
public:
	explicit Scanner(std::string_view text) : text_(text) {}

	std::vector<Scan_Fault> run() {
		while (at_ < text_.size()) {
			step();
		}
		return std::move(faults_);
	}

private:
	char peek(size_t ahead = 0) const {
		return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
	}

	void advance() {
		line_ += text_[at_] == '\n' ? 1 : 0;
		++at_;
	}

	template <typename Predicate> void skip_while(Predicate predicate) {
		while (at_ < text_.size() && predicate(text_[at_])) {
			advance();
		}
	}

	void fault(int line, std::string text) { faults_.push_back({line, std::move(text)}); }

	void step() {
		const char letter = peek();
		if (letter == '#' || (letter == '/' && peek(1) == '/')) {
			skip_while([](char c) { return c != '\n'; });
		} else if (letter == '/' && peek(1) == '*') {
			comment();
		} else if (letter == '"') {
			quoted();
		} else if (is_name_start(letter)) {
			skip_while(is_name_part);
		} else if (is_digit(letter)) {
			number();
		} else {
			if (letter == '\0') {
				fault(line_, "a zero byte");
			}
			advance();
		}
	}

	void comment() {
		const int line = line_;
		const size_t end = text_.find("*/", at_ + 2);
		if (end == std::string_view::npos) {
			fault(line, "a comment that does not end");
		}
		const size_t stop = end == std::string_view::npos ? text_.size() : end + 2;
		while (at_ < stop) {
			advance();
		}
	}

	void quoted() {
		const int line = line_;
		advance();
		while (at_ < text_.size() && peek() != '"') {
			if (peek() == '\0' || text_.substr(at_, 4) == "\\x00") {
				fault(line_, "a zero byte");
			}
			if (peek() == '\\' && at_ + 1 < text_.size()) {
				advance();
			}
			advance();
		}
		if (at_ < text_.size()) {
			advance();
		} else {
			fault(line, "a text without closing quote");
		}
	}

	void number() {
		const size_t start = at_;
		const bool negative = start > 0 && text_[start - 1] == '-';
		int base = 10;
		if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) {
			base = 16;
			advance();
			advance();
		}
		const size_t digits = at_;
		skip_while([base](char c) { return base == 16 ? is_hex_digit(c) : is_digit(c); });
		const size_t end = at_;
		if (base == 10 && (peek() == '.' || peek() == 'e' || peek() == 'E')) {
			// A fraction; no key takes one, and the readers say so.
			skip_while([](char c) { return is_digit(c) || c == '.' || c == 'e' || c == 'E'; });
			return;
		}
		const bool is_long = peek() == 'L';
		skip_while([](char c) { return c == 'L'; });
		const uint64_t most = is_long ? uint64_t(std::numeric_limits<int64_t>::max())
		                              : uint64_t(std::numeric_limits<int>::max());
		uint64_t value = 0;
		const auto parsed = std::from_chars(text_.data() + digits, text_.data() + end, value, base);
		if (parsed.ec == std::errc::result_out_of_range || value > most + (negative ? 1 : 0)) {
			fault(line_, fmt::format("the number {}{} is too large", negative ? "-" : "",
			                         text_.substr(start, at_ - start)));
		}
	}

	std::string_view text_;
	size_t at_ = 0;
	int line_ = 1;
	std::vector<Scan_Fault> faults_;
};

} // namespace

std::vector<Scan_Fault> scan_config_text(std::string_view text) {
	return Scanner(text).run();
}

} // namespace proxy
