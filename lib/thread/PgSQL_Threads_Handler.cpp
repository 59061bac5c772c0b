#include "thread/PgSQL_Threads_Handler.h"

#include "base/Clock.h"
#include "base/Log.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <unistd.h>

namespace proxy {

namespace {
constexpr int64_t kAnswerTimeoutMs = 2000;
constexpr int64_t kPollMs = 20;

// Counts workers that have done a task; shared with them, since a late one may outlive the wait.
struct Completion {
	Mutex mutex{Lock_Rank::mailbox};
	Cond_Var changed;
	size_t left GUARDED_BY(mutex) = 0;
	bool abandoned GUARDED_BY(mutex) = false;
};
} // namespace

PgSQL_Threads_Handler::~PgSQL_Threads_Handler() {
	stop();
}

Result<void>
PgSQL_Threads_Handler::bind_listeners(std::vector<std::vector<std::pair<int, bool>>>& sockets,
                                      const std::vector<Listen_Address>& addresses,
                                      mode_t socket_mode) {
	for (const Listen_Address& address : addresses) {
		if (!address.path.empty()) {
			auto bound = listen_unix(address.path, socket_mode, kListenBacklog);
			PROXY_TRY(bound);
			shared_sockets_.push_back(bound.value().fd);
			socket_files_.push_back(bound.value().file);
			for (auto& of_worker : sockets) {
				of_worker.emplace_back(bound.value().fd, false);
			}
			continue;
		}
		for (auto& of_worker : sockets) {
			auto fd = open_tcp_listener(address);
			PROXY_TRY(fd);
			of_worker.emplace_back(fd.value(), true);
		}
	}
	return {};
}

Result<void> PgSQL_Threads_Handler::start() {
	const auto config = shared_.config.get().value;
	auto addresses = parse_listen_list(config->interfaces);
	PROXY_TRY(addresses);
	const size_t count = static_cast<size_t>(config->threads);
	std::vector<std::vector<std::pair<int, bool>>> sockets(count);
	const auto mode =
	    static_cast<mode_t>(std::strtoul(config->unix_socket_permissions.c_str(), nullptr, 8));
	if (auto bound = bind_listeners(sockets, addresses.value(), mode); !bound) {
		for (const auto& of_worker : sockets) {
			for (const auto& [fd, owned] : of_worker) {
				if (owned) {
					close(fd);
				}
			}
		}
		close_shared_sockets();
		return bound.take_error();
	}
	std::vector<Worker_Mailbox*> peers;
	for (size_t i = 0; i < count; ++i) {
		workers_.push_back(std::make_unique<PgSQL_Thread>(i, shared_));
		peers.push_back(&workers_.back()->mailbox());
		for (size_t j = 0; j < sockets[i].size(); ++j) {
			workers_.back()->add_listener(sockets[i][j].first, sockets[i][j].second,
			                              addresses.value()[j]);
		}
	}
	for (const auto& worker : workers_) {
		worker->set_peers(peers);
	}
	shared_.logins.start();
	for (const auto& worker : workers_) {
		worker->start();
	}
	paused_ = false;
	for (const Listen_Address& address : addresses.value()) {
		log_info("{} workers listen on {}", count, address.text());
	}
	return {};
}

void PgSQL_Threads_Handler::stop() {
	for (const auto& worker : workers_) {
		worker->request_stop();
	}
	for (const auto& worker : workers_) {
		worker->join();
	}
	// Its last answers go to the workers' mailboxes.
	shared_.logins.stop();
	workers_.clear();
	close_shared_sockets();
}

void PgSQL_Threads_Handler::close_shared_sockets() {
	for (const Socket_File& file : socket_files_) {
		file.remove();
	}
	for (const int fd : shared_sockets_) {
		close(fd);
	}
	shared_sockets_.clear();
	socket_files_.clear();
}

Result<void> PgSQL_Threads_Handler::pause() {
	if (paused_) {
		return make_error("55000", "ProxySQL PGSQL Module is already paused");
	}
	paused_ = true;
	run_on_all([](PgSQL_Thread& worker) { worker.pause_listeners(true); });
	return {};
}

Result<void> PgSQL_Threads_Handler::resume() {
	if (!paused_) {
		return make_error("55000", "ProxySQL PGSQL Module is not paused");
	}
	paused_ = false;
	run_on_all([](PgSQL_Thread& worker) { worker.pause_listeners(false); });
	return {};
}

void PgSQL_Threads_Handler::drain(int64_t limit_ms) {
	run_on_all([](PgSQL_Thread& worker) {
		worker.pause_listeners(true);
		worker.drain_sessions();
	});
	const int64_t until_us = monotonic_us() + limit_ms * 1000;
	while (monotonic_us() < until_us) {
		auto left = std::make_shared<std::atomic<size_t>>(0);
		run_on_all([left](PgSQL_Thread& worker) { left->fetch_add(worker.session_count()); });
		if (left->load() == 0) {
			return;
		}
		usleep(static_cast<useconds_t>(kPollMs * 1000));
	}
}

bool PgSQL_Threads_Handler::run_on_all(const std::function<void(PgSQL_Thread&)>& task) {
	if (workers_.empty()) {
		return true;
	}
	auto completion = std::make_shared<Completion>();
	{
		Lock lock(completion->mutex);
		completion->left = workers_.size();
	}
	for (const auto& worker : workers_) {
		worker->mailbox().post_task([completion, task](PgSQL_Thread& self) {
			{
				// A task whose caller has given up must not touch the caller's things.
				Lock lock(completion->mutex);
				if (completion->abandoned) {
					return;
				}
			}
			task(self);
			{
				Lock lock(completion->mutex);
				--completion->left;
			}
			completion->changed.notify_all();
		});
	}
	const int64_t until_us = monotonic_us() + kAnswerTimeoutMs * 1000;
	Lock lock(completion->mutex);
	while (completion->left > 0 && monotonic_us() < until_us) {
		completion->changed.wait_for(completion->mutex, kPollMs);
	}
	completion->abandoned = true;
	return completion->left == 0;
}

} // namespace proxy
