#include "admin/Admin_Server.h"

#include "base/Clock.h"
#include "base/Log.h"
#include "net/Unix_Listener.h"
#include "protocol/PgSQL_Protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace proxy {

namespace {
constexpr size_t kMaxClients = 200;
// Threads that were told to leave may still be on their way out: room for them above the limit.
constexpr size_t kLeavingClients = 56;
constexpr int kBacklog = 1024;
constexpr size_t kReadBytes = 64 * 1024;
// A client that does not read its answer for this long is gone.
constexpr int64_t kWriteTimeoutMs = 60'000;
// Between looks for ended threads when nothing else happens.
constexpr int kReapIntervalMs = 1000;

Error socket_error(const std::string& what) {
	return make_error("58030", fmt::format("{}: {}", what, std::strerror(errno)));
}

void signal_event(int fd) {
	const uint64_t one = 1;
	// Fails only when the counter is full: then the reader wakes up anyway.
	[[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

// Loopback addresses and Unix sockets are "local"; also as an IPv4 address inside IPv6.
void describe_peer(const sockaddr_storage& address, Admin_Peer& peer) {
	std::array<char, INET6_ADDRSTRLEN> text{};
	if (address.ss_family == AF_INET) {
		sockaddr_in v4{};
		std::memcpy(&v4, &address, sizeof(v4));
		inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
		peer.local = (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
		peer.address = text.data();
	} else if (address.ss_family == AF_INET6) {
		sockaddr_in6 v6{};
		std::memcpy(&v6, &address, sizeof(v6));
		inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
		peer.address = text.data();
		peer.local = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
		             (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
	} else {
		peer.address = "localhost";
		peer.local = true;
	}
}

Result<int> listen_tcp(const Listen_Address& wanted) {
	addrinfo hints{};
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
	addrinfo* found = nullptr;
	const std::string port = std::to_string(wanted.port);
	if (const int rc = getaddrinfo(wanted.host.empty() ? nullptr : wanted.host.c_str(),
	                               port.c_str(), &hints, &found);
	    rc != 0) {
		return make_error("58030",
		                  fmt::format("cannot listen on {}: {}", wanted.text(), gai_strerror(rc)));
	}
	const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, &freeaddrinfo);
	const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return socket_error("cannot create a socket for " + wanted.text());
	}
	const int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (found->ai_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, kBacklog) != 0) {
		const Error error = socket_error("cannot listen on " + wanted.text());
		close(fd);
		return error;
	}
	return fd;
}
} // namespace

struct Admin_Server::Listener {
	Listen_Address wanted;
	int fd = -1;
	Socket_File file;

	~Listener() {
		if (fd >= 0) {
			close(fd);
			if (wanted.is_unix()) {
				file.remove();
			}
		}
	}
	std::string bound() const {
		Listen_Address address = wanted;
		sockaddr_storage name{};
		socklen_t size = sizeof(name);
		if (!wanted.is_unix() && getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0) {
			sockaddr_in v4{}; // the port is at the same place in both families
			std::memcpy(&v4, &name, sizeof(v4));
			address.port = ntohs(v4.sin_port);
		}
		return address.text();
	}
};

// Fields without a note are constant after the thread has started. fd is closed by the reaper, so
// that shutdown() from another thread can never hit a number that is in use again.
struct Admin_Server::Client {
	int fd = -1;
	Admin_Peer peer;
	int64_t accepted_us = 0;
	// Each written by one thread and read by others; relaxed, they order nothing else, but
	// finished: release by the client's thread, acquire by the reaper.
	std::atomic<bool> cancelled{false};
	std::atomic<bool> logged_in{false};
	std::atomic<bool> told_to_leave{false};
	std::atomic<bool> finished{false};
	std::thread thread;
};

Admin_Server::Admin_Server(Admin_Host& host) : host_(host) {}

Admin_Server::~Admin_Server() {
	stop();
	for (const int fd : {wake_fd_, stop_fd_}) {
		if (fd >= 0) {
			close(fd);
		}
	}
}

void Admin_Server::set_login_timeout_ms(int64_t timeout_ms) {
	login_timeout_ms_.store(timeout_ms, std::memory_order_relaxed);
}

Result<void> Admin_Server::listen_on(const std::vector<Listen_Address>& addresses) {
	std::vector<std::unique_ptr<Listener>> opened;
	Lock lock(mutex_);
	for (const Listen_Address& address : addresses) {
		const bool bound = std::any_of(listeners_.begin(), listeners_.end(),
		                               [&](const auto& l) { return l->wanted == address; });
		if (bound) {
			continue;
		}
		const auto retired = std::find_if(retired_.begin(), retired_.end(),
		                                  [&](const auto& l) { return l->wanted == address; });
		if (retired != retired_.end()) {
			opened.push_back(std::move(*retired));
			retired_.erase(retired);
			continue;
		}
		auto listener = std::make_unique<Listener>();
		listener->wanted = address;
		if (address.is_unix()) {
			auto bound_socket = listen_unix(address.path, kDefaultSocketMode, kBacklog);
			PROXY_TRY(bound_socket);
			listener->fd = bound_socket.value().fd;
			listener->file = bound_socket.value().file;
		} else {
			auto fd = listen_tcp(address);
			PROXY_TRY(fd);
			listener->fd = fd.value();
		}
		opened.push_back(std::move(listener));
	}
	for (auto& listener : listeners_) {
		if (std::find(addresses.begin(), addresses.end(), listener->wanted) == addresses.end()) {
			retired_.push_back(std::move(listener));
		}
	}
	std::erase(listeners_, nullptr);
	if (wake_fd_ < 0) {
		retired_.clear(); // nobody polls them
	}
	for (auto& listener : opened) {
		log_info("admin listens on {}", listener->bound());
		listeners_.push_back(std::move(listener));
	}
	if (wake_fd_ >= 0) {
		signal_event(wake_fd_);
	}
	return {};
}

std::vector<std::string> Admin_Server::addresses() {
	Lock lock(mutex_);
	std::vector<std::string> out;
	for (const auto& listener : listeners_) {
		out.push_back(listener->bound());
	}
	return out;
}

Result<void> Admin_Server::start() {
	wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd_ < 0 || stop_fd_ < 0) {
		return socket_error("eventfd");
	}
	acceptor_ = std::thread([this] { accept_loop(); });
	return {};
}

void Admin_Server::stop() {
	if (!acceptor_.joinable()) {
		return;
	}
	stopping_.store(true, std::memory_order_relaxed);
	signal_event(stop_fd_);
	acceptor_.join();
	{
		Lock lock(mutex_);
		for (const auto& client : clients_) {
			client->cancelled.store(true, std::memory_order_relaxed);
		}
		listeners_.clear();
		retired_.clear();
	}
	reap(true);
}

void Admin_Server::cancel(uint32_t pid, std::string_view key) {
	Lock lock(mutex_);
	for (const auto& client : clients_) {
		if (client->peer.pid == pid && client->peer.key == key) {
			client->cancelled.store(true, std::memory_order_relaxed);
		}
	}
}

void Admin_Server::accept_loop() {
	std::vector<pollfd> polled;
	while (!stopping_.load(std::memory_order_relaxed)) {
		polled.assign({{stop_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}});
		{
			Lock lock(mutex_);
			retired_.clear();
			for (const auto& listener : listeners_) {
				polled.push_back({listener->fd, POLLIN, 0});
			}
		}
		poll(polled.data(), polled.size(), kReapIntervalMs);
		reap(false);
		if ((polled[1].revents & POLLIN) != 0) {
			uint64_t count = 0;
			[[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
			continue; // the listeners have changed
		}
		for (size_t i = 2; i < polled.size(); ++i) {
			if ((polled[i].revents & POLLIN) != 0) {
				accept_from(polled[i].fd);
			}
		}
	}
}

bool Admin_Server::make_room() {
	Lock lock(mutex_);
	size_t staying = 0;
	Client* oldest = nullptr;
	for (const auto& client : clients_) {
		if (client->told_to_leave.load(std::memory_order_relaxed)) {
			continue;
		}
		++staying;
		// clients_ is in the order of arrival.
		if (oldest == nullptr && !client->logged_in.load(std::memory_order_relaxed)) {
			oldest = client.get();
		}
	}
	if (staying < kMaxClients) {
		return clients_.size() < kMaxClients + kLeavingClients;
	}
	if (oldest == nullptr) {
		return false;
	}
	oldest->told_to_leave.store(true, std::memory_order_relaxed);
	shutdown(oldest->fd, SHUT_RDWR);
	return clients_.size() < kMaxClients + kLeavingClients;
}

void Admin_Server::accept_from(int listener_fd) {
	sockaddr_storage address{};
	socklen_t size = sizeof(address);
	const int fd = accept4(listener_fd, reinterpret_cast<sockaddr*>(&address), &size,
	                       SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		return; // the client is gone again, or we are out of descriptors: the next turn tries
	}
	if (!make_room()) {
		std::string out;
		append_error_response(out, make_error("53300", "sorry, too many clients already"),
		                      Severity::fatal);
		[[maybe_unused]] const ssize_t sent =
		    send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	const int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); // no effect on Unix sockets
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	auto client = std::make_unique<Client>();
	client->fd = fd;
	client->accepted_us = monotonic_us();
	describe_peer(address, client->peer);
	client->peer.cancelled = &client->cancelled;
	client->peer.key.resize(4);
	(void)getrandom(client->peer.key.data(), client->peer.key.size(), 0);
	Lock lock(mutex_);
	client->peer.pid = next_pid_++;
	Client& in_list = *client;
	clients_.push_back(std::move(client));
	try {
		in_list.thread = std::thread([this, &in_list] { serve(in_list); });
	} catch (const std::system_error& error) {
		// No thread to be had: this client is refused, the others go on.
		log_error("admin: cannot start a thread: {}", error.what());
		close(fd);
		clients_.pop_back();
	}
}

// Joins ended threads (all: every thread, which must have been told to end).
void Admin_Server::reap(bool all) {
	std::vector<std::unique_ptr<Client>> ended;
	{
		Lock lock(mutex_);
		for (auto& client : clients_) {
			if (all || client->finished.load(std::memory_order_acquire)) {
				ended.push_back(std::move(client));
			}
		}
		std::erase_if(clients_, [](const auto& client) { return client == nullptr; });
	}
	for (const auto& client : ended) {
		client->thread.join();
		close(client->fd);
	}
}

namespace {
// One client's socket: waits that end when the server stops.
class Client_Socket {
public:
	Client_Socket(int fd, int stop_fd) : fd_(fd), stop_fd_(stop_fd) {}

	// False: time is up, the server stops, or the connection is broken. -1: no deadline.
	bool wait(int16_t events, int64_t timeout_ms) const {
		pollfd polled[] = {{fd_, events, 0}, {stop_fd_, POLLIN, 0}};
		const int64_t capped = std::min<int64_t>(timeout_ms, 1 << 30);
		const int ready = poll(polled, 2, timeout_ms < 0 ? -1 : static_cast<int>(capped));
		if (ready < 0) {
			return errno == EINTR;
		}
		return ready > 0 && polled[1].revents == 0;
	}

	bool send_all(std::string_view bytes) const {
		while (!bytes.empty()) {
			const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
			if (sent > 0) {
				bytes.remove_prefix(static_cast<size_t>(sent));
			} else if (errno != EAGAIN && errno != EINTR) {
				return false;
			} else if (!wait(POLLOUT, kWriteTimeoutMs)) {
				return false;
			}
		}
		return true;
	}

private:
	int fd_;
	int stop_fd_;
};
} // namespace

void Admin_Server::serve(Client& client) {
	Admin_Session session(host_, client.peer);
	const Client_Socket socket(client.fd, stop_fd_);
	std::array<uint8_t, kReadBytes> buffer;
	std::string out;
	bool open = true;
	while (open && !stopping_.load(std::memory_order_relaxed)) {
		int64_t wait_ms = -1;
		if (!session.logged_in()) {
			const int64_t limit = login_timeout_ms_.load(std::memory_order_relaxed);
			wait_ms = std::max<int64_t>(0, limit - (monotonic_us() - client.accepted_us) / 1000);
		}
		if (!socket.wait(POLLIN, wait_ms)) {
			break;
		}
		const ssize_t got = recv(client.fd, buffer.data(), buffer.size(), 0);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
			break;
		}
		if (got < 0) {
			continue;
		}
		// A cancel counts for the statement that ran when it came, not for the next one.
		if (!stopping_.load(std::memory_order_relaxed)) {
			client.cancelled.store(false, std::memory_order_relaxed);
		}
		open = session.feed({buffer.data(), static_cast<size_t>(got)}, out) !=
		       Admin_Session::State::closed;
		client.logged_in.store(session.logged_in(), std::memory_order_relaxed);
		open = socket.send_all(out) && open;
		out.clear();
		out.shrink_to_fit(); // a large answer must not stay with an idle client
	}
	shutdown(client.fd, SHUT_RDWR);
	client.finished.store(true, std::memory_order_release);
}

} // namespace proxy
