// COPY in both directions.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
const std::string kCopyFrom = query("copy t from stdin");
const std::string kCopyIn = message('G', '\0' + u16(1) + u16(0));
const std::string kCopyDone = message('c');

std::string copy_data(std::string_view bytes) {
	return message('d', bytes);
}

// A client whose COPY FROM STDIN was accepted.
struct Copying {
	explicit Copying(bool of_extended = false) : extended(of_extended), client(rig.login()) {
		const std::string sent =
		    extended ? parse("", "copy t from stdin") + bind_to("", "") + execute("") + kSync
		             : kCopyFrom;
		client->send(sent);
		server = rig.primary.accept();
		server->expect(sent);
		const std::string begun = (extended ? kParseComplete + kBindComplete : "") + kCopyIn;
		server->send(begun);
		client->expect(begun);
	}
	Rig rig;
	bool extended;
	Client client;
	Peer_Ptr server;
};
} // namespace

TEST_CASE("COPY FROM passes the client's messages on, however they are cut") {
	for (const bool bytewise : {false, true}) {
		Copying on;
		const std::string bytes =
		    copy_data("1\n") + copy_data("") + copy_data(std::string(500, 'x')) + kCopyDone;
		if (bytewise) {
			on.client->send_bytewise(bytes);
		} else {
			on.client->send(bytes);
		}
		on.server->expect(bytes);
		on.server->send(complete("COPY 3") + ready('I'));
		on.client->expect(complete("COPY 3") + ready('I'));
		CHECK(on.rig.state(on.client) == Session_State::waiting_client_data);
		on.client->send(query("select 1"));
		on.server->expect(query("select 1"));
	}
}

