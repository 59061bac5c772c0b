#include "thread/Cancel_Sender.h"

#include "protocol/Startup.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace proxy {

namespace {
constexpr size_t kThreads = 2;
constexpr int kIdleWaitMs = 1000;
constexpr int kDefaultPort = 5432;

// Address of the server: numeric, or the directory of its Unix socket.
socklen_t fill_address(const PgSQL_Connection::Cancel_Target& target, sockaddr_storage& storage) {
	auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
	auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
	if (target.port == 0) {
		auto* local = reinterpret_cast<sockaddr_un*>(&storage);
		const std::string path = target.address + "/.s.PGSQL." + std::to_string(kDefaultPort);
		if (path.size() >= sizeof(local->sun_path)) {
			return 0;
		}
		local->sun_family = AF_UNIX;
		std::memcpy(local->sun_path, path.c_str(), path.size() + 1);
		return sizeof(sockaddr_un);
	}
	if (inet_pton(AF_INET, target.address.c_str(), &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(static_cast<uint16_t>(target.port));
		return sizeof(sockaddr_in);
	}
	if (inet_pton(AF_INET6, target.address.c_str(), &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(static_cast<uint16_t>(target.port));
		return sizeof(sockaddr_in6);
	}
	return 0;
}

bool wait_for(int fd, short events) {
	pollfd poll_fd{fd, events, 0};
	return poll(&poll_fd, 1, Cancel_Sender::kTimeLimitMs) == 1;
}
} // namespace

Cancel_Sender::Cancel_Sender() {
	for (size_t i = 0; i < kThreads; ++i) {
		threads_.emplace_back([this] { run(); });
	}
}

Cancel_Sender::~Cancel_Sender() {
	{
		Lock lock(mutex_);
		stopping_ = true;
		jobs_.clear();
	}
	wake_.notify_all();
	for (std::thread& thread : threads_) {
		thread.join();
	}
}

void Cancel_Sender::send(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) {
	{
		Lock lock(mutex_);
		if (jobs_.size() < kMaxQueued && !stopping_) {
			jobs_.push_back({std::move(target), std::move(ticket)});
			wake_.notify_all();
			return;
		}
	}
	ticket->set(Cancel_State::uncertain);
}

void Cancel_Sender::run() {
	while (true) {
		Job job;
		{
			Lock lock(mutex_);
			while (jobs_.empty() && !stopping_) {
				wake_.wait_for(mutex_, kIdleWaitMs);
			}
			if (stopping_) {
				return;
			}
			job = std::move(jobs_.front());
			jobs_.pop_front();
		}
		job.ticket->set(perform(job.target) ? Cancel_State::settled : Cancel_State::uncertain);
	}
}

bool Cancel_Sender::perform(const PgSQL_Connection::Cancel_Target& target) {
	sockaddr_storage storage{};
	const socklen_t length = fill_address(target, storage);
	if (length == 0) {
		return false;
	}
	const int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return false;
	}
	bool closed = false;
	const int connected = connect(fd, reinterpret_cast<sockaddr*>(&storage), length);
	if (connected == 0 || (errno == EINPROGRESS && wait_for(fd, POLLOUT))) {
		std::string packet;
		append_cancel_request(packet, static_cast<uint32_t>(target.pid), target.key);
		if (::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) ==
		    static_cast<ssize_t>(packet.size())) {
			closed = wait_for(fd, POLLIN); // the server answers by closing
		}
	}
	close(fd);
	return closed;
}

} // namespace proxy
