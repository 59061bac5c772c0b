// Building blocks for writing messages into a std::string: big-endian numbers, strings with a NUL,
// and the length field that is filled in when the message is complete. Pure, inline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace proxy {

inline void append_u8(std::string& out, uint8_t value) {
	out.push_back(static_cast<char>(value));
}
inline void append_u16(std::string& out, uint16_t value) {
	const char bytes[2] = {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
	out.append(bytes, sizeof(bytes));
}
inline void append_u32(std::string& out, uint32_t value) {
	const char bytes[4] = {static_cast<char>(value >> 24), static_cast<char>((value >> 16) & 0xff),
	                       static_cast<char>((value >> 8) & 0xff), static_cast<char>(value & 0xff)};
	out.append(bytes, sizeof(bytes));
}
inline void append_u64(std::string& out, uint64_t value) {
	append_u32(out, static_cast<uint32_t>(value >> 32));
	append_u32(out, static_cast<uint32_t>(value & 0xffffffffU));
}

// A string on the wire ends at its first NUL, so a NUL inside `text` ends it here too: what
// follows could otherwise be read as the message's next field.
inline void append_cstring(std::string& out, std::string_view text) {
	out.append(text.substr(0, text.find('\0')));
	out.push_back('\0');
}

// One message being appended to `out`; finish() (or the destructor) fills in the length.
class Message_Writer {
public:
	// `to_come`: bytes that belong to the message and are sent behind it.
	Message_Writer(std::string& out, char type, size_t to_come = 0) : out_(out), to_come_(to_come) {
		out_.push_back(type);
		length_at_ = out_.size();
		out_.append(4, '\0');
	}
	~Message_Writer() { finish(); }
	Message_Writer(const Message_Writer&) = delete;
	Message_Writer& operator=(const Message_Writer&) = delete;

	void finish() {
		const size_t length = out_.size() - length_at_ + to_come_;
		for (size_t i = 0; i < 4; ++i) {
			out_[length_at_ + i] = static_cast<char>((length >> (24 - 8 * i)) & 0xff);
		}
	}

private:
	std::string& out_;
	const size_t to_come_;
	size_t length_at_ = 0;
};

} // namespace proxy
