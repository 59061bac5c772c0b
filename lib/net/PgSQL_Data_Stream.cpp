#include "net/PgSQL_Data_Stream.h"

#include "base/Check.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace proxy {

namespace {
// A drained buffer larger than this is given back (bug bank BB-185: one large row must not keep
// its memory for the life of a client).
constexpr size_t kKeptOutputBytes = 4 * 1024;
// Sent bytes in front of the rest are moved away when they are this much, so that a buffer that is
// never quite empty does not grow.
constexpr size_t kCompactBytes = 256 * 1024;
// Plain text of one TLS record at most.
constexpr size_t kTlsRecordBytes = 16 * 1024;
} // namespace

PgSQL_Data_Stream::PgSQL_Data_Stream(Event_Loop& loop, int fd, Stream_Handler& handler)
    : loop_(loop), handler_(handler), fd_(fd) {
	watcher_.start(loop_, fd_, kIoRead, *this);
}

PgSQL_Data_Stream::~PgSQL_Data_Stream() {
	close();
}

void PgSQL_Data_Stream::close() {
	watcher_.stop();
	if (tls_ != nullptr) {
		if (handshake_done_) {
			SSL_shutdown(tls_); // one close_notify, not waited for
		}
		SSL_free(tls_);
		tls_ = nullptr;
		ERR_clear_error();
	}
	if (fd_ >= 0) {
		::close(fd_);
		fd_ = -1;
	}
}

void PgSQL_Data_Stream::update_watch() {
	if (fd_ < 0) {
		return;
	}
	const bool writes =
	    (tls_ != nullptr && !handshake_done_) ? tls_wants_write_ : unsent_bytes() > 0;
	// The socket is writable nearly always, so that asking for it brings the next pass here.
	const bool again = !paused_ && tls_more_;
	watcher_.set_events((paused_ ? kIoNone : kIoRead) | (writes || again ? kIoWrite : kIoNone));
}

void PgSQL_Data_Stream::pause_reading(bool paused) {
	if (paused_ != paused) {
		paused_ = paused;
		update_watch();
	}
}

int PgSQL_Data_Stream::peek_byte() const {
	char byte = 0;
	const ssize_t peeked = peek(&byte, 1);
	if (peeked == 1) {
		return static_cast<unsigned char>(byte);
	}
	return peeked < 0 ? -2 : -1;
}

ssize_t PgSQL_Data_Stream::peek(char* buffer, size_t capacity) const {
	const ssize_t peeked = recv(fd_, buffer, capacity, MSG_PEEK | MSG_DONTWAIT);
	if (peeked < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
		return 0;
	}
	return peeked > 0 ? peeked : -1;
}

uint64_t PgSQL_Data_Stream::progress() const {
	int queued = 0;
	if (fd_ < 0 || ioctl(fd_, SIOCOUTQ, &queued) != 0) {
		queued = 0;
	}
	return bytes_received_ + bytes_sent_ - static_cast<uint64_t>(queued);
}

bool PgSQL_Data_Stream::start_tls(Tls_Context_Ptr context) {
	tls_ = context->new_session(fd_);
	tls_context_ = std::move(context);
	return tls_ != nullptr;
}

bool PgSQL_Data_Stream::has_alpn() const {
	const unsigned char* protocol = nullptr;
	unsigned length = 0;
	SSL_get0_alpn_selected(tls_, &protocol, &length);
	return length > 0;
}

std::string_view PgSQL_Data_Stream::channel_binding_hash() const {
	return tls_context_ == nullptr ? std::string_view() : tls_context_->channel_binding_hash();
}

// True while the handshake is alive.
bool PgSQL_Data_Stream::step_handshake() {
	ERR_clear_error();
	const int outcome = SSL_do_handshake(tls_);
	if (outcome == 1) {
		handshake_done_ = true;
		update_watch();
		return true;
	}
	const int reason = SSL_get_error(tls_, outcome);
	tls_wants_write_ = reason == SSL_ERROR_WANT_WRITE;
	update_watch();
	return reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE;
}

void PgSQL_Data_Stream::on_io(int events) {
	if (tls_ != nullptr && !handshake_done_) {
		if (!step_handshake()) {
			handler_.on_stream_broken();
			return;
		}
		if (!handshake_done_) {
			return;
		}
	}
	if ((events & kIoWrite) != 0 && unsent_bytes() > 0) {
		if (!drain()) {
			handler_.on_stream_broken();
			return;
		}
		if (unsent_bytes() == 0) {
			handler_.on_stream_drained();
			return; // the handler may have ended the session
		}
	}
	if ((events & kIoRead) != 0 || (!paused_ && tls_more_)) {
		handler_.on_stream_readable();
	}
}

