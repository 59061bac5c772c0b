// Bounds-checked reader over foreign bytes, big-endian as on PostgreSQL's wire. The only way
// protocol code looks at input. A read past the end returns zero/empty and makes ok() false for
// good, so a parser can read a whole message and check once.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace proxy {

class Span_Reader {
public:
	explicit Span_Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
	explicit Span_Reader(std::string_view text)
	    : bytes_(reinterpret_cast<const uint8_t*>(text.data()), text.size()) {}

	bool ok() const { return ok_; }
	size_t remaining() const { return bytes_.size() - offset_; }
	size_t offset() const { return offset_; }
	bool at_end() const { return ok_ && remaining() == 0; }

	uint8_t u8() { return static_cast<uint8_t>(unsigned_of(1)); }
	uint16_t u16() { return static_cast<uint16_t>(unsigned_of(2)); }
	uint32_t u32() { return static_cast<uint32_t>(unsigned_of(4)); }
	uint64_t u64() { return unsigned_of(8); }
	int16_t i16() { return static_cast<int16_t>(u16()); }
	int32_t i32() { return static_cast<int32_t>(u32()); }

	// Text up to a NUL, which is consumed and not returned. No NUL before the end: not ok.
	std::string_view cstring() {
		if (!ok_) {
			return {};
		}
		const uint8_t* start = bytes_.data() + offset_;
		const void* end = remaining() == 0 ? nullptr : std::memchr(start, 0, remaining());
		if (end == nullptr) {
			ok_ = false;
			return {};
		}
		const size_t length = static_cast<size_t>(static_cast<const uint8_t*>(end) - start);
		offset_ += length + 1;
		return {reinterpret_cast<const char*>(start), length};
	}

	// Exactly `length` bytes as a view into the input.
	std::string_view bytes(size_t length) {
		if (!ok_ || length > remaining()) {
			ok_ = false;
			return {};
		}
		const char* start = reinterpret_cast<const char*>(bytes_.data() + offset_);
		offset_ += length;
		return {start, length};
	}

	std::string_view rest() { return bytes(remaining()); }

private:
	uint64_t unsigned_of(size_t width) {
		if (!ok_ || width > remaining()) {
			ok_ = false;
			return 0;
		}
		uint64_t value = 0;
		for (size_t i = 0; i < width; ++i) {
			value = (value << 8) | bytes_[offset_ + i];
		}
		offset_ += width;
		return value;
	}

	std::span<const uint8_t> bytes_;
	size_t offset_ = 0;
	bool ok_ = true;
};

} // namespace proxy
