// Idle server connections that one worker keeps between statements: taking one costs no lock and no
// system call, because it stays registered with the worker's loop. They count as USED at their
// server. Given back when somebody waits for the server, when they have been idle for a while, or
// when the worker is told to (reclaim).
//
// Owned by a worker; its thread only.
#pragma once

#include "backend/PgSQL_Connection.h"
#include "pool/PgSQL_SrvC.h"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace proxy {

class Thread_Conn_Cache final : private Backend_Handler {
public:
	explicit Thread_Conn_Cache(Event_Loop& loop) : loop_(loop) {}
	~Thread_Conn_Cache();
	Thread_Conn_Cache(const Thread_Conn_Cache&) = delete;
	Thread_Conn_Cache& operator=(const Thread_Conn_Cache&) = delete;

	// The connection of `server` with this key that is closest to `parameters_hash`; null: none.
	std::unique_ptr<PgSQL_Connection> take(PgSQL_SrvC& server, const Conn_Key& key,
	                                       uint64_t parameters_hash);
	// Keeps a clean idle connection, or passes it on when the server is waited for or not ONLINE.
	void put(std::unique_ptr<PgSQL_Connection> connection, int64_t now_us);
	// Closes a connection that cannot be reused and frees its slot.
	static void destroy(std::unique_ptr<PgSQL_Connection> connection);

	// Adds what the connection counted by itself to its server's shared counters.
	static void flush_counters(PgSQL_Connection& connection);
	// The same for every connection kept here.
	void flush_all_counters();

	// Hands everything of `server` (null: of all servers) to the shared lists.
	void give_back(PgSQL_SrvC* server);
	// Hands over what has been idle since `before_us`, and all of servers that are waited for.
	void give_back_idle(int64_t before_us);
	// Closes the connections the loop found closed by their server while idle here.
	void close_stale();
	size_t size() const { return size_; }
	// Adds the number of connections here, by server.
	void count(std::map<const PgSQL_SrvC*, int64_t>& counts) const {
		for (const auto& [server, connections] : by_server_) {
			if (!connections.empty()) {
				counts[server] += static_cast<int64_t>(connections.size());
			}
		}
	}

private:
	void on_backend_connected(PgSQL_Connection&, Result<void>) override {}
	void on_backend_challenge(PgSQL_Connection&) override {}
	void on_backend_readable(PgSQL_Connection& connection) override;
	void on_backend_drained(PgSQL_Connection&) override {}
	void on_backend_broken(PgSQL_Connection& connection) override;
	void pass_on(std::unique_ptr<PgSQL_Connection> connection);

	using Connections = std::vector<std::unique_ptr<PgSQL_Connection>>;

	Event_Loop& loop_;
	// The key is alive while its list is not empty: each connection holds its server.
	std::unordered_map<PgSQL_SrvC*, Connections> by_server_;
	Connections stale_;
	size_t size_ = 0;
};

} // namespace proxy
