// The running proxy as the admin layer sees it: implements Runtime_Control over the workers, the
// hostgroups, the monitor and the snapshots. Owned by main().
#pragma once

#include "admin/Runtime_Control.h"
#include "config/Config_Store.h"
#include "monitor/PgSQL_Monitor.h"
#include "pool/PgSQL_HostGroups_Manager.h"
#include "thread/PgSQL_Threads_Handler.h"

#include <atomic>
#include <string>

namespace proxy {

// What main() is asked to do by an admin command or a signal.
enum class Stop_Request : int { none, now, slow };

struct Runtime_Options {
	std::string datadir;
	bool monitor = true; // -M switches it off
	bool workers = true; // -n: until PROXYSQL START
};

class Runtime final : public Runtime_Control {
public:
	explicit Runtime(Runtime_Options options);
	~Runtime() override;
	Runtime(const Runtime&) = delete;
	Runtime& operator=(const Runtime&) = delete;

	// After the configuration was loaded: TLS, monitor, workers.
	Result<void> start();
	void stop(Stop_Request how);
	// Raised by act(shutdown) for main(), which does it.
	Stop_Request stop_requested() const { return stop_.load(); }

	Result<void> load_servers(const Pgsql_Servers_Config& config) override;
	Result<void> load_users(const std::vector<Pgsql_User_Row>& users) override;
	Result<void> load_query_rules(const Query_Rules_Config& rules) override;
	Result<void> load_pgsql_variables(const std::map<std::string, std::string>& values) override;
	Result<void> load_admin_variables(const std::map<std::string, std::string>& values) override;
	Pgsql_Servers_Config runtime_servers() override;
	std::vector<Pgsql_User_Row> runtime_users() override;
	Query_Rules_Config runtime_query_rules() override;
	Stats_Rows stats(std::string_view table, Stats_Read read) override;
	Result<void> act(Action action) override;
	bool kill_session(uint64_t session_id) override;

private:
	Result<void> load_tls();
	Result<void> start_workers();
	void configure_monitor();

	Stats_Rows global_rows();
	Stats_Rows connection_pool_rows(Stats_Read read);
	Stats_Rows digest_rows(Stats_Read read);
	Stats_Rows processlist_rows();
	Stats_Rows user_rows();
	Stats_Rows rule_rows();
	Stats_Rows route_rows();
	Stats_Rows statement_rows();
	Stats_Rows memory_rows();

	const Runtime_Options options_;
	Config_Store config_;
	PgSQL_HostGroups_Manager hostgroups_;
	Runtime_Shared shared_;
	PgSQL_Monitor monitor_;
	PgSQL_Threads_Handler threads_;
	bool started_ = false;
	int64_t started_us_ = 0;
	std::atomic<Stop_Request> stop_{Stop_Request::none};
};

} // namespace proxy
