#include "Harness.h"
#include "Scripted_Server.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

// Bytes past libpq's parser (patch 0005). Whatever does not depend on it is tested with and without
// TLS.

namespace {

using namespace std::string_literals;

Link link_with(bool tls) {
	Link_Setup setup;
	setup.tls = tls;
	return connect(setup);
}

// A TLS server sends session tickets of its own accord; a first exchange gets them out of the way.
Link settled_link(bool tls) {
	Link link = link_with(tls);
	link.peer->send("!");
	char byte = 0;
	while (PQrawRecv(link.conn.get(), &byte, 1) == 0) {
		await_readable(link.conn.get());
	}
	EXPECT_EQ(byte, '!');
	return link;
}

// A small send buffer, so that it fills up before the test runs out of bytes.
Link narrow_link(bool tls) {
	Link link = settled_link(tls);
	constexpr int kBuffer_bytes = 16384;
	setsockopt(PQsocket(link.conn.get()), SOL_SOCKET, SO_SNDBUF, &kBuffer_bytes,
	           sizeof(kBuffer_bytes));
	return link;
}

std::string receive(PGconn* conn, size_t bytes, size_t at_a_time = 65536) {
	std::string data;
	std::vector<char> buffer(at_a_time);
	while (data.size() < bytes) {
		const ssize_t n = PQrawRecv(conn, buffer.data(), buffer.size());
		if (n < 0) {
			throw Test_Failure(std::string("PQrawRecv: ") + PQerrorMessage(conn));
		}
		if (n == 0) {
			EXPECT_EQ(PQrawPending(conn), 0);
			await_readable(conn);
		}
		data.append(buffer.data(), static_cast<size_t>(n));
	}
	return data;
}

// Reads until the end, which must be what is said.
void expect_end(PGconn* conn, ssize_t end) {
	std::array<char, 100> buffer{};
	ssize_t n = 0;
	while ((n = PQrawRecv(conn, buffer.data(), buffer.size())) >= 0) {
		if (n == 0) {
			await_readable(conn);
		}
	}
	EXPECT_EQ(n, end);
}

std::string pattern(size_t bytes) {
	std::string data(bytes, '\0');
	uint32_t state = 12345;
	for (char& c : data) {
		state = state * 1664525 + 1013904223;
		c = static_cast<char>(state >> 24);
	}
	return data;
}

iovec part_of(std::string& bytes) {
	return {bytes.data(), bytes.size()};
}

void send_all(PGconn* conn, std::string_view bytes) {
	while (!bytes.empty()) {
		const ssize_t n = PQrawSend(conn, bytes.data(), bytes.size());
		EXPECT(n > 0);
		bytes.remove_prefix(static_cast<size_t>(n));
	}
}

} // namespace

TEST("raw bytes go both ways, plain and TLS") {
	for (const bool tls : {false, true}) {
		const Link link = link_with(tls);
		EXPECT_EQ(PQrawIsTls(link.conn.get()), tls ? 1 : 0);
		const std::string data = pattern(1000);
		EXPECT_EQ(PQrawSend(link.conn.get(), data.data(), data.size()), 1000);
		EXPECT_EQ(link.peer->read_exactly(1000), data);
		link.peer->send(data);
		EXPECT_EQ(receive(link.conn.get(), 1000), data);
		EXPECT_EQ(receive(link.conn.get(), 0), ""s);
	}
}

TEST("nothing to read is no error and waits for reading") {
	for (const bool tls : {false, true}) {
		const Link link = settled_link(tls);
		std::array<char, 10> buffer{};
		EXPECT_EQ(PQrawRecv(link.conn.get(), buffer.data(), buffer.size()), PQRAW_WOULD_BLOCK);
		EXPECT_EQ(PQrawWants(link.conn.get()), PQRAW_WANT_READ);
		EXPECT_EQ(PQrawPending(link.conn.get()), 0);
		EXPECT_EQ(PQrawRecv(link.conn.get(), buffer.data(), 0), 0);
		EXPECT(PQstatus(link.conn.get()) == CONNECTION_OK);
	}
}

