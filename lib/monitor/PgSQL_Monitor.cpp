// The monitor's thread: which servers there are, whose turn it is, what is ready.
#include "monitor/PgSQL_Monitor.h"

#include "Name_Resolver.h"
#include "Server_Watch.h"
#include "base/Clock.h"
#include "base/Log.h"
#include "pool/Resolver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace proxy {

namespace {
constexpr int64_t kUsPerMs = 1000;
// The watches are looked through at most this often, however many events there are.
constexpr int64_t kTickUs = 5'000;
constexpr int64_t kMaxSleepUs = 500'000;
constexpr int64_t kHousekeepingUs = 500'000;
constexpr size_t kMaxUrgent = 10'000;
constexpr uint64_t kWakeId = 0; // registration ids start at 1

class Descriptor {
public:
	explicit Descriptor(int fd) : fd_(fd) {}
	~Descriptor() {
		if (fd_ >= 0) {
			::close(fd_);
		}
	}
	Descriptor(const Descriptor&) = delete;
	Descriptor& operator=(const Descriptor&) = delete;
	int get() const { return fd_; }

private:
	const int fd_;
};
} // namespace

class PgSQL_Monitor::Impl final : public Watch_Context {
public:
	explicit Impl(PgSQL_HostGroups_Manager& hostgroups);
	~Impl() override { stop(); }

	void set_config(std::shared_ptr<const Pgsql_Config> next);
	void start();
	void stop();
	void check_now(const std::string& hostname, int port);

	void poll(Check_Channel& channel) override;
	void forget(Check_Channel& channel) override;
	uint64_t primary_lsn(int writer_hostgroup) const override;
	void note_primary_lsn(int writer_hostgroup, uint64_t lsn) override;

private:
	using Endpoint = std::pair<std::string, int>;
	struct Primary_Samples {
		uint64_t last = 0;
		uint64_t before = 0;
	};

	void run();
	void take_mail(int64_t now_us);
	void take_config(std::shared_ptr<const Pgsql_Config> next);
	void refresh_watches(int64_t now_us);
	void stop_watching();
	void housekeeping(int64_t now_us);
	void resolve_names(int64_t now_us);
	void wait(int64_t timeout_us);
	static void wake(const std::shared_ptr<Descriptor>& descriptor);

	// Shared with the detached resolver thread, which may outlive this object.
	const std::shared_ptr<Descriptor> wake_;
	const Descriptor epoll_;
	std::thread thread_;
	std::atomic<bool> stopping_{false};
	std::unique_ptr<Name_Resolver> resolver_;

	Mutex mailbox_mutex_{Lock_Rank::mailbox};
	std::shared_ptr<const Pgsql_Config> next_config_ GUARDED_BY(mailbox_mutex_);
	std::set<Endpoint> urgent_ GUARDED_BY(mailbox_mutex_);

	// The monitor thread's own.
	std::map<Endpoint, std::unique_ptr<Server_Watch>> watches_;
	std::unordered_map<uint64_t, Check_Channel*> channels_; // by registration
	std::map<int, Primary_Samples> primaries_;              // by writer hostgroup
	uint64_t last_registration_ = kWakeId;
	uint64_t view_version_ = 0;
	int64_t next_housekeeping_us_ = 0;
	int64_t next_resolve_us_ = 0;
	int64_t next_tick_us_ = 0;
	int64_t last_tick_us_ = 0;
};

PgSQL_Monitor::Impl::Impl(PgSQL_HostGroups_Manager& hostgroups)
    : Watch_Context(hostgroups),
      wake_(std::make_shared<Descriptor>(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
	PROXY_CHECK(wake_->get() >= 0 && epoll_.get() >= 0);
	epoll_event event = {};
	event.events = EPOLLIN;
	event.data.u64 = kWakeId;
	PROXY_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_->get(), &event) == 0);
}

void PgSQL_Monitor::Impl::wake(const std::shared_ptr<Descriptor>& descriptor) {
	const uint64_t one = 1;
	// A full counter means that a wake-up is pending already.
	[[maybe_unused]] const ssize_t written = ::write(descriptor->get(), &one, sizeof(one));
}

void PgSQL_Monitor::Impl::set_config(std::shared_ptr<const Pgsql_Config> next) {
	{
		Lock lock(mailbox_mutex_);
		next_config_ = std::move(next);
	}
	wake(wake_);
}

void PgSQL_Monitor::Impl::check_now(const std::string& hostname, int port) {
	{
		Lock lock(mailbox_mutex_);
		if (urgent_.size() >= kMaxUrgent) {
			return;
		}
		urgent_.emplace(hostname, port);
	}
	wake(wake_);
}

void PgSQL_Monitor::Impl::start() {
	if (thread_.joinable()) {
		return;
	}
	stopping_.store(false);
	resolver_ = std::make_unique<Name_Resolver>([descriptor = wake_] { wake(descriptor); });
	thread_ = std::thread([this] { run(); });
}

