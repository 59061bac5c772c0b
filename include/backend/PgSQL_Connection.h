// One connection to a server, through the patched libpq: libpq connects, does TLS and logs in;
// after that the proxy speaks on the connection itself (raw relay) and libpq only moves bytes.
//
// Ownership: exactly one of a session, a worker's cache, a server's FREE list or a mailbox message
// holds the unique_ptr. A connection in a FREE list or a message carries no live watcher. All
// calls come from the owner's thread.
//
//	connecting --login done--> idle --send--> busy --ReadyForQuery--> idle
//	     |                       |              |
//	     +------- failed --------+-- closed ----+--> dead (only destroyed)
#pragma once

#include "backend/Backend_State.h"
#include "backend/Conn_Key.h"
#include "base/Result.h"
#include "base/Secret.h"
#include "config/Config_Rows.h"
#include "net/Event_Loop.h"
#include "net/Tcp_Options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <sys/uio.h>
#include <vector>

struct pg_conn;

namespace proxy {

class PgSQL_Connection;
class PgSQL_SrvC; // the pool's; only carried here
using Server_Ptr = std::shared_ptr<PgSQL_SrvC>;

// The connection's user: a session, or the worker's cache while it is idle there.
class Backend_Handler {
public:
	// The login ended; on failure the connection is dead.
	virtual void on_backend_connected(PgSQL_Connection& connection, Result<void> outcome) = 0;
	// The login waits for SCRAM keys: scram_challenge() says of what, set_scram_keys() goes on.
	virtual void on_backend_challenge(PgSQL_Connection& connection) = 0;
	virtual void on_backend_readable(PgSQL_Connection& connection) = 0;
	// All queued bytes are out.
	virtual void on_backend_drained(PgSQL_Connection& connection) = 0;
	// A send failed: the connection is dead.
	virtual void on_backend_broken(PgSQL_Connection& connection) = 0;

protected:
	~Backend_Handler() = default;
};

enum class Connection_State : uint8_t { connecting, idle, busy, dead };

// How to connect: everything libpq needs, as plain values.
struct Connect_Request {
	std::string host;    // name for TLS verification, or a socket directory when port is 0
	std::string address; // numeric; empty: host is numeric or a socket directory
	int port = 5432;
	Conn_Key key;
	Secret password;
	// For SCRAM instead of the password, see Scram_Login_Keys: 32 raw bytes each, or empty.
	Secret scram_client_key;
	Secret scram_server_key;
	// SCRAM keys are asked of the handler, on_backend_challenge().
	bool hold_for_keys = false;
	// Empty for clients' connections: theirs is a tracked parameter like any other.
	std::string application_name;
	// The startup parameter `options`; of a Monitor_Connection only.
	std::string options;
	bool use_ssl = false;
	std::shared_ptr<const Server_Ssl_Params_Row> ssl; // null: none
	Proxy_Protocol protocol = Proxy_Protocol::off;    // which _polar_ parameters to send
	std::string identity_host;                        // stated client address
	int identity_port = 0;
	Tcp_Options tcp;
};

class PgSQL_Connection final : private Io_Handler {
public:
	// Starts connecting; nothing blocks. The server's USED slot must be reserved already; the
	// destructor does not release it.
	PgSQL_Connection(Server_Ptr server, const Connect_Request& request, int64_t now_us);
	~PgSQL_Connection();
	PgSQL_Connection(const PgSQL_Connection&) = delete;
	PgSQL_Connection& operator=(const PgSQL_Connection&) = delete;

	// Hands the connection to a handler in a loop, or takes it out of any loop (detach()).
	void attach(Event_Loop& loop, Backend_Handler& handler);
	// Changes the handler inside the same loop: no system call.
	void set_handler(Backend_Handler& handler) { handler_ = &handler; }
	void detach();
	bool attached() const { return watcher_.active(); }

	Connection_State state() const { return state_; }
	PgSQL_SrvC& server() const { return *server_; }
	const Server_Ptr& server_ptr() const { return server_; }
	const Conn_Key& key() const { return key_; }
	int64_t created_us() const { return created_us_; }
	int fd() const { return fd_; }
	int backend_pid() const;
	// Transaction status of the last ReadyForQuery: I, T or E.
	char transaction_status() const { return transaction_status_; }
	void set_transaction_status(char status) { transaction_status_ = status; }
	const std::string& error() const { return error_; }
	const std::string& error_sqlstate() const { return error_sqlstate_; }