ssize_t PgSQL_Data_Stream::tls_receive(char* buffer, size_t capacity) {
	if (!handshake_done_ && !step_handshake()) {
		return -1;
	}
	if (!handshake_done_) {
		return 0;
	}
	size_t got = 0;
	// One record at a time; more bytes, decrypted or not, may wait inside OpenSSL, which the
	// socket's readiness does not show.
	do {
		const size_t room = std::min(capacity - got, size_t{INT_MAX});
		ERR_clear_error();
		const int received = SSL_read(tls_, buffer + got, static_cast<int>(room));
		if (received <= 0) {
			const int reason = SSL_get_error(tls_, received);
			const bool would_block =
			    reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE;
			tls_more_ = got > 0 && !would_block; // the end, for the next call to tell
			return got > 0 || would_block ? static_cast<ssize_t>(got) : -1;
		}
		got += static_cast<size_t>(received);
	} while (got < capacity && SSL_has_pending(tls_) == 1);
	// Where the room ended, not what was there.
	tls_more_ = SSL_has_pending(tls_) == 1;
	return static_cast<ssize_t>(got);
}

ssize_t PgSQL_Data_Stream::receive(char* buffer, size_t capacity) {
	if (fd_ < 0) {
		return -1;
	}
	ssize_t got = 0;
	if (tls_ != nullptr) {
		got = tls_receive(buffer, capacity);
		update_watch();
	} else {
		got = recv(fd_, buffer, capacity, MSG_DONTWAIT);
		if (got == 0) {
			return -1;
		}
		if (got < 0) {
			return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
		}
	}
	if (got > 0) {
		bytes_received_ += static_cast<uint64_t>(got);
	}
	return got;
}

ssize_t PgSQL_Data_Stream::tls_send(const char* bytes, size_t length) {
	size_t sent = 0;
	while (sent < length) {
		ERR_clear_error();
		const size_t part = std::min(length - sent, size_t{INT_MAX});
		const int written = SSL_write(tls_, bytes + sent, static_cast<int>(part));
		if (written <= 0) {
			const int reason = SSL_get_error(tls_, written);
			if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
				break;
			}
			return -1;
		}
		sent += static_cast<size_t>(written);
	}
	return static_cast<ssize_t>(sent);
}

// Bytes taken by the transport, -1 when it is broken.
ssize_t PgSQL_Data_Stream::raw_send(const iovec* parts, int count) {
	if (tls_ != nullptr) {
		// Pieces that fit into one record are joined: one record and one write instead of several.
		// Should the socket be full, the same bytes come again in the same order from out_.
		std::array<char, kTlsRecordBytes> record;
		size_t joined = 0;
		int i = 0;
		for (; i < count && count > 1 && joined + parts[i].iov_len <= record.size(); ++i) {
			std::memcpy(record.data() + joined, parts[i].iov_base, parts[i].iov_len);
			joined += parts[i].iov_len;
		}
		ssize_t total = 0;
		if (joined > 0) {
			total = tls_send(record.data(), joined);
			if (total < static_cast<ssize_t>(joined)) {
				return total;
			}
		}
		for (; i < count; ++i) {
			const ssize_t sent =
			    tls_send(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
			if (sent < 0) {
				return -1;
			}
			total += sent;
			if (static_cast<size_t>(sent) < parts[i].iov_len) {
				break;
			}
		}
		return total;
	}
	ssize_t sent = 0;
	if (count == 1) {
		sent = ::send(fd_, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else {
		msghdr message{};
		message.msg_iov = const_cast<iovec*>(parts);
		message.msg_iovlen = static_cast<size_t>(count);
		sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	if (sent < 0) {
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
	}
	return sent;
}

bool PgSQL_Data_Stream::send(std::string_view bytes) {
	const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
	return send(&part, 1);
}

bool PgSQL_Data_Stream::send(const iovec* parts, int count) {
	if (fd_ < 0) {
		return false;
	}
	size_t taken = 0;
	size_t total = 0;
	for (int i = 0; i < count; ++i) {
		total += parts[i].iov_len;
	}
	if (unsent_bytes() == 0 && total > 0) {
		const ssize_t sent = raw_send(parts, count);
		if (sent < 0) {
			return false;
		}
		taken = static_cast<size_t>(sent);
		bytes_sent_ += taken;
		if (taken == total) {
			return true;
		}
	}
	for (int i = 0; i < count; ++i) {
		const size_t skip = std::min(taken, parts[i].iov_len);
		taken -= skip;
		out_.append(static_cast<const char*>(parts[i].iov_base) + skip, parts[i].iov_len - skip);
	}
	update_watch();
	return true;
}

bool PgSQL_Data_Stream::drain() {
	const iovec part{out_.data() + out_sent_, unsent_bytes()};
	const ssize_t sent = raw_send(&part, 1);
	if (sent < 0) {
		return false;
	}
	bytes_sent_ += static_cast<uint64_t>(sent);
	out_sent_ += static_cast<size_t>(sent);
	if (unsent_bytes() == 0) {
		out_sent_ = 0;
		out_.clear();
		if (out_.capacity() > kKeptOutputBytes) {
			out_.shrink_to_fit();
		}
	} else if (out_sent_ > kCompactBytes && out_sent_ > unsent_bytes()) {
		out_.erase(0, out_sent_);
		out_sent_ = 0;
	}
	update_watch();
	return true;
}

bool PgSQL_Data_Stream::flush() {
	if (fd_ < 0) {
		return false;
	}
	return unsent_bytes() == 0 || drain();
}

} // namespace proxy
