#include "Harness.h"
#include "Scripted_Server.h"

// What may follow the status byte of ReadyForQuery (patch 0002), through libpq's own parser and
// through PQrawReadyForQuery (patch 0005).

namespace {

using namespace std::string_literals;

struct Expected {
	bool has_lsn = false;
	unsigned long long lsn = 0;
	const char* xids = nullptr;
	bool splittable = false;
	bool wal_pending = false;
};

struct Tail_Case {
	const char* what;
	bool want_lsn;
	bool want_xact;
	std::string body; // status and tail
	Expected expected;
};

const std::string kLsn = int64_bytes(0x40AC4130);
constexpr unsigned long long kLsn_value = 0x40AC4130;

std::vector<Tail_Case> tail_cases() {
	return {
	    {"plain, nothing wanted", false, false, "I", {}},
	    {"plain, all wanted", true, true, "I", {}},
	    {"LSN wanted and sent", true, false, "I" + kLsn, {true, kLsn_value}},
	    {"LSN sent, not wanted", false, false, "I" + kLsn, {}},
	    {"LSN of 64 bits",
	     true,
	     true,
	     "I" + int64_bytes(0xFEDCBA9876543210),
	     {true, 0xFEDCBA9876543210}},
	    {"LSN zero is an LSN", true, true, "I" + int64_bytes(0), {true, 0}},
	    {"LSN cut short", true, false, "I" + kLsn.substr(0, 7), {}},
	    {"LSN cut short, XIDs wanted", true, true, "I" + kLsn.substr(0, 7), {}},
	    {"marker x with XIDs", false, true, "Tx7,744,745\0"s, {false, 0, "7,744,745", true, false}},
	    {"marker w with XIDs", false, true, "Tw7,744\0"s, {false, 0, "7,744", false, true}},
	    {"marker x, empty list", false, true, "Tx\0"s, {false, 0, "", true, false}},
	    {"marker w, empty list", false, true, "Tw\0"s, {false, 0, "", false, true}},
	    {"short marker although an LSN was wanted",
	     true,
	     true,
	     "Tx1,744\0"s.substr(0, 6) + '\0',
	     {false, 0, "1,74", true, false}},
	    {"LSN and x",
	     true,
	     true,
	     "T" + kLsn + "x0,744\0"s,
	     {true, kLsn_value, "0,744", true, false}},
	    {"LSN and w",
	     true,
	     true,
	     "T" + kLsn + "w0,744\0"s,
	     {true, kLsn_value, "0,744", false, true}},
	    {"LSN and x, empty list",
	     true,
	     true,
	     "T" + kLsn + "x\0"s,
	     {true, kLsn_value, "", true, false}},
	    {"LSN and x, XIDs not wanted", true, false, "T" + kLsn + "x0,744\0"s, {true, kLsn_value}},
	    {"LSN and x, nothing wanted", false, false, "T" + kLsn + "x0,744\0"s, {}},
	    {"no null byte", false, true, "Tx0,744", {}},
	    {"no null byte behind an LSN", true, true, "T" + kLsn + "x0,744", {true, kLsn_value}},
	    {"marker alone", false, true, "Tx", {}},
	    {"marker alone behind an LSN", true, true, "T" + kLsn + "w", {true, kLsn_value}},
	    {"unknown marker", false, true, "Ty0,744\0"s, {}},
	    {"unknown marker behind an LSN", true, true, "T" + kLsn + "X0,744\0"s, {true, kLsn_value}},
	    {"more behind the list",
	     true,
	     true,
	     "T" + kLsn + "x0,744\0more\0\xff"s,
	     {true, kLsn_value, "0,744", true, false}},
	    {"more behind the LSN, XIDs not wanted",
	     true,
	     false,
	     "I" + kLsn + int64_bytes(99),
	     {true, kLsn_value}},
	    {"more behind a plain one", false, false, "I\1\2\3"s, {}},
	    {"failed transaction with tail",
	     true,
	     true,
	     "E" + kLsn + "x1,744\0"s,
	     {true, kLsn_value, "1,744", true, false}},
	    {"failed transaction with LSN", true, true, "E" + kLsn, {true, kLsn_value}},
	};
}

int status_of(char status) {
	return status == 'I' ? PQTRANS_IDLE : status == 'T' ? PQTRANS_INTRANS : PQTRANS_INERROR;
}

void expect_evidence(PGconn* conn, const Expected& expected, char status) {
	EXPECT_EQ(PQhasLSN(conn), expected.has_lsn ? 1 : 0);
	EXPECT_EQ(PQgetLSN(conn), expected.lsn);
	EXPECT_EQ(PQisXactSplittable(conn), expected.splittable ? 1 : 0);
	EXPECT_EQ(PQisXactWalPending(conn), expected.wal_pending ? 1 : 0);
	const char* xids = PQgetXactSplitXids(conn);
	EXPECT_EQ(std::string(xids != nullptr ? xids : "(none)"),
	          std::string(expected.xids != nullptr ? expected.xids : "(none)"));
	EXPECT_EQ(static_cast<int>(PQtransactionStatus(conn)), status_of(status));
}

// One query, answered by a command tag and a ReadyForQuery with that body.
ExecStatusType ask(const Link& link, const std::string& ready_body) {
	EXPECT_EQ(PQsendQuery(link.conn.get(), "BEGIN"), 1);
	EXPECT_EQ(link.peer->read_message().first, 'Q');
	link.peer->send(message('C', "BEGIN\0"s) + message('Z', ready_body));
	ExecStatusType status = PGRES_EMPTY_QUERY;
	while (PGresult* result = PQgetResult(link.conn.get())) {
		status = PQresultStatus(result);
		PQclear(result);
	}
	return status;
}

const std::string kFull = "T" + kLsn + "x0,744\0"s;

} // namespace

