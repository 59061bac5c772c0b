// Reads that a replica answers only when it has replayed what the session must see.
#include "Wire_Kit.h"

namespace proxy::wire {

namespace {
constexpr uint64_t kWritten = 0x0000000500004000U;
const std::string kInsert = query("insert into t values (1)");

// A rig whose client has written up to kWritten; the primary's connection stays open.
struct Waiting {
	explicit Waiting(Proxy_Protocol protocol, int replicas = 1)
	    : rig(setup_of(protocol, replicas)), client(rig.login()) {
		client->send(kInsert);
		primary = rig.primary.accept(lsn_tail(1));
		primary->expect(kInsert);
		primary->send(complete("INSERT 0 1") + ready('I', lsn_tail(kWritten)));
		client->expect(complete("INSERT 0 1") + ready('I'));
	}
	static Rig_Setup setup_of(Proxy_Protocol protocol, int replicas) {
		Rig_Setup setup;
		setup.consistency = Consistency_Mode::session_lsn;
		setup.protocol = protocol;
		setup.replicas = replicas;
		return setup;
	}
	Peer_Ptr accept_replica(size_t index = 0) { return rig.replicas[index]->accept(lsn_tail(1)); }

	Rig rig;
	Client client;
	Peer_Ptr primary;
};

const std::array<std::string, 3> kSets = {"SET polar_consistency_mode='strict'",
                                          "SET polar_proxy_wait_timeout_ms=1000",
                                          "SET polar_xact_split_wait_lsn='21474852864'"};

std::string waiting_query(const std::string& sql) {
	return query(kSets[0] + ";" + kSets[1] + ";" + kSets[2] + ";" + sql);
}

std::string hidden_batch() {
	std::string batch;
	const std::string name = "polar_ps_wait";
	for (const std::string& sql : kSets) {
		batch += parse(name, sql) + bind_to(name, name) + execute(name) + close_of('P', name) +
		         close_of('S', name);
	}
	return batch;
}

std::string hidden_answers() {
	std::string answers;
	for (int i = 0; i < 3; ++i) {
		answers +=
		    kParseComplete + kBindComplete + complete("SET") + kCloseComplete + kCloseComplete;
	}
	return answers;
}

const std::string kSetsDone = complete("SET") + complete("SET") + complete("SET");
const std::string kBatch =
    parse("", "select 1") + bind_to("", "") + describe('P', "") + execute("") + kSync;
const std::string kBatchAnswer = kParseComplete + kBindComplete + one_row("1");
// Known by its detail and routine, whatever its code.
const std::string kTimeout =
    message('E', "S" + text("ERROR") + "V" + text("ERROR") + "C" + text("57014") + "M" +
                     text("too late") + "D" + text("polar_proxy_lsn_wait_timeout") + "R" +
                     text("polar_proxy_wait_for_lsn") + '\0');
} // namespace

TEST_CASE("a simple read waits behind three hidden SETs, once") {
	Waiting on(Proxy_Protocol::v15);
	on.client->send(query("select 1"));
	Peer_Ptr replica = on.accept_replica();
	replica->expect(waiting_query("select 1"));
	CHECK(on.rig.state(on.client) == Session_State::replica_with_wait);
	replica->send_bytewise(kSetsDone + notice("best effort") + one_row("1") +
	                       ready('I', lsn_tail(kWritten)));
	on.client->expect(notice("best effort") + one_row("1") + ready('I'));
	// It is known to be there now.
	on.client->send(query("select 2"));
	replica->expect(query("select 2"));
	replica->send(one_row("2") + ready('I', lsn_tail(kWritten)));
	on.client->expect(one_row("2") + ready('I'));
	replica->expect_nothing();
	on.primary->expect_nothing();
	on.client->expect_nothing();
}

TEST_CASE("an extended read waits behind the same SETs as hidden messages") {
	Waiting on(Proxy_Protocol::v15);
	on.client->send(kBatch);
	Peer_Ptr replica = on.accept_replica();
	replica->expect(hidden_batch() + kBatch);
	CHECK(on.rig.state(on.client) == Session_State::replica_with_wait);
	replica->send_bytewise(hidden_answers() + kBatchAnswer + ready('I', lsn_tail(kWritten)));
	on.client->expect(kBatchAnswer + ready('I'));
	on.client->send(kBatch);
	replica->expect(kBatch);
	replica->send(kBatchAnswer + ready('I', lsn_tail(kWritten)));
	on.client->expect(kBatchAnswer + ready('I'));
	on.client->expect_nothing();
	replica->expect_nothing();
}

TEST_CASE("in dialect v15_wait one message in front of the batch waits") {
	Waiting on(Proxy_Protocol::v15_wait);
	on.client->send(kBatch);
	Peer_Ptr replica = on.accept_replica();
	CHECK(on.rig.replicas[0]->startup().find(text("_pq_.polar_proxy_wait_v1") + text("1")) !=
	      std::string::npos);
	const std::string wait = message('W', std::string("\1\1\0\0", 4) + u32(1000) + u64(kWritten));
	replica->expect(wait + kBatch);
	replica->send_bytewise(kBatchAnswer + ready('I', lsn_tail(kWritten)));
	on.client->expect(kBatchAnswer + ready('I'));
	on.client->expect_nothing();
}

TEST_CASE("a wait that runs out is hidden, and the primary answers") {
	for (const Proxy_Protocol protocol : {Proxy_Protocol::v15, Proxy_Protocol::v15_wait}) {
		for (const bool extended : {false, true}) {
			for (const bool bytewise : {false, true}) {
				Waiting on(protocol);
				const std::string sent = extended ? kBatch : query("select 1");
				on.client->send(sent);
				Peer_Ptr replica = on.accept_replica();
				replica->receive(5);
				on.rig.settle();
				replica->available();
				const bool inband = extended && protocol == Proxy_Protocol::v15_wait;
				const std::string answer = (inband     ? std::string()
				                            : extended ? hidden_answers()
				                                       : kSetsDone) +
				                           kTimeout + ready('I', lsn_tail(7));
				if (bytewise) {
					replica->send_bytewise(answer);
				} else {
					replica->send(answer);
				}
				INFO("extended " << extended << " bytewise " << bytewise);
				on.primary->expect(sent);
				on.client->expect_nothing();
				const std::string result = extended ? kBatchAnswer : one_row("1");
				on.primary->send(result + ready('I', lsn_tail(kWritten)));
				on.client->expect(result + ready('I'));
				on.client->expect_nothing();
				replica->expect_nothing();
				CHECK(on.rig.pooled() == 2);
			}
		}
	}
}

TEST_CASE("a wait that runs out behind a confirmed Parse still moves to the primary") {
	// In one read: nothing of it has gone out yet.
	Waiting on(Proxy_Protocol::v15);
	on.client->send(kBatch);
	Peer_Ptr replica = on.accept_replica();
	replica->expect(hidden_batch() + kBatch);
	replica->send(hidden_answers() + kParseComplete + kTimeout + ready('I', lsn_tail(7)));
	on.primary->expect(kBatch);
	on.primary->send(kBatchAnswer + ready('I', lsn_tail(kWritten)));
	on.client->expect(kBatchAnswer + ready('I'));
	on.client->expect_nothing();
}

TEST_CASE("a statement the replica knows is answered once when its wait runs out") {
	Waiting on(Proxy_Protocol::v15);
	const std::string batch = parse("s", "select 1") + bind_to("", "s") + execute("") + kSync;
	const std::string run = bind_to("", "polar_ps_1") + execute("") + kSync;
	const std::string rows = kBindComplete + row("1") + complete("SELECT 1");
	on.client->send(batch);
	Peer_Ptr replica = on.accept_replica();
	replica->expect(hidden_batch() + parse("polar_ps_1", "select 1") + run);
	replica->send(hidden_answers() + kParseComplete + rows + ready('I', lsn_tail(7)));
	on.client->expect(kParseComplete + rows + ready('I'));
	Client other = on.rig.login();
	other->send(kInsert);
	on.primary->expect(kInsert);
	on.primary->send(complete("INSERT 0 1") + ready('I', lsn_tail(kWritten)));
	other->expect(complete("INSERT 0 1") + ready('I'));
	other->send(batch);
	replica->expect(hidden_batch() + run); // ParseComplete is the proxy's to say
	replica->send(hidden_answers() + kTimeout + ready('I', lsn_tail(7)));
	on.primary->expect(parse("polar_ps_1", "select 1") + run);
	on.primary->send(kParseComplete + rows + ready('I', lsn_tail(kWritten)));
	other->expect(kParseComplete + rows + ready('I'));
	other->expect_nothing();
}

TEST_CASE("a replica that refuses the hidden statements is passed over") {
	for (const bool extended : {false, true}) {
		Waiting on(Proxy_Protocol::v15);
		const std::string sent = extended ? kBatch : query("select 1");
		on.client->send(sent);
		Peer_Ptr replica = on.accept_replica();
		replica->receive(5);
		on.rig.settle();
		replica->available();
		replica->send((extended ? std::string() : complete("SET")) +
		              error("42704", "unrecognized configuration parameter") + ready('I'));
		on.primary->expect(sent);
		const std::string result = extended ? kBatchAnswer : one_row("1");
		on.primary->send(result + ready('I', lsn_tail(kWritten)));
		on.client->expect(result + ready('I'));
		on.client->expect_nothing();
	}
}

TEST_CASE("the statement's own error is the client's, wait or not") {
	for (const bool extended : {false, true}) {
		Waiting on(Proxy_Protocol::v15);
		const std::string sent = extended ? kBatch : query("select 1");
		on.client->send(sent);
		Peer_Ptr replica = on.accept_replica();
		replica->receive(5);
		on.rig.settle();
		replica->available();
		const std::string wrong = error("22012", "division by zero");
		replica->send_bytewise((extended ? hidden_answers() + kParseComplete : kSetsDone) + wrong +
		                       ready('I', lsn_tail(kWritten)));
		on.client->expect((extended ? kParseComplete : std::string()) + wrong + ready('I'));
		on.client->expect_nothing();
		on.primary->expect_nothing();
	}
}

TEST_CASE("a replica that does not end its wait is given up") {
	Waiting on(Proxy_Protocol::v15);
	on.client->send(query("select 1"));
	Peer_Ptr replica = on.accept_replica();
	replica->expect(waiting_query("select 1"));
	on.rig.advance_ms(1500);
	CHECK(on.rig.cancels.empty());
	on.primary->expect_nothing();
	on.rig.advance_ms(600);
	REQUIRE(on.rig.cancels.size() == 1);
	CHECK(on.rig.cancels[0].target.port == on.rig.replicas[0]->port());
	CHECK(on.rig.cancels[0].target.pid == static_cast<int>(Scripted_Server::kPid));
	CHECK_BYTES(on.rig.cancels[0].target.key, u32(Scripted_Server::kKey));
	on.rig.settle();
	// The only replica: it is asked again, on a new connection, or the primary is.
	on.primary->expect(query("select 1"));
	on.primary->send(one_row("1") + ready('I', lsn_tail(kWritten)));
	on.client->expect(one_row("1") + ready('I'));
	replica->receive_rest();
}

TEST_CASE("a replica that is lost in its wait is replaced by another, then by the primary") {
	for (const bool extended : {false, true}) {
		Waiting on(Proxy_Protocol::v15, 2);
		const std::string sent = extended ? kBatch : query("select 1");
		const std::string waiting = extended ? hidden_batch() + kBatch : waiting_query("select 1");
		on.client->send(sent);
		on.rig.settle();
		const size_t first = on.rig.server(Rig::kReader, 0)->used.load() > 0 ? 0 : 1;
		INFO("extended " << extended << ", first asked " << first);
		Peer_Ptr one = on.accept_replica(first);
		one->expect(waiting);
		one->close();
		Peer_Ptr two = on.accept_replica(1 - first);
		two->expect(waiting);
		two->send(extended ? kParseComplete : complete("SET"));
		two->close();
		on.primary->expect(sent);
		const std::string result = extended ? kBatchAnswer : one_row("1");
		on.primary->send(result + ready('I', lsn_tail(kWritten)));
		on.client->expect(result + ready('I'));
		on.client->expect_nothing();
		CHECK(on.rig.failures.size() == 2);
	}
}

} // namespace proxy::wire
