// The extended protocol: batches, names, statements shared between clients and connections.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
// The name a statement has on the servers.
std::string shared(int id) {
	return "polar_ps_" + std::to_string(id);
}

// An answer to Bind and Execute without Describe.
std::string rows_of(std::string_view value) {
	return kBindComplete + row(value) + complete("SELECT 1");
}
} // namespace

TEST_CASE("an unnamed batch passes through unchanged") {
	Rig rig;
	Client client = rig.login();
	const std::string batch = parse("", "select c from t where id = $1") +
	                          message('B', text("") + text("") + u16(1) + u16(1) + u16(1) + u32(4) +
	                                           u32(7) + u16(1) + u16(1)) +
	                          describe('P', "") + execute("", 5) + kSync;
	client->send_bytewise(batch);
	Peer_Ptr server = rig.primary.accept();
	server->expect(batch);
	const std::string answer =
	    kParseComplete + kBindComplete + columns("c") + row("1") + message('s') + ready('I');
	server->send_bytewise(answer);
	client->expect(answer);
	CHECK(rig.state(client) == Session_State::waiting_client_data);
	server->expect_nothing();
	client->expect_nothing();
}

TEST_CASE("names are translated to shared ones, and one statement serves two clients") {
	Rig rig;
	Client first = rig.login();
	first->send(parse("mine", "select c from t") + describe('S', "mine") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->expect(parse(shared(1), "select c from t") + describe('S', shared(1)) + kSync);
	server->send(kParseComplete + message('t', u16(0)) + columns("c") + ready('I'));
	first->expect(kParseComplete + message('t', u16(0)) + columns("c") + ready('I'));
	// The same text under another name: the connection has it, so no Parse goes out.
	Client second = rig.login();
	second->send(parse("yours", "select c from t") + bind_to("", "yours") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(rows_of("1") + ready('I'));
	second->expect(kParseComplete + rows_of("1") + ready('I'));
	// Another text under the first one's name is another statement.
	second->send(parse("mine", "select d from t") + bind_to("p", "mine") + execute("p") + kSync);
	server->expect(parse(shared(2), "select d from t") + bind_to("p", shared(2)) + execute("p") +
	               kSync);
	server->send(kParseComplete + rows_of("2") + ready('I'));
	second->expect(kParseComplete + rows_of("2") + ready('I'));
	first->send(bind_to("", "mine") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(rows_of("3") + ready('I'));
	first->expect(rows_of("3") + ready('I'));
	server->expect_nothing();
}

TEST_CASE("a connection that lacks a statement gets it by a hidden Parse") {
	Rig rig;
	Client first = rig.login();
	first->send(parse("s", "select c from t") + kSync);
	Peer_Ptr one = rig.primary.accept();
	one->expect(parse(shared(1), "select c from t") + kSync);
	one->send(kParseComplete + ready('I'));
	first->expect(kParseComplete + ready('I'));
	// Another client occupies that connection.
	Client second = rig.login();
	second->send(query("begin"));
	one->expect(query("begin"));
	one->send(complete("BEGIN") + ready('T'));
	second->expect(complete("BEGIN") + ready('T'));
	first->send(bind_to("", "s") + execute("") + kSync);
	Peer_Ptr two = rig.primary.accept();
	two->expect(parse(shared(1), "select c from t") + bind_to("", shared(1)) + execute("") + kSync);
	two->send_bytewise(kParseComplete + rows_of("1") + ready('I'));
	first->expect(rows_of("1") + ready('I'));
	first->expect_nothing();
}

TEST_CASE("the error of a hidden Parse is told once") {
	Rig rig;
	Client first = rig.login();
	first->send(parse("s", "update t set c = 1") + kSync);
	Peer_Ptr one = rig.primary.accept();
	one->receive((parse(shared(1), "update t set c = 1") + kSync).size());
	one->send(kParseComplete + ready('I'));
	first->expect(kParseComplete + ready('I'));
	one->close();
	rig.settle();
	first->send(bind_to("", "s") + execute("") + kSync);
	Peer_Ptr two = rig.primary.accept();
	const std::string with_parse =
	    parse(shared(1), "update t set c = 1") + bind_to("", shared(1)) + execute("") + kSync;
	two->expect(with_parse);
	two->send(error("42P01", "no t") + ready('I'));
	first->expect(error("42P01", "no t") + ready('I'));
	// And it is tried again, since the connection has no such statement.
	first->send(bind_to("", "s") + execute("") + kSync);
	two->expect(with_parse);
	two->send(kParseComplete + kBindComplete + complete("UPDATE 1") + ready('I'));
	first->expect(kBindComplete + complete("UPDATE 1") + ready('I'));
}

TEST_CASE("the unnamed statement of another client is never reached") {
	Rig rig;
	Client first = rig.login();
	Client second = rig.login();
	first->send(parse("", "select 1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->expect(parse("", "select 1") + kSync);
	server->send(kParseComplete + ready('I'));
	first->expect(kParseComplete + ready('I'));
	// The second client has none: the server is to say so.
	second->send(bind_to("", "") + execute("") + kSync);
	server->expect(close_of('S', "") + bind_to("", "") + execute("") + kSync);
	server->send(kCloseComplete + error("26000", "unnamed prepared statement does not exist") +
	             ready('I'));
	second->expect(error("26000", "unnamed prepared statement does not exist") + ready('I'));
	// The first one still has its own.
	first->send(bind_to("", "") + execute("") + kSync);
	server->expect(parse("", "select 1") + bind_to("", "") + execute("") + kSync);
	server->send(kParseComplete + rows_of("1") + ready('I'));
	first->expect(rows_of("1") + ready('I'));
	// A simple query drops it on the server, and only there.
	second->send(query("select 2"));
	server->expect(query("select 2"));
	server->send(one_row("2") + ready('I'));
	second->expect(one_row("2") + ready('I'));
	first->send(bind_to("", "") + execute("") + kSync);
	server->expect(parse("", "select 1") + bind_to("", "") + execute("") + kSync);
	server->send(kParseComplete + rows_of("1") + ready('I'));
	first->expect(rows_of("1") + ready('I'));
}

TEST_CASE("Close gives up the name and leaves the statement for others") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("s", "select 1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->expect(parse(shared(1), "select 1") + kSync);
	server->send(kParseComplete + ready('I'));
	client->expect(kParseComplete + ready('I'));
	client->send(close_of('S', "s") + kSync);
	server->expect(kSync);
	server->send(ready('I'));
	client->expect(kCloseComplete + ready('I'));
	// The name is free, so a Bind to it is the server's to refuse: by a name no statement has.
	client->send(bind_to("", "s") + execute("") + kSync);
	server->expect(bind_to("", "s") + execute("") + kSync);
	server->send(error("26000", "prepared statement \"s\" does not exist") + ready('I'));
	client->expect(error("26000", "prepared statement \"s\" does not exist") + ready('I'));
	// Nobody holds the old one any more, but the connection does, and its plan is of use.
	client->send(parse("s", "select 1") + bind_to("", "s") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(rows_of("1") + ready('I'));
	client->expect(kParseComplete + rows_of("1") + ready('I'));
}

TEST_CASE("a second Parse of a name is refused by the server in the client's words") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("s", "select 1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->receive((parse(shared(1), "select 1") + kSync).size());
	server->send(kParseComplete + ready('I'));
	client->expect(kParseComplete + ready('I'));
	client->send(parse("s", "select 2") + kSync);
	server->expect(parse(shared(1), "select 2") + kSync);
	server->send(error("42P05", "prepared statement \"polar_ps_1\" already exists") + ready('I'));
	client->expect(proxy_error("42P05", "prepared statement \"s\" already exists") + ready('I'));
	client->send(bind_to("", "s") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
}

TEST_CASE("a client cannot name the proxy's statements") {
	Rig rig;
	Client client = rig.login();
	client->send(bind_to("", "polar_ps_1") + execute("") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->expect(bind_to("", "polar_ps_") + execute("") + kSync);
	server->send(error("26000", "none") + ready('I'));
	client->expect(error("26000", "none") + ready('I'));
	client->send(describe('S', "polar_ps_1") + close_of('S', "polar_ps_1") + kSync);
	server->expect(describe('S', "polar_ps_") + kSync);
}

TEST_CASE("local answers keep their place among the server's") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("a", "select 1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->receive((parse(shared(1), "select 1") + kSync).size());
	server->send(kParseComplete + ready('I'));
	client->expect(kParseComplete + ready('I'));
	client->send(parse("b", "select 1") + bind_to("", "b") + execute("") + close_of('S', "a") +
	             parse("c", "select 1") + bind_to("", "c") + execute("") + close_of('S', "b") +
	             kSync);
	const std::string run = bind_to("", shared(1)) + execute("");
	server->expect(run + run + kSync);
	server->send_bytewise(rows_of("1") + rows_of("2") + ready('I'));
	client->expect(kParseComplete + rows_of("1") + kCloseComplete + kParseComplete + rows_of("2") +
	               kCloseComplete + ready('I'));
	client->send(close_of('S', "c") + parse("b", "select 1") + bind_to("", "b") + execute("") +
	             parse("a", "select 1") + kSync);
	server->expect(run + kSync);
	server->send(rows_of("3") + ready('I'));
	client->expect(kCloseComplete + kParseComplete + rows_of("3") + kParseComplete + ready('I'));
}

TEST_CASE("an error drops what was queued behind it, up to Sync") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("a", "select 1") + bind_to("", "a") + execute("") + parse("b", "select 2") +
	             bind_to("", "b") + execute("") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->receive(1);
	rig.settle();
	server->available();
	server->send(kParseComplete + error("22012", "division by zero") + ready('I'));
	client->expect(kParseComplete + error("22012", "division by zero") + ready('I'));
	// "a" was prepared, "b" never was, and is parsed when it comes again.
	client->send(bind_to("", "a") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(rows_of("1") + ready('I'));
	client->expect(rows_of("1") + ready('I'));
	client->send(parse("b", "select 2") + kSync);
	server->expect(parse(shared(2), "select 2") + kSync);
}

TEST_CASE("the statement that was not used for longest is closed for a new one") {
	Rig_Setup setup;
	setup.configure = [](Pgsql_Config& config) { config.max_stmts_per_connection = 2; };
	Rig rig(setup);
	Client client = rig.login();
	Peer_Ptr server;
	const auto prepare = [&](const std::string& name, int id, const std::string& closes) {
		client->send(parse(name, "select " + name) + kSync);
		if (server == nullptr) {
			server = rig.primary.accept();
		}
		server->expect(closes + parse(shared(id), "select " + name) + kSync);
		server->send((closes.empty() ? std::string() : kCloseComplete) + kParseComplete +
		             ready('I'));
		client->expect(kParseComplete + ready('I'));
	};
	const auto run = [&](const std::string& name, const std::string& expected, bool hidden) {
		client->send(bind_to("", name) + execute("") + kSync);
		server->expect(expected + execute("") + kSync);
		server->send((hidden ? kCloseComplete + kParseComplete : std::string()) + rows_of(name) +
		             ready('I'));
		client->expect(rows_of(name) + ready('I'));
	};
	prepare("a", 1, "");
	prepare("b", 2, "");
	run("a", bind_to("", shared(1)), false);
	prepare("c", 3, close_of('S', shared(2)));
	run("a", bind_to("", shared(1)), false);
	run("b", close_of('S', shared(3)) + parse(shared(2), "select b") + bind_to("", shared(2)),
	    true);
	run("c", close_of('S', shared(1)) + parse(shared(3), "select c") + bind_to("", shared(3)),
	    true);
}

TEST_CASE("a statement whose hidden Close was skipped is still known") {
	Rig_Setup setup;
	setup.configure = [](Pgsql_Config& config) { config.max_stmts_per_connection = 1; };
	Rig rig(setup);
	Client client = rig.login();
	client->send(parse("a", "select 1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->receive((parse(shared(1), "select 1") + kSync).size());
	server->send(kParseComplete + ready('I'));
	client->expect(kParseComplete + ready('I'));
	// The error comes before the Close that makes room for "b": the server never sees it.
	client->send(bind_to("p", "a") + execute("p") + parse("b", "select 2") + bind_to("", "b") +
	             execute("") + kSync);
	server->expect(bind_to("p", shared(1)) + execute("p") + close_of('S', shared(1)) +
	               parse(shared(2), "select 2") + bind_to("", shared(2)) + execute("") + kSync);
	server->send(kBindComplete + error("22012", "division by zero") + ready('I'));
	client->expect(kBindComplete + error("22012", "division by zero") + ready('I'));
	// A Parse of what is there would be refused.
	client->send(bind_to("", "a") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(rows_of("1") + ready('I'));
	client->expect(rows_of("1") + ready('I'));
}

TEST_CASE("Flush brings the answers so far, and the batch goes on") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("s", "insert into t values ($1)") + describe('S', "s") + kFlush);
	Peer_Ptr server = rig.primary.accept();
	server->expect(parse(shared(1), "insert into t values ($1)") + describe('S', shared(1)) +
	               kFlush);
	server->send(kParseComplete + message('t', u16(1) + u32(23)) + kNoData);
	client->expect(kParseComplete + message('t', u16(1) + u32(23)) + kNoData);
	CHECK(rig.state(client) == Session_State::processing_statement);
	client->send(bind_to("", "s") + execute("") + kSync);
	server->expect(bind_to("", shared(1)) + execute("") + kSync);
	server->send(kBindComplete + complete("INSERT 0 1") + ready('I'));
	client->expect(kBindComplete + complete("INSERT 0 1") + ready('I'));
	CHECK(rig.state(client) == Session_State::waiting_client_data);
}

TEST_CASE("a batch is answered once even where no server has seen it") {
	// Refused by a rule, closed by its own Sync: an error and one ReadyForQuery.
	Rig rig;
	rig.primary.stop_listening();
	Client client = rig.login();
	client->send(parse("", "select 1") + bind_to("", "") + execute("") + kSync);
	rig.settle();
	rig.advance_ms(20'000);
	CHECK(client->receive_message().find("08001") != std::string::npos);
	client->expect(ready('I'));
	client->expect_nothing();
	// With Flush the Sync is still to come, and gets the ReadyForQuery.
	client->send(parse("", "select 1") + bind_to("", "") + execute("") + kFlush);
	rig.settle();
	rig.advance_ms(20'000);
	CHECK(client->receive_message().find("08001") != std::string::npos);
	client->expect_nothing();
	client->send(bind_to("", "") + execute("") + kSync);
	client->expect(ready('I'));
	client->expect_nothing();
}

TEST_CASE("a message that cannot be ends the session, in the middle of a batch too") {
	const std::string good = parse("", "insert into t values (1)");
	for (const std::string& bad :
	     {'B' + u32(3), 'B' + u32(0x7fffffffU), 'E' + u32(0xffffffffU), 'D' + u32(100'000'000)}) {
		for (const bool first : {true, false}) {
			Rig rig;
			Client client = rig.login();
			client->send((first ? std::string() : good) + bad);
			INFO(printable(bad) << (first ? " first" : " behind a Parse"));
			CHECK(rig.state(client) == Session_State::ended);
			const std::string got = client->receive_rest();
			CHECK(got.find("SFATAL") != std::string::npos);
		}
	}
}

} // namespace proxy::wire
