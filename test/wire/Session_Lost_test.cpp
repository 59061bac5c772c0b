// Servers and clients that go away at every moment of a statement.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
const std::string kInsert = query("insert into t values (1)");

Rig_Setup eventual(int replicas) {
	Rig_Setup setup;
	setup.consistency = Consistency_Mode::eventual;
	setup.replicas = replicas;
	return setup;
}

std::string lost_text(const Rig& rig) {
	return "server 127.0.0.1:" + std::to_string(rig.primary.port()) + " (hostgroup 10)";
}

std::string lost(const Rig& rig) {
	return proxy_error("08006", "server closed the connection unexpectedly", "ERROR",
	                   lost_text(rig));
}

// Logged in, with BEGIN answered.
struct In_Transaction {
	In_Transaction() : client(rig.login()) {
		client->send(query("begin"));
		server = rig.primary.accept();
		server->expect(query("begin"));
		server->send(complete("BEGIN") + ready('T'));
		client->expect(complete("BEGIN") + ready('T'));
	}
	Rig rig;
	Client client;
	Peer_Ptr server;
};
} // namespace

TEST_CASE("a write is never run twice, wherever its server is lost") {
	const std::string answer = complete("INSERT 0 1");
	for (const bool extended : {false, true}) {
		const std::string sent =
		    extended ? parse("", "insert into t values (1)") + bind_to("", "") + execute("") + kSync
		             : kInsert;
		for (const std::string before : {"", "half", "whole"}) {
			Rig rig;
			Client client = rig.login();
			client->send(sent);
			Peer_Ptr server = rig.primary.accept();
			server->expect(sent);
			const std::string head = extended ? kParseComplete + kBindComplete : std::string();
			if (before == "half") {
				server->send(head + answer.substr(0, 7));
			} else if (before == "whole") {
				server->send(head + answer);
			}
			rig.settle();
			server->close();
			INFO((extended ? "extended, " : "simple, ") << "lost after: " << before);
			client->expect((before.empty() ? "" : head) + (before == "whole" ? answer : ""));
			// Whoever cannot be told in order is let go; half a CommandComplete was kept back.
			if (before == "half") {
				client->expect_end();
			} else {
				client->expect(lost(rig) + ready('I'));
				client->expect_nothing();
			}
			CHECK(rig.primary.nobody_comes());
			CHECK(rig.failures == std::vector<int>{rig.primary.port()});
		}
	}
}

TEST_CASE("a read whose answer has not begun runs again, one that has begun does not") {
	const std::string read = query("select c from t");
	SECTION("nothing came") {
		Rig rig(eventual(2));
		Client client = rig.login();
		client->send(read);
		rig.settle();
		const size_t first = rig.server(Rig::kReader, 0)->used.load() > 0 ? 0 : 1;
		Peer_Ptr one = rig.replicas[first]->accept();
		one->expect(read);
		one->close();
		Peer_Ptr two = rig.replicas[1 - first]->accept();
		two->expect(read);
		two->close();
		Peer_Ptr three = rig.primary.accept();
		three->expect(read);
		three->send(one_row("1") + ready('I'));
		client->expect(one_row("1") + ready('I'));
		client->expect_nothing();
	}
	SECTION("a whole message went out") {
		Rig rig(eventual(1));
		Client client = rig.login();
		client->send(read);
		Peer_Ptr one = rig.replicas[0]->accept();
		one->expect(read);
		one->send(columns("c") + row("1"));
		client->expect(columns("c") + row("1"));
		one->close();
		CHECK(client->receive_message().find("08006") != std::string::npos);
		client->expect(ready('I'));
		CHECK(rig.primary.nobody_comes());
	}
	SECTION("half a row went out") {
		Rig rig(eventual(1));
		Client client = rig.login();
		client->send(read);
		Peer_Ptr one = rig.replicas[0]->accept();
		one->expect(read);
		one->send(columns("c") + row("12345").substr(0, 9));
		client->expect(columns("c") + row("12345").substr(0, 9));
		one->close();
		client->expect_end();
		CHECK(rig.ended(client));
	}
	SECTION("a FATAL in front of the end") {
		Rig rig(eventual(1));
		Client client = rig.login();
		client->send(read);
		Peer_Ptr one = rig.replicas[0]->accept();
		one->expect(read);
		one->send(error("57P01", "terminating connection", "FATAL"));
		one->close();
		Peer_Ptr primary = rig.primary.accept();
		primary->expect(read);
		primary->send(one_row("1") + ready('I'));
		client->expect(one_row("1") + ready('I'));
		CHECK(rig.failures.empty());
	}
}

TEST_CASE("a FATAL for a write is told in the server's words") {
	Rig rig;
	Client client = rig.login();
	client->send(kInsert);
	Peer_Ptr server = rig.primary.accept();
	server->expect(kInsert);
	server->send_bytewise(error("57P01", "terminating connection", "FATAL"));
	server->close();
	client->expect(proxy_error("57P01", "terminating connection", "ERROR", lost_text(rig)) +
	               ready('I'));
	client->expect_nothing();
}