TEST("every layout of the tail is read by libpq's parser") {
	const Link link = connect();
	for (const Tail_Case& tail : tail_cases()) {
		try {
			// Full evidence before, so that any left over is seen.
			PQsetPolarSendLSN(link.conn.get(), 1);
			PQsetPolarSendXact(link.conn.get(), 1);
			EXPECT_EQ(ask(link, kFull), PGRES_COMMAND_OK);
			expect_evidence(link.conn.get(), {true, kLsn_value, "0,744", true, false}, 'T');
			PQsetPolarSendLSN(link.conn.get(), tail.want_lsn ? 1 : 0);
			PQsetPolarSendXact(link.conn.get(), tail.want_xact ? 1 : 0);
			EXPECT_EQ(ask(link, tail.body), PGRES_COMMAND_OK);
			expect_evidence(link.conn.get(), tail.expected, tail.body[0]);
		} catch (const Test_Failure& failure) {
			throw Test_Failure(std::string(tail.what) + ": " + failure.what());
		}
	}
}

TEST("every layout of the tail is read by PQrawReadyForQuery") {
	const Link link = connect();
	for (const Tail_Case& tail : tail_cases()) {
		try {
			PQsetPolarSendLSN(link.conn.get(), 1);
			PQsetPolarSendXact(link.conn.get(), 1);
			EXPECT_EQ(
			    PQrawReadyForQuery(link.conn.get(), kFull.data(), static_cast<int>(kFull.size())),
			    0);
			expect_evidence(link.conn.get(), {true, kLsn_value, "0,744", true, false}, 'T');
			PQsetPolarSendLSN(link.conn.get(), tail.want_lsn ? 1 : 0);
			PQsetPolarSendXact(link.conn.get(), tail.want_xact ? 1 : 0);
			// Exactly as long as it is: a read beyond its end is seen by the sanitizer.
			const std::vector<char> exact(tail.body.begin(), tail.body.end());
			EXPECT_EQ(
			    PQrawReadyForQuery(link.conn.get(), exact.data(), static_cast<int>(exact.size())),
			    0);
			expect_evidence(link.conn.get(), tail.expected, tail.body[0]);
		} catch (const Test_Failure& failure) {
			throw Test_Failure(std::string(tail.what) + ": " + failure.what());
		}
	}
}

TEST("a body that is no ReadyForQuery clears the evidence and leaves the status unknown") {
	const Link link = connect();
	PQsetPolarSendLSN(link.conn.get(), 1);
	PQsetPolarSendXact(link.conn.get(), 1);
	for (const std::string& bad : {""s, "Q"s, "\0"s, "i" + kFull.substr(1)}) {
		EXPECT_EQ(PQrawReadyForQuery(link.conn.get(), kFull.data(), static_cast<int>(kFull.size())),
		          0);
		EXPECT_EQ(PQrawReadyForQuery(link.conn.get(), bad.data(), static_cast<int>(bad.size())),
		          -1);
		EXPECT_EQ(PQhasLSN(link.conn.get()), 0);
		EXPECT(PQgetXactSplitXids(link.conn.get()) == nullptr);
		EXPECT_EQ(PQisXactSplittable(link.conn.get()), 0);
		EXPECT(PQtransactionStatus(link.conn.get()) == PQTRANS_UNKNOWN);
	}
}

TEST("the first ReadyForQuery is read if that was said before the login") {
	Link_Setup setup;
	setup.answer = greeting(kLsn);
	setup.before_login = [](PGconn* conn) { PQsetPolarSendLSN(conn, 1); };
	const Link link = connect(setup);
	expect_evidence(link.conn.get(), {true, kLsn_value}, 'I');
}

