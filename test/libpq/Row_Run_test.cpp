#include "Harness.h"
#include "Scripted_Server.h"

#include <cstdint>

// Rows as one block of bytes (patch 0003).

namespace {

using namespace std::string_literals;

const std::string kDescription =
    message('T', int16_bytes(1) + "c\0"s + int32_bytes(0) + int16_bytes(0) + int32_bytes(25) +
                     int16_bytes(0xffff) + int32_bytes(0xffffffff) + int16_bytes(0));
const std::string kReady = message('Z', "I");
const std::string kNotice = message('N', "SNOTICE\0C00000\0Mhello\0\0"s);

std::string row(const std::string& value) {
	return message('D', int16_bytes(1) + int32_bytes(static_cast<uint32_t>(value.size())) + value);
}

std::string tag(const std::string& text) {
	return message('C', text + '\0');
}

struct Free_Buffer {
	void operator()(char* buffer) const { PQfreemem(buffer); }
};
using Buffer = std::unique_ptr<char, Free_Buffer>;

struct Run {
	int rc = 0;
	std::string bytes;
	int rows = 0;
};

Run peek(PGconn* conn, size_t budget = SIZE_MAX) {
	const char* data = nullptr;
	size_t size = 0;
	Run run;
	run.rc = PSpeekRowRun(conn, budget, &data, &size, &run.rows);
	if (run.rc == 0) {
		run.bytes.assign(data, size);
	}
	return run;
}

Run detach(PGconn* conn, size_t budget = SIZE_MAX) {
	char* buffer = nullptr;
	const char* data = nullptr;
	size_t size = 0;
	Run run;
	run.rc = PSdetachRowRun(conn, budget, &buffer, &data, &size, &run.rows);
	const Buffer owned(buffer);
	if (run.rc == 0) {
		run.bytes.assign(data, size);
	}
	return run;
}

enum class Way { peek, detach };

Run take(PGconn* conn, Way way, size_t budget = SIZE_MAX) {
	if (way == Way::detach) {
		return detach(conn, budget);
	}
	Run run = peek(conn, budget);
	if (run.rc == 0) {
		EXPECT_EQ(PSadvanceInput(conn, run.bytes.size()), 0);
	}
	return run;
}

// A query in row-run mode, its answer not yet sent.
Link ask(Link link) {
	EXPECT_EQ(PQsendQuery(link.conn.get(), "SELECT"), 1);
	EXPECT_EQ(PSsetRowRunMode(link.conn.get()), 1);
	EXPECT_EQ(link.peer->read_message().first, 'Q');
	return link;
}

// Lets the client read and parse that many bytes, which have been sent.
void consume(const Link& link, size_t bytes) {
	await_bytes(link.conn.get(), bytes);
	EXPECT_EQ(PQconsumeInput(link.conn.get()), 1);
	PQisBusy(link.conn.get());
}

void send_and_consume(const Link& link, const std::string& bytes) {
	link.peer->send(bytes);
	consume(link, bytes.size());
}

// Takes all rows that are there. Returns their bytes.
std::string take_all(const Link& link, Way way) {
	std::string taken;
	for (;;) {
		const Run run = take(link.conn.get(), way);
		if (run.rc == 0) {
			taken += run.bytes;
			continue;
		}
		const bool busy = PQisBusy(link.conn.get()) != 0;
		if (!busy || PSrowRunPending(link.conn.get()) == 0 || run.rc == EOF) {
			return taken;
		}
	}
}

struct Result {
	ExecStatusType status = PGRES_FATAL_ERROR;
	int rows = -1;
	std::string tag;
	std::string error;
};

Result next_result(const Link& link) {
	Result result;
	PGresult* got = PQgetResult(link.conn.get());
	if (got != nullptr) {
		result = {PQresultStatus(got), PQntuples(got), PQcmdStatus(got), PQresultErrorMessage(got)};
		PQclear(got);
	}
	return result;
}

void expect_done(const Link& link, const std::string& expected_tag) {
	const Result result = next_result(link);
	EXPECT_EQ(result.status, PGRES_TUPLES_OK);
	EXPECT_EQ(result.rows, 0);
	EXPECT_EQ(result.tag, expected_tag);
	EXPECT(PQgetResult(link.conn.get()) == nullptr);
	EXPECT(PQtransactionStatus(link.conn.get()) == PQTRANS_IDLE);
}

} // namespace

