// What a server adds to ReadyForQuery is read by the proxy and never reaches the client; and
// messages that may come at any moment.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
Rig_Setup polar(int replicas = 1) {
	Rig_Setup setup;
	setup.consistency = Consistency_Mode::session_lsn;
	setup.protocol = Proxy_Protocol::v15;
	setup.replicas = replicas;
	return setup;
}

constexpr uint64_t kLsn = 0x0000000300002000U;
} // namespace

TEST_CASE("a server of a pair is told who asks and that positions are wanted") {
	Rig rig(polar());
	Client client = rig.login();
	client->send(query("begin"));
	Peer_Ptr server = rig.primary.accept(lsn_tail(kLsn));
	CHECK_BYTES(rig.primary.startup(), startup_packet({{"user", "app"},
	                                                   {"database", "db"},
	                                                   {"_polar_proxy_send_lsn", "true"},
	                                                   {"_polar_proxy_send_xact", "true"},
	                                                   {"_polar_proxy_client_host", "127.0.0.1"},
	                                                   {"_polar_proxy_client_port", "6133"}}));
	server->expect(query("begin"));
	CHECK(rig.server(Rig::kWriter)->health->lsn() == kLsn);
}

TEST_CASE("the client gets a plain ReadyForQuery whatever its tail") {
	const std::vector<std::string> tails = {
	    "",                                            // none
	    lsn_tail(kLsn),                                // position only
	    lsn_tail(0),                                   // position zero
	    lsn_tail(kLsn) + "x" + text("3,700,701"),      // both
	    lsn_tail(kLsn) + "w" + text("3,700"),          // both, its log not flushed
	    lsn_tail(kLsn) + "x" + text(""),               // nothing written yet
	    "x" + text("3,700"),                           // XIDs only, shorter than a position
	    "x" + text("3,700,701,702"),                   // XIDs only, longer than one
	    lsn_tail(kLsn).substr(0, 5),                   // truncated position
	    lsn_tail(kLsn) + "x3,70",                      // XIDs without their end
	    lsn_tail(kLsn) + "x" + text("1;drop table t"), // XIDs that are none
	    lsn_tail(kLsn) + "q" + text("3,700"),          // unknown marker
	    lsn_tail(kLsn) + "x" + text("3,700") + "more", // more behind it
	    std::string(200, '\xff'),                      // unknown altogether
	};
	for (const std::string& tail : tails) {
		for (const char status : {'I', 'T', 'E'}) {
			Rig rig(polar());
			Client client = rig.login();
			client->send(query("insert into t values (1)"));
			Peer_Ptr server = rig.primary.accept(lsn_tail(1));
			server->expect(query("insert into t values (1)"));
			// Cut inside the tail, too.
			const std::string answer = complete("INSERT 0 1") + ready(status, tail);
			server->send(answer.substr(0, answer.size() - 1));
			rig.settle();
			server->send(answer.substr(answer.size() - 1));
			INFO("tail " << printable(tail) << " status " << status);
			client->expect(complete("INSERT 0 1") + ready(status));
			client->expect_nothing();
		}
	}
}

TEST_CASE("what the tail says decides where the next read goes") {
	struct Row {
		std::string tail;
		bool to_replica;
		uint64_t target; // 0: none is known
	};
	const std::vector<Row> rows = {
	    {lsn_tail(kLsn), true, kLsn},
	    {lsn_tail(kLsn) + "x" + text("3,700"), true, kLsn},
	    {lsn_tail(kLsn) + "q" + text("3,700"), true, kLsn},
	    {lsn_tail(kLsn) + "x3", true, kLsn},
	    {lsn_tail(kLsn + 24), true, kLsn}, // counts a page's header
	    {lsn_tail(0), false, 0},
	    {"", false, 0},
	    {lsn_tail(kLsn).substr(0, 7), false, 0},
	    {"x" + text("3,70"), false, 0},
	};
	for (const Row& row_of : rows) {
		Rig rig(polar());
		Client client = rig.login();
		client->send(query("insert into t values (1)"));
		Peer_Ptr server = rig.primary.accept(lsn_tail(1));
		server->expect(query("insert into t values (1)"));
		server->send(complete("INSERT 0 1") + ready('I', row_of.tail));
		client->expect(complete("INSERT 0 1") + ready('I'));
		INFO("tail " << printable(row_of.tail));
		client->send(query("select 1"));
		if (row_of.to_replica) {
			Peer_Ptr replica = rig.replicas[0]->accept(lsn_tail(1));
			replica->expect(query("SET polar_consistency_mode='strict';"
			                      "SET polar_proxy_wait_timeout_ms=1000;"
			                      "SET polar_xact_split_wait_lsn='" +
			                      std::to_string(row_of.target) + "';select 1"));
		} else {
			server->expect(query("select 1"));
			CHECK(rig.replicas[0]->nobody_comes());
		}
	}
}