TEST("what libpq has read and not used comes first") {
	for (const bool tls : {false, true}) {
		Link_Setup setup;
		setup.tls = tls;
		setup.answer = greeting() + "D\0\0"s; // the beginning of a message: libpq keeps it
		const Link link = connect(setup);
		EXPECT_EQ(PQrawPending(link.conn.get()), 3);
		link.peer->send("\1\2rest");
		std::array<char, 2> two{};
		EXPECT_EQ(PQrawRecv(link.conn.get(), two.data(), two.size()), 2);
		EXPECT_EQ(std::string(two.data(), 2), "D\0"s);
		EXPECT_EQ(PQrawPending(link.conn.get()), 1);
		EXPECT_EQ(PQrawRecv(link.conn.get(), two.data(), two.size()), 1);
		EXPECT_EQ(two[0], '\0');
		EXPECT_EQ(receive(link.conn.get(), 6), "\1\2rest"s);
	}
}

TEST("bytes that TLS holds back are told, since polling does not tell") {
	const Link link = settled_link(true);
	link.peer->send("0123456789");
	await_readable(link.conn.get());
	std::array<char, 4> four{};
	EXPECT_EQ(PQrawRecv(link.conn.get(), four.data(), 4), 4);
	EXPECT_EQ(PQrawPending(link.conn.get()), 6);
	EXPECT_EQ(receive(link.conn.get(), 6, 4), "456789"s);
	EXPECT_EQ(PQrawPending(link.conn.get()), 0);
}

TEST("a large answer is read in any piece size") {
	const std::string data = pattern(300000);
	for (const bool tls : {false, true}) {
		for (const size_t piece : {1000U, 16384U, 400000U}) {
			const Link link = link_with(tls);
			std::string got;
			for (size_t at = 0; at < data.size(); at += 10000) {
				link.peer->send(std::string_view(data).substr(at, 10000));
				got += receive(link.conn.get(), 10000, piece);
			}
			EXPECT_EQ(got, data);
		}
	}
}

TEST("an end of stream is told, the socket stays open, the connection is bad") {
	for (const bool tls : {false, true}) {
		for (const bool in_order : {false, true}) {
			const Link link = settled_link(tls);
			const int fd = PQsocket(link.conn.get());
			link.peer->send("last words");
			if (in_order) {
				link.peer->close_in_order();
			} else {
				link.peer->close_abruptly();
			}
			EXPECT_EQ(receive(link.conn.get(), 10), "last words"s);
			expect_end(link.conn.get(), PQRAW_EOF);
			EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
			EXPECT_EQ(PQsocket(link.conn.get()), fd);
			EXPECT(std::string(PQerrorMessage(link.conn.get())).find("closed the connection") !=
			       std::string::npos);
		}
	}
}

TEST("a reset connection is an error with errno and a message") {
	const Link link = settled_link(false);
	link.peer->close_with_reset();
	await_readable(link.conn.get());
	char byte = 0;
	errno = 0;
	EXPECT_EQ(PQrawRecv(link.conn.get(), &byte, 1), PQRAW_ERROR);
	EXPECT_EQ(errno, ECONNRESET);
	EXPECT(!std::string(PQerrorMessage(link.conn.get())).empty());
	EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
}

TEST("sending to a server that is gone fails without SIGPIPE") {
	for (const bool tls : {false, true}) {
		for (const bool several : {false, true}) {
			const Link link = settled_link(tls);
			link.peer->close_abruptly();
			std::string data = "anybody there?";
			std::array<iovec, 2> parts{part_of(data), part_of(data)};
			ssize_t n = 0;
			for (int tries = 0; tries < 1000 && n >= 0; ++tries) {
				n = several ? PQrawSendv(link.conn.get(), parts.data(), 2)
				            : PQrawSend(link.conn.get(), data.data(), data.size());
				poll(nullptr, 0, 1);
			}
			EXPECT_EQ(n, PQRAW_ERROR);
			EXPECT(errno == EPIPE || errno == ECONNRESET);
			EXPECT(!std::string(PQerrorMessage(link.conn.get())).empty());
			EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
		}
	}
}

TEST("what the server said before it left can be read after a failed send") {
	const Link link = settled_link(false);
	link.peer->send("FATAL: bye");
	shutdown(link.peer->fd(), SHUT_RDWR);
	ssize_t n = 0;
	while ((n = PQrawSend(link.conn.get(), "x", 1)) > 0) {
		poll(nullptr, 0, 1);
	}
	EXPECT_EQ(n, PQRAW_ERROR);
	EXPECT_EQ(receive(link.conn.get(), 10), "FATAL: bye"s);
}