TEST("a stream cut at every byte gives the same rows, peeked or detached") {
	const std::string rows =
	    row("one") + row("") + row("three and more") + message('D', int16_bytes(0));
	const std::string stream = kDescription + rows + tag("SELECT 4") + kReady;
	for (const Way way : {Way::peek, Way::detach}) {
		Link link = connect();
		for (size_t cut = 1; cut < stream.size(); ++cut) {
			link = ask(std::move(link));
			send_and_consume(link, stream.substr(0, cut));
			std::string taken = take_all(link, way);
			send_and_consume(link, stream.substr(cut));
			taken += take_all(link, way);
			EXPECT_EQ(taken, rows);
			expect_done(link, "SELECT 4");
		}
	}
}

TEST("a stream that comes byte by byte gives the same rows") {
	const std::string rows = row("one") + row("two");
	const std::string stream = kDescription + rows + tag("SELECT 2") + kReady;
	for (const Way way : {Way::peek, Way::detach}) {
		const Link link = ask(connect());
		std::string taken;
		for (const char byte : stream) {
			send_and_consume(link, std::string(1, byte));
			taken += take_all(link, way);
		}
		EXPECT_EQ(taken, rows);
		expect_done(link, "SELECT 2");
	}
}

TEST("an incomplete row says so, at every length") {
	const std::string one = row("value");
	const Link link = ask(connect());
	send_and_consume(link, kDescription);
	for (size_t sent = 0; sent < one.size(); ++sent) {
		EXPECT_EQ(peek(link.conn.get()).rc, EOF);
		EXPECT_EQ(detach(link.conn.get()).rc, EOF);
		EXPECT_EQ(PSrowRunPending(link.conn.get()), sent > 0 ? 1 : 0);
		EXPECT_EQ(PQisBusy(link.conn.get()), 1);
		send_and_consume(link, one.substr(sent, 1));
	}
	EXPECT_EQ(peek(link.conn.get()).bytes, one);
}

TEST("the budget limits a run, but not below one row") {
	const std::string one = row("aaaa");
	const std::string two = row("bbbb");
	for (const Way way : {Way::peek, Way::detach}) {
		const Link link = ask(connect());
		send_and_consume(link, kDescription + one + two + one + two + one + two + tag("SELECT 6") +
		                           kReady);
		EXPECT_EQ(take(link.conn.get(), way, 0).bytes, one);
		EXPECT_EQ(take(link.conn.get(), way, 1).bytes, two);
		Run run = take(link.conn.get(), way, one.size() + two.size());
		EXPECT_EQ(run.bytes, one + two);
		EXPECT_EQ(run.rows, 2);
		EXPECT_EQ(peek(link.conn.get(), one.size() + two.size() - 1).rows, 1);
		run = take(link.conn.get(), way);
		EXPECT_EQ(run.rows, 2);
		EXPECT_EQ(take(link.conn.get(), way).rc, 1); // the tag comes next
		EXPECT_EQ(PQisBusy(link.conn.get()), 0);
		expect_done(link, "SELECT 6");
	}
}

