// PREPARE and EXECUTE of clients that share a connection: what goes to the server besides their own
// texts, and in which order.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
const std::string kPrepare = "polar_ps_prepare";

// The hidden PREPARE in front of a text, and its answer.
std::string again(std::string_view sql) {
	return close_of('S', kPrepare) + parse(kPrepare, sql) + bind_to(kPrepare, kPrepare) +
	       execute(kPrepare) + close_of('P', kPrepare);
}
const std::string kAgain =
    kCloseComplete + kParseComplete + kBindComplete + complete("PREPARE") + kCloseComplete;

void plays(const Client& client, const Peer_Ptr& server, const std::string& text,
           const std::string& hidden, const std::string& hidden_answer, const std::string& answer) {
	INFO(text);
	client->send(query(text));
	server->expect(hidden + query(text));
	server->send(hidden_answer + answer + ready('I'));
	client->expect(answer + ready('I'));
	client->expect_nothing();
}

const std::string kPrepared = complete("PREPARE");
} // namespace

TEST_CASE("nothing is added while the connection's name is the client's") {
	Rig rig;
	Client client = rig.login();
	client->send(query("prepare q as select 1"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query("prepare q as select 1"));
	server->send(kPrepared + ready('I'));
	client->expect(kPrepared + ready('I'));
	for (int i = 0; i < 3; ++i) {
		plays(client, server, "execute q", "", "", one_row("1"));
	}
	// The server is not asked about a DEALLOCATE, and the name is closed when it is needed.
	client->send(query("deallocate q"));
	client->expect(complete("DEALLOCATE") + ready('I'));
	plays(client, server, "prepare q as select 2", close_of('S', "q"), kCloseComplete, kPrepared);
	plays(client, server, "execute q", "", "", one_row("2"));
}

TEST_CASE("a name of two clients is exchanged before each use") {
	Rig rig;
	Client first = rig.login();
	Client second = rig.login();
	first->send(query("prepare q as select 1"));
	Peer_Ptr server = rig.primary.accept();
	server->receive(query("prepare q as select 1").size());
	server->send(kPrepared + ready('I'));
	first->expect(kPrepared + ready('I'));
	plays(second, server, "prepare q as select 2", close_of('S', "q"), kCloseComplete, kPrepared);
	plays(second, server, "execute q", "", "", one_row("2"));
	plays(first, server, "execute q", close_of('S', "q") + again("prepare q as select 1"),
	      kCloseComplete + kAgain, one_row("1"));
	// A client without the name: the server says so.
	Client third = rig.login();
	plays(third, server, "execute q", close_of('S', "q"), kCloseComplete,
	      error("26000", "prepared statement \"q\" does not exist"));
	plays(second, server, "execute q", again("prepare q as select 2"), kAgain, one_row("2"));
}

TEST_CASE("a hidden PREPARE that fails is the answer, and the text does not run") {
	Rig rig;
	Client first = rig.login();
	Client second = rig.login();
	first->send(query("prepare w as insert into t values (1)"));
	Peer_Ptr server = rig.primary.accept();
	server->receive(query("prepare w as insert into t values (1)").size());
	server->send(kPrepared + ready('I'));
	first->expect(kPrepared + ready('I'));
	plays(second, server, "prepare w as select 1", close_of('S', "w"), kCloseComplete, kPrepared);
	first->send(query("execute w"));
	const std::string hidden = close_of('S', "w") + again("prepare w as insert into t values (1)");
	server->expect(hidden + query("execute w"));
	// The server skips the Query, and needs a Sync to go on.
	const std::string refused = error("42P01", "relation \"t\" does not exist");
	server->send(kCloseComplete + kCloseComplete + refused);
	server->expect(kSync);
	server->send(ready('I'));
	first->expect(refused + ready('I'));
	// What the connection holds under the name is not known any more.
	plays(first, server, "execute w", hidden, kCloseComplete + kAgain, complete("INSERT 0 1"));
}

TEST_CASE("a protocol statement is given to SQL under the client's name") {
	Rig rig;
	Client client = rig.login();
	client->send(parse("s", "select $1") + kSync);
	Peer_Ptr server = rig.primary.accept();
	server->expect(parse("polar_ps_1", "select $1") + kSync);
	server->send(kParseComplete + ready('I'));
	client->expect(kParseComplete + ready('I'));
	plays(client, server, "execute s(1)", parse("s", "select $1"), kParseComplete, one_row("1"));
	plays(client, server, "execute s(2)", "", "", one_row("2"));
	// And the other way: Bind by the name that SQL has given.
	plays(client, server, "prepare q as select 3", "", "", kPrepared);
	client->send(bind_to("", "q") + execute("") + kSync);
	server->expect(bind_to("", "q") + execute("") + kSync);
	server->send(kBindComplete + row("3") + complete("SELECT 1") + ready('I'));
	client->expect(kBindComplete + row("3") + complete("SELECT 1") + ready('I'));
}

TEST_CASE("an outdated plan is prepared anew once, outside a transaction only") {
	Rig rig;
	Client client = rig.login();
	client->send(query("prepare q as select * from t"));
	Peer_Ptr server = rig.primary.accept();
	server->receive(query("prepare q as select * from t").size());
	server->send(kPrepared + ready('I'));
	client->expect(kPrepared + ready('I'));
	const std::string outdated =
	    message('E', text("SERROR") + text("VERROR") + text("C0A000") +
	                     text("Mcached plan must not change result type") +
	                     text("RRevalidateCachedQuery") + std::string(1, '\0'));
	const std::string anew = close_of('S', "q") + again("prepare q as select * from t");
	for (const bool twice : {false, true}) {
		client->send(query("execute q"));
		server->expect(query("execute q"));
		server->send(outdated + ready('I'));
		server->expect(anew + query("execute q"));
		const std::string answer = twice ? outdated : one_row("1");
		server->send(kCloseComplete + kAgain + answer + ready('I'));
		client->expect(answer + ready('I'));
	}
	plays(client, server, "execute q", anew, kCloseComplete + kAgain, one_row("1"));
	client->send(query("begin"));
	server->expect(query("begin"));
	server->send(complete("BEGIN") + ready('T'));
	client->expect(complete("BEGIN") + ready('T'));
	client->send(query("execute q"));
	server->expect(query("execute q"));
	server->send(outdated + ready('E'));
	client->expect(outdated + ready('E'));
	client->send(query("rollback"));
	server->expect(query("rollback"));
	server->send(complete("ROLLBACK") + ready('I'));
	client->expect(complete("ROLLBACK") + ready('I'));
	plays(client, server, "execute q", anew, kCloseComplete + kAgain, one_row("1"));
}

} // namespace proxy::wire
