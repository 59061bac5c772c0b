// LISTEN for clients that share server connections: one server connection a database listens to
// every channel that any client listens to, and its notifications go to those clients.
//
// Each listener belongs to one worker, chosen by its key, and lives on that worker's thread;
// sessions of all workers reach it by Listen_Orders, and it reaches them through their workers'
// mailboxes. Its connection is apart from the pool and not counted there. A lost one is opened
// again, on the writer of that moment, and listens to the same channels; what was notified
// meanwhile is lost, as for a client that reconnects.
#pragma once

#include "session/Session_Listen.h"
#include "session/Worker_Context.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace proxy {

class Worker_Mailbox;

// A worker and one of its sessions.
struct Listener_Client {
	uint32_t worker = 0;
	uint32_t session = 0;
};

class Notify_Listener final : private Backend_Handler {
public:
	Notify_Listener(Listen_Key key, Worker_Context& worker, std::vector<Worker_Mailbox*>& peers)
	    : key_(std::move(key)), worker_(worker), peers_(peers) {}
	~Notify_Listener();
	Notify_Listener(const Notify_Listener&) = delete;
	Notify_Listener& operator=(const Notify_Listener&) = delete;

	void take(const Listener_Client& from, const Listen_Order& order);
	// Once a second or oftener: opens what is to be open, on the right server. False: nobody has
	// listened for a while, and the listener can be deleted.
	bool tick();

private:
	struct Channel {
		bool active = false;                      // the server listens
		std::unordered_set<uint64_t> subscribers; // worker and session
	};
	// An order whose answer is outstanding.
	struct Waiting {
		Listener_Client client;
		uint32_t ticket = 0;
		std::string user;                  // listen: of the login
		std::vector<std::string> channels; // listen: taken back when it fails
	};
	struct Login {
		std::shared_ptr<const Connect_Request> request;
		size_t orders = 0; // newest first
	};

	void on_backend_connected(PgSQL_Connection& connection, Result<void> outcome) override;
	void on_backend_challenge(PgSQL_Connection&) override {} // its request asks for none
	void on_backend_readable(PgSQL_Connection& connection) override;
	void on_backend_drained(PgSQL_Connection&) override {}
	void on_backend_broken(PgSQL_Connection& connection) override;

	void connect();
	void lost(const std::string& why);
	void close();
	void pump();
	bool on_frame(char type, std::span<const uint8_t> body, std::string_view whole);
	void on_answer();
	void notify(std::span<const uint8_t> body, std::string_view whole);
	void deliver();
	void remove(uint64_t client, const std::string& channel);
	void answer(std::vector<Waiting>& waiting, bool listens);
	bool server_is_right() const;

	const Listen_Key key_;
	Worker_Context& worker_;
	std::vector<Worker_Mailbox*>& peers_;
	std::unique_ptr<PgSQL_Connection> connection_;
	std::string in_; // of the server, not yet whole
	std::map<std::string, Channel, std::less<>> channels_;
	std::vector<std::string> changed_; // channels to be brought in line at the server
	std::vector<std::string> asked_;   // of them, those under way
	std::vector<Waiting> waiting_;
	std::vector<Waiting> answering_; // answered by the query under way
	std::map<std::string, Login> logins_;
	uint64_t login_order_ = 0;
	bool busy_ = false;
	int64_t busy_since_us_ = 0;
	bool failed_ = false;   // the query under way was refused
	bool was_lost_ = false; // to be told when it listens again
	std::unique_ptr<PgSQL_Connection> closed_;
	int64_t retry_at_us_ = 0;
	int64_t empty_since_us_ = 0;
	// Notifications of one read, and who gets them.
	struct Outgoing {
		Notification_Ptr notification;
		std::vector<uint32_t> sessions;
	};
	std::map<uint32_t, std::vector<Outgoing>> outgoing_; // by worker
};

class Notify_Hub {
public:
	Notify_Hub(Worker_Context& worker, std::vector<Worker_Mailbox*>& peers)
	    : worker_(worker), peers_(peers) {}

	void take(uint32_t from_worker, const Listen_Order& order);
	void tick();
	bool empty() const { return listeners_.empty(); }
	void clear() { listeners_.clear(); }

private:
	Worker_Context& worker_;
	std::vector<Worker_Mailbox*>& peers_;
	std::map<Listen_Key, std::unique_ptr<Notify_Listener>> listeners_;
};

} // namespace proxy
