// The monitor's work on one server: a persistent connection (main) that runs the checks one after
// the other, and a second one (side) for connect checks and for logins that ask for PolarDB's
// extras. Monitor thread only.
#pragma once

#include "Check_Queries.h"
#include "Ping_History.h"
#include "backend/Monitor_Connection.h"
#include "monitor/Check_Log.h"
#include "pool/PgSQL_HostGroups_Manager.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace proxy {

class Server_Watch;

enum class Check_Job : uint8_t {
	none,
	login, // of the main connection
	ping,
	role,
	lag,
	capability,
	identity,
	connect, // side: connect check
	dialect, // side: a login that asks for positions
};

// One connection with what it is doing.
struct Check_Channel {
	Server_Watch* watch = nullptr;
	std::unique_ptr<Monitor_Connection> connection;
	Check_Job job = Check_Job::none;
	int64_t started_us = 0; // monotonic
	int64_t started_unix_us = 0;
	int64_t deadline_us = 0;
	uint64_t registration = 0; // with the poller; 0 none
	int registered_fd = -1;
};

// What the watches share; owned by the monitor.
class Watch_Context {
public:
	explicit Watch_Context(PgSQL_HostGroups_Manager& hostgroups) : manager(hostgroups) {}
	virtual ~Watch_Context() = default;
	// Waits for the channel's connection from now on, as it wants; also after it was replaced.
	virtual void poll(Check_Channel& channel) = 0;
	virtual void forget(Check_Channel& channel) = 0;
	// Where the primary of a writer hostgroup was at its sample before the last; 0 unknown.
	virtual uint64_t primary_lsn(int writer_hostgroup) const = 0;
	virtual void note_primary_lsn(int writer_hostgroup, uint64_t lsn) = 0;

	PgSQL_HostGroups_Manager& manager;
	std::shared_ptr<const Pgsql_Config> config = std::make_shared<Pgsql_Config>();
	Check_Log connect_log;
	Check_Log ping_log;
	Check_Log role_log;
	Check_Log lag_log;
	int logins_under_way = 0;
};

class Server_Watch {
public:
	Server_Watch(Watch_Context& context, PgSQL_HostGroups_Manager::Watched_Server server,
	             int64_t now_us);
	~Server_Watch();
	Server_Watch(const Server_Watch&) = delete;
	Server_Watch& operator=(const Server_Watch&) = delete;

	// The server's row or pair changed.
	void update(PgSQL_HostGroups_Manager::Watched_Server server);
	// Starts what is due and ends what took too long; returns when there is something to do next.
	int64_t tick(int64_t now_us);
	void on_ready(Check_Channel& channel, int64_t now_us);
	void check_now(int64_t now_us);

private:
	Connect_Request request(Proxy_Protocol protocol) const;
	void start_login(Check_Channel& channel, Check_Job job, Proxy_Protocol protocol,
	                 int64_t now_us);
	void start_query(Check_Job job, const char* sql, int64_t timeout_ms, int64_t now_us);
	bool start_next_job(int64_t now_us);
	void close(Check_Channel& channel);
	void settle(Check_Channel& channel, int64_t now_us);
	void on_channel_failed(Check_Channel& channel, const std::string& text,
	                       const std::string& sqlstate, bool timed_out, int64_t now_us);
	void on_main_failed(Check_Job job, const std::string& text, const std::string& sqlstate,
	                    bool timed_out, int64_t now_us);
	void on_main_done(int64_t now_us);
	void on_alive(int64_t latency_us);
	void on_role(int64_t now_us);
	void apply_role(const Role_Facts& facts, int64_t now_us);
	void on_lag();
	void on_capability(int64_t now_us);
	void on_dialect(int64_t now_us);
	void next_dialect(int64_t now_us);
	void publish_capabilities();
	void report_parameters();
	bool wants_probe() const;
	bool checks_lag() const;
	void log(Check_Log& target, const Check_Channel& channel, int64_t now_us,
	         std::optional<int64_t> value, std::optional<std::string> error) const;
	int64_t next_due(int64_t now_us) const;

	Watch_Context& context_;
	PgSQL_HostGroups_Manager::Watched_Server server_;
	Check_Channel main_;
	Check_Channel side_;
	Ping_History pings_;
	int64_t role_timeouts_ = 0;
	bool polar_functions_missing_ = false;
	bool was_unavailable_ = false;
	bool idle_loss_forgiven_ = false;
	bool refusal_logged_ = false;
	// The probe: settings found, then logins tried one dialect after the other.
	bool probe_wanted_ = true;
	bool probing_ = false;
	Proxy_Protocol tried_ = Proxy_Protocol::off;
	uint32_t found_ = 0;
	bool complained_ = false;

	int64_t next_login_us_;
	int64_t next_connect_us_ = 0;
	int64_t next_ping_us_ = 0;
	int64_t next_role_us_ = 0;
	int64_t next_lag_us_ = 0;
	int64_t next_probe_us_ = 0;
	int64_t last_urgent_us_ = 0;
	double phase_; // 0..1, the same for a server every time: spreads checks over their window
};

} // namespace proxy