TEST("a row larger than the input buffer is passed in one piece") {
	const std::string big = row(std::string(200000, 'x'));
	for (const Way way : {Way::peek, Way::detach}) {
		const Link link = ask(connect());
		std::string stream =
		    kDescription + row("small") + big + row("last") + tag("SELECT 3") + kReady;
		std::string taken;
		while (!stream.empty()) {
			const std::string piece = stream.substr(0, 7000);
			stream.erase(0, piece.size());
			send_and_consume(link, piece);
			taken += take_all(link, way);
		}
		EXPECT_EQ(taken, row("small") + big + row("last"));
		expect_done(link, "SELECT 3");
	}
}

TEST("a detached run outlives the connection, and the tail stays with it") {
	Link link = ask(connect());
	send_and_consume(link, kDescription + row("mine") + row("tail") + tag("SELECT 2") + kReady);
	char* raw = nullptr;
	const char* run = nullptr;
	size_t size = 0;
	int rows = 0;
	EXPECT_EQ(PSdetachRowRun(link.conn.get(), 1, &raw, &run, &size, &rows), 0);
	const Buffer buffer(raw);
	EXPECT(run >= raw);
	EXPECT_EQ(take_all(link, Way::peek), row("tail"));
	expect_done(link, "SELECT 2");
	link.conn.reset();
	EXPECT_EQ(std::string(run, size), row("mine"));
}

TEST("input cannot be advanced past its end") {
	const Link link = ask(connect());
	send_and_consume(link, kDescription + row("abc"));
	const size_t size = row("abc").size();
	EXPECT_EQ(PSadvanceInput(link.conn.get(), size + 1), EOF);
	EXPECT_EQ(peek(link.conn.get()).bytes, row("abc"));
	EXPECT_EQ(PSadvanceInput(link.conn.get(), size), 0);
	EXPECT_EQ(PSadvanceInput(link.conn.get(), 1), EOF);
	EXPECT_EQ(PSadvanceInput(nullptr, 0), EOF);
}

TEST("without the mode rows go into the result as ever") {
	const Link link = connect();
	EXPECT_EQ(PQsendQuery(link.conn.get(), "SELECT"), 1);
	link.peer->read_message();
	send_and_consume(link, kDescription + row("a") + row("b"));
	EXPECT_EQ(peek(link.conn.get()).rc, 1);
	EXPECT_EQ(detach(link.conn.get()).rc, 1);
	EXPECT_EQ(PSrowRunPending(link.conn.get()), 0);
	link.peer->send(tag("SELECT 2") + kReady);
	EXPECT_EQ(next_result(link).rows, 2);
}

TEST("the mode ends with its query") {
	const Link link = ask(connect());
	send_and_consume(link, kDescription + row("a") + tag("SELECT 1") + kReady);
	EXPECT_EQ(take_all(link, Way::peek), row("a"));
	expect_done(link, "SELECT 1");
	EXPECT_EQ(PQsendQuery(link.conn.get(), "SELECT"), 1);
	link.peer->read_message();
	// Not by PQgetResult, which would leave the mode.
	send_and_consume(link, kDescription + row("a") + tag("SELECT 1") + kReady);
	EXPECT_EQ(PQisBusy(link.conn.get()), 0);
	EXPECT_EQ(next_result(link).rows, 1);
}

