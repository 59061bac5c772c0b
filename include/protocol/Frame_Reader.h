// Cuts a byte stream into messages: one type byte, a big-endian length that counts itself, a body.
// Reads only the five header bytes, so it may be called again for free when more bytes arrive.
// (PostgreSQL manual, "Message Formats". The first packet of a client has no type byte: Startup.h.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace proxy {

// One whole message inside the caller's buffer; valid as long as that buffer is.
struct Frame {
	char type = 0;
	std::span<const uint8_t> body; // without type and length
	size_t size = 0;               // whole message, type and length included
};

enum class Frame_Status : uint8_t { complete, incomplete, malformed };

inline constexpr size_t kFrameHeaderBytes = 5;
// Largest length field PostgreSQL itself accepts (PQ_LARGE_MESSAGE_LIMIT, 1 GiB - 1).
inline constexpr uint32_t kMaxFrameLength = 0x3fffffff;

// First bytes of a message whose body is still on its way.
struct Frame_Header {
	char type = 0;
	uint32_t length = 0; // as on the wire: body + 4
	size_t size() const { return size_t{length} + 1; }
	size_t body_size() const { return size_t{length} - 4; }
};

// complete: `out` is set, though the body may not be there yet. malformed: a length below 4 or
// above `max_length` (a length field, so body + 4); nothing after it can be trusted.
inline Frame_Status next_header(std::span<const uint8_t> input, uint32_t max_length,
                                Frame_Header& out) {
	if (input.size() < kFrameHeaderBytes) {
		return Frame_Status::incomplete;
	}
	out.type = static_cast<char>(input[0]);
	out.length = (uint32_t{input[1]} << 24) | (uint32_t{input[2]} << 16) |
	             (uint32_t{input[3]} << 8) | uint32_t{input[4]};
	if (out.length < 4 || out.length > max_length) {
		return Frame_Status::malformed;
	}
	return Frame_Status::complete;
}

// The next whole message of `input`. incomplete: `out` is untouched, call again with more bytes.
inline Frame_Status next_frame(std::span<const uint8_t> input, uint32_t max_length, Frame& out) {
	Frame_Header header;
	const Frame_Status status = next_header(input, max_length, header);
	if (status != Frame_Status::complete) {
		return status;
	}
	if (input.size() < header.size()) {
		return Frame_Status::incomplete;
	}
	out.type = header.type;
	out.size = header.size();
	out.body = input.subspan(kFrameHeaderBytes, header.body_size());
	return Frame_Status::complete;
}

// Calls visit(frame, message) for each message of `bytes`, which hold whole ones: `message` is all
// of it, header included. visit returns false to stop there. False: stopped, or a message is not
// whole.
template <typename Visitor> bool for_each_frame(std::string_view bytes, const Visitor& visit) {
	while (!bytes.empty()) {
		Frame frame;
		const Frame_Status status = next_frame(
		    {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, kMaxFrameLength, frame);
		if (status != Frame_Status::complete || !visit(frame, bytes.substr(0, frame.size))) {
			return false;
		}
		bytes.remove_prefix(frame.size);
	}
	return true;
}

} // namespace proxy
