#include "Harness.h"
#include "Scripted_Server.h"

#include <array>
#include <unistd.h>

// Extended queries with an LSN wait in front (patch 0004): the bytes, and that none are sent when
// anything fails.

namespace {

using namespace std::string_literals;

constexpr unsigned long long kTarget = 0x1234567890ABCDEF;
constexpr unsigned int kTimeout_ms = 0x01020304;

Link connect_with_wait() {
	Link_Setup setup;
	setup.options = {{"_pq_.polar_proxy_wait_v1", "true"}};
	return connect(setup);
}

std::string wait_message(unsigned long long target, unsigned int timeout_ms, int mode) {
	return message('W', "\1"s + static_cast<char>(mode) + int16_bytes(0) + int32_bytes(timeout_ms) +
	                        int64_bytes(target));
}

std::string parse(const std::string& name, const std::string& query, const std::string& types) {
	return message('P', name + '\0' + query + '\0' + types);
}

// Bind to the unnamed portal with one text parameter, Describe, Execute without a limit.
std::string bind_and_execute(const std::string& name, const std::string& value) {
	return message('B', "\0"s + name + '\0' + int16_bytes(0) + int16_bytes(1) +
	                        int32_bytes(static_cast<uint32_t>(value.size())) + value +
	                        int16_bytes(1) + int16_bytes(0)) +
	       message('D', "P\0"s) + message('E', "\0"s + int32_bytes(0));
}

const std::string kSync = message('S', "");
const std::string kReady = message('Z', "I");
constexpr Oid kInt4 = 23;

int send_params(PGconn* conn, const std::string& query, const std::string& value,
                unsigned long long target = kTarget, int mode = PQPOLAR_WAIT_STRICT,
                unsigned int timeout_ms = kTimeout_ms) {
	const std::array<const char*, 1> values{value.c_str()};
	return PQsendQueryParamsPolarWait(conn, query.c_str(), 1, &kInt4, values.data(), nullptr,
	                                  nullptr, 0, target, timeout_ms, mode);
}

// Answers what was sent, so that the next command can be.
void finish(const Link& link, const std::string& answer) {
	link.peer->send(answer + kReady);
	while (PGresult* result = PQgetResult(link.conn.get())) {
		PQclear(result);
	}
}

// Nothing has been sent, and nothing is left to be sent with the next command.
void expect_nothing_sent(const Link& link) {
	EXPECT_EQ(PQflush(link.conn.get()), 0);
	EXPECT_EQ(link.peer->read_available(), ""s);
	EXPECT_EQ(PQsendQuery(link.conn.get(), "x"), 1);
	const std::string next = message('Q', "x\0"s);
	EXPECT_EQ(link.peer->read_exactly(next.size()), next);
	finish(link, message('C', "X\0"s));
	EXPECT_EQ(link.peer->read_available(), ""s);
}

} // namespace

TEST("the wait message has its twenty-one bytes in the documented order") {
	EXPECT_EQ(wait_message(kTarget, kTimeout_ms, 1),
	          "W\0\0\0\x14\1\1\0\0\1\2\3\4\x12\x34\x56\x78\x90\xAB\xCD\xEF"s);
}

TEST("a one-shot query goes out behind its wait") {
	const Link link = connect_with_wait();
	EXPECT_EQ(send_params(link.conn.get(), "SELECT $1", "5"), 1);
	const std::string expected = wait_message(kTarget, kTimeout_ms, 1) +
	                             parse("", "SELECT $1", int16_bytes(1) + int32_bytes(kInt4)) +
	                             bind_and_execute("", "5") + kSync;
	EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
	EXPECT_EQ(link.peer->read_available(), ""s);
	link.peer->send(message('1', "") + message('2', "") + message('n', "") +
	                message('C', "SELECT 0\0"s) + kReady);
	PGresult* result = PQgetResult(link.conn.get());
	const ExecStatusType status = PQresultStatus(result);
	PQclear(result);
	EXPECT_EQ(status, PGRES_COMMAND_OK);
	EXPECT(PQgetResult(link.conn.get()) == nullptr);
}

TEST("a prepare goes out behind its wait") {
	const Link link = connect_with_wait();
	EXPECT_EQ(PQsendPreparePolarWait(link.conn.get(), "s1", "SELECT $1", 1, &kInt4, kTarget, 0,
	                                 PQPOLAR_WAIT_BEST_EFFORT),
	          1);
	const std::string expected = wait_message(kTarget, 0, 0) +
	                             parse("s1", "SELECT $1", int16_bytes(1) + int32_bytes(kInt4)) +
	                             kSync;
	EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
	EXPECT_EQ(link.peer->read_available(), ""s);
	finish(link, message('1', ""));
}

