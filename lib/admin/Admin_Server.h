// Listeners and client threads of the admin port. One thread accepts; each client has a thread of
// its own, because a statement may wait for the admin's mutex or run for seconds.
//
// Bounds: kMaxClients clients; the oldest one that has not logged in makes room for a new one, so
// that silent connections cannot lock administrators out. A login must be done within the time
// given, a client must take its answer within kWriteTimeoutMs.
#pragma once

#include "admin/Admin_Session.h"
#include "base/Mutex.h"
#include "base/Result.h"
#include "config/Listen_Address.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace proxy {

class Admin_Server {
public:
	explicit Admin_Server(Admin_Host& host);
	~Admin_Server();
	Admin_Server(const Admin_Server&) = delete;
	Admin_Server& operator=(const Admin_Server&) = delete;

	// Listens on exactly these addresses: those already bound stay as they are. On an error
	// nothing has changed.
	Result<void> listen_on(const std::vector<Listen_Address>& addresses) EXCLUDES(mutex_);
	Result<void> start();
	// Ends all clients; returns when their threads have ended. Not from a client's thread.
	void stop() EXCLUDES(mutex_);

	void cancel(uint32_t pid, std::string_view key) EXCLUDES(mutex_);
	void set_login_timeout_ms(int64_t timeout_ms);
	// As bound, with real port numbers.
	std::vector<std::string> addresses() EXCLUDES(mutex_);

private:
	struct Listener;
	struct Client;

	void accept_loop();
	void accept_from(int listener_fd);
	void serve(Client& client);
	void reap(bool all) EXCLUDES(mutex_);
	// Room for one more client, by closing one that has not logged in if need be.
	bool make_room() EXCLUDES(mutex_);

	Admin_Host& host_;
	// Both are eventfds. wake_fd_: the listeners changed. stop_fd_: everybody leaves; never reset.
	int wake_fd_ = -1;
	int stop_fd_ = -1;
	std::thread acceptor_;
	// Relaxed: a setting that may take effect one login later.
	std::atomic<int64_t> login_timeout_ms_{10000};
	std::atomic<bool> stopping_{false};

	Mutex mutex_{Lock_Rank::mailbox};
	std::vector<std::unique_ptr<Listener>> listeners_ GUARDED_BY(mutex_);
	// No longer wanted, but perhaps being polled: the accepting thread closes them, so that it
	// never accepts from a number that has become another socket.
	std::vector<std::unique_ptr<Listener>> retired_ GUARDED_BY(mutex_);
	std::vector<std::unique_ptr<Client>> clients_ GUARDED_BY(mutex_);
	uint32_t next_pid_ GUARDED_BY(mutex_) = 1;
};

} // namespace proxy
