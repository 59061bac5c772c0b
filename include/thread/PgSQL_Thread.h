// A worker: one event loop with its listeners, sessions, idle server connections, caches and
// counters. Never blocks, never touches files. Everything here belongs to the worker's thread but
// mailbox(), counters(), digests() and routes(), which any thread may use.
#pragma once

#include "base/Deadline_Heap.h"
#include "net/Listener.h"
#include "session/PgSQL_Session.h"
#include "session/Worker_Context.h"
#include "thread/Cancel_Sender.h"
#include "thread/Login_Service.h"
#include "thread/Notify_Hub.h"
#include "thread/Worker_Mailbox.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

namespace proxy {

// The TLS context of the client ports; null when pgsql-have_ssl is off.
struct Client_Tls {
	Tls_Context_Ptr context;
};

// What all workers share, by reference; owned by PgSQL_Threads_Handler.
struct Runtime_Shared {
	const Snapshot<Pgsql_Config>& config;
	Snapshot<Users_Snapshot> users;
	Snapshot<Query_Rules> rules;
	Snapshot<Client_Tls> tls;
	PgSQL_HostGroups_Manager& hostgroups;
	PgSQL_STMT_Manager statements;
	Shared_Limits limits;
	Cancel_Sender cancels;
	Login_Service logins;
	// Called by workers when a server failed at the connection level; set before they start.
	std::function<void(const std::string& hostname, int port)> on_server_failure;

	Runtime_Shared(const Snapshot<Pgsql_Config>& pgsql_config, PgSQL_HostGroups_Manager& manager);
};

class PgSQL_Thread final : private Session_Services,
                           public Accept_Handler,
                           private Wake_Handler,
                           private Pass_Handler {
public:
	PgSQL_Thread(size_t index, Runtime_Shared& shared);
	~PgSQL_Thread();
	PgSQL_Thread(const PgSQL_Thread&) = delete;
	PgSQL_Thread& operator=(const PgSQL_Thread&) = delete;

	// Before start(): a listening socket; owned: closed by this worker.
	void add_listener(int fd, bool owned, const Listen_Address& address);
	// The other workers, for cancels and reclaims; before start().
	void set_peers(std::vector<Worker_Mailbox*> peers) { peers_ = std::move(peers); }
	void start();
	// Any thread: asks the worker to end its sessions and its loop; join() waits.
	void request_stop();
	void join();

	Worker_Mailbox& mailbox() { return mailbox_; }
	const Worker_Counters& counters() const { return counters_; }
	Query_Digest_Stats& digests() { return digests_; }
	const Route_Counters& routes() const { return routes_; }

	// Inside a mailbox task.
	std::vector<PgSQL_Session::Info> session_infos() const;
	bool kill_session(uint32_t id);
	void pause_listeners(bool paused);
	void drain_sessions();
	size_t session_count() const { return sessions_.size(); }
	void flush_counters();
	void take_listen_order(uint32_t from_worker, const Listen_Order& order) {
		notify_hub_.take(from_worker, order);
	}
	void answer_listen(uint32_t session, uint32_t ticket, bool listens);
	void deliver_notification(const Notification_Ptr& notification,
	                          const std::vector<uint32_t>& sessions);
	size_t index() const { return index_; }
	// Adds the connections idle in this worker's cache, by server.
	void count_idle_connections(std::map<const PgSQL_SrvC*, int64_t>& counts) const {
		connections_.count(counts);
	}
	Query_Processor::Cache_Stats cache_stats() const { return queries_.cache_stats(); }

private:
	// Session_Services
	void session_ended(PgSQL_Session& session) override;
	void note_parked(PgSQL_Session& session, Server_Ptr server) override;
	void forget_parked(PgSQL_Session& session) override;
	Pool_Waiter_Sink& waiter_sink() override { return mailbox_; }
	void broadcast_cancel(const Cancel_Request& request, const Cancel_Ticket_Ptr& ticket) override;
	void send_cancel(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) override;
	void hold_until(std::unique_ptr<PgSQL_Connection> connection,
	                Cancel_Ticket_Ptr ticket) override;
	uint64_t start_login_job(PgSQL_Session& session, Login_Lane lane, Login_Job job) override;
	void wake_by(PgSQL_Session& session, int64_t deadline_us) override;
	void order_listen(Listen_Order order) override;
	void report_server_failure(const PgSQL_SrvC& server) override;

	void on_accept(int fd, std::string peer_host, int peer_port, const Listen_Address& at) override;
	void refuse(int fd);
	void on_wake() override;
	void on_pass() override;

	void run();
	void refresh_variables();
	void handle_mail();
	void finish_pass();
	void release_held();
	void run_deadlines();
	void housekeeping();
	int64_t wait_ms() const;
	PgSQL_Session* find(uint64_t id);
	std::vector<PgSQL_Session*> all_sessions() const;

	// A connection that must not be used yet, or is to be closed after the pass.
	struct Held {
		std::unique_ptr<PgSQL_Connection> connection;
		Cancel_Ticket_Ptr ticket; // null: close
		int64_t since_us = 0;
	};
	const size_t index_;
	Runtime_Shared& shared_;
	Event_Loop loop_;
	Worker_Mailbox mailbox_;
	Worker_Counters counters_;
	Query_Digest_Stats digests_;
	Route_Counters routes_;
	Query_Processor queries_;
	Thread_Conn_Cache connections_;
	Worker_Context context_;
	uint64_t config_version_ = 0;
	uint64_t users_version_ = 0;
	uint64_t rules_version_ = 0;
	uint64_t tls_version_ = 0;
	uint64_t view_version_ = 0;
	uint64_t parameters_version_ = 0;
	std::shared_ptr<const Query_Rules> rules_;
	std::shared_ptr<const Client_Tls> tls_;
	std::vector<std::unique_ptr<Listener>> listeners_;
	std::vector<Worker_Mailbox*> peers_;
	Notify_Hub notify_hub_;
	std::unordered_map<uint32_t, std::unique_ptr<PgSQL_Session>> sessions_;
	std::vector<std::unique_ptr<PgSQL_Session>> ended_;
	std::unordered_map<uint32_t, Server_Ptr> parked_;
	std::vector<Held> held_;
	Deadline_Heap<PgSQL_Session> deadlines_;
	int64_t next_housekeeping_us_ = 0;
	uint64_t last_login_job_ = 0;
	// Set by request_stop(); relaxed: read once a pass, after the mailbox's lock.
	std::atomic<bool> stopping_{false};
	std::thread thread_;
};

} // namespace proxy
