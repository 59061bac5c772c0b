// One client socket: bytes in, bytes out, TLS underneath when asked for. Knows no PostgreSQL.
//
// Owned by a session; used on its worker only. Output that the socket does not take is kept here
// and sent when the socket is writable; the session watches unsent_bytes() for backpressure.
#pragma once

#include "net/Event_Loop.h"
#include "net/Tls_Context.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/uio.h>

namespace proxy {

class Stream_Handler {
public:
	virtual void on_stream_readable() = 0;
	// All kept output is out.
	virtual void on_stream_drained() = 0;
	// The peer is gone or broke the transport; the stream is closed.
	virtual void on_stream_broken() = 0;

protected:
	~Stream_Handler() = default;
};

class PgSQL_Data_Stream final : private Io_Handler {
public:
	// Takes over `fd` (non-blocking).
	PgSQL_Data_Stream(Event_Loop& loop, int fd, Stream_Handler& handler);
	~PgSQL_Data_Stream();
	PgSQL_Data_Stream(const PgSQL_Data_Stream&) = delete;
	PgSQL_Data_Stream& operator=(const PgSQL_Data_Stream&) = delete;

	// Reads what is there: >0 bytes, 0 nothing now, -1 closed or broken.
	ssize_t receive(char* buffer, size_t capacity);
	// Sends now what the socket takes, keeps the rest. False: broken (no handler call).
	bool send(std::string_view bytes);
	bool send(const iovec* parts, int count);
	// Kept output goes out with the next send() or when the socket is writable.
	void append(std::string_view bytes) { out_.append(bytes); }
	// Tries to send what append() kept. False: broken.
	bool flush();
	size_t unsent_bytes() const { return out_.size() - out_sent_; }

	void pause_reading(bool paused);
	bool reading_paused() const { return paused_; }

	// From here on everything is TLS; the handshake runs by itself.
	bool start_tls(Tls_Context_Ptr context);
	bool is_tls() const { return tls_ != nullptr; }
	bool handshake_done() const { return handshake_done_; }
	// The client chose our ALPN protocol.
	bool has_alpn() const;
	std::string_view channel_binding_hash() const;
	int fd() const { return fd_; }
	bool open() const { return fd_ >= 0; }
	// The first byte the client sent, without taking it; -1: none yet, -2: closed.
	int peek_byte() const;
	// Bytes that are there, without taking them, before TLS: 0 none yet, -1 closed or broken.
	ssize_t peek(char* buffer, size_t capacity) const;

	void close();
	uint64_t bytes_received() const { return bytes_received_; }
	uint64_t bytes_sent() const { return bytes_sent_; }
	// Changes when the peer takes or sends anything, also out of the kernel's buffers, which hold
	// megabytes. One system call.
	uint64_t progress() const;
	size_t memory_bytes() const { return sizeof(*this) + out_.capacity(); }

private:
	void on_io(int events) override;
	ssize_t raw_send(const iovec* parts, int count);
	ssize_t tls_send(const char* bytes, size_t length);
	ssize_t tls_receive(char* buffer, size_t capacity);
	bool step_handshake();
	bool drain();
	void update_watch();

	Event_Loop& loop_;
	Stream_Handler& handler_;
	int fd_;
	ssl_st* tls_ = nullptr;
	Tls_Context_Ptr tls_context_;
	bool handshake_done_ = false;
	bool paused_ = false;
	bool tls_wants_write_ = false;
	// OpenSSL holds more than the last read had room for, or the end of the stream: the socket does
	// not become readable for it.
	bool tls_more_ = false;
	std::string out_;
	size_t out_sent_ = 0;
	uint64_t bytes_received_ = 0;
	uint64_t bytes_sent_ = 0;
	Io_Watcher watcher_;
};

} // namespace proxy