TEST("a full socket blocks, and the bytes arrive whole and in order") {
	const std::string data = pattern(3000000);
	for (const bool tls : {false, true}) {
		const Link link = narrow_link(tls);
		std::string arrived;
		std::string_view rest = data;
		int blocked = 0;
		while (!rest.empty()) {
			// Each time from another place and with another length, but never less than before.
			const std::string moved(
			    rest.substr(0, 20000 + static_cast<size_t>(blocked % 7) * 3000));
			const ssize_t n = PQrawSend(link.conn.get(), moved.data(), moved.size());
			EXPECT(n >= 0);
			if (n == 0) {
				EXPECT_EQ(PQrawWants(link.conn.get()), PQRAW_WANT_WRITE);
				++blocked;
				arrived += link.peer->read_available();
			}
			rest.remove_prefix(static_cast<size_t>(n));
		}
		arrived += link.peer->read_exactly(data.size() - arrived.size());
		EXPECT(blocked > 0);
		EXPECT(arrived == data);
	}
}

TEST("a blocked send may be repeated in other parts") {
	const std::string data = pattern(2000000);
	for (const bool tls : {false, true}) {
		const Link link = narrow_link(tls);
		std::string arrived;
		std::string rest = data;
		int blocked = 0;
		while (!rest.empty()) {
			// The first parts are tiny, and their sizes change with every call.
			const size_t first = 1 + static_cast<size_t>(blocked) % 50;
			std::array<std::string, 3> pieces;
			pieces[0] = rest.substr(0, first);
			pieces[1] = rest.substr(std::min(first, rest.size()), 2 * first);
			pieces[2] = rest.substr(std::min(3 * first, rest.size()));
			std::array<iovec, 4> parts{part_of(pieces[0]), iovec{nullptr, 0}, part_of(pieces[1]),
			                           part_of(pieces[2])};
			const ssize_t n = PQrawSendv(link.conn.get(), parts.data(), 4);
			EXPECT(n >= 0);
			if (n == 0) {
				++blocked;
				arrived += link.peer->read_available();
			}
			rest.erase(0, static_cast<size_t>(n));
		}
		arrived += link.peer->read_exactly(data.size() - arrived.size());
		EXPECT(blocked > 0);
		EXPECT(arrived == data);
	}
}

TEST("repeating a blocked TLS send with less is refused, and can be put right") {
	const Link link = narrow_link(true);
	const std::string data = pattern(4000000);
	std::string_view rest = data;
	ssize_t n = 0;
	while ((n = PQrawSend(link.conn.get(), rest.data(), rest.size())) > 0) {
		rest.remove_prefix(static_cast<size_t>(n));
	}
	EXPECT_EQ(n, PQRAW_WOULD_BLOCK);
	errno = 0;
	EXPECT_EQ(PQrawSend(link.conn.get(), rest.data(), 1), PQRAW_ERROR);
	EXPECT_EQ(errno, EINVAL);
	EXPECT(PQstatus(link.conn.get()) == CONNECTION_OK);
	std::string arrived;
	while (!rest.empty()) {
		n = PQrawSend(link.conn.get(), rest.data(), rest.size());
		EXPECT(n >= 0);
		if (n == 0) {
			arrived += link.peer->read_available();
		}
		rest.remove_prefix(static_cast<size_t>(n));
	}
	arrived += link.peer->read_exactly(data.size() - arrived.size());
	EXPECT(arrived == data);
}

TEST("parts are sent in order, empty ones skipped, and more than the kernel takes at once") {
	for (const bool tls : {false, true}) {
		const Link link = settled_link(tls);
		std::string data = pattern(3000);
		std::vector<iovec> parts;
		for (char& c : data) {
			parts.push_back({nullptr, 0});
			parts.push_back({&c, 1});
		}
		size_t sent = 0;
		while (sent < data.size()) {
			const ssize_t n = PQrawSendv(link.conn.get(), parts.data() + 2 * sent,
			                             static_cast<int>(parts.size() - 2 * sent));
			EXPECT(n > 0);
			sent += static_cast<size_t>(n);
		}
		EXPECT_EQ(link.peer->read_exactly(data.size()), data);
		EXPECT_EQ(PQrawSendv(link.conn.get(), parts.data(), 1), 0);
		EXPECT_EQ(PQrawSendv(link.conn.get(), parts.data(), 0), 0);
		EXPECT_EQ(PQrawSend(link.conn.get(), "x", 0), 0);
	}
}

