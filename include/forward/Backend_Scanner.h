// Walks the bytes of a server's answer as they come in and says which of them the client gets.
//
// Rows and COPY data are never looked into and never copied: they leave as views into the read
// buffer. Every other message is shown to the sink whole (an incomplete one waits in `partial_`),
// and the sink decides its fate. Pure over bytes; one scanner a server connection in use.
#pragma once

#include "protocol/Frame_Reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>

namespace proxy {

// keep, for rows only: hidden, and shown to the sink piece by piece.
enum class Message_Fate : uint8_t { forward, hide, keep };

// Views of what goes to the client, in order; neighbours in memory are joined.
class Output_Pieces {
public:
	static constexpr int kMax = 64;

	// False when full: flush and add again.
	bool add(const char* bytes, size_t length) {
		if (length == 0) {
			return true;
		}
		if (count_ > 0) {
			iovec& last = pieces_[static_cast<size_t>(count_ - 1)];
			if (static_cast<char*>(last.iov_base) + last.iov_len == bytes) {
				last.iov_len += length;
				return true;
			}
		}
		if (count_ == kMax) {
			return false;
		}
		pieces_[static_cast<size_t>(count_++)] = iovec{const_cast<char*>(bytes), length};
		return true;
	}
	const iovec* data() const { return pieces_.data(); }
	int count() const { return count_; }
	void clear() { count_ = 0; }

private:
	std::array<iovec, kMax> pieces_{};
	int count_ = 0;
};

class Backend_Scanner {
public:
	// A message that is not rows may be this long; a longer one is a broken server.
	static constexpr uint32_t kMaxControlLength = 64U * 1024 * 1024;

	bool between_messages() const { return partial_.empty() && body_left_ == 0; }
	void reset() {
		partial_.clear();
		body_left_ = 0;
	}

	// Sink: Message_Fate on_message(char type, std::span<const uint8_t> body);
	//       Message_Fate on_row(char type);             // once a row, at its header
	//       bool emit(const char* bytes, size_t length);    // valid until scan() returns
	//       bool emit_copy(std::string_view bytes);         // to be copied; false: stop
	//       void keep(std::string_view bytes);              // when on_row() can say keep
	// False: the server broke the protocol, or emit() asked to stop.
	template <typename Sink> bool scan(const char* bytes, size_t length, Sink& sink) {
		const char* at = bytes;
		const char* const end = bytes + length;
		if (body_left_ > 0 && !pass_body(at, end, sink)) {
			return false;
		}
		while (!partial_.empty() && at < end) {
			if (!complete_partial(at, end, sink)) {
				return false;
			}
		}
		while (at < end) {
			Frame_Header header;
			const Frame_Status status = next_header(view(at, end), kMaxFrameLength, header);
			if (status == Frame_Status::malformed) {
				return false;
			}
			if (status == Frame_Status::incomplete) {
				break;
			}
			const size_t here = static_cast<size_t>(end - at);
			if (is_streamed(header.type)) {
				body_fate_ = sink.on_row(header.type);
				body_left_ = header.size();
				if (!pass_body(at, end, sink)) {
					return false;
				}
				continue;
			}
			if (header.length > kMaxControlLength) {
				return false;
			}
			if (here < header.size()) {
				break;
			}
			const Message_Fate fate =
			    sink.on_message(header.type, view(at + kFrameHeaderBytes, at + header.size()));
			if (fate == Message_Fate::forward && !sink.emit(at, header.size())) {
				return false;
			}
			at += header.size();
		}
		partial_.append(at, static_cast<size_t>(end - at));
		return true;
	}

private:
	// DataRow and CopyData: passed on without waiting for their end.
	static bool is_streamed(char type) { return type == 'D' || type == 'd'; }
	static std::span<const uint8_t> view(const char* from, const char* to) {
		return {reinterpret_cast<const uint8_t*>(from), static_cast<size_t>(to - from)};
	}

	template <typename Sink> bool pass_body(const char*& at, const char* end, Sink& sink) {
		const size_t take = std::min(body_left_, static_cast<size_t>(end - at));
		if (body_fate_ == Message_Fate::forward && !sink.emit(at, take)) {
			return false;
		}
		if constexpr (requires { sink.keep(std::string_view()); }) {
			if (body_fate_ == Message_Fate::keep) {
				sink.keep({at, take});
			}
		}
		at += take;
		body_left_ -= take;
		return true;
	}

	// The message that the last chunk cut: first its header, then its end.
	template <typename Sink> bool complete_partial(const char*& at, const char* end, Sink& sink) {
		if (partial_.size() < kFrameHeaderBytes) {
			const size_t take =
			    std::min(kFrameHeaderBytes - partial_.size(), static_cast<size_t>(end - at));
			partial_.append(at, take);
			at += take;
			if (partial_.size() < kFrameHeaderBytes) {
				return true;
			}
		}
		Frame_Header header;
		const char* const start = partial_.data();
		if (next_header(view(start, start + partial_.size()), kMaxFrameLength, header) !=
		    Frame_Status::complete) {
			return false;
		}
		if (is_streamed(header.type)) {
			// Only its header can be here: a row is passed on as soon as the header is known.
			body_fate_ = sink.on_row(header.type);
			if (body_fate_ == Message_Fate::forward && !sink.emit_copy(partial_)) {
				return false;
			}
			if constexpr (requires { sink.keep(std::string_view()); }) {
				if (body_fate_ == Message_Fate::keep) {
					sink.keep(partial_);
				}
			}
			body_left_ = header.size() - partial_.size();
			partial_.clear();
			return pass_body(at, end, sink);
		}
		if (header.length > kMaxControlLength) {
			return false;
		}
		const size_t take =
		    std::min(header.size() - partial_.size(), static_cast<size_t>(end - at));
		partial_.append(at, take);
		at += take;
		if (partial_.size() < header.size()) {
			return true;
		}
		// The sink may keep nothing of it: taken out first, so that a message that ends the
		// request leaves the scanner clean.
		const std::string message = std::move(partial_);
		partial_.clear();
		const char* const whole = message.data();
		const Message_Fate fate =
		    sink.on_message(header.type, view(whole + kFrameHeaderBytes, whole + message.size()));
		return fate == Message_Fate::hide || sink.emit_copy(message);
	}

	std::string partial_;
	size_t body_left_ = 0;
	Message_Fate body_fate_ = Message_Fate::forward;
};

} // namespace proxy