TEST_CASE("a replica that refuses what the primary can do is passed over") {
	for (const std::string sqlstate : {"25006", "0A000", "55000", "40001"}) {
		Rig rig(eventual(1));
		Client client = rig.login();
		client->send(query("select c from t"));
		Peer_Ptr one = rig.replicas[0]->accept();
		one->expect(query("select c from t"));
		one->send(error(sqlstate, "not here") + ready('I'));
		Peer_Ptr primary = rig.primary.accept();
		primary->expect(query("select c from t"));
		primary->send(one_row("1") + ready('I'));
		client->expect(one_row("1") + ready('I'));
		client->expect_nothing();
	}
}

TEST_CASE("a lost transaction refuses everything until it is ended") {
	In_Transaction on;
	on.client->send(kInsert);
	on.server->expect(kInsert);
	on.server->close();
	on.client->expect(lost(on.rig) + ready('E'));
	const std::string aborted = proxy_error("25P02", "current transaction is aborted, commands "
	                                                 "ignored until end of transaction block");
	on.client->send(kInsert);
	on.client->expect(aborted + ready('E'));
	on.client->send(parse("", "select 1") + bind_to("", "") + execute("") + kSync);
	on.client->expect(aborted + ready('E'));
	on.client->send(query("rollback"));
	on.client->expect(complete("ROLLBACK") + ready('I'));
	on.client->expect_nothing();
	CHECK(on.rig.primary.nobody_comes());
	on.client->send(kInsert);
	Peer_Ptr next = on.rig.primary.accept();
	next->expect(kInsert);
	next->send(complete("INSERT 0 1") + ready('I'));
	on.client->expect(complete("INSERT 0 1") + ready('I'));
}

TEST_CASE("a transaction that is lost while its client is idle is told with the next statement") {
	for (const std::string next : {"commit", "insert into t values (1)"}) {
		In_Transaction on;
		on.server->close();
		on.rig.settle();
		on.client->expect_nothing();
		on.client->send(query(next));
		const std::string got = on.client->receive_message();
		INFO(printable(got));
		CHECK(got[0] == 'E');
		CHECK(got.find("08006") != std::string::npos);
		on.client->expect(ready(next == "commit" ? 'I' : 'E'));
		CHECK(on.rig.primary.nobody_comes());
	}
}

TEST_CASE("a COMMIT that is lost on its way ends the block, one that chains does not") {
	for (const bool extended : {false, true}) {
		In_Transaction open;
		const std::string commit = extended
		                               ? parse("", "commit") + bind_to("", "") + execute("") + kSync
		                               : query("commit");
		open.client->send(commit);
		open.server->expect(commit);
		open.server->close();
		open.client->expect(lost(open.rig) + ready('I'));
		// Outside of it the next statement goes to a server.
		open.client->send(kInsert);
		open.rig.primary.accept()->expect(kInsert);
	}
	In_Transaction open;
	open.client->send(query("commit and chain"));
	open.server->expect(query("commit and chain"));
	open.server->close();
	open.client->expect(lost(open.rig) + ready('E'));
}

TEST_CASE("a farewell in an idle transaction is the end of it") {
	In_Transaction on;
	on.server->send(error("57P01", "terminating connection", "FATAL"));
	on.server->close();
	on.rig.settle();
	on.client->send(query("rollback"));
	on.client->expect(complete("ROLLBACK") + ready('I'));
	on.client->expect_nothing();
	CHECK(on.rig.primary.nobody_comes());
}