TEST("the first ReadyForQuery's tail is skipped if nothing was said") {
	Link_Setup setup;
	setup.answer = greeting(kLsn + "x1\0"s);
	const Link link = connect(setup);
	expect_evidence(link.conn.get(), {}, 'I');
	EXPECT_EQ(ask(link, "I"), PGRES_COMMAND_OK);
}

TEST("a tail that arrives byte by byte is read") {
	Link_Setup setup;
	setup.answer = greeting(kLsn + "w1,2\0"s);
	setup.answer_piece = 1;
	setup.before_login = [](PGconn* conn) {
		PQsetPolarSendLSN(conn, 1);
		PQsetPolarSendXact(conn, 1);
	};
	const Link link = connect(setup);
	expect_evidence(link.conn.get(), {true, kLsn_value, "1,2", false, true}, 'I');
}

TEST("a list of ten thousand XIDs is read, between two short ones") {
	const Link link = connect();
	PQsetPolarSendLSN(link.conn.get(), 1);
	PQsetPolarSendXact(link.conn.get(), 1);
	EXPECT_EQ(ask(link, kFull), PGRES_COMMAND_OK);
	std::string xids = "9";
	for (int xid = 100000; xid < 110000; ++xid) {
		xids += "," + std::to_string(xid);
	}
	EXPECT_EQ(ask(link, "T" + kLsn + "x" + xids + '\0'), PGRES_COMMAND_OK);
	expect_evidence(link.conn.get(), {true, kLsn_value, xids.c_str(), true, false}, 'T');
	EXPECT_EQ(ask(link, "T" + kLsn + "x1,2\0"s), PGRES_COMMAND_OK);
	expect_evidence(link.conn.get(), {true, kLsn_value, "1,2", true, false}, 'T');
}

TEST("a ReadyForQuery without a status is reported and touches nothing behind it") {
	const Link link = connect();
	PQsetPolarSendLSN(link.conn.get(), 1);
	PQsetPolarSendXact(link.conn.get(), 1);
	EXPECT_EQ(PQsendQuery(link.conn.get(), "BEGIN"), 1);
	link.peer->read_message();
	link.peer->send(message('C', "BEGIN\0"s) + message('Z', "") + message('Z', "I" + kLsn));
	std::string errors;
	while (PGresult* result = PQgetResult(link.conn.get())) {
		errors += PQresultErrorMessage(result);
		PQclear(result);
	}
	EXPECT(errors.find("do not agree with length") != std::string::npos);
}

TEST("the fast-path function call reads the tail too") {
	const Link link = connect();
	PQsetPolarSendLSN(link.conn.get(), 1);
	// The answer is there before the question, since PQfn waits for it.
	link.peer->send(message('V', int32_bytes(4) + int32_bytes(77)) +
	                message('Z', "I" + kLsn + "?"));
	int value = 0;
	int length = 0;
	PGresult* result = PQfn(link.conn.get(), 1, &value, &length, 1, nullptr, 0);
	const ExecStatusType status = PQresultStatus(result);
	PQclear(result);
	EXPECT_EQ(status, PGRES_COMMAND_OK);
	EXPECT_EQ(value, 77);
	EXPECT_EQ(link.peer->read_message().first, 'F');
	expect_evidence(link.conn.get(), {true, kLsn_value}, 'I');
	EXPECT_EQ(ask(link, "I"), PGRES_COMMAND_OK);
}

TEST("a reset connection has no evidence of the one before") {
	const Link link = connect();
	PQsetPolarSendLSN(link.conn.get(), 1);
	PQsetPolarSendXact(link.conn.get(), 1);
	EXPECT_EQ(ask(link, kFull), PGRES_COMMAND_OK);
	PQreset(link.conn.get()); // nobody listens any more: it fails, and must have cleared
	EXPECT_EQ(PQhasLSN(link.conn.get()), 0);
	EXPECT(PQgetXactSplitXids(link.conn.get()) == nullptr);
	EXPECT_EQ(PQisXactSplittable(link.conn.get()), 0);
}

TEST("the accessors take a null connection") {
	PQsetPolarSendLSN(nullptr, 1);
	PQsetPolarSendXact(nullptr, 1);
	EXPECT_EQ(PQhasLSN(nullptr), 0);
	EXPECT_EQ(PQgetLSN(nullptr), 0ULL);
	EXPECT(PQgetXactSplitXids(nullptr) == nullptr);
	EXPECT_EQ(PQisXactSplittable(nullptr), 0);
	EXPECT_EQ(PQisXactWalPending(nullptr), 0);
	EXPECT_EQ(PQrawReadyForQuery(nullptr, "I", 1), -1);
}
