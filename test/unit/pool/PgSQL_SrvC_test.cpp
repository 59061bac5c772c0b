#include "Pool_Test_Kit.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::pool_test;

namespace {

// One session's dealings with one server.
struct Client {
	Server_Ptr server;
	std::unique_ptr<PgSQL_Connection> connection;
	std::unique_ptr<PgSQL_Connection> evicted;

	explicit Client(Server_Ptr of) : server(std::move(of)) {}

	Acquire_Status acquire(const Conn_Key& key, const Pool_Waiter* waiter = nullptr) {
		return server->acquire(key, waiter, connection, evicted);
	}
	// Acquires and, when told to create, "connects".
	Acquire_Status take(const Conn_Key& key) {
		const Acquire_Status status = acquire(key);
		if (status == Acquire_Status::create) {
			connection = open_connection(server, key);
		}
		return status;
	}
	std::unique_ptr<PgSQL_Connection> give_back() {
		return server->give_back(std::move(connection));
	}
};

Pool_Waiter waiter_of(const Conn_Key& key, Recording_Sink& sink, uint64_t ticket) {
	return Pool_Waiter{key, &sink, ticket};
}

} // namespace

TEST_CASE("a key is equal only when every part is") {
	const Conn_Key key = key_of("user", "db");
	CHECK(key == key_of("user", "db"));
	CHECK_FALSE(key == key_of("use", "rdb"));
	CHECK_FALSE(key == key_of("user", "db2"));
	Conn_Key other_generation = key_of("user", "db");
	other_generation.generation = 1;
	other_generation.seal();
	CHECK_FALSE(key == other_generation);
	CHECK(key.hash != other_generation.hash);
	Conn_Key other_password = key_of("user", "db");
	other_password.credential = 7;
	other_password.seal();
	CHECK_FALSE(key == other_password);
	CHECK(key_of("").hash != 0);
}

TEST_CASE("keys whose hashes collide are told apart") {
	const Held_Server server(make_server(1));
	Conn_Key a = key_of("a");
	Conn_Key b = key_of("b");
	b.hash = a.hash;
	Client client(server);
	CHECK(client.take(a) == Acquire_Status::create);
	CHECK(client.give_back() == nullptr);
	CHECK(client.acquire(b) == Acquire_Status::create);
}

TEST_CASE("a returned connection is reused by its key, the one used last first") {
	const Held_Server server(make_server(1));
	Client first(server);
	Client second(server);
	CHECK(first.take(key_of("u")) == Acquire_Status::create);
	CHECK(second.take(key_of("u")) == Acquire_Status::create);
	CHECK(server->used.load() == 2);
	const PgSQL_Connection* const last = second.connection.get();
	CHECK(first.give_back() == nullptr);
	CHECK(second.give_back() == nullptr);
	CHECK(server->used.load() == 0);
	CHECK(server->free_count() == 2);
	Client third(server);
	CHECK(third.acquire(key_of("u")) == Acquire_Status::connection);
	CHECK(third.connection.get() == last);
	Client stranger(server);
	CHECK(stranger.acquire(key_of("v")) == Acquire_Status::create);
	CHECK(server->used.load() == 2);
	CHECK(server->free_count() == 1);
	CHECK(server->counters.max_used.load() == 2);
}

TEST_CASE("a full server evicts the longest idle connection of another key for the slot") {
	const Held_Server server(make_server(1, 1, 2));
	Client a(server);
	Client b(server);
	a.take(key_of("a"));
	b.take(key_of("b"));
	const PgSQL_Connection* const oldest = a.connection.get();
	a.give_back();
	b.give_back();
	Client c(server);
	CHECK(c.acquire(key_of("c")) == Acquire_Status::create);
	CHECK(c.evicted.get() == oldest);
	CHECK(server->used.load() == 1);
	CHECK(server->free_count() == 1);
}