TEST("a prepared query goes out behind its wait") {
	const Link link = connect_with_wait();
	const std::array<const char*, 1> values{"five"};
	EXPECT_EQ(PQsendQueryPreparedPolarWait(link.conn.get(), "s1", 1, values.data(), nullptr,
	                                       nullptr, 0, 1, 0xFFFFFFFF, PQPOLAR_WAIT_STRICT),
	          1);
	const std::string expected =
	    wait_message(1, 0xFFFFFFFF, 1) + bind_and_execute("s1", "five") + kSync;
	EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
	EXPECT_EQ(link.peer->read_available(), ""s);
	finish(link, message('2', "") + message('C', "SELECT 0\0"s));
}

TEST("targets and timeouts with high bits set are sent as they are") {
	const Link link = connect_with_wait();
	for (const unsigned long long target :
	     {1ULL, 0x80000000ULL, 0xFFFFFFFFULL, 0x100000000ULL, 0xFFFFFFFF00000001ULL, ~0ULL}) {
		EXPECT_EQ(send_params(link.conn.get(), "q", "v", target, 0, 0x80000001), 1);
		const std::string expected = wait_message(target, 0x80000001, 0);
		EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
		link.peer->read_available();
		finish(link, message('1', "") + message('2', "") + message('C', "SELECT 0\0"s));
	}
}

TEST("a query larger than the output buffer goes out whole") {
	const Link link = connect_with_wait();
	for (const size_t size : {8100U, 8192U, 16384U, 100000U}) {
		const std::string query(size, 'q');
		const std::string value(size, 'v');
		EXPECT_EQ(PQsetnonblocking(link.conn.get(), 1), 0);
		EXPECT_EQ(send_params(link.conn.get(), query, value), 1);
		const std::string expected = wait_message(kTarget, kTimeout_ms, 1) +
		                             parse("", query, int16_bytes(1) + int32_bytes(kInt4)) +
		                             bind_and_execute("", value) + kSync;
		std::string sent;
		while (sent.size() < expected.size()) {
			PQflush(link.conn.get());
			sent += link.peer->read_available();
		}
		EXPECT_EQ(sent, expected);
		finish(link, message('1', "") + message('2', "") + message('C', "SELECT 0\0"s));
	}
}

TEST("in pipeline mode there is no Sync, and the order is kept") {
	const Link link = connect_with_wait();
	EXPECT_EQ(PQenterPipelineMode(link.conn.get()), 1);
	EXPECT_EQ(send_params(link.conn.get(), "a", "1"), 1);
	EXPECT_EQ(link.peer->read_available(), ""s);
	EXPECT_EQ(send_params(link.conn.get(), "b", "2", 9), 1);
	EXPECT_EQ(PQpipelineSync(link.conn.get()), 1);
	const std::string types = int16_bytes(1) + int32_bytes(kInt4);
	const std::string expected = wait_message(kTarget, kTimeout_ms, 1) + parse("", "a", types) +
	                             bind_and_execute("", "1") + wait_message(9, kTimeout_ms, 1) +
	                             parse("", "b", types) + bind_and_execute("", "2") + kSync;
	EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
}

TEST("a wait that was not negotiated is refused, and nothing is sent") {
	const Link link = connect();
	EXPECT_EQ(send_params(link.conn.get(), "SELECT $1", "5"), 0);
	EXPECT(std::string(PQerrorMessage(link.conn.get())).find("did not agree") != std::string::npos);
	EXPECT_EQ(PQsendPreparePolarWait(link.conn.get(), "s", "q", 0, nullptr, 1, 0, 0), 0);
	EXPECT_EQ(PQsendQueryPreparedPolarWait(link.conn.get(), "s", 0, nullptr, nullptr, nullptr, 0, 1,
	                                       0, 0),
	          0);
	expect_nothing_sent(link);
}

