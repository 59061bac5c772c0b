// What the wire tests share: messages as bytes, scripted clients and servers, and a worker that is
// driven by hand.
//
// Everything runs in the test's own thread: a peer that waits for bytes turns the worker's loop, so
// every step is in a known order and nothing sleeps. The messages are built here, not with the
// product's writers: what goes over the wire is compared byte for byte, in both directions.
#pragma once

#include "base/Snapshot.h"
#include "session/PgSQL_Session.h"
#include "session/Worker_Context.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace proxy::wire {

// ---- bytes ----

std::string u16(uint32_t value);
std::string u32(uint32_t value);
std::string u64(uint64_t value);
std::string text(std::string_view value); // with its NUL
std::string message(char type, std::string_view body = {});
std::string printable(std::string_view bytes);

// Frontend.
std::string query(std::string_view sql);
std::string parse(std::string_view name, std::string_view sql);
std::string bind_to(std::string_view portal, std::string_view statement);
std::string describe(char kind, std::string_view name);
std::string execute(std::string_view portal, uint32_t max_rows = 0);
std::string close_of(char kind, std::string_view name);
inline const std::string kSync = message('S');
inline const std::string kFlush = message('H');
inline const std::string kTerminate = message('X');
std::string startup_packet(const std::vector<std::pair<std::string, std::string>>& parameters,
                           uint32_t version = 3U << 16);

// Backend.
inline const std::string kParseComplete = message('1');
inline const std::string kBindComplete = message('2');
inline const std::string kCloseComplete = message('3');
inline const std::string kNoData = message('n');
std::string ready(char status, std::string_view tail = {});
std::string lsn_tail(uint64_t lsn);
std::string complete(std::string_view tag);
std::string row(std::string_view value);
std::string columns(std::string_view name);
std::string error(std::string_view sqlstate, std::string_view text, const char* severity = "ERROR");
std::string notice(std::string_view text);
std::string parameter(std::string_view name, std::string_view value);
// The proxy's own error: with the fields it writes.
std::string proxy_error(std::string_view sqlstate, std::string_view text,
                        const char* severity = "ERROR", std::string_view detail = {});
// RowDescription, one row, CommandComplete: an answer without its ReadyForQuery.
std::string one_row(std::string_view value);

#define CHECK_BYTES(actual, expected)                                                              \
	CHECK(proxy::wire::printable(actual) == proxy::wire::printable(expected))
#define REQUIRE_BYTES(actual, expected)                                                            \
	REQUIRE(proxy::wire::printable(actual) == proxy::wire::printable(expected))

// ---- peers ----

using Pump = std::function<void()>;

// One end of a connection, the script's. Waits by pumping; gives up after kPatienceMs, which fails
// the comparison that follows.
class Peer {
public:
	Peer(int fd, Pump pump);
	~Peer();
	Peer(const Peer&) = delete;
	Peer& operator=(const Peer&) = delete;

	void send(std::string_view bytes);
	// One byte a time, with a pass of the worker behind each.
	void send_bytewise(std::string_view bytes);
	// What the socket takes now.
	size_t send_some(std::string_view bytes);
	// So many bytes, or fewer when the other side closes or says no more.
	std::string receive(size_t bytes);
	std::string receive_message();
	// All up to the end of the stream.
	std::string receive_rest();
	std::string available();
	// Fails the test when something else comes.
	void expect(std::string_view bytes);
	// The worker is left alone for some passes and has said nothing.
	void expect_nothing();
	// The stream ends here, without a byte more.
	void expect_end();
	// What is sent last, then the end.
	void expect_end(std::string_view bytes);
	void close();
	void reset(); // TCP: the other side gets ECONNRESET
	void stop_writing();
	int fd() const { return fd_; }

private:
	int fd_;
	Pump pump_;
};
using Peer_Ptr = std::unique_ptr<Peer>;

// A PostgreSQL server on a port that the kernel picks.
class Scripted_Server {
public:
	explicit Scripted_Server(Pump pump);
	~Scripted_Server();
	Scripted_Server(const Scripted_Server&) = delete;
	Scripted_Server& operator=(const Scripted_Server&) = delete;

	int port() const { return port_; }
	// The next connection; `startup` gets its first packet. Nothing is answered.
	Peer_Ptr accept_raw();
	// The next connection, logged in. `tail`: of its first ReadyForQuery.
	Peer_Ptr accept(std::string_view tail = {});
	// Nobody waits to be accepted.
	bool nobody_comes();
	// From here on connections are refused.
	void stop_listening();
	const std::string& startup() const { return startup_; }

	static constexpr uint32_t kPid = 4242;
	static constexpr uint32_t kKey = 0x01020304;
	static std::string greeting(std::string_view tail);

private:
	int fd_;
	int port_ = 0;
	Pump pump_;
	std::string startup_;
};

struct Client {
	Peer_Ptr peer;
	uint32_t pid = 0;
	std::string key;
	Peer* operator->() const { return peer.get(); }
};

