// Scripted ends of connections.
#include "Wire_Kit.h"
#include "base/Clock.h"

#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace proxy::wire {

namespace {
// Far above anything that happens on a loaded machine; only a failing test waits for it.
constexpr int64_t kPatienceUs = 10'000'000;

void make_nonblocking(int fd) {
	const int flags = fcntl(fd, F_GETFL, 0);
	REQUIRE(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}
} // namespace

Peer::Peer(int fd, Pump pump) : fd_(fd), pump_(std::move(pump)) {
	make_nonblocking(fd);
}

Peer::~Peer() {
	close();
}

void Peer::close() {
	if (fd_ >= 0) {
		::close(fd_);
		fd_ = -1;
	}
}

void Peer::reset() {
	const linger hard{1, 0};
	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close();
}

void Peer::stop_writing() {
	shutdown(fd_, SHUT_WR);
}

size_t Peer::send_some(std::string_view bytes) {
	const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
	return sent < 0 ? 0 : static_cast<size_t>(sent);
}

void Peer::send(std::string_view bytes) {
	const int64_t until = monotonic_us() + kPatienceUs;
	while (!bytes.empty() && monotonic_us() < until) {
		const size_t sent = send_some(bytes);
		bytes.remove_prefix(sent);
		if (sent == 0) {
			pump_();
		}
	}
	REQUIRE(bytes.empty());
}

void Peer::send_bytewise(std::string_view bytes) {
	for (const char byte : bytes) {
		send({&byte, 1});
		pump_();
	}
}

std::string Peer::receive(size_t bytes) {
	std::string got(bytes, '\0');
	size_t have = 0;
	const int64_t until = monotonic_us() + kPatienceUs;
	while (have < bytes) {
		const ssize_t now = recv(fd_, got.data() + have, bytes - have, 0);
		if (now > 0) {
			have += static_cast<size_t>(now);
			continue;
		}
		const bool over = now == 0 || (errno != EAGAIN && errno != EINTR);
		if (over || monotonic_us() > until) {
			break;
		}
		pump_();
	}
	got.resize(have);
	return got;
}

std::string Peer::receive_message() {
	std::string got = receive(5);
	if (got.size() == 5) {
		size_t length = 0;
		for (size_t i = 1; i < 5; ++i) {
			length = (length << 8) | static_cast<unsigned char>(got[i]);
		}
		got += receive(length - 4);
	}
	return got;
}

std::string Peer::receive_rest() {
	constexpr size_t kPiece = 65536;
	std::string all;
	while (true) {
		const std::string piece = receive(kPiece);
		all += piece;
		if (piece.size() < kPiece) {
			return all;
		}
	}
}

std::string Peer::available() {
	std::string got(65536, '\0');
	const ssize_t now = recv(fd_, got.data(), got.size(), 0);
	got.resize(now > 0 ? static_cast<size_t>(now) : 0);
	return got;
}

void Peer::expect(std::string_view bytes) {
	REQUIRE_BYTES(receive(bytes.size()), bytes);
}

void Peer::expect_nothing() {
	constexpr int kPasses = 10;
	for (int i = 0; i < kPasses; ++i) {
		pump_();
	}
	CHECK_BYTES(available(), "");
}

void Peer::expect_end() {
	expect_end("");
}

void Peer::expect_end(std::string_view bytes) {
	const int64_t before = monotonic_us();
	CHECK_BYTES(receive_rest(), bytes);
	// Not because nobody said anything any more.
	CHECK(monotonic_us() - before < kPatienceUs);
}

// ---- servers ----

Scripted_Server::Scripted_Server(Pump pump)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), pump_(std::move(pump)) {
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t size = sizeof(address);
	REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
	REQUIRE(listen(fd_, 16) == 0);
	REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
	port_ = ntohs(address.sin_port);
}

Scripted_Server::~Scripted_Server() {
	stop_listening();
}

void Scripted_Server::stop_listening() {
	if (fd_ >= 0) {
		::close(fd_);
		fd_ = -1;
	}
}

Peer_Ptr Scripted_Server::accept_raw() {
	const int64_t until = monotonic_us() + kPatienceUs;
	int fd = -1;
	while ((fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) < 0 && monotonic_us() < until) {
		pump_();
	}
	REQUIRE(fd >= 0);
	const int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	auto peer = std::make_unique<Peer>(fd, pump_);
	startup_ = peer->receive(4);
	REQUIRE(startup_.size() == 4);
	const size_t length =
	    static_cast<unsigned char>(startup_[2]) * 256U + static_cast<unsigned char>(startup_[3]);
	startup_ += peer->receive(length - 4);
	return peer;
}

std::string Scripted_Server::greeting(std::string_view tail) {
	return message('R', u32(0)) + parameter("server_version", "15.4") +
	       parameter("client_encoding", "UTF8") + parameter("DateStyle", "ISO, MDY") +
	       parameter("standard_conforming_strings", "on") + message('K', u32(kPid) + u32(kKey)) +
	       ready('I', tail);
}

Peer_Ptr Scripted_Server::accept(std::string_view tail) {
	Peer_Ptr peer = accept_raw();
	peer->send(greeting(tail));
	return peer;
}

bool Scripted_Server::nobody_comes() {
	constexpr int kPasses = 10;
	for (int i = 0; i < kPasses; ++i) {
		pump_();
	}
	const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
	if (fd >= 0) {
		::close(fd);
	}
	return fd < 0;
}

} // namespace proxy::wire
