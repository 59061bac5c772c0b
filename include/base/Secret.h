// A password or key: clears its bytes when it goes, never prints itself.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace proxy {

class Secret {
public:
	Secret() = default;
	explicit Secret(std::string text) : text_(std::move(text)) {}
	Secret(const Secret&) = default;
	Secret& operator=(const Secret&) = default;
	Secret(Secret&& other) noexcept : text_(std::move(other.text_)) { other.wipe(); }
	Secret& operator=(Secret&& other) noexcept {
		wipe();
		text_ = std::move(other.text_);
		other.wipe();
		return *this;
	}
	~Secret() { wipe(); }

	// The plain bytes; never log them.
	std::string_view reveal() const { return text_; }
	bool empty() const { return text_.empty(); }
	bool operator==(const Secret& other) const { return text_ == other.text_; }

private:
	void wipe() {
		volatile char* bytes = text_.data();
		for (size_t i = 0; i < text_.size(); ++i) {
			bytes[i] = 0;
		}
		text_.clear();
	}

	std::string text_;
};

} // namespace proxy
