// One client of the admin port, without its socket: bytes in, bytes out. Simple queries only; the
// first message of the extended protocol gets one error, then everything up to Sync is dropped.
// (PostgreSQL manual, "Message Flow".)
//
//   startup --StartupMessage--> password --accepted--> ready <--Sync-- skipping
//      |  SSLRequest, GSSENCRequest: 'N', stay           |  --Parse etc.--> skipping
//      +--CancelRequest, error--> closed <--error, X-----+
//
//   startup   waits for the first packet; nothing is known about the client
//   password  waits for an answer to the last challenge; auth_ is set
//   ready     waits for a message; client_ says who it is
//   skipping  waits for Sync
//   closed    the caller sends what is left in `out` and closes
//
// Used by one thread. The server bounds the time until ready.
#pragma once

#include "admin/Admin_Core.h"
#include "auth/Auth_Flow.h"
#include "base/Result.h"
#include "base/Secret.h"
#include "protocol/Frame_Reader.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

// What a session needs from the admin; called from client threads, so implementations lock.
class Admin_Host {
public:
	virtual ~Admin_Host() = default;

	struct Login {
		bool known = false;
		Secret secret;
		Admin_Role role = Admin_Role::stats;
		Auth_Method floor = Auth_Method::scram_sha_256;
		std::string server_version;
		std::string server_encoding;
	};
	virtual Login find_login(std::string_view username) = 0;
	virtual Result<Admin_Answer> execute(const Admin_Client& client,
	                                     std::string_view statement) = 0;
	virtual void cancel(uint32_t pid, std::string_view key) = 0;
};

// The connection under a session.
struct Admin_Peer {
	std::string address; // for messages: an IP address, or "localhost" for a Unix socket
	bool local = false;
	uint32_t pid = 0; // what BackendKeyData says
	std::string key;  // 4 bytes
	// Raised to stop the running statement; owned by the server, outlives the session.
	std::atomic<bool>* cancelled = nullptr;
};

class Admin_Session {
public:
	enum class State : uint8_t { startup, password, ready, skipping, closed };

	Admin_Session(Admin_Host& host, Admin_Peer peer);

	// Takes bytes from the client and appends the answer to `out`. closed: send `out` and close.
	State feed(std::span<const uint8_t> bytes, std::string& out);
	State state() const { return state_; }
	bool logged_in() const { return state_ == State::ready || state_ == State::skipping; }

	// Longest message of a client that has logged in: a large INSERT fits, and 200 clients at it
	// do not exhaust the memory.
	static constexpr uint32_t kMaxMessageBytes = 64U << 20;
	// Bytes of answers that wait to be sent to one client; more is an error.
	static constexpr size_t kMaxWaitingBytes = size_t{128} << 20;

private:
	// True: look for the next message.
	bool on_startup_bytes(std::string& out);
	bool on_frame_bytes(std::string& out);
	void on_startup_packet(std::string& out);
	void on_password(std::span<const uint8_t> body, std::string& out);
	void on_auth_status(Auth_Flow::Status status, const std::string& reply, std::string& out);
	void on_message(const Frame& frame, std::string& out);
	void on_query(std::string_view sql, std::string& out);
	void finish_login(std::string& out);
	void append_answer(const Admin_Answer& answer, std::string& out);
	void fail(std::string_view sqlstate, std::string message, std::string& out);
	void set_state(State next);
	void take(size_t bytes);

	Admin_Host& host_;
	Admin_Peer peer_;
	State state_ = State::startup;
	std::string input_;
	std::unique_ptr<Auth_Flow> auth_;
	Admin_Host::Login login_;
	std::string username_;
	std::string application_name_;
	bool has_application_name_ = false;
};

} // namespace proxy