void PgSQL_Monitor::Impl::stop() {
	stopping_.store(true);
	wake(wake_);
	if (thread_.joinable()) {
		thread_.join();
	}
	resolver_.reset();
}

// ---- poller ----

// Registers, changes or moves the descriptor; level-triggered.
void PgSQL_Monitor::Impl::poll(Check_Channel& channel) {
	const int fd = channel.connection->fd();
	if (fd < 0) {
		forget(channel);
		return;
	}
	if (channel.registration == 0) {
		channel.registration = ++last_registration_;
		channels_.emplace(channel.registration, &channel);
	}
	epoll_event event = {};
	event.events =
	    channel.connection->wants() == Monitor_Connection::Wants::write ? EPOLLOUT : EPOLLIN;
	event.data.u64 = channel.registration;
	// libpq may have closed the socket and got the same number for the next one, so whether it is
	// registered is for the kernel to say.
	if (channel.registered_fd != fd || epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
		if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) {
			epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
		}
	}
	channel.registered_fd = fd;
}

void PgSQL_Monitor::Impl::forget(Check_Channel& channel) {
	if (channel.registration == 0) {
		return;
	}
	channels_.erase(channel.registration);
	channel.registration = 0;
	// Fails when libpq has closed the descriptor, which unregisters it as well.
	if (channel.connection != nullptr && channel.connection->fd() == channel.registered_fd) {
		epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel.registered_fd, nullptr);
	}
	channel.registered_fd = -1;
}

void PgSQL_Monitor::Impl::wait(int64_t timeout_us) {
	std::array<epoll_event, 256> events;
	const int64_t timeout_ms = (std::max<int64_t>(0, timeout_us) + kUsPerMs - 1) / kUsPerMs;
	const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
	                             static_cast<int>(timeout_ms));
	const int64_t now_us = monotonic_us();
	if (count > 0) {
		next_tick_us_ = std::min(next_tick_us_, last_tick_us_ + kTickUs);
	}
	for (int i = 0; i < count; ++i) {
		const uint64_t id = events[static_cast<size_t>(i)].data.u64;
		if (id == kWakeId) {
			uint64_t ignored = 0;
			[[maybe_unused]] const ssize_t got = ::read(wake_->get(), &ignored, sizeof(ignored));
			continue;
		}
		// An id that is gone belongs to a connection closed earlier in this batch.
		const auto found = channels_.find(id);
		if (found != channels_.end()) {
			found->second->watch->on_ready(*found->second, now_us);
		}
	}
}

// ---- the loop ----

uint64_t PgSQL_Monitor::Impl::primary_lsn(int writer_hostgroup) const {
	const auto found = primaries_.find(writer_hostgroup);
	return found == primaries_.end() ? 0 : found->second.before;
}

void PgSQL_Monitor::Impl::note_primary_lsn(int writer_hostgroup, uint64_t lsn) {
	Primary_Samples& samples = primaries_[writer_hostgroup];
	samples.before = samples.last;
	samples.last = lsn;
}

void PgSQL_Monitor::Impl::take_config(std::shared_ptr<const Pgsql_Config> next) {
	const Pgsql_Config& before = *config;
	const bool starts_anew =
	    before.monitor_enabled != next->monitor_enabled ||
	    before.monitor_username != next->monitor_username ||
	    before.monitor_password != next->monitor_password ||
	    before.monitor_dbname != next->monitor_dbname ||
	    before.monitor_connect_interval != next->monitor_connect_interval ||
	    before.monitor_ping_interval != next->monitor_ping_interval ||
	    before.monitor_read_only_interval != next->monitor_read_only_interval ||
	    before.monitor_replication_lag_interval != next->monitor_replication_lag_interval;
	config = std::move(next);
	if (starts_anew) {
		stop_watching();
	}
}

void PgSQL_Monitor::Impl::stop_watching() {
	watches_.clear();
	view_version_ = 0;
	primaries_.clear();
	if (!config->monitor_enabled) {
		// Nobody would notice their return.
		for (const auto& server : manager.watched_servers()) {
			if (!server.health->reachable.exchange(true, std::memory_order_relaxed)) {
				manager.unshun(server.hostname, server.port);
			}
		}
	}
}

void PgSQL_Monitor::Impl::take_mail(int64_t now_us) {
	std::shared_ptr<const Pgsql_Config> next;
	std::set<Endpoint> urgent;
	{
		Lock lock(mailbox_mutex_);
		next.swap(next_config_);
		urgent.swap(urgent_);
	}
	if (next) {
		take_config(std::move(next));
	}
	for (const Endpoint& endpoint : urgent) {
		const auto found = watches_.find(endpoint);
		if (found != watches_.end()) {
			found->second->check_now(now_us);
		}
	}
	for (const auto& [hostname, address] : resolver_->take_answers()) {
		if (address.empty()) {
			log_warning("Hostname {} cannot be resolved", hostname);
		}
		manager.set_address(hostname, address);
		view_version_ = 0; // watches take up the address
	}
}