TEST_CASE("a server that is not ONLINE, or takes no connections, is unavailable") {
	const Held_Server server(make_server(1));
	Client client(server);
	for (const Server_Status status : {Server_Status::shunned, Server_Status::offline_soft,
	                                   Server_Status::offline_hard, Server_Status::shunned_lag}) {
		server->status.store(status);
		CHECK(client.acquire(key_of("u")) == Acquire_Status::unavailable);
	}
	server->status.store(Server_Status::online);
	server->max_connections.store(0);
	CHECK(client.acquire(key_of("u")) == Acquire_Status::unavailable);
	CHECK(server->used.load() == 0);
}

TEST_CASE("a connection comes back to be closed when its server drains, died or shrank") {
	const Held_Server server(make_server(1));
	Client client(server);
	SECTION("OFFLINE_SOFT") {
		client.take(key_of("u"));
		server->status.store(Server_Status::offline_soft);
	}
	SECTION("killed after it was opened") {
		client.take(key_of("u"));
		server->kill_before_us.store(2);
	}
	SECTION("max_connections lowered") {
		client.take(key_of("u"));
		server->max_connections.store(0);
	}
	CHECK(client.give_back() != nullptr);
	CHECK(server->used.load() == 0);
	CHECK(server->free_count() == 0);
}

TEST_CASE("a returned connection goes straight to the first waiter with its key") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	Client queue(server);
	for (uint64_t ticket = 1; ticket <= 2; ++ticket) {
		const Pool_Waiter waiter = waiter_of(key_of("u"), sink, ticket);
		CHECK(queue.acquire(key_of("u"), &waiter) == Acquire_Status::busy);
	}
	CHECK(server->waiting.load() == 2);
	const PgSQL_Connection* const connection = holder.connection.get();
	CHECK(holder.give_back() == nullptr);
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].ticket == 1);
	CHECK(sink.deliveries[0].connection.get() == connection);
	CHECK(server->used.load() == 1);
	CHECK(server->waiting.load() == 1);
}

TEST_CASE("nobody overtakes the queue") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	const Pool_Waiter waiter = waiter_of(key_of("u"), sink, 1);
	Client queued(server);
	CHECK(queued.acquire(key_of("u"), &waiter) == Acquire_Status::busy);
	server->drop_used();
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].connection == nullptr);
	// The slot is kept for ticket 1.
	Client newcomer(server);
	CHECK(newcomer.acquire(key_of("u")) == Acquire_Status::busy);
	CHECK(queued.acquire(key_of("u"), &waiter) == Acquire_Status::create);
	CHECK(server->used.load() == 1);
}

TEST_CASE("a waiter with another key gets the slot, and the connection is closed for it") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	const Pool_Waiter waiter = waiter_of(key_of("v"), sink, 9);
	Client queued(server);
	CHECK(queued.acquire(key_of("v"), &waiter) == Acquire_Status::busy);
	CHECK(holder.give_back() != nullptr);
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].ticket == 9);
	CHECK(sink.deliveries[0].connection == nullptr);
	CHECK(queued.acquire(key_of("v"), &waiter) == Acquire_Status::create);
}

TEST_CASE("a waiter at the head is passed over a bounded number of times") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("many"));
	Client queue(server);
	const Pool_Waiter rare = waiter_of(key_of("rare"), sink, 1000);
	CHECK(queue.acquire(key_of("rare"), &rare) == Acquire_Status::busy);
	for (uint64_t ticket = 0; ticket < 100; ++ticket) {
		const Pool_Waiter waiter = waiter_of(key_of("many"), sink, ticket);
		CHECK(queue.acquire(key_of("many"), &waiter) == Acquire_Status::busy);
	}
	std::unique_ptr<PgSQL_Connection> travelling = std::move(holder.connection);
	int returns = 0;
	for (; sink.deliveries.empty() || sink.deliveries.back().ticket != 1000; ++returns) {
		REQUIRE(returns <= kMaxPassedOver);
		if (!sink.deliveries.empty()) {
			travelling = std::move(sink.deliveries.back().connection);
		}
		const std::unique_ptr<PgSQL_Connection> closed = server->give_back(std::move(travelling));
	}
	CHECK(returns == kMaxPassedOver + 1);
	// Up to then the others were served in their order.
	for (size_t i = 0; i + 1 < sink.deliveries.size(); ++i) {
		CHECK(sink.deliveries[i].ticket == i);
	}
}