	// What the startup asked for in ReadyForQuery, and whether the first one carried an LSN.
	bool asked_lsn() const { return asked_lsn_; }
	bool asked_xact() const { return asked_xact_; }
	// is_superuser as the server reported it at login (a later SET ROLE does not change this).
	bool superuser() const { return superuser_; }
	bool sends_lsn() const { return sends_lsn_; }
	// Position in the login's own ReadyForQuery; 0 none.
	uint64_t login_lsn() const { return login_lsn_; }
	Proxy_Protocol protocol() const { return protocol_; }

	// ---- login ----
	struct Scram_Challenge {
		std::string salt;
		uint32_t iterations = 0;
	};
	Scram_Challenge scram_challenge() const;
	// 32 raw bytes each. REQUIRES: on_backend_challenge() was called and nothing since.
	void set_scram_keys(const Secret& client_key, const Secret& server_key);

	// ---- traffic; REQUIRES idle or busy ----
	// Sends as much as the socket takes and keeps the rest; false: dead.
	bool send(const iovec* parts, int count);
	bool send(std::string_view bytes);
	// The same; takes the string's memory over when much of it is left unsent. `bytes` is empty
	// afterwards or what it was, and keeps no large memory.
	bool send_all(std::string& bytes);
	// Bytes queued and not yet taken by the socket.
	size_t unsent_bytes() const { return out_.size() - out_sent_; }
	// Reads what is there. >0 bytes; 0 nothing now; -1 closed or failed (dead).
	ssize_t receive(char* buffer, size_t capacity);
	// Bytes are readable although the socket may not become so (TLS records, libpq's buffer).
	bool has_pending_input() const;
	// Stops or restarts watching for input (backpressure).
	void pause_reading(bool paused);
	void set_busy() { state_ = Connection_State::busy; }
	void set_idle(int64_t now_us) {
		state_ = Connection_State::idle;
		last_used_us = now_us;
	}
	// The peer closed it, or it has sent something unasked, while idle: not usable. One system
	// call.
	bool is_stale();

	Backend_State backend_state; // parameters and statements it holds
	int64_t last_used_us = 0;    // monotonic; when it became idle
	uint64_t last_pass = 0;      // loop pass of the last use: is_stale() is skipped within a pass
	// Something may be left behind that nobody tracks: close instead of pooling.
	bool tainted = false;
	// Queries since the counters of the server were last touched.
	uint32_t uncounted_queries = 0;
	uint64_t uncounted_sent = 0;
	uint64_t uncounted_received = 0;

	// Sends a CancelRequest for what runs here, from a thread of its own (bounded, never blocks).
	struct Cancel_Target {
		std::string address;
		int port = 0;
		int pid = 0;
		std::string key;
	};
	Cancel_Target cancel_target() const;

private:
	void on_io(int events) override;
	void step_connect();
	void finish_connect();
	void fail_connect();
	void fail(std::string sqlstate, std::string message);
	bool flush();
	void update_watch();

	// Keys for the login under way that need not be asked for; gone when it is over.
	struct Login_Keys {
		Secret client;
		Secret server;
	};
	std::unique_ptr<Login_Keys> login_keys_;
	Server_Ptr server_;
	const Conn_Key key_;
	const int64_t created_us_;
	pg_conn* pg_ = nullptr;
	int fd_ = -1;
	Connection_State state_ = Connection_State::connecting;
	char transaction_status_ = 'I';
	bool asked_lsn_ = false;
	bool asked_xact_ = false;
	bool sends_lsn_ = false;
	bool superuser_ = false;
	uint64_t login_lsn_ = 0;
	bool paused_ = false;
	Proxy_Protocol protocol_ = Proxy_Protocol::off;
	int connect_wants_ = kIoWrite;
	std::string address_; // numeric, or a socket directory when port_ is 0
	int port_ = 0;
	std::string error_;
	std::string error_sqlstate_;
	std::string out_;
	size_t out_sent_ = 0;
	Event_Loop* loop_ = nullptr;
	Backend_Handler* handler_ = nullptr;
	Io_Watcher watcher_;
};

} // namespace proxy