TEST("the mode ends before a pipeline") {
	const Link link = ask(connect());
	send_and_consume(link, kDescription + row("a") + tag("SELECT 1") + kReady);
	EXPECT_EQ(take_all(link, Way::peek), row("a"));
	expect_done(link, "SELECT 1");
	EXPECT_EQ(PQenterPipelineMode(link.conn.get()), 1);
	EXPECT_EQ(
	    PQsendQueryParams(link.conn.get(), "SELECT", 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
	EXPECT_EQ(PSsetRowRunMode(link.conn.get()), 0);
	EXPECT_EQ(PQpipelineSync(link.conn.get()), 1);
	// Parse, Bind and Describe were sent, and none of it is of interest.
	link.peer->read_available();
	send_and_consume(link, message('1', "") + message('2', "") + kDescription + row("a") +
	                           tag("SELECT 1") + kReady);
	EXPECT_EQ(PQisBusy(link.conn.get()), 0);
	EXPECT_EQ(next_result(link).rows, 1);
}

TEST("the mode is refused when there is no query, or in single-row mode") {
	EXPECT_EQ(PSsetRowRunMode(nullptr), 0);
	const Link link = connect();
	EXPECT_EQ(PSsetRowRunMode(link.conn.get()), 0);
	EXPECT_EQ(PQsendQuery(link.conn.get(), "SELECT"), 1);
	EXPECT_EQ(PQsetSingleRowMode(link.conn.get()), 1);
	EXPECT_EQ(PSsetRowRunMode(link.conn.get()), 0);
	link.peer->send(kDescription + row("a") + tag("SELECT 1") + kReady);
	EXPECT_EQ(next_result(link).status, PGRES_SINGLE_TUPLE);
}

TEST("rows that nobody takes are returned by PQgetResult") {
	const Link link = ask(connect());
	link.peer->send(kDescription + row("a") + row("b") + tag("SELECT 2") + kReady);
	const Result result = next_result(link);
	EXPECT_EQ(result.status, PGRES_TUPLES_OK);
	EXPECT_EQ(result.rows, 2);
	EXPECT(PQgetResult(link.conn.get()) == nullptr);
}

TEST("each result of several statements has its run") {
	const Link link = ask(connect());
	send_and_consume(link, kDescription + row("a") + tag("SELECT 1") + tag("SET") + kDescription +
	                           row("b") + row("c") + tag("SELECT 2") + kReady);
	EXPECT_EQ(take_all(link, Way::detach), row("a"));
	EXPECT_EQ(next_result(link).tag, "SELECT 1"s);
	EXPECT_EQ(next_result(link).tag, "SET"s);
	EXPECT_EQ(PQisBusy(link.conn.get()), 1);
	EXPECT_EQ(take_all(link, Way::peek), row("b") + row("c"));
	expect_done(link, "SELECT 2");
}

TEST("notices, an error after rows and the extended protocol go the usual way") {
	Link link = connect();
	int notices = 0;
	PQsetNoticeReceiver(
	    link.conn.get(), [](void* count, const PGresult*) { ++*static_cast<int*>(count); },
	    &notices);
	EXPECT_EQ(
	    PQsendQueryParams(link.conn.get(), "SELECT", 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
	EXPECT_EQ(PSsetRowRunMode(link.conn.get()), 1);
	const std::string error = message('E', "SERROR\0C57014\0Mtoo late\0\0"s);
	send_and_consume(link, message('1', "") + message('2', "") + kNotice + kDescription + kNotice +
	                           row("a") + kNotice + row("b") + error + kReady);
	EXPECT_EQ(take_all(link, Way::detach), row("a") + row("b"));
	EXPECT_EQ(notices, 3);
	const Result result = next_result(link);
	EXPECT_EQ(result.status, PGRES_FATAL_ERROR);
	EXPECT_EQ(result.error, "ERROR:  too late\n"s);
	EXPECT(PQgetResult(link.conn.get()) == nullptr);
}

TEST("a row too short to be one is not passed on but refused by the parser") {
	for (const std::string& bad : {message('D', ""), message('D', "\0"s)}) {
		const Link link = ask(connect());
		send_and_consume(link, kDescription + row("good"));
		link.peer->send(bad + tag("SELECT 2") + kReady);
		consume(link, bad.size() + tag("SELECT 2").size() + kReady.size());
		const Run run = peek(link.conn.get());
		EXPECT_EQ(run.bytes, row("good"));
		EXPECT_EQ(PSadvanceInput(link.conn.get(), run.bytes.size()), 0);
		EXPECT_EQ(peek(link.conn.get()).rc, 1);
		EXPECT_EQ(PSrowRunPending(link.conn.get()), 0);
		EXPECT_EQ(next_result(link).status, PGRES_FATAL_ERROR);
	}
}
