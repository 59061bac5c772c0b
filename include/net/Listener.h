// One listening socket of one worker. With SO_REUSEPORT each worker binds its own and the kernel
// balances; a Unix socket is bound once and shared by all workers.
#pragma once

#include "base/Result.h"
#include "config/Listen_Address.h"
#include "net/Event_Loop.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

// Connections that may wait to be accepted.
inline constexpr int kListenBacklog = 1024;

// Opens a non-blocking listening socket; REQUIRES: no Unix socket (Unix_Listener.h).
Result<int> open_tcp_listener(const Listen_Address& address);
// Numeric address and port of this end; empty and 0 for a Unix socket.
std::string local_address(int fd, int& port);

class Accept_Handler {
public:
	// A new non-blocking connection; the handler owns `fd`. peer_host: numeric, or empty for a
	// Unix socket.
	virtual void on_accept(int fd, std::string peer_host, int peer_port,
	                       const Listen_Address& at) = 0;

protected:
	~Accept_Handler() = default;
};

class Listener final : private Io_Handler {
public:
	// Takes over `fd`, or only borrows it when it is shared between workers.
	Listener(int fd, bool owned, Listen_Address address, Accept_Handler& handler);
	~Listener();
	Listener(const Listener&) = delete;
	Listener& operator=(const Listener&) = delete;

	void start(Event_Loop& loop);
	void stop() { watcher_.stop(); }
	const Listen_Address& address() const { return address_; }

private:
	void on_io(int events) override;

	int fd_;
	bool owned_;
	Listen_Address address_;
	Accept_Handler& handler_;
	// Given back for a moment when the process is out of descriptors, so that a waiting
	// connection can be taken and closed instead of spinning on it.
	int spare_fd_;
	Io_Watcher watcher_;
};

} // namespace proxy
