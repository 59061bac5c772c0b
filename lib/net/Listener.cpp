#include "net/Listener.h"

#include "base/Ip_Address.h"
#include "base/Log.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace proxy {

namespace {
// Connections taken per readiness event, so that a storm of connects does not starve the clients
// that are being served.
constexpr int kAcceptsPerEvent = 64;

} // namespace

Result<int> open_tcp_listener(const Listen_Address& address) {
	sockaddr_storage storage{};
	socklen_t length = 0;
	auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
	auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
	if (inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(static_cast<uint16_t>(address.port));
		length = sizeof(sockaddr_in);
	} else if (inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) != 1) {
		return make_error("22023", "cannot listen on " + address.text() +
		                               ": the host must be a numeric IPv4 or IPv6 address");
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(static_cast<uint16_t>(address.port));
		length = sizeof(sockaddr_in6);
	}
	const int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
	    bind(fd, reinterpret_cast<sockaddr*>(&storage), length) != 0 ||
	    listen(fd, kListenBacklog) != 0) {
		const std::string reason = std::strerror(errno);
		if (fd >= 0) {
			close(fd);
		}
		return make_error("08000", "cannot listen on " + address.text() + ": " + reason);
	}
	return fd;
}

std::string address_text(const sockaddr_storage& address, int& port) {
	port = 0;
	if (address.ss_family == AF_INET) {
		const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
		port = ntohs(v4->sin_port);
		return Ip_Address::from_bytes({reinterpret_cast<const uint8_t*>(&v4->sin_addr), 4}).text();
	}
	if (address.ss_family == AF_INET6) {
		const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
		port = ntohs(v6->sin6_port);
		return Ip_Address::from_bytes({v6->sin6_addr.s6_addr, 16}).text();
	}
	return {};
}

std::string local_address(int fd, int& port) {
	sockaddr_storage name{};
	socklen_t length = sizeof(name);
	if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
		return {};
	}
	return address_text(name, port);
}

Listener::Listener(int fd, bool owned, Listen_Address address, Accept_Handler& handler)
    : fd_(fd), owned_(owned), address_(std::move(address)), handler_(handler),
      spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

Listener::~Listener() {
	stop();
	if (owned_) {
		close(fd_);
	}
	if (spare_fd_ >= 0) {
		close(spare_fd_);
	}
}

void Listener::start(Event_Loop& loop) {
	watcher_.start(loop, fd_, kIoRead, *this);
}

void Listener::on_io(int) {
	for (int taken = 0; taken < kAcceptsPerEvent; ++taken) {
		sockaddr_storage peer{};
		socklen_t length = sizeof(peer);
		const int fd =
		    accept4(fd_, reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			const int on = 1;
			if (peer.ss_family != AF_UNIX) {
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			}
			int port = 0;
			std::string host = address_text(peer, port);
			handler_.on_accept(fd, std::move(host), port, address_);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			static thread_local Log_Rate_Limit limit(1);
			if (limit.allow()) {
				log_error("out of file descriptors: new clients are refused");
			}
			close(spare_fd_);
			const int refused = accept(fd_, nullptr, nullptr);
			if (refused >= 0) {
				close(refused);
			}
			spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
		}
		return; // EAGAIN: another worker took it, or nothing is left
	}
}

} // namespace proxy