TEST("small parts share a TLS record") {
	const Link link = settled_link(true);
	std::array<std::string, 3> pieces{"one ", "two ", "three"};
	std::array<iovec, 3> parts{part_of(pieces[0]), part_of(pieces[1]), part_of(pieces[2])};
	EXPECT_EQ(PQrawSendv(link.conn.get(), parts.data(), 3), 13);
	std::array<char, 100> record{};
	// SSL_read never returns bytes of more than one record.
	EXPECT_EQ(SSL_read(link.peer->tls(), record.data(), 100), 13);
	EXPECT_EQ(std::string(record.data(), 13), "one two three"s);
}

TEST("a TLS key update in the middle is not noticed") {
	const Link link = settled_link(true);
	EXPECT_EQ(SSL_key_update(link.peer->tls(), SSL_KEY_UPDATE_REQUESTED), 1);
	link.peer->send("after");
	EXPECT_EQ(receive(link.conn.get(), 5), "after"s);
	send_all(link.conn.get(), "answer");
	EXPECT_EQ(link.peer->read_exactly(6), "answer"s);
}

TEST("libpq's own unsent bytes go out before raw ones") {
	for (const bool tls : {false, true}) {
		const Link link = settled_link(tls);
		EXPECT_EQ(PQenterPipelineMode(link.conn.get()), 1);
		EXPECT_EQ(PQsendPrepare(link.conn.get(), "s", "q", 0, nullptr), 1);
		send_all(link.conn.get(), "raw");
		const std::string expected = message('P', "s\0q\0"s + int16_bytes(0)) + "raw";
		EXPECT_EQ(link.peer->read_exactly(expected.size()), expected);
	}
}

TEST("after a raw exchange the ordinary functions work, and raw ones again after them") {
	for (const bool tls : {false, true}) {
		const Link link = settled_link(tls);
		PGconn* conn = link.conn.get();
		for (int round = 0; round < 3; ++round) {
			const std::string query = message('Q', "raw\0"s);
			const std::string answer = message('C', "RAW\0"s) + message('Z', "T");
			send_all(conn, query);
			EXPECT_EQ(link.peer->read_exactly(query.size()), query);
			link.peer->send(answer);
			EXPECT_EQ(receive(conn, answer.size()), answer);
			EXPECT_EQ(PQrawReadyForQuery(conn, "T", 1), 0);
			EXPECT(PQtransactionStatus(conn) == PQTRANS_INTRANS);

			EXPECT_EQ(PQsendQuery(conn, "COMMIT"), 1);
			EXPECT_EQ(link.peer->read_message().second, "COMMIT\0"s);
			link.peer->send(message('C', "COMMIT\0"s) + message('Z', "I"));
			PGresult* result = PQgetResult(conn);
			const std::string tag = PQcmdStatus(result);
			PQclear(result);
			EXPECT_EQ(tag, "COMMIT"s);
			EXPECT(PQgetResult(conn) == nullptr);
			EXPECT(PQtransactionStatus(conn) == PQTRANS_IDLE);
		}
	}
}

TEST("the cancel key is told with the process number") {
	const Link link = link_with(false);
	EXPECT_EQ(PQbackendPID(link.conn.get()), static_cast<int>(kBackendPid));
	EXPECT_EQ(PQgetCancelKey(link.conn.get()), static_cast<int>(kCancelKey));
	EXPECT_EQ(PQgetCancelKey(nullptr), 0);
}

TEST("raw functions take a null connection and one that is not open") {
	char byte = 0;
	iovec part{&byte, 1};
	EXPECT_EQ(PQrawRecv(nullptr, &byte, 1), 0);
	EXPECT_EQ(PQrawSend(nullptr, &byte, 1), 0);
	EXPECT_EQ(PQrawSendv(nullptr, &part, 1), 0);
	EXPECT_EQ(PQrawPending(nullptr), 0);
	EXPECT_EQ(PQrawWants(nullptr), 0);
	EXPECT_EQ(PQrawIsTls(nullptr), 0);
	const Conn closed(PQconnectStart("host=/nonexistent"));
	EXPECT_EQ(PQrawRecv(closed.get(), &byte, 1), PQRAW_ERROR);
	EXPECT_EQ(errno, ENOTCONN);
	EXPECT_EQ(PQrawSend(closed.get(), &byte, 1), PQRAW_ERROR);
	EXPECT_EQ(PQrawSendv(closed.get(), &part, 1), PQRAW_ERROR);
}