TEST("a wait without a target or with an unknown mode is refused, and nothing is sent") {
	const Link link = connect_with_wait();
	EXPECT_EQ(send_params(link.conn.get(), "SELECT $1", "5", 0), 0);
	EXPECT(std::string(PQerrorMessage(link.conn.get())).find("target") != std::string::npos);
	for (const int mode : {-1, 2}) {
		EXPECT_EQ(send_params(link.conn.get(), "SELECT $1", "5", kTarget, mode), 0);
		EXPECT_EQ(std::string(PQerrorMessage(link.conn.get())), "invalid mode of an LSN wait\n"s);
	}
	EXPECT_EQ(
	    PQsendQueryParamsPolarWait(nullptr, "q", 0, nullptr, nullptr, nullptr, nullptr, 0, 1, 0, 0),
	    0);
	expect_nothing_sent(link);
}

TEST("a command that cannot be completed takes its wait back") {
	const Link link = connect_with_wait();
	PGconn* conn = link.conn.get();
	const std::array<const char*, 2> values{"text", "binary"};
	const std::array<int, 2> formats{0, 1};
	// The second parameter needs a length: found out when Parse and half of Bind are in the buffer,
	// far beyond the size at which libpq sends what it has.
	const std::string long_query(50000, 'q');
	EXPECT_EQ(PQsendQueryParamsPolarWait(conn, long_query.c_str(), 2, nullptr, values.data(),
	                                     nullptr, formats.data(), 0, kTarget, 0, 1),
	          0);
	expect_nothing_sent(link);
	EXPECT_EQ(PQsendQueryPreparedPolarWait(conn, "s", 2, values.data(), nullptr, formats.data(), 0,
	                                       kTarget, 0, 1),
	          0);
	expect_nothing_sent(link);
	EXPECT_EQ(PQsendQueryParamsPolarWait(conn, nullptr, 0, nullptr, nullptr, nullptr, nullptr, 0,
	                                     kTarget, 0, 1),
	          0);
	expect_nothing_sent(link);
	EXPECT_EQ(PQsendPreparePolarWait(conn, nullptr, "q", 0, nullptr, kTarget, 0, 1), 0);
	EXPECT_EQ(PQsendPreparePolarWait(conn, "s", nullptr, 0, nullptr, kTarget, 0, 1), 0);
	EXPECT_EQ(PQsendPreparePolarWait(conn, "s", "q", -1, nullptr, kTarget, 0, 1), 0);
	EXPECT_EQ(
	    PQsendQueryPreparedPolarWait(conn, nullptr, 0, nullptr, nullptr, nullptr, 0, kTarget, 0, 1),
	    0);
	expect_nothing_sent(link);
}

TEST("a wait behind a running command is refused, and nothing is sent") {
	const Link link = connect_with_wait();
	EXPECT_EQ(PQsendQuery(link.conn.get(), "first"), 1);
	EXPECT_EQ(link.peer->read_message().second, "first\0"s);
	EXPECT_EQ(send_params(link.conn.get(), "SELECT $1", "5"), 0);
	finish(link, message('C', "X\0"s));
	expect_nothing_sent(link);
}

TEST("what was taken back leaves earlier unsent commands alone") {
	const Link link = connect_with_wait();
	PGconn* conn = link.conn.get();
	EXPECT_EQ(PQenterPipelineMode(conn), 1);
	EXPECT_EQ(send_params(conn, "a", "1"), 1);
	const std::array<const char*, 1> values{"binary"};
	const std::array<int, 1> formats{1};
	EXPECT_EQ(PQsendQueryParamsPolarWait(conn, std::string(20000, 'q').c_str(), 1, nullptr,
	                                     values.data(), nullptr, formats.data(), 0, kTarget, 0, 1),
	          0);
	EXPECT_EQ(link.peer->read_available(), ""s);
	EXPECT_EQ(PQpipelineSync(conn), 1);
	const std::string expected = wait_message(kTarget, kTimeout_ms, 1) +
	                             parse("", "a", int16_bytes(1) + int32_bytes(kInt4)) +
	                             bind_and_execute("", "1") + kSync;
	EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
	EXPECT_EQ(link.peer->read_available(), ""s);
}

TEST("a server's CopyBothResponse is still understood, although it has the same letter") {
	const Link link = connect_with_wait();
	EXPECT_EQ(PQsendQuery(link.conn.get(), "START_REPLICATION"), 1);
	link.peer->send(message('W', "\0"s + int16_bytes(0)));
	PGresult* result = PQgetResult(link.conn.get());
	const ExecStatusType status = PQresultStatus(result);
	PQclear(result);
	EXPECT_EQ(status, PGRES_COPY_BOTH);
}
