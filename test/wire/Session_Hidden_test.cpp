// Parameters of the client that the server connection does not have: a hidden query in front.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
const std::string kSet = "SELECT pg_catalog.set_config('application_name','me',false);";
const std::string kInsert = query("insert into t values (1)");
const Rig::Parameters kNamed = {{"application_name", "me"}};

// What a server says to kSet, with more than it has to.
std::string set_answer() {
	return notice("noted") + columns("set_config") + row("me") + complete("SELECT 1") +
	       parameter("application_name", "me") + ready('I');
}
} // namespace

TEST_CASE("a write waits until its parameters are set") {
	Rig rig;
	Client client = rig.login(kNamed);
	client->send(kInsert);
	Peer_Ptr server = rig.primary.accept();
	server->expect(query(kSet));
	server->expect_nothing();
	server->send_bytewise(set_answer());
	server->expect(kInsert);
	client->expect_nothing();
	server->send(complete("INSERT 0 1") + ready('I'));
	client->expect(complete("INSERT 0 1") + ready('I'));
	// The connection has them now.
	client->send(kInsert);
	server->expect(kInsert);
	server->send(complete("INSERT 0 1") + ready('I'));
	client->expect(complete("INSERT 0 1") + ready('I'));
	server->expect_nothing();
}

TEST_CASE("a read goes out right behind its parameters") {
	Rig rig;
	Client client = rig.login(kNamed);
	client->send(query("select 1"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query(kSet) + query("select 1"));
	server->send_bytewise(set_answer() + one_row("1") + ready('I'));
	client->expect(one_row("1") + ready('I'));
	client->expect_nothing();
}

TEST_CASE("the next client's parameters replace the last one's") {
	Rig rig;
	Client client = rig.login(kNamed);
	client->send(query("select 1"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query(kSet) + query("select 1"));
	server->send(set_answer() + one_row("1") + ready('I'));
	client->expect(one_row("1") + ready('I'));
	Client other = rig.login();
	other->send(query("select 2"));
	server->expect(query("RESET \"application_name\";") + query("select 2"));
	server->send(complete("RESET") + ready('I') + one_row("2") + ready('I'));
	other->expect(one_row("2") + ready('I'));
}

TEST_CASE("a statement whose parameters cannot be set does not run") {
	const std::string refusal = message('E', "S" + text("ERROR") + "V" + text("ERROR") + "C" +
	                                             text("22023") + "M" + text("invalid value") + "D" +
	                                             text("a detail") + "H" + text("a hint") + '\0');
	const std::string told = refusal;
	SECTION("a write is not even sent") {
		Rig rig;
		Client client = rig.login(kNamed);
		client->send(kInsert);
		Peer_Ptr server = rig.primary.accept();
		server->expect(query(kSet));
		server->send(refusal + ready('I'));
		client->expect(told + ready('I'));
		server->expect_end(kTerminate);
		client->expect_nothing();
		CHECK(rig.pooled() == 0);
	}
	SECTION("the answer of a read is dropped") {
		Rig rig;
		Client client = rig.login(kNamed);
		client->send(query("select 1"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query(kSet) + query("select 1"));
		server->send_bytewise(refusal + ready('I') + one_row("1") + ready('I'));
		client->expect(told + ready('I'));
		server->expect_end(kTerminate);
		client->expect_nothing();
	}
	SECTION("a closed batch is answered once") {
		for (const std::string sql : {"insert into t values (1)", "select 1"}) {
			Rig rig;
			Client client = rig.login(kNamed);
			client->send(parse("", sql) + bind_to("", "") + execute("") + kSync);
			Peer_Ptr server = rig.primary.accept();
			server->expect(query(kSet));
			server->send(refusal + ready('I') + kParseComplete + ready('I'));
			client->expect(told + ready('I'));
			client->expect_nothing();
		}
	}
	SECTION("an open batch gets its ReadyForQuery with its Sync") {
		Rig rig;
		Client client = rig.login(kNamed);
		client->send(parse("", "insert into t values (1)") + kFlush);
		Peer_Ptr server = rig.primary.accept();
		server->expect(query(kSet));
		server->send(refusal + ready('I'));
		client->expect(told);
		client->expect_nothing();
		client->send(bind_to("", "") + execute("") + kSync);
		client->expect(ready('I'));
		client->expect_nothing();
	}
}

TEST_CASE("a server that is lost while it sets parameters has run nothing") {
	for (const bool extended : {false, true}) {
		Rig rig;
		Client client = rig.login(kNamed);
		client->send(extended ? parse("", "insert into t values (1)") + bind_to("", "") +
		                            execute("") + kSync
		                      : kInsert);
		Peer_Ptr server = rig.primary.accept();
		server->expect(query(kSet));
		server->send(columns("set_config"));
		server->close();
		CHECK(client->receive_message().find("08006") != std::string::npos);
		client->expect(ready('I'));
		client->expect_nothing();
		CHECK(rig.state(client) == Session_State::waiting_client_data);
	}
}

TEST_CASE("SET is followed to the next connection") {
	Rig rig;
	Client client = rig.login();
	client->send(query("set application_name to me"));
	Peer_Ptr one = rig.primary.accept();
	one->expect(query("set application_name to me"));
	one->send(complete("SET") + parameter("application_name", "me") + ready('I'));
	client->expect(complete("SET") + parameter("application_name", "me") + ready('I'));
	one->close();
	rig.settle();
	client->send(query("select 1"));
	Peer_Ptr two = rig.primary.accept();
	two->expect(query(kSet) + query("select 1"));
	two->send(set_answer() + one_row("1") + ready('I'));
	client->expect(one_row("1") + ready('I'));
}

} // namespace proxy::wire
