#include "Runtime.h"

#include "auth/Auth_Context.h"
#include "base/Clock.h"
#include "base/Log.h"
#include "config/Config_Variables.h"

namespace proxy {

namespace {
constexpr int64_t kSlowShutdownMs = 60'000;
} // namespace

Runtime::Runtime(Runtime_Options options)
    : options_(std::move(options)), shared_(config_.pgsql(), hostgroups_), monitor_(hostgroups_),
      threads_(shared_), started_us_(monotonic_us()) {
	shared_.on_server_failure = [this](const std::string& hostname, int port) {
		monitor_.check_now(hostname, port);
	};
	hostgroups_.set_config(config_.pgsql().get().value);
}

Runtime::~Runtime() {
	stop(Stop_Request::now);
}

Result<void> Runtime::start() {
	PROXY_TRY(load_tls());
	configure_monitor();
	if (options_.workers) {
		PROXY_TRY(start_workers());
	}
	return {};
}

Result<void> Runtime::start_workers() {
	if (started_) {
		return make_error("55000", "ProxySQL already started");
	}
	monitor_.start();
	PROXY_TRY(threads_.start());
	started_ = true;
	return {};
}

// Its thread also does the pool's housekeeping, so with -M it runs without the checks.
void Runtime::configure_monitor() {
	auto config = std::make_shared<Pgsql_Config>(*config_.pgsql().get().value);
	config->monitor_enabled = config->monitor_enabled && options_.monitor;
	monitor_.set_config(std::move(config));
}

Result<void> Runtime::load_tls() {
	if (!config_.pgsql().get().value->have_ssl) {
		shared_.tls.publish(std::make_shared<const Client_Tls>());
		return {};
	}
	auto context = Tls_Context::load_or_make(options_.datadir);
	PROXY_TRY(context);
	shared_.tls.publish(std::make_shared<const Client_Tls>(Client_Tls{context.take()}));
	return {};
}

void Runtime::stop(Stop_Request how) {
	if (how == Stop_Request::slow) {
		threads_.drain(kSlowShutdownMs);
	}
	threads_.stop();
	monitor_.stop();
	started_ = false;
}

// ---- LOAD ... TO RUNTIME ----

Result<void> Runtime::load_servers(const Pgsql_Servers_Config& config) {
	PROXY_TRY(
	    check_consistency_policy(*config_.pgsql().get().value, config.replication_hostgroups));
	return hostgroups_.commit(config);
}

Result<void> Runtime::load_users(const std::vector<Pgsql_User_Row>& users) {
	const auto previous = shared_.users.get().value;
	const auto next = Users_Snapshot::make(users, previous.get());
	shared_.users.publish(next);
	// The first logins find their keys derived; the rest derive theirs at the first login.
	constexpr size_t kWarmedUsers = 100;
	process_auth_context().warm(*next, kWarmedUsers);
	return {};
}

Result<void> Runtime::load_query_rules(const Query_Rules_Config& rules) {
	auto compiled =
	    Query_Rules::compile(rules, config_.pgsql().get().value->query_processor_iterations);
	PROXY_TRY(compiled);
	shared_.rules.publish(compiled.take());
	return {};
}

Result<void> Runtime::load_pgsql_variables(const std::map<std::string, std::string>& values) {
	const auto running = config_.pgsql().get().value;
	auto built = build_pgsql_config(values, *running,
	                                started_ ? Variable_Source::table : Variable_Source::saved);
	PROXY_TRY(built);
	auto next = std::make_shared<Pgsql_Config>(*built.value().config);
	PROXY_TRY(check_consistency_policy(*next, hostgroups_.runtime_config().replication_hostgroups));
	for (const std::string& warning : built.value().warnings) {
		log_warning("{}", warning);
	}
	if (started_) {
		for (const std::string& name : keep_restart_values(*next, *running)) {
			log_warning("{} takes effect after a restart", name);
		}
	}
	const std::shared_ptr<const Pgsql_Config> published = std::move(next);
	config_.pgsql().publish(published);
	hostgroups_.set_config(published);
	configure_monitor();
	if (started_ && published->have_ssl != running->have_ssl) {
		return load_tls();
	}
	return {};
}

Result<void> Runtime::load_admin_variables(const std::map<std::string, std::string>& values) {
	auto built = build_admin_config(values);
	PROXY_TRY(built);
	for (const std::string& warning : built.value().warnings) {
		log_warning("{}", warning);
	}
	config_.admin().publish(built.value().config);
	return {};
}

// ---- what runs ----

Pgsql_Servers_Config Runtime::runtime_servers() {
	return hostgroups_.runtime_config();
}

std::vector<Pgsql_User_Row> Runtime::runtime_users() {
	return shared_.users.get().value->rows();
}

Query_Rules_Config Runtime::runtime_query_rules() {
	return shared_.rules.get().value->config();
}

// ---- commands ----

Result<void> Runtime::act(Action action) {
	switch (action) {
	case Action::pause:
		return threads_.pause();
	case Action::resume:
		return threads_.resume();
	case Action::stop:
		stop(Stop_Request::now);
		return {};
	case Action::start:
		return start_workers();
	case Action::shutdown:
		stop_.store(Stop_Request::now);
		return {};
	case Action::shutdown_slow:
		stop_.store(Stop_Request::slow);
		return {};
	case Action::flush_logs:
		reopen_log();
		return {};
	case Action::reload_tls:
		return load_tls();
	}
	return {};
}

bool Runtime::kill_session(uint64_t session_id) {
	auto found = std::make_shared<std::atomic<bool>>(false);
	threads_.run_on_all([found, session_id](PgSQL_Thread& worker) {
		if (worker.kill_session(static_cast<uint32_t>(session_id))) {
			found->store(true);
		}
	});
	return found->load();
}

} // namespace proxy