TEST_CASE("notices, parameters and notifications pass at any moment of an answer") {
	const std::vector<std::string> answer = {columns("c"), row("1"), row("2"), complete("SELECT 2"),
	                                         ready('I')};
	const std::vector<std::string> extras = {notice("mind"), parameter("TimeZone", "UTC"),
	                                         message('A', u32(1) + text("c") + text("p"))};
	for (const std::string& extra : extras) {
		for (size_t place = 0; place < answer.size(); ++place) {
			std::string bytes;
			for (size_t i = 0; i < answer.size(); ++i) {
				bytes += (i == place ? extra : std::string()) + answer[i];
			}
			Rig rig;
			Client client = rig.login();
			client->send(query("select c from t"));
			Peer_Ptr server = rig.primary.accept();
			server->expect(query("select c from t"));
			server->send_bytewise(bytes);
			INFO(extra[0] << " before message " << place);
			client->expect(bytes);
			CHECK(rig.state(client) == Session_State::waiting_client_data);
		}
	}
}

TEST_CASE("a server that says something between two statements is not used again") {
	for (const std::string& word :
	     {notice("mind"), parameter("TimeZone", "UTC"), error("57P01", "going down", "FATAL")}) {
		Rig rig;
		Client client = rig.login();
		client->send(query("select 1"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("select 1"));
		server->send(one_row("1") + ready('I'));
		client->expect(one_row("1") + ready('I'));
		server->send(word);
		rig.settle();
		server->expect_end(kTerminate);
		client->send(query("select 2"));
		Peer_Ptr other = rig.primary.accept();
		other->expect(query("select 2"));
		other->send(one_row("2") + ready('I'));
		client->expect(one_row("2") + ready('I'));
		client->expect_nothing();
	}
}

TEST_CASE("a farewell behind a complete answer leaves the answer alone") {
	Rig rig;
	Client client = rig.login();
	client->send(query("insert into t values (1)"));
	Peer_Ptr server = rig.primary.accept();
	server->expect(query("insert into t values (1)"));
	server->send(complete("INSERT 0 1") + ready('I') + error("57P01", "going down", "FATAL"));
	server->close();
	client->expect(complete("INSERT 0 1") + ready('I'));
	client->expect_nothing();
	CHECK(rig.state(client) == Session_State::waiting_client_data);
	CHECK(rig.pooled() == 0);
}

TEST_CASE("bytes that are no message end the connection to the server, not the client") {
	for (const std::string& garbage : {'C' + u32(3), 'Z' + u32(0x7fffffffU), 'D' + u32(0)}) {
		Rig rig;
		Client client = rig.login();
		client->send(query("insert into t values (1)"));
		Peer_Ptr server = rig.primary.accept();
		server->expect(query("insert into t values (1)"));
		server->send(garbage + "more");
		const std::string got = client->receive_message();
		CHECK(got.find("the server broke the protocol") != std::string::npos);
		client->expect(ready('I'));
		// Half a message may be on its way: not even a Terminate is due.
		server->receive_rest();
		CHECK(rig.pooled() == 0);
		CHECK(rig.state(client) == Session_State::waiting_client_data);
	}
}

} // namespace proxy::wire
