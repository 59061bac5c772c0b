// Helpers for tests over wire bytes.
#pragma once

#include "protocol/Frame_Reader.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

inline std::span<const uint8_t> as_span(std::string_view text) {
	return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A literal with NULs in it.
template <size_t N> std::string raw(const char (&text)[N]) {
	return std::string(text, N - 1);
}

// All whole frames of `stream`; fails the test unless they fill it.
inline std::vector<Frame> frames_of(std::string_view stream) {
	std::vector<Frame> frames;
	std::span<const uint8_t> rest = as_span(stream);
	while (!rest.empty()) {
		Frame frame;
		REQUIRE(next_frame(rest, kMaxFrameLength, frame) == Frame_Status::complete);
		frames.push_back(frame);
		rest = rest.subspan(frame.size);
	}
	return frames;
}

// The only frame of `message`, which must have that type.
inline std::span<const uint8_t> body_of(std::string_view message, char type) {
	const std::vector<Frame> frames = frames_of(message);
	REQUIRE(frames.size() == 1);
	REQUIRE(frames[0].type == type);
	return frames[0].body;
}

// Every shorter body and the body with one more byte must be refused.
template <typename View> void check_only_whole_body_parses(std::span<const uint8_t> body) {
	View view;
	CHECK(parse(body, view));
	for (size_t length = 0; length < body.size(); ++length) {
		// A copy of exactly that size, so that a sanitizer sees any read beyond it.
		const std::vector<uint8_t> cut(body.begin(), body.begin() + static_cast<long>(length));
		INFO("cut to " << length << " of " << body.size());
		CHECK_FALSE(parse(std::span<const uint8_t>(cut), view));
	}
	std::vector<uint8_t> longer(body.begin(), body.end());
	longer.push_back(0);
	CHECK_FALSE(parse(std::span<const uint8_t>(longer), view));
}

} // namespace proxy