// ---- the worker ----

struct Rig_Setup {
	Consistency_Mode consistency = Consistency_Mode::off;
	Proxy_Protocol protocol = Proxy_Protocol::off;
	int replicas = 0;
	int64_t max_connections = 100;
	std::function<void(Pgsql_Config&)> configure = [](Pgsql_Config&) {};
};

struct Client_Setup {
	bool header_due = false; // a PROXY header is asked for
};

// A worker's services and context without its thread: one pass at a time, with a clock that moves
// only when the test says so. Hostgroup 10 is the primary, 20 are the replicas.
class Rig final : private Session_Services,
                  private Pass_Handler,
                  private Pool_Waiter_Sink,
                  private Login_Answer_Sink {
public:
	static constexpr int kWriter = 10;
	static constexpr int kReader = 20;

	explicit Rig(const Rig_Setup& setup = {});
	~Rig() override;
	Rig(const Rig&) = delete;
	Rig& operator=(const Rig&) = delete;

	// One pass of the loop; waits at most a millisecond for something to happen.
	void pump();
	// So many passes that nothing that could go on has not gone on.
	void settle();
	void advance_ms(int64_t milliseconds);

	using Parameters = std::vector<std::pair<std::string, std::string>>;
	// A client that has sent nothing yet.
	Client open_client(const Client_Setup& setup = {});
	// ... and one that is logged in as app.
	Client login(const Parameters& parameters = {}, uint32_t version = 3U << 16);
	PgSQL_Session* session(const Client& client);
	Session_State state(const Client& client);
	bool ended(const Client& client) { return session(client) == nullptr; }

	Scripted_Server primary;
	std::vector<std::unique_ptr<Scripted_Server>> replicas;
	Server_Ptr server(int hostgroup, size_t index = 0) const;

	struct Sent_Cancel {
		PgSQL_Connection::Cancel_Target target;
		Cancel_Ticket_Ptr ticket;
	};
	std::vector<Sent_Cancel> cancels;
	std::vector<Listen_Order> listen_orders;
	std::vector<int> failures; // ports of servers reported as failed
	size_t held() const { return held_.size(); }
	size_t pooled() const { return connections_.size(); }
	uint64_t count(Counter counter) const { return counters_.get(counter); }
	void shut_down_all();
	void set_tls(Tls_Context_Ptr tls) { context_.tls = std::move(tls); }
	Query_Processor& queries() { return queries_; }

private:
	void session_ended(PgSQL_Session& session) override;
	void note_parked(PgSQL_Session&, Server_Ptr server) override;
	void forget_parked(PgSQL_Session&) override {}
	Pool_Waiter_Sink& waiter_sink() override { return *this; }
	void broadcast_cancel(const Cancel_Request& request, const Cancel_Ticket_Ptr& ticket) override;
	void send_cancel(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) override;
	void hold_until(std::unique_ptr<PgSQL_Connection> connection,
	                Cancel_Ticket_Ptr ticket) override;
	uint64_t start_login_job(PgSQL_Session& session, Login_Lane lane, Login_Job job) override;
	void deliver_login(uint32_t session, uint64_t serial, Login_Answer_Ptr answer) override;
	void wake_by(PgSQL_Session& session, int64_t deadline_us) override;
	void order_listen(Listen_Order order) override { listen_orders.push_back(std::move(order)); }
	void report_server_failure(const PgSQL_SrvC& server) override;
	void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) override;
	void on_pass() override;

	void load_servers(const Rig_Setup& setup);
	void finish_pass();
	void handle_mail();
	void run_deadlines();
	void release_held();

	struct Held {
		std::unique_ptr<PgSQL_Connection> connection;
		Cancel_Ticket_Ptr ticket;
	};
	struct Delivery {
		uint64_t ticket = 0;
		std::unique_ptr<PgSQL_Connection> connection;
	};

	Event_Loop loop_;
	Query_Processor queries_;
	Query_Digest_Stats digests_;
	Worker_Counters counters_;
	Route_Counters routes_;
	Thread_Conn_Cache connections_;
	PgSQL_STMT_Manager statements_;
	PgSQL_HostGroups_Manager hostgroups_;
	Shared_Limits limits_;
	Worker_Context context_;
	uint32_t next_id_ = 100;
	std::unordered_map<uint32_t, std::unique_ptr<PgSQL_Session>> sessions_;
	std::vector<std::unique_ptr<PgSQL_Session>> ended_;
	Deadline_Heap<PgSQL_Session> deadlines_;
	std::vector<Held> held_;
	std::vector<Delivery> mail_;
	struct Login {
		uint32_t session = 0;
		uint64_t serial = 0;
		Login_Answer_Ptr answer;
	};
	std::vector<Login> login_mail_;
	uint64_t last_login_job_ = 0;
	struct Cancel {
		uint32_t pid = 0;
		std::string key;
		Cancel_Ticket_Ptr ticket;
	};
	std::vector<Cancel> cancel_mail_;
};

} // namespace proxy::wire