TEST_CASE("a client that is tied to its lost server is let go") {
	Rig rig;
	Client client = rig.login();
	client->send(query("create temp table x (i int)"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query("create temp table x (i int)"));
	server->send(complete("CREATE TABLE") + ready('I'));
	client->expect(complete("CREATE TABLE") + ready('I'));
	server->close();
	rig.settle();
	CHECK(client->receive_rest().find("SFATAL") != std::string::npos);
	CHECK(rig.ended(client));
}

// ---- clients ----

TEST_CASE("a client that vanishes leaves nothing behind, whatever it was doing") {
	SECTION("before its startup packet") {
		Rig rig;
		Client client = rig.open_client();
		client->send("\0\0");
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
	}
	SECTION("in its login") {
		Rig rig;
		Client client = rig.open_client();
		client->send(startup_packet({{"user", "app"}}));
		client->expect(message('R', u32(3)));
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
	}
	SECTION("idle") {
		Rig rig;
		Client client = rig.login();
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
	}
	SECTION("in the middle of a message") {
		Rig rig;
		Client client = rig.login();
		client->send(kInsert.substr(0, 9));
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
		CHECK(rig.primary.nobody_comes());
	}
	SECTION("while a server is connected to") {
		Rig rig;
		Client client = rig.login();
		client->send(kInsert);
		Peer_Ptr server = rig.primary.accept_raw();
		CHECK(rig.state(client) == Session_State::connecting_server);
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
		server->expect_end();
		CHECK(rig.server(Rig::kWriter)->used.load() == 0);
	}
	SECTION("while it waits for a full server") {
		Rig_Setup setup;
		setup.max_connections = 1;
		Rig rig(setup);
		Client first = rig.login();
		first->send(query("begin"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("begin"));
		server->send(complete("BEGIN") + ready('T'));
		first->expect(complete("BEGIN") + ready('T'));
		Client second = rig.login();
		second->send(kInsert);
		CHECK(rig.state(second) == Session_State::waiting_server);
		second->close();
		CHECK(rig.state(second) == Session_State::ended);
		CHECK(rig.server(Rig::kWriter)->waiting.load() == 0);
		first->send(query("commit"));
		server->expect(query("commit"));
		server->send(complete("COMMIT") + ready('I'));
		first->expect(complete("COMMIT") + ready('I'));
	}
	SECTION("while its statement runs") {
		Rig rig;
		Client client = rig.login();
		client->send(kInsert);
		Peer_Ptr server = rig.primary.accept();
		server->expect(kInsert);
		client->close();
		CHECK(rig.state(client) == Session_State::ended);
		server->expect_end(kTerminate);
		REQUIRE(rig.cancels.size() == 1);
		CHECK(rig.cancels[0].target.port == rig.primary.port());
		CHECK(rig.server(Rig::kWriter)->used.load() == 0);
	}
	SECTION("while its answer comes") {
		Rig rig;
		Client client = rig.login();
		client->send(query("select c from t"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("select c from t"));
		server->send(columns("c") + row(std::string(1000, 'x')));
		client->close();
		rig.settle();
		CHECK(rig.state(client) == Session_State::ended);
		server->receive_rest();
		CHECK(rig.server(Rig::kWriter)->used.load() == 0);
	}
	SECTION("in a transaction") {
		In_Transaction on;
		on.client->close();
		CHECK(on.rig.state(on.client) == Session_State::ended);
		on.server->expect_end(kTerminate);
		CHECK(on.rig.cancels.empty());
		CHECK(on.rig.server(Rig::kWriter)->used.load() == 0);
	}
}

TEST_CASE("a waiting client gets the connection that another gives back") {
	Rig_Setup setup;
	setup.max_connections = 1;
	Rig rig(setup);
	Client first = rig.login();
	first->send(kInsert);
	Peer_Ptr server = rig.primary.accept();
	server->expect(kInsert);
	Client second = rig.login();
	second->send(kInsert);
	CHECK(rig.state(second) == Session_State::waiting_server);
	server->send(complete("INSERT 0 1") + ready('I'));
	first->expect(complete("INSERT 0 1") + ready('I'));
	server->expect(kInsert);
	server->send(complete("INSERT 0 2") + ready('I'));
	second->expect(complete("INSERT 0 2") + ready('I'));
	// The connection is lost in between: the waiter gets the slot.
	first->send(kInsert);
	server->expect(kInsert);
	second->send(kInsert);
	CHECK(rig.state(second) == Session_State::waiting_server);
	server->close();
	first->expect(lost(rig) + ready('I'));
	Peer_Ptr next = rig.primary.accept();
	next->expect(kInsert);
	next->send(complete("INSERT 0 3") + ready('I'));
	second->expect(complete("INSERT 0 3") + ready('I'));
}

TEST_CASE("a server that refuses the login is told as it is, once") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("", "insert into t values (1)") + bind_to("", "") + execute("") + kSync);
	Peer_Ptr server = rig.primary.accept_raw();
	server->send(error("3D000", "database \"db\" does not exist", "FATAL"));
	server->close();
	const std::string got = client->receive_message();
	CHECK(got.find("C3D000") != std::string::npos);
	CHECK(got.find("database \"db\" does not exist") != std::string::npos);
	client->expect(ready('I'));
	client->expect_nothing();
	CHECK(rig.primary.nobody_comes());
}

// ---- backpressure ----

TEST_CASE("a client that does not read holds up its server, and loses nothing") {
	Rig rig;
	Client client = rig.login();
	client->send(query("select c from t"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query("select c from t"));
	const std::string one = row(std::string(5000, 'x'));
	std::string sent;
	constexpr size_t kEnough = 64UL * 1024 * 1024;
	std::string rest;
	int idle_rounds = 0;
	while (idle_rounds < 20 && sent.size() < kEnough) {
		rest = rest.empty() ? one : rest;
		const size_t taken = server->send_some(rest);
		sent += rest.substr(0, taken);
		rest.erase(0, taken);
		idle_rounds = taken == 0 ? idle_rounds + 1 : 0;
		rig.settle();
	}
	CHECK(sent.size() < kEnough); // it was not all taken in
	CHECK(rig.session(client)->memory_bytes() < 4UL * 1024 * 1024);
	CHECK_BYTES(client->receive(sent.size()), sent);
	server->send(rest + complete("SELECT 1") + ready('I'));
	client->expect(rest + complete("SELECT 1") + ready('I'));
}

} // namespace proxy::wire
