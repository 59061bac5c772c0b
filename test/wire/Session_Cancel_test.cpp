// Cancel requests, timeouts and shutdown, at every state of a session.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
const std::string kInsert = query("insert into t values (1)");
const std::string kCanceled = proxy_error("57014", "canceling statement due to user request");
const std::string kShutDown =
    proxy_error("57P01", "terminating connection due to administrator command", "FATAL");

Client ask_to_cancel(Rig& rig, uint32_t pid, const std::string& key) {
	Client asker = rig.open_client();
	asker->send(u32(16) + u32(80877102) + u32(pid) + key);
	rig.settle();
	return asker;
}

// A client whose statement runs.
struct Running {
	Running() : client(rig.login()) {
		client->send(kInsert);
		server = rig.primary.accept();
		server->expect(kInsert);
	}
	Rig rig;
	Client client;
	Peer_Ptr server;
};
} // namespace

TEST_CASE("a cancel of a running statement goes to its server, and the connection waits for it") {
	Running on;
	Client asker = ask_to_cancel(on.rig, on.client.pid, on.client.key);
	REQUIRE(on.rig.cancels.size() == 1);
	CHECK(on.rig.cancels[0].target.port == on.rig.primary.port());
	CHECK(on.rig.cancels[0].target.pid == static_cast<int>(Scripted_Server::kPid));
	CHECK_BYTES(on.rig.cancels[0].target.key, u32(Scripted_Server::kKey));
	// A second one while the first is on its way is one too many.
	Client second_asker = ask_to_cancel(on.rig, on.client.pid, on.client.key);
	CHECK(on.rig.cancels.size() == 1);
	on.rig.advance_ms(2);
	second_asker->expect_end();
	asker->expect_nothing();
	CHECK_FALSE(on.rig.ended(asker));
	on.server->send(error("57014", "canceling statement due to user request") + ready('I'));
	on.client->expect(error("57014", "canceling statement due to user request") + ready('I'));
	// It may still arrive: nobody else gets this connection before it has.
	CHECK(on.rig.pooled() == 0);
	CHECK(on.rig.held() == 1);
	on.client->send(query("select 1"));
	Peer_Ptr other = on.rig.primary.accept();
	other->expect(query("select 1"));
	other->send(one_row("1") + ready('I'));
	on.client->expect(one_row("1") + ready('I'));
	on.rig.cancels[0].ticket->set(Cancel_State::settled);
	on.rig.advance_ms(2);
	asker->expect_end();
	CHECK(on.rig.held() == 0);
	CHECK(on.rig.pooled() == 2);
}

TEST_CASE("a transaction that was canceled starts nothing before the cancel has settled") {
	for (const Cancel_State outcome : {Cancel_State::settled, Cancel_State::uncertain}) {
		Running on;
		Client asker = ask_to_cancel(on.rig, on.client.pid, on.client.key);
		REQUIRE(on.rig.cancels.size() == 1);
		on.server->send(error("57014", "canceling statement due to user request") + ready('E'));
		on.client->expect(error("57014", "canceling statement due to user request") + ready('E'));
		on.client->send(query("rollback"));
		on.server->expect_nothing();
		on.rig.cancels[0].ticket->set(outcome);
		on.rig.advance_ms(2);
		on.server->expect(query("rollback"));
		on.server->send(complete("ROLLBACK") + ready('I'));
		on.client->expect(complete("ROLLBACK") + ready('I'));
		// Nobody else gets a connection that a signal may still be on its way to.
		CHECK(on.rig.pooled() == (outcome == Cancel_State::settled ? 1 : 0));
		asker->expect_end();
	}
}

TEST_CASE("a cancel with a wrong key or process does nothing") {
	Running on;
	std::string wrong = on.client.key;
	wrong[0] = static_cast<char>(wrong[0] ^ 1);
	ask_to_cancel(on.rig, on.client.pid, wrong);
	ask_to_cancel(on.rig, on.client.pid + 1000, on.client.key);
	CHECK(on.rig.cancels.empty());
}

TEST_CASE("a cancel of an idle session does nothing") {
	Rig rig;
	Client client = rig.login();
	ask_to_cancel(rig, client.pid, client.key);
	client->expect_nothing();
	CHECK(rig.cancels.empty());
	CHECK(rig.state(client) == Session_State::waiting_client_data);
}

