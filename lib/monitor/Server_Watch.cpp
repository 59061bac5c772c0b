#include "Server_Watch.h"

#include "base/Clock.h"
#include "base/Log.h"
#include "pool/Resolver.h"

#include <algorithm>
#include <functional>

namespace proxy {

namespace {
constexpr int64_t kUsPerMs = 1000;
// Logins at one time over all servers: a login costs the server a process.
constexpr int kMaxLogins = 256;
constexpr int64_t kLoginBusyRetryUs = 10'000;
// After a refused login: wrong password and the like do not go away by themselves soon.
constexpr int64_t kRefusedRetryUs = 2'000'000;
constexpr int64_t kProbeRetryUs = 5'000'000;
// Urgent checks of one server at most this often, however many sessions ask.
constexpr int64_t kUrgentSpacingUs = 100'000;
constexpr const char* kTimeoutText = "Operation timed out";

// The first check comes at once, the second at a place of the server's own inside the window.
int64_t spread_us(int64_t interval_ms, int64_t window_pct, double phase) {
	const double share = static_cast<double>(window_pct) / 100.0 * phase;
	return interval_ms * kUsPerMs -
	       static_cast<int64_t>(static_cast<double>(interval_ms * kUsPerMs) * share);
}

double phase_of(const std::string& hostname, int port) {
	constexpr size_t kSteps = 1024;
	const size_t hash = std::hash<std::string>()(hostname) * 31 + static_cast<size_t>(port);
	return static_cast<double>(hash % kSteps) / kSteps;
}
} // namespace

Server_Watch::Server_Watch(Watch_Context& context, PgSQL_HostGroups_Manager::Watched_Server server,
                           int64_t now_us)
    : context_(context), server_(std::move(server)), next_login_us_(now_us),
      phase_(phase_of(server_.hostname, server_.port)) {
	main_.watch = this;
	side_.watch = this;
	const Pgsql_Config& config = *context_.config;
	next_connect_us_ = now_us + spread_us(config.monitor_connect_interval,
	                                      config.monitor_connect_interval_window, phase_);
}

Server_Watch::~Server_Watch() {
	close(main_);
	close(side_);
}

void Server_Watch::update(PgSQL_HostGroups_Manager::Watched_Server server) {
	const bool elsewhere = server.address != server_.address || server.use_ssl != server_.use_ssl ||
	                       server.health != server_.health;
	const bool other_dialect =
	    server.protocol != server_.protocol || server.in_pair != server_.in_pair;
	server_ = std::move(server);
	if (elsewhere) {
		close(main_);
		close(side_);
		probing_ = false;
	}
	if (elsewhere || other_dialect) {
		probe_wanted_ = true;
		complained_ = false;
		polar_functions_missing_ = false;
	}
}

void Server_Watch::close(Check_Channel& channel) {
	if (channel.connection == nullptr) {
		return;
	}
	context_.forget(channel);
	if (channel.connection->state() == Monitor_Connection::State::connecting) {
		--context_.logins_under_way;
	}
	channel.connection.reset();
	channel.job = Check_Job::none;
}

Connect_Request Server_Watch::request(Proxy_Protocol protocol) const {
	const Pgsql_Config& config = *context_.config;
	Connect_Request request;
	request.host = server_.hostname;
	request.address = server_.address;
	request.port = server_.port;
	request.key.username = config.monitor_username;
	request.key.database = config.monitor_dbname;
	request.password = Secret(config.monitor_password);
	request.application_name = "ProxySQL-Monitor";
	request.use_ssl = server_.use_ssl != 0;
	request.protocol = protocol;
	if (request.use_ssl) {
		request.ssl =
		    context_.manager.ssl_params(server_.hostname, server_.port, config.monitor_username);
		if (request.ssl == nullptr) {
			request.ssl = default_ssl_params(config);
		}
	}
	// Who we say we are: what is configured, else our own end of the main connection.
	request.identity_host = config.polardb_proxy_identity_host;
	request.identity_port = static_cast<int>(config.polardb_proxy_identity_port);
	if (request.identity_host.empty() && main_.connection != nullptr) {
		request.identity_host = main_.connection->local_address();
		request.identity_port = main_.connection->local_port();
	}
	if (request.identity_host.empty()) {
		request.identity_host = "127.0.0.1"; // a Unix socket has no address of its own
	}
	request.identity_port = std::max(1, request.identity_port);
	return request;
}

void Server_Watch::start_login(Check_Channel& channel, Check_Job job, Proxy_Protocol protocol,
                               int64_t now_us) {
	const Pgsql_Config& config = *context_.config;
	channel.job = job;
	channel.started_us = now_us;
	channel.started_unix_us = unix_time_us();
	channel.deadline_us = now_us + config.monitor_connect_timeout * kUsPerMs;
	channel.connection = std::make_unique<Monitor_Connection>(request(protocol));
	if (channel.connection->state() == Monitor_Connection::State::failed) {
		settle(channel, now_us);
		return;
	}
	++context_.logins_under_way;
	context_.poll(channel);
}

void Server_Watch::start_query(Check_Job job, const char* sql, int64_t timeout_ms, int64_t now_us) {
	main_.job = job;
	main_.started_us = now_us;
	main_.started_unix_us = unix_time_us();
	main_.deadline_us = now_us + timeout_ms * kUsPerMs;
	main_.connection->start_query(sql);
	settle(main_, now_us);
}

// True when a query was started. In order of urgency.
bool Server_Watch::start_next_job(int64_t now_us) {
	const Pgsql_Config& config = *context_.config;
	if (now_us >= next_ping_us_) {
		next_ping_us_ =
		    now_us + (next_ping_us_ == 0 ? spread_us(config.monitor_ping_interval,
		                                             config.monitor_ping_interval_window, phase_)
		                                 : config.monitor_ping_interval * kUsPerMs);
		start_query(Check_Job::ping, "", config.monitor_ping_timeout, now_us);
		return true;
	}
	if (server_.in_pair && now_us >= next_role_us_) {
		next_role_us_ = now_us + (next_role_us_ == 0
		                              ? spread_us(config.monitor_read_only_interval,
		                                          config.monitor_read_only_interval_window, phase_)
		                              : config.monitor_read_only_interval * kUsPerMs);
		const bool polar = server_.check_type == Check_Type::polardb && !polar_functions_missing_;
		start_query(Check_Job::role, polar ? kPolarRoleQuery : kRoleQuery,
		            config.monitor_read_only_timeout, now_us);
		return true;
	}
	if (wants_probe() && now_us >= next_probe_us_) {
		next_probe_us_ = now_us + kProbeRetryUs;
		start_query(Check_Job::capability, kCapabilityQuery, config.monitor_read_only_timeout,
		            now_us);
		return true;
	}
	if (checks_lag() && now_us >= next_lag_us_) {
		next_lag_us_ =
		    now_us + (next_lag_us_ == 0
		                  ? spread_us(config.monitor_replication_lag_interval,
		                              config.monitor_replication_lag_interval_window, phase_)
		                  : config.monitor_replication_lag_interval * kUsPerMs);
		start_query(Check_Job::lag, kLagQuery, config.monitor_replication_lag_timeout, now_us);
		return true;
	}
	return false;
}

bool Server_Watch::checks_lag() const {
	return server_.in_pair && server_.watch_lag &&
	       server_.health->role.load(std::memory_order_relaxed) == Server_Role::replica;
}

bool Server_Watch::wants_probe() const {
	if (!server_.in_pair || probing_) {
		return false;
	}
	return probe_wanted_ ||
	       (server_.health->capabilities.load(std::memory_order_relaxed) & kCapabilityProbed) == 0;
}

int64_t Server_Watch::tick(int64_t now_us) {
	for (Check_Channel* channel : {&main_, &side_}) {
		if (channel->job != Check_Job::none && now_us >= channel->deadline_us) {
			on_channel_failed(*channel, kTimeoutText, "", true, now_us);
		}
	}
	// A server whose name has no address yet cannot be asked.
	const bool has_address =
	    server_.port == 0 || !server_.address.empty() || !needs_resolving(server_.hostname);
	if (main_.connection == nullptr && has_address && now_us >= next_login_us_) {
		if (context_.logins_under_way >= kMaxLogins) {
			next_login_us_ = now_us + kLoginBusyRetryUs;
		} else {
			start_login(main_, Check_Job::login, Proxy_Protocol::off, now_us);
		}
	}
	while (main_.connection != nullptr && main_.job == Check_Job::none && start_next_job(now_us)) {
		if (main_.job != Check_Job::none) {
			break;
		}
	}
	if (side_.connection == nullptr && main_.connection != nullptr && now_us >= next_connect_us_ &&
	    context_.logins_under_way < kMaxLogins) {
		next_connect_us_ = now_us + context_.config->monitor_connect_interval * kUsPerMs;
		start_login(side_, Check_Job::connect, Proxy_Protocol::off, now_us);
	}
	return next_due(now_us);
}

int64_t Server_Watch::next_due(int64_t now_us) const {
	int64_t due_us = INT64_MAX;
	for (const Check_Channel* channel : {&main_, &side_}) {
		if (channel->job != Check_Job::none) {
			due_us = std::min(due_us, channel->deadline_us);
		}
	}
	if (main_.connection == nullptr) {
		return std::min(due_us, std::max(next_login_us_, now_us));
	}
	if (main_.job == Check_Job::none) {
		due_us = std::min(due_us, next_ping_us_);
		if (server_.in_pair) {
			due_us = std::min(due_us, next_role_us_);
			due_us = checks_lag() ? std::min(due_us, next_lag_us_) : due_us;
			due_us = wants_probe() ? std::min(due_us, next_probe_us_) : due_us;
		}
	}
	return side_.connection == nullptr ? std::min(due_us, next_connect_us_) : due_us;
}

void Server_Watch::check_now(int64_t now_us) {
	if (now_us - last_urgent_us_ < kUrgentSpacingUs) {
		return;
	}
	last_urgent_us_ = now_us;
	next_login_us_ = std::min(next_login_us_, now_us);
	next_role_us_ = std::min(next_role_us_, now_us);
	next_ping_us_ = std::min(next_ping_us_, now_us);
}

void Server_Watch::on_ready(Check_Channel& channel, int64_t now_us) {
	if (channel.connection == nullptr) {
		return;
	}
	const bool connecting = channel.connection->state() == Monitor_Connection::State::connecting;
	const Monitor_Connection::State state = channel.connection->step();
	if (connecting && state != Monitor_Connection::State::connecting) {
		--context_.logins_under_way;
	}
	settle(channel, now_us);
}

// Acts on the state that a channel's connection is in after something was done with it.
void Server_Watch::settle(Check_Channel& channel, int64_t now_us) {
	switch (channel.connection->state()) {
	case Monitor_Connection::State::connecting:
	case Monitor_Connection::State::querying:
		context_.poll(channel);
		return;
	case Monitor_Connection::State::failed: {
		const std::string text = channel.connection->error();
		const std::string sqlstate = channel.connection->sqlstate();
		on_channel_failed(channel, text, sqlstate, false, now_us);
		return;
	}
	case Monitor_Connection::State::idle:
		break;
	}
	context_.poll(channel);
	switch (channel.job) {
	case Check_Job::none:
		return; // a notice on the idle connection
	case Check_Job::connect:
		log(context_.connect_log, channel, now_us, std::nullopt, std::nullopt);
		close(channel);
		return;
	case Check_Job::dialect:
		on_dialect(now_us);
		return;
	case Check_Job::login:
	case Check_Job::ping:
	case Check_Job::role:
	case Check_Job::lag:
	case Check_Job::capability:
	case Check_Job::identity:
		on_main_done(now_us);
		return;
	}
}

void Server_Watch::on_channel_failed(Check_Channel& channel, const std::string& text,
                                     const std::string& sqlstate, bool timed_out, int64_t now_us) {
	const Check_Job job = channel.job;
	if (job == Check_Job::connect || job == Check_Job::login) {
		log(context_.connect_log, channel, now_us, std::nullopt, text);
	}
	if (&channel == &side_) {
		close(side_);
		if (job == Check_Job::dialect) {
			if (!timed_out && !counts_as_dead(sqlstate)) {
				next_dialect(now_us); // refused in this dialect
			} else {
				probing_ = false; // no answer: the whole probe again later
			}
		}
		return;
	}
	switch (job) {
	case Check_Job::login:
	case Check_Job::ping:
		log(context_.ping_log, channel, now_us, std::nullopt, text);
		break;
	case Check_Job::role:
		log(context_.role_log, channel, now_us, std::nullopt, text);
		break;
	case Check_Job::lag:
		log(context_.lag_log, channel, now_us, std::nullopt, text);
		break;
	case Check_Job::none:
	case Check_Job::capability:
	case Check_Job::identity:
	case Check_Job::connect:
	case Check_Job::dialect:
		break;
	}
	close(main_);
	on_main_failed(job, text, sqlstate, timed_out, now_us);
}

void Server_Watch::on_main_failed(Check_Job job, const std::string& text,
                                  const std::string& sqlstate, bool timed_out, int64_t now_us) {
	const Pgsql_Config& config = *context_.config;
	if (job == Check_Job::role && timed_out) {
		++role_timeouts_;
		if (role_timeouts_ >= config.monitor_read_only_max_timeout_count &&
		    server_.health->role.load(std::memory_order_relaxed) == Server_Role::primary &&
		    context_.manager.assume_read_only(server_.hostname, server_.port)) {
			log_warning("Server {}:{} missed {} read_only checks. Assuming read_only=1",
			            server_.hostname, server_.port, role_timeouts_);
		}
	}
	if (!counts_as_dead(sqlstate)) {
		if (!refusal_logged_) {
			refusal_logged_ = true;
			log_error("Monitor cannot log in to server {}:{} as {}: {}", server_.hostname,
			          server_.port, config.monitor_username, text);
		}
		next_login_us_ = now_us + kRefusedRetryUs;
		return;
	}
	if (job == Check_Job::none && !idle_loss_forgiven_) {
		// Somebody ended our session; whether the server is gone too shows at once.
		idle_loss_forgiven_ = true;
		next_login_us_ = now_us;
		return;
	}
	const bool query_timeout = timed_out && job != Check_Job::login && job != Check_Job::ping;
	if (query_timeout) {
		// A slow answer is no proof of death: the ping that follows decides. But it counts when
		// that fails too, so that a server that has gone silent is not given more time.
		if (pings_.failures() + 1 < config.monitor_ping_max_failures) {
			pings_.on_failure(config.monitor_ping_max_failures);
		}
		next_login_us_ = now_us;
		return;
	}
	const Ping_History::Change change = pings_.on_failure(config.monitor_ping_max_failures);
	next_login_us_ = now_us + pings_.retry_us();
	if (change != Ping_History::Change::died) {
		return;
	}
	server_.health->reachable.store(false, std::memory_order_relaxed);
	log_error("Server {}:{} missed {} heartbeats, shunning it and killing all the connections. "
	          "Last error: {}",
	          server_.hostname, server_.port, pings_.failures(), text);
	context_.manager.shun(server_.hostname, server_.port, Server_Status::shunned,
	                      "does not answer");
}

void Server_Watch::on_alive(int64_t latency_us) {
	idle_loss_forgiven_ = false;
	const Ping_History::Change change = pings_.on_success(latency_us);
	server_.health->latency_us.store(pings_.latency_us(), std::memory_order_relaxed);
	if (change == Ping_History::Change::recovered) {
		log_info("Server {}:{} answers again", server_.hostname, server_.port);
	}
	if (!was_unavailable_ && !server_.health->reachable.exchange(true, std::memory_order_relaxed)) {
		context_.manager.unshun(server_.hostname, server_.port);
	}
}

void Server_Watch::on_main_done(int64_t now_us) {
	const Check_Job job = main_.job;
	main_.job = Check_Job::none;
	switch (job) {
	case Check_Job::login:
		log(context_.connect_log, main_, now_us, std::nullopt, std::nullopt);
		refusal_logged_ = false;
		// A new connection may mean a restarted server: it may have gone back, or changed.
		server_.health->forget_lsn();
		probe_wanted_ = true;
		next_probe_us_ = now_us;
		next_ping_us_ = std::min(next_ping_us_, now_us);
		next_role_us_ = std::min(next_role_us_, now_us);
		report_parameters();
		return;
	case Check_Job::ping:
		log(context_.ping_log, main_, now_us, std::nullopt, std::nullopt);
		on_alive(now_us - main_.started_us);
		return;
	case Check_Job::role:
		on_role(now_us);
		return;
	case Check_Job::lag:
		on_lag();
		return;
	case Check_Job::capability:
		on_capability(now_us);
		return;
	case Check_Job::identity:
		if (!main_.connection->query_failed() && main_.connection->rows().size() == 1 &&
		    main_.connection->rows()[0][0]) {
			const std::string& text = *main_.connection->rows()[0][0];
			server_.health->system_identifier.store(std::strtoull(text.c_str(), nullptr, 10),
			                                        std::memory_order_relaxed);
		}
		return;
	case Check_Job::none:
	case Check_Job::connect:
	case Check_Job::dialect:
		return;
	}
}

void Server_Watch::log(Check_Log& target, const Check_Channel& channel, int64_t now_us,
                       std::optional<int64_t> value, std::optional<std::string> error) const {
	const Pgsql_Config& config = *context_.config;
	Check_Log_Row row;
	row.hostname = server_.hostname;
	row.port = server_.port;
	// No check under way (the idle connection was lost): the moment itself.
	row.time_start_us = channel.started_unix_us == 0 ? unix_time_us() : channel.started_unix_us;
	if (!error) {
		row.success_time_us = now_us - channel.started_us;
	}
	row.value = value;
	row.error = std::move(error);
	// Long enough to show the failures that a shunning rests on.
	const int64_t history_ms =
	    std::max(config.monitor_history,
	             config.monitor_ping_interval * (config.monitor_ping_max_failures + 1));
	target.add(std::move(row), history_ms);
}

} // namespace proxy