void PgSQL_Monitor::Impl::refresh_watches(int64_t now_us) {
	const uint64_t version = manager.view().version();
	if (version == view_version_) {
		return;
	}
	view_version_ = version;
	std::set<Endpoint> present;
	for (PgSQL_HostGroups_Manager::Watched_Server& server : manager.watched_servers()) {
		const Endpoint endpoint(server.hostname, server.port);
		present.insert(endpoint);
		const auto found = watches_.find(endpoint);
		if (found != watches_.end()) {
			found->second->update(std::move(server));
		} else {
			watches_.emplace(endpoint,
			                 std::make_unique<Server_Watch>(*this, std::move(server), now_us));
		}
	}
	std::erase_if(watches_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void PgSQL_Monitor::Impl::resolve_names(int64_t now_us) {
	const int64_t interval_ms = config->monitor_local_dns_cache_refresh_interval;
	if (interval_ms == 0 || now_us < next_resolve_us_) {
		return;
	}
	// Names without an address are asked for more often: a server is waiting for them.
	constexpr int64_t kUnresolvedRetryUs = 2'000'000;
	bool unresolved = false;
	for (const auto& server : manager.watched_servers()) {
		unresolved = unresolved || (server.port != 0 && server.address.empty() &&
		                            needs_resolving(server.hostname));
	}
	const bool first = next_resolve_us_ == 0;
	next_resolve_us_ = now_us + (unresolved ? std::min(kUnresolvedRetryUs, interval_ms * kUsPerMs)
	                                        : interval_ms * kUsPerMs);
	std::vector<std::string> names = manager.host_names();
	if (!names.empty() && (!first || unresolved)) {
		resolver_->ask(std::move(names));
	}
}

void PgSQL_Monitor::Impl::housekeeping(int64_t now_us) {
	if (now_us < next_housekeeping_us_) {
		return;
	}
	next_housekeeping_us_ = now_us + kHousekeepingUs;
	manager.recover_shunned(now_us);
	manager.trim_free_connections(now_us);
	resolve_names(now_us);
}

void PgSQL_Monitor::Impl::run() {
	while (!stopping_.load(std::memory_order_relaxed)) {
		const int64_t now_us = monotonic_us();
		take_mail(now_us);
		housekeeping(now_us);
		if (config->monitor_enabled && now_us >= next_tick_us_) {
			last_tick_us_ = now_us;
			refresh_watches(now_us);
			int64_t due_us = now_us + kMaxSleepUs;
			for (const auto& [endpoint, watch] : watches_) {
				due_us = std::min(due_us, watch->tick(now_us));
			}
			next_tick_us_ = std::max(due_us, now_us + kTickUs);
		}
		const int64_t until_us = config->monitor_enabled
		                             ? std::min(next_tick_us_, next_housekeeping_us_)
		                             : next_housekeeping_us_;
		wait(until_us - monotonic_us());
	}
	watches_.clear();
}

// ---- outer class ----

PgSQL_Monitor::PgSQL_Monitor(PgSQL_HostGroups_Manager& manager)
    : impl_(std::make_unique<Impl>(manager)) {
	manager.set_connect_error_listener(this);
}

PgSQL_Monitor::~PgSQL_Monitor() {
	impl_->manager.set_connect_error_listener(nullptr);
}

void PgSQL_Monitor::set_config(std::shared_ptr<const Pgsql_Config> config) {
	impl_->set_config(std::move(config));
}
void PgSQL_Monitor::start() {
	impl_->start();
}
void PgSQL_Monitor::stop() {
	impl_->stop();
}
void PgSQL_Monitor::check_now(const std::string& hostname, int port) {
	impl_->check_now(hostname, port);
}
std::vector<Check_Log_Row> PgSQL_Monitor::connect_log() const {
	return impl_->connect_log.rows();
}
std::vector<Check_Log_Row> PgSQL_Monitor::ping_log() const {
	return impl_->ping_log.rows();
}
std::vector<Check_Log_Row> PgSQL_Monitor::read_only_log() const {
	return impl_->role_log.rows();
}
std::vector<Check_Log_Row> PgSQL_Monitor::replication_lag_log() const {
	return impl_->lag_log.rows();
}

std::vector<std::pair<std::string, uint64_t>> PgSQL_Monitor::counters() const {
	return {
	    {"PgSQL_Monitor_connect_check_OK", impl_->connect_log.ok_count()},
	    {"PgSQL_Monitor_connect_check_ERR", impl_->connect_log.error_count()},
	    {"PgSQL_Monitor_ping_check_OK", impl_->ping_log.ok_count()},
	    {"PgSQL_Monitor_ping_check_ERR", impl_->ping_log.error_count()},
	    {"PgSQL_Monitor_read_only_check_OK", impl_->role_log.ok_count()},
	    {"PgSQL_Monitor_read_only_check_ERR", impl_->role_log.error_count()},
	    {"PgSQL_Monitor_replication_lag_check_OK", impl_->lag_log.ok_count()},
	    {"PgSQL_Monitor_replication_lag_check_ERR", impl_->lag_log.error_count()},
	};
}

} // namespace proxy
