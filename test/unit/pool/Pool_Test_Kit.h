// What the pool's tests share: servers without sockets.
//
// The pool only moves connections about, so the tests link their own constructor and destructor of
// PgSQL_Connection (Pool_Test_Kit.cpp) in place of those that connect.
#pragma once

#include "backend/PgSQL_Connection.h"
#include "pool/Hostgroup_View.h"
#include "pool/PgSQL_SrvC.h"

#include <memory>
#include <string>
#include <vector>

namespace proxy::pool_test {

// Connections alive in this process.
int64_t live_connections();

inline Conn_Key key_of(const std::string& username, const std::string& database = "db") {
	Conn_Key key;
	key.username = username;
	key.database = database;
	key.seal();
	return key;
}

// A server of a test. A connection refers to its server, so what is FREE at the end must be taken
// out for either to go.
struct Held_Server {
	Server_Ptr server;
	explicit Held_Server(Server_Ptr of) : server(std::move(of)) {}
	~Held_Server() { server->take_free(INT64_MAX); }
	Held_Server(const Held_Server&) = delete;
	Held_Server& operator=(const Held_Server&) = delete;
	PgSQL_SrvC* operator->() const { return server.get(); }
	operator const Server_Ptr&() const { return server; }
};

inline Server_Ptr make_server(int port, int64_t weight = 1, int64_t max_connections = 100) {
	auto server =
	    std::make_shared<PgSQL_SrvC>(0, "10.0.0.1", port, std::make_shared<Server_Health>());
	server->weight.store(weight);
	server->max_connections.store(max_connections);
	return server;
}

inline std::unique_ptr<PgSQL_Connection>
open_connection(const Server_Ptr& server, const Conn_Key& key, int64_t created_us = 1) {
	Connect_Request request;
	request.key = key;
	return std::make_unique<PgSQL_Connection>(server, request, created_us);
}

// Remembers what was delivered, in order.
class Recording_Sink final : public Pool_Waiter_Sink {
public:
	struct Delivery {
		uint64_t ticket = 0;
		std::unique_ptr<PgSQL_Connection> connection;
	};
	void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) override {
		deliveries.push_back(Delivery{ticket, std::move(connection)});
	}
	std::vector<Delivery> deliveries;
};

} // namespace proxy::pool_test
