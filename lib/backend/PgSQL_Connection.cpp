#include "backend/PgSQL_Connection.h"

#include "backend/Libpq_Raw.h"
#include "base/Check.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace proxy {

namespace {
// A drained output buffer larger than this is given back: one big statement must not keep its
// memory for the life of a pooled connection.
constexpr size_t kKeptOutputBytes = 16 * 1024;
// A request longer than this is moved into the output buffer instead of copied.
constexpr size_t kStealBytes = 1024 * 1024;
// Sent bytes in front of the rest are moved away when they are this much, so that a buffer that is
// never quite empty does not grow.
constexpr size_t kCompactBytes = 256 * 1024;

std::string first_line(std::string_view message) {
	return std::string(message.substr(0, message.find('\n')));
}
} // namespace

void PgSQL_Connection::attach(Event_Loop& loop, Backend_Handler& handler) {
	loop_ = &loop;
	handler_ = &handler;
	if (fd_ >= 0) {
		watcher_.start(loop, fd_, kIoNone, *this);
		update_watch();
	}
}

void PgSQL_Connection::detach() {
	watcher_.stop();
	paused_ = false; // the next user reads it, whatever this one did
	loop_ = nullptr;
	handler_ = nullptr;
}

int PgSQL_Connection::backend_pid() const {
	return pg_ == nullptr ? 0 : PQbackendPID(pg_);
}

void PgSQL_Connection::fail(std::string sqlstate, std::string message) {
	state_ = Connection_State::dead;
	error_sqlstate_ = std::move(sqlstate);
	error_ = first_line(message);
	watcher_.stop();
}

void PgSQL_Connection::update_watch() {
	if (!watcher_.active()) {
		return;
	}
	if (state_ == Connection_State::connecting) {
		watcher_.set_events(connect_wants_);
		return;
	}
	watcher_.set_events((paused_ ? kIoNone : kIoRead) | (unsent_bytes() > 0 ? kIoWrite : kIoNone));
}

void PgSQL_Connection::pause_reading(bool paused) {
	if (paused_ != paused) {
		paused_ = paused;
		update_watch();
	}
}

void PgSQL_Connection::on_io(int events) {
	if (state_ == Connection_State::connecting) {
		step_connect();
		return;
	}
	if ((events & kIoWrite) != 0) {
		if (!flush()) {
			handler_->on_backend_broken(*this);
			return;
		}
		if (unsent_bytes() == 0) {
			handler_->on_backend_drained(*this);
			// The handler may have let this connection go; the caller of on_io() touches nothing
			// after this point, and neither may we.
			return;
		}
	}
	if ((events & kIoRead) != 0) {
		handler_->on_backend_readable(*this);
	}
}

bool PgSQL_Connection::flush() {
	while (unsent_bytes() > 0) {
		const ssize_t sent = PQrawSend(pg_, out_.data() + out_sent_, unsent_bytes());
		if (sent == PQRAW_WOULD_BLOCK) {
			break;
		}
		if (sent < 0) {
			fail("08006", PQerrorMessage(pg_));
			return false;
		}
		out_sent_ += static_cast<size_t>(sent);
	}
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

bool PgSQL_Connection::send(std::string_view bytes) {
	const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
	return send(&part, 1);
}

bool PgSQL_Connection::send(const iovec* parts, int count) {
	if (state_ == Connection_State::dead) {
		return false;
	}
	size_t taken = 0;
	size_t total = 0;
	for (int i = 0; i < count; ++i) {
		total += parts[i].iov_len;
	}
	uncounted_sent += total;
	if (unsent_bytes() == 0 && total > 0) {
		const ssize_t sent = PQrawSendv(pg_, parts, count);
		if (sent < 0) {
			fail("08006", PQerrorMessage(pg_));
			return false;
		}
		taken = static_cast<size_t>(sent);
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

bool PgSQL_Connection::send_all(std::string& bytes) {
	if (bytes.size() <= kStealBytes) {
		return send(bytes);
	}
	std::string taken;
	taken.swap(bytes);
	if (state_ == Connection_State::dead || unsent_bytes() > 0) {
		return send(std::string_view(taken));
	}
	uncounted_sent += taken.size();
	out_ = std::move(taken);
	out_sent_ = 0;
	return flush();
}

ssize_t PgSQL_Connection::receive(char* buffer, size_t capacity) {
	if (state_ == Connection_State::dead) {
		return -1;
	}
	const ssize_t got = PQrawRecv(pg_, buffer, capacity);
	if (got > 0) {
		uncounted_received += static_cast<uint64_t>(got);
		return got;
	}
	if (got == PQRAW_WOULD_BLOCK) {
		return 0;
	}
	fail("08006",
	     got == PQRAW_EOF ? "server closed the connection unexpectedly" : PQerrorMessage(pg_));
	return -1;
}

bool PgSQL_Connection::has_pending_input() const {
	return pg_ != nullptr && PQrawPending(pg_) > 0;
}

bool PgSQL_Connection::is_stale() {
	if (state_ != Connection_State::idle || has_pending_input()) {
		return true;
	}
	char byte = 0;
	const ssize_t peeked = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return !(peeked < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

PgSQL_Connection::Cancel_Target PgSQL_Connection::cancel_target() const {
	Cancel_Target target;
	if (pg_ == nullptr) {
		return target;
	}
	target.address = address_;
	target.port = port_;
	target.pid = PQbackendPID(pg_);
	const uint32_t key = static_cast<uint32_t>(PQgetCancelKey(pg_));
	for (int shift = 24; shift >= 0; shift -= 8) {
		target.key.push_back(static_cast<char>((key >> shift) & 0xffU));
	}
	return target;
}

} // namespace proxy