TEST_CASE("half a CopyData goes out before its end is there") {
	Copying on;
	const std::string one = copy_data(std::string(100'000, 'x'));
	on.client->send(one.substr(0, 1000));
	on.server->expect(one.substr(0, 1000));
	on.client->send(one.substr(1000) + kCopyDone);
	on.server->expect(one.substr(1000) + kCopyDone);
}

TEST_CASE("CopyFail passes on, and its error comes back") {
	Copying on;
	const std::string fail = message('f', text("no more"));
	on.client->send(copy_data("1\n") + fail);
	on.server->expect(copy_data("1\n") + fail);
	on.server->send(error("57014", "COPY from stdin failed: no more") + ready('I'));
	on.client->expect(error("57014", "COPY from stdin failed: no more") + ready('I'));
	on.client->expect_nothing();
}

TEST_CASE("what follows a COPY that failed at the server is dropped") {
	Copying on;
	on.client->send(copy_data("wrong\n"));
	on.server->expect(copy_data("wrong\n"));
	on.server->send(error("22P02", "invalid input") + ready('I'));
	on.client->expect(error("22P02", "invalid input") + ready('I'));
	on.client->send(copy_data("2\n") + copy_data("3\n") + kCopyDone + query("select 1"));
	Peer& server = *on.server;
	server.expect(query("select 1"));
	server.send(one_row("1") + ready('I'));
	on.client->expect(one_row("1") + ready('I'));
}

TEST_CASE("a COPY that fails in the middle of the client's message ends with that message") {
	Copying on;
	const std::string one = copy_data(std::string(1000, 'x'));
	on.client->send(one.substr(0, 300));
	on.server->expect(one.substr(0, 300));
	on.server->send(error("22P02", "invalid input") + ready('I'));
	on.client->expect(error("22P02", "invalid input") + ready('I'));
	// Another client must not get this connection: the server still takes what comes for the row.
	Client other = on.rig.login();
	other->send(query("select 2"));
	Peer_Ptr second = on.rig.primary.accept();
	second->expect(query("select 2"));
	on.client->send(one.substr(300) + kCopyDone + query("select 1"));
	on.server->expect(one.substr(300) + query("select 1"));
	on.server->send(one_row("1") + ready('I'));
	on.client->expect(one_row("1") + ready('I'));
}

TEST_CASE("COPY FROM in the extended protocol ends with the client's Sync") {
	SECTION("it succeeds") {
		Copying on(true);
		on.client->send(copy_data("1\n") + kCopyDone + kSync);
		on.server->expect(copy_data("1\n") + kCopyDone + kSync);
		on.server->send(complete("COPY 1") + ready('I'));
		on.client->expect(complete("COPY 1") + ready('I'));
		CHECK(on.rig.state(on.client) == Session_State::waiting_client_data);
	}
	SECTION("it fails") {
		Copying on(true);
		on.client->send(copy_data("wrong\n"));
		on.server->expect(copy_data("wrong\n"));
		on.server->send(error("22P02", "invalid input"));
		on.client->expect(error("22P02", "invalid input"));
		on.client->send(copy_data("2\n") + kCopyDone + kSync);
		on.server->expect(kSync);
		on.server->send(ready('I'));
		on.client->expect(ready('I'));
		on.client->expect_nothing();
		CHECK(on.rig.state(on.client) == Session_State::waiting_client_data);
	}
}

TEST_CASE("a server lost in a COPY is told, and the rest of the data is dropped") {
	Copying on;
	on.client->send(copy_data("1\n"));
	on.server->expect(copy_data("1\n"));
	on.server->close();
	CHECK(on.client->receive_message().find("08006") != std::string::npos);
	on.client->expect(ready('I'));
	on.client->send(copy_data("2\n") + kCopyDone + query("select 1"));
	Peer_Ptr next = on.rig.primary.accept();
	next->expect(query("select 1"));
}

TEST_CASE("a server lost in the middle of the client's CopyData is told") {
	Copying on;
	const std::string one = copy_data(std::string(1000, 'x'));
	on.client->send(one.substr(0, 300));
	on.server->expect(one.substr(0, 300));
	on.server->close();
	CHECK(on.client->receive_message().find("08006") != std::string::npos);
	on.client->expect(ready('I'));
	// The rest of that message is data, even if it looks like a message.
	const std::string bait = query("drop table t");
	on.client->send(one.substr(300, 200));
	on.rig.settle();
	on.client->send(bait + one.substr(500 + bait.size()) + kCopyDone + query("select 1"));
	Peer_Ptr next = on.rig.primary.accept();
	next->expect(query("select 1"));
}

TEST_CASE("a client that leaves a COPY rolls it back") {
	SECTION("with Terminate") {
		Copying on;
		on.client->send(copy_data("1\n") + kTerminate);
		CHECK(on.rig.state(on.client) == Session_State::ended);
		on.server->receive_rest();
	}
	SECTION("by closing") {
		Copying on;
		on.client->send(copy_data("1\n").substr(0, 6));
		on.client->close();
		CHECK(on.rig.state(on.client) == Session_State::ended);
		on.server->receive_rest();
	}
}

TEST_CASE("a server that does not read holds up the client's COPY") {
	Copying on;
	const std::string one = copy_data(std::string(60'000, 'x'));
	std::string sent;
	std::string rest;
	constexpr size_t kEnough = 64UL * 1024 * 1024;
	int idle_rounds = 0;
	while (idle_rounds < 20 && sent.size() < kEnough) {
		rest = rest.empty() ? one : rest;
		const size_t taken = on.client->send_some(rest);
		sent += rest.substr(0, taken);
		rest.erase(0, taken);
		idle_rounds = taken == 0 ? idle_rounds + 1 : 0;
		on.rig.settle();
	}
	CHECK(sent.size() < kEnough);
	CHECK_BYTES(on.server->receive(sent.size()), sent);
	on.client->send(rest + kCopyDone);
	on.server->expect(rest + kCopyDone);
	on.server->send(complete("COPY 1") + ready('I'));
	on.client->expect(complete("COPY 1") + ready('I'));
}

TEST_CASE("COPY TO passes the server's messages on") {
	Rig rig;
	Client client = rig.login();
	client->send(query("copy t to stdout"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query("copy t to stdout"));
	const std::string answer = message('H', '\0' + u16(1) + u16(0)) + copy_data("1\n") +
	                           copy_data("") + copy_data(std::string(70'000, 'x')) + kCopyDone +
	                           complete("COPY 3") + ready('I');
	server->send(answer);
	client->expect(answer);
	CHECK(rig.state(client) == Session_State::waiting_client_data);
}

TEST_CASE("COPY TO that fails half-way is told in order, or ends the client") {
	for (const bool inside : {false, true}) {
		Rig rig;
		Client client = rig.login();
		client->send(query("copy t to stdout"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("copy t to stdout"));
		const std::string begun = message('H', '\0' + u16(1) + u16(0)) + copy_data("1\n") +
		                          (inside ? copy_data("22\n").substr(0, 6) : std::string());
		server->send(begun);
		client->expect(begun);
		server->close();
		if (inside) {
			client->expect_end();
		} else {
			CHECK(client->receive_message().find("08006") != std::string::npos);
			client->expect(ready('I'));
		}
	}
}

} // namespace proxy::wire