TEST_CASE("a cancel ends the wait for a server") {
	for (const bool extended : {false, true}) {
		const std::string sent =
		    extended ? parse("", "insert into t values (1)") + bind_to("", "") + execute("") + kSync
		             : kInsert;
		SECTION(extended ? "connecting, extended" : "connecting, simple") {
			Rig rig;
			Client client = rig.login();
			client->send(sent);
			Peer_Ptr server = rig.primary.accept_raw();
			CHECK(rig.state(client) == Session_State::connecting_server);
			ask_to_cancel(rig, client.pid, client.key);
			client->expect(kCanceled + ready('I'));
			server->expect_end();
			client->expect_nothing();
		}
		SECTION(extended ? "full, extended" : "full, simple") {
			Rig_Setup setup;
			setup.max_connections = 1;
			Rig rig(setup);
			Client first = rig.login();
			first->send(kInsert);
			Peer_Ptr server = rig.primary.accept();
			server->expect(kInsert);
			Client client = rig.login();
			client->send(sent);
			CHECK(rig.state(client) == Session_State::waiting_server);
			ask_to_cancel(rig, client.pid, client.key);
			client->expect(kCanceled + ready('I'));
			client->expect_nothing();
			CHECK(rig.server(Rig::kWriter)->waiting.load() == 0);
			CHECK(rig.cancels.empty());
		}
	}
}

TEST_CASE("a canceled read is not run again elsewhere") {
	Rig_Setup setup;
	setup.consistency = Consistency_Mode::eventual;
	setup.replicas = 1;
	Rig rig(setup);
	Client client = rig.login();
	client->send(query("select c from t"));
	Peer_Ptr replica = rig.replicas[0]->accept();
	replica->expect(query("select c from t"));
	ask_to_cancel(rig, client.pid, client.key);
	replica->send(error("40001", "canceling statement due to conflict with recovery") + ready('I'));
	client->expect(error("40001", "canceling statement due to conflict with recovery") +
	               ready('I'));
	CHECK(rig.primary.nobody_comes());
}

TEST_CASE("timeouts end what takes too long") {
	SECTION("a login") {
		Rig rig;
		Client client = rig.open_client();
		rig.advance_ms(9'999);
		CHECK(rig.state(client) == Session_State::connecting_client);
		rig.advance_ms(2);
		client->expect_end();
	}
	SECTION("a connect, tried again until the acquire limit") {
		Rig rig;
		Client client = rig.login();
		client->send(kInsert);
		Peer_Ptr silent = rig.primary.accept_raw();
		rig.advance_ms(1'001);
		silent->expect_end();
		rig.advance_ms(2);
		CHECK(rig.primary.nobody_comes()); // the one that has failed, not at once
		rig.advance_ms(51);
		Peer_Ptr second = rig.primary.accept();
		second->expect(kInsert);
		second->send(complete("INSERT 0 1") + ready('I'));
		client->expect(complete("INSERT 0 1") + ready('I'));
	}
	SECTION("the wait for a full server") {
		Rig_Setup setup;
		setup.max_connections = 1;
		Rig rig(setup);
		Client first = rig.login();
		first->send(kInsert);
		Peer_Ptr server = rig.primary.accept();
		server->expect(kInsert);
		Client second = rig.login();
		second->send(kInsert);
		rig.settle();
		rig.advance_ms(10'001);
		CHECK(second->receive_message().find("53300") != std::string::npos);
		second->expect(ready('I'));
		CHECK(rig.server(Rig::kWriter)->waiting.load() == 0);
	}
}

TEST_CASE("a shutdown ends idle sessions at once and others with their work") {
	SECTION("before the login") {
		Rig rig;
		Client client = rig.open_client();
		rig.shut_down_all();
		client->expect_end(kShutDown);
	}
	SECTION("idle") {
		Rig rig;
		Client client = rig.login();
		rig.shut_down_all();
		client->expect_end(kShutDown);
	}
	SECTION("running") {
		Running on;
		on.rig.shut_down_all();
		on.client->expect_nothing();
		on.server->send(complete("INSERT 0 1") + ready('I'));
		on.client->expect_end(complete("INSERT 0 1") + ready('I') + kShutDown);
	}
	SECTION("in a transaction") {
		Rig rig;
		Client client = rig.login();
		client->send(query("begin"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("begin"));
		server->send(complete("BEGIN") + ready('T'));
		client->expect(complete("BEGIN") + ready('T'));
		rig.shut_down_all();
		client->expect_nothing();
		client->send(query("commit"));
		server->expect(query("commit"));
		server->send(complete("COMMIT") + ready('I'));
		client->expect_end(complete("COMMIT") + ready('I') + kShutDown);
	}
	SECTION("connecting to a server that refuses") {
		Rig rig;
		Client client = rig.login();
		client->send(kInsert);
		Peer_Ptr server = rig.primary.accept_raw();
		rig.shut_down_all();
		client->expect_nothing();
		server->send(error("3D000", "no database", "FATAL"));
		server->close();
		CHECK(client->receive_message().find("3D000") != std::string::npos);
		client->expect_end(ready('I') + kShutDown);
	}
	SECTION("answered by the proxy itself") {
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
		rig.shut_down_all();
		server->send(complete("INSERT 0 1") + ready('I'));
		first->expect_end(complete("INSERT 0 1") + ready('I') + kShutDown);
		server->expect(kInsert);
		server->close();
		CHECK(second->receive_message().find("08006") != std::string::npos);
		second->expect_end(ready('I') + kShutDown);
	}
}

} // namespace proxy::wire