TEST_CASE("cancelling tells whether a connection is on its way") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	Client queue(server);
	const Pool_Waiter first = waiter_of(key_of("u"), sink, 1);
	const Pool_Waiter second = waiter_of(key_of("u"), sink, 2);
	queue.acquire(key_of("u"), &first);
	queue.acquire(key_of("u"), &second);
	CHECK(server->cancel_wait(&sink, 1));
	CHECK(server->waiting.load() == 1);
	holder.give_back();
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].ticket == 2);
	CHECK_FALSE(server->cancel_wait(&sink, 2));
}

TEST_CASE("a kept slot that is given up goes to the next waiter") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	Client queue(server);
	const Pool_Waiter first = waiter_of(key_of("u"), sink, 1);
	const Pool_Waiter second = waiter_of(key_of("u"), sink, 2);
	queue.acquire(key_of("u"), &first);
	queue.acquire(key_of("u"), &second);
	server->drop_used();
	REQUIRE(sink.deliveries.size() == 1);
	SECTION("by cancelling") {
		CHECK(server->cancel_wait(&sink, 1));
	}
	SECTION("by never coming") {
		server->wake_for_slots(INT64_MAX);
	}
	REQUIRE(sink.deliveries.size() == 2);
	CHECK(sink.deliveries[1].ticket == 2);
	CHECK(queue.acquire(key_of("u"), &second) == Acquire_Status::create);
}

TEST_CASE("asking again while queued keeps the place and queues nobody twice") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	Client queue(server);
	const Pool_Waiter first = waiter_of(key_of("u"), sink, 1);
	const Pool_Waiter second = waiter_of(key_of("u"), sink, 2);
	queue.acquire(key_of("u"), &first);
	queue.acquire(key_of("u"), &second);
	queue.acquire(key_of("u"), &first);
	CHECK(server->waiting.load() == 2);
	holder.give_back();
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].ticket == 1);
}

TEST_CASE("more slots wake as many waiters, leaving ONLINE wakes all") {
	const Held_Server server(make_server(1, 1, 1));
	Recording_Sink sink;
	Client holder(server);
	holder.take(key_of("u"));
	Client queue(server);
	for (uint64_t ticket = 1; ticket <= 4; ++ticket) {
		const Pool_Waiter waiter = waiter_of(key_of("u"), sink, ticket);
		queue.acquire(key_of("u"), &waiter);
	}
	server->max_connections.store(3);
	server->wake_for_slots(0);
	CHECK(sink.deliveries.size() == 2);
	server->status.store(Server_Status::shunned);
	server->wake_all();
	CHECK(sink.deliveries.size() == 4);
	CHECK(server->waiting.load() == 0);
}

TEST_CASE("trimming takes the longest idle, the aged, or all") {
	const Held_Server server(make_server(1));
	std::vector<std::unique_ptr<PgSQL_Connection>> held;
	for (int64_t i = 0; i < 5; ++i) {
		std::unique_ptr<PgSQL_Connection> connection;
		std::unique_ptr<PgSQL_Connection> evicted;
		server->acquire(key_of("u"), nullptr, connection, evicted);
		held.push_back(open_connection(server, key_of("u"), 100 - i));
		held.back()->last_used_us = 10 * i;
	}
	for (auto& connection : held) {
		server->give_back(std::move(connection));
	}
	CHECK(server->take_excess(3, 5).size() == 1); // the second is not idle long enough
	CHECK(server->take_excess(3, INT64_MAX).size() == 1);
	CHECK(server->take_aged(98).size() == 2); // created at 96 and 97
	CHECK(server->take_free(INT64_MAX).size() == 1);
	CHECK(server->free_count() == 0);
	CHECK(live_connections() == 0);
}

TEST_CASE("connect errors are counted by the second") {
	const Held_Server server(make_server(1));
	CHECK(server->note_connect_error(5'000'000) == 1);
	CHECK(server->note_connect_error(5'900'000) == 2);
	CHECK(server->note_connect_error(6'000'000) == 1);
}
