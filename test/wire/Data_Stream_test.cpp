// PgSQL_Data_Stream: a client's socket, with and without TLS.
#include "Wire_Kit.h"
#include "net/PgSQL_Data_Stream.h"

#include <openssl/ssl.h>

#include <cstdlib>
#include <filesystem>
#include <sys/socket.h>

namespace proxy::wire {

namespace {

// A stream, its handler and the peer. The handler reads as a session does: once an event.
class Stream_Rig final : public Stream_Handler {
public:
	explicit Stream_Rig(size_t read_bytes = 64 * 1024) : buffer_(read_bytes) {
		int ends[2] = {-1, -1};
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
		const int small = 16 * 1024;
		setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		peer = std::make_unique<Peer>(ends[0], [this] { pump(); });
		stream = std::make_unique<PgSQL_Data_Stream>(loop, ends[1], *this);
	}
	void pump() { loop.run_once(1); }
	void settle() {
		for (int i = 0; i < 10; ++i) {
			loop.run_once(0);
		}
	}

	Event_Loop loop;
	std::unique_ptr<Peer> peer;
	std::unique_ptr<PgSQL_Data_Stream> stream;
	std::string received;
	int readable = 0;
	int drained = 0;
	int broken = 0;
	bool at_end = false;
	bool close_when_readable = false;

private:
	void on_stream_readable() override {
		++readable;
		const ssize_t got = stream->receive(buffer_.data(), buffer_.size());
		at_end = at_end || got < 0;
		if (got > 0) {
			received.append(buffer_.data(), static_cast<size_t>(got));
		}
		if (got < 0 || close_when_readable) {
			stream->close();
		}
	}
	void on_stream_drained() override { ++drained; }
	void on_stream_broken() override {
		++broken;
		stream->close();
	}

	std::vector<char> buffer_;
};

std::string pattern(size_t bytes) {
	std::string result(bytes, '\0');
	for (size_t i = 0; i < bytes; ++i) {
		result[i] = static_cast<char>((i * 31 + i / 251) & 0xff);
	}
	return result;
}

const Tls_Context_Ptr& tls_context() {
	static const Tls_Context_Ptr context = [] {
		std::string directory = std::filesystem::temp_directory_path().string() + "/wire-XXXXXX";
		REQUIRE(mkdtemp(directory.data()) != nullptr);
		auto made = Tls_Context::load_or_make(directory);
		std::filesystem::remove_all(directory);
		REQUIRE(made.ok());
		return made.take();
	}();
	return context;
}

// OpenSSL's client over memory, so that the test decides when which of its bytes go out.
class Tls_Client {
public:
	Tls_Client() : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
		tls_.reset(SSL_new(context_.get()));
		SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
		SSL_set_connect_state(tls_.get());
	}
	bool handshake() { return SSL_do_handshake(tls_.get()) == 1; }
	std::string take_output() {
		std::string out(BIO_ctrl_pending(SSL_get_wbio(tls_.get())), '\0');
		BIO_read(SSL_get_wbio(tls_.get()), out.data(), static_cast<int>(out.size()));
		return out;
	}
	void feed(std::string_view bytes) {
		BIO_write(SSL_get_rbio(tls_.get()), bytes.data(), static_cast<int>(bytes.size()));
	}
	// One record.
	std::string sealed(std::string_view bytes) {
		REQUIRE(SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
		        static_cast<int>(bytes.size()));
		return take_output();
	}
	std::string opened() {
		std::string all;
		char buffer[16384];
		int got = 0;
		while ((got = SSL_read(tls_.get(), buffer, sizeof(buffer))) > 0) {
			all.append(buffer, static_cast<size_t>(got));
		}
		return all;
	}
	std::string farewell() {
		SSL_shutdown(tls_.get());
		return take_output();
	}

private:
	std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
	std::unique_ptr<SSL, void (*)(SSL*)> tls_{nullptr, SSL_free};
};

// Both sides until the client is through; `send` is how its bytes go out.
template <typename Send> void shake_hands(Stream_Rig& rig, Tls_Client& client, Send send) {
	REQUIRE(rig.stream->start_tls(tls_context()));
	for (int round = 0; round < 20; ++round) {
		const bool done = client.handshake();
		send(client.take_output());
		rig.settle();
		client.feed(rig.peer->available());
		if (done && rig.stream->handshake_done()) {
			return;
		}
	}
	FAIL("the handshake does not end");
}

void shake_hands(Stream_Rig& rig, Tls_Client& client) {
	shake_hands(rig, client, [&rig](const std::string& bytes) { rig.peer->send(bytes); });
}

} // namespace

TEST_CASE("output that the socket does not take is kept, and goes out in order") {
	Stream_Rig rig;
	const std::string sent = pattern(1'000'000);
	REQUIRE(rig.stream->send(sent));
	CHECK(rig.stream->unsent_bytes() > 0);
	CHECK(rig.stream->unsent_bytes() < sent.size());
	rig.settle();
	CHECK(rig.drained == 0);
	CHECK_BYTES(rig.peer->receive(sent.size()), sent);
	rig.settle();
	CHECK(rig.stream->unsent_bytes() == 0);
	CHECK(rig.drained == 1);
	CHECK(rig.stream->bytes_sent() == sent.size());
	CHECK(rig.stream->memory_bytes() < 16 * 1024);
	rig.peer->expect_nothing();
}

TEST_CASE("a send of several parts is cut anywhere and arrives whole") {
	Stream_Rig rig;
	std::string expected;
	size_t parts_cut = 0;
	for (size_t round = 0; round < 40; ++round) {
		const std::string first = pattern(1 + round * 37);
		const std::string second = pattern(5000 + round);
		const std::string third = pattern(700);
		std::vector<iovec> parts;
		for (const std::string* part : {&first, &second, &third}) {
			parts.push_back({const_cast<char*>(part->data()), part->size()});
			expected += *part;
		}
		const size_t before = rig.stream->unsent_bytes();
		REQUIRE(rig.stream->send(parts.data(), 3));
		const size_t kept = rig.stream->unsent_bytes() - before;
		parts_cut += before == 0 && kept > 0 ? 1 : 0;
		if (round % 5 == 4) {
			const std::string got = rig.peer->receive(expected.size());
			CHECK_BYTES(got, expected);
			expected.clear();
		}
	}
	CHECK(parts_cut > 0);
}

TEST_CASE("what append() keeps goes out in front of the next send") {
	Stream_Rig rig;
	rig.stream->append("first ");
	rig.settle();
	CHECK_BYTES(rig.peer->available(), "");
	REQUIRE(rig.stream->send("second"));
	REQUIRE(rig.stream->flush());
	rig.peer->expect("first second");
}

TEST_CASE("a paused stream reads nothing, and all of it when it goes on") {
	Stream_Rig rig;
	rig.stream->pause_reading(true);
	rig.peer->send("held back");
	rig.settle();
	CHECK(rig.readable == 0);
	rig.stream->pause_reading(false);
	rig.settle();
	CHECK(rig.received == "held back");
}

TEST_CASE("a peer that ends its half is seen once, behind its bytes") {
	Stream_Rig rig;
	rig.peer->send("abc");
	rig.peer->stop_writing();
	rig.settle();
	CHECK(rig.received == "abc");
	CHECK(rig.at_end);
	CHECK(rig.broken == 0);
	CHECK_FALSE(rig.stream->open());
	CHECK_FALSE(rig.stream->send("x"));
	char byte = 0;
	CHECK(rig.stream->receive(&byte, 1) == -1);
}

TEST_CASE("a peer that vanishes while output is kept breaks the stream") {
	Stream_Rig rig;
	REQUIRE(rig.stream->send(pattern(1'000'000)));
	rig.stream->pause_reading(true);
	rig.peer->close();
	rig.settle();
	CHECK(rig.broken == 1);
	CHECK(rig.drained == 0);
	CHECK_FALSE(rig.stream->open());
}

TEST_CASE("a send to a peer that has gone says so and calls nobody") {
	Stream_Rig rig;
	rig.peer->close();
	CHECK_FALSE(rig.stream->send("x"));
	CHECK(rig.broken == 0);
}

TEST_CASE("a handler may close its stream") {
	Stream_Rig rig;
	rig.close_when_readable = true;
	REQUIRE(rig.stream->send(pattern(300'000)));
	rig.peer->send("bye");
	rig.settle();
	CHECK(rig.received == "bye");
	CHECK(rig.readable == 1);
	CHECK_FALSE(rig.stream->open());
}

TEST_CASE("a TLS handshake goes on byte by byte") {
	Stream_Rig rig;
	Tls_Client client;
	shake_hands(rig, client, [&rig](const std::string& bytes) { rig.peer->send_bytewise(bytes); });
	CHECK(rig.received.empty());
	rig.peer->send_bytewise(client.sealed("hello"));
	rig.settle();
	CHECK(rig.received == "hello");
	REQUIRE(rig.stream->send("hello to you"));
	client.feed(rig.peer->available());
	CHECK(client.opened() == "hello to you");
}

TEST_CASE("what a client sends right behind its handshake is read") {
	Stream_Rig rig;
	Tls_Client client;
	REQUIRE(rig.stream->start_tls(tls_context()));
	client.handshake();
	rig.peer->send(client.take_output());
	rig.settle();
	client.feed(rig.peer->available());
	REQUIRE(client.handshake());
	rig.peer->send(client.take_output() + client.sealed("at once"));
	rig.settle();
	CHECK(rig.received == "at once");
}

TEST_CASE("a peer that leaves in the middle of the handshake breaks the stream") {
	Tls_Client client;
	client.handshake();
	const std::string hello = client.take_output();
	for (const size_t bytes : {size_t{1}, size_t{5}, hello.size() / 2, hello.size()}) {
		Stream_Rig rig;
		REQUIRE(rig.stream->start_tls(tls_context()));
		rig.peer->send(hello.substr(0, bytes));
		rig.peer->stop_writing();
		rig.settle();
		CHECK(rig.broken == 1);
		CHECK(rig.readable == 0);
		CHECK_FALSE(rig.stream->open());
	}
}

TEST_CASE("bytes that are no TLS break the stream") {
	Stream_Rig rig;
	REQUIRE(rig.stream->start_tls(tls_context()));
	rig.peer->send("GET / HTTP/1.0\r\n\r\n");
	rig.settle();
	CHECK(rig.broken == 1);
	CHECK(rig.readable == 0);
}

TEST_CASE("TLS records of any size are read to their end") {
	// The socket does not show what OpenSSL holds already: a record that is longer than the room
	// left in the read buffer must not stay there until the client says more.
	for (const size_t record : {1000U, 10'000U, 16'000U, 16'384U}) {
		for (size_t records = 1; records < 12; ++records) {
			Stream_Rig rig;
			Tls_Client client;
			shake_hands(rig, client);
			const std::string sent = pattern(record * records);
			std::string sealed;
			for (size_t at = 0; at < sent.size(); at += record) {
				sealed += client.sealed(std::string_view(sent).substr(at, record));
			}
			rig.stream->pause_reading(true);
			const size_t first = rig.peer->send_some(sealed);
			rig.stream->pause_reading(false);
			rig.settle();
			rig.peer->send(std::string_view(sealed).substr(first));
			rig.settle();
			INFO(records << " records of " << record);
			CHECK_BYTES(rig.received, sent);
		}
	}
}

TEST_CASE("a small read buffer gets a whole TLS record") {
	Stream_Rig rig(100);
	Tls_Client client;
	shake_hands(rig, client);
	const std::string sent = pattern(1010);
	rig.peer->send(client.sealed(sent));
	rig.settle();
	rig.settle();
	CHECK_BYTES(rig.received, sent);
}

TEST_CASE("a stream that is paused with TLS bytes in hand reads them when it goes on") {
	Stream_Rig rig(100);
	Tls_Client client;
	shake_hands(rig, client);
	const std::string sent = pattern(300);
	rig.peer->send(client.sealed(sent));
	rig.loop.run_once(0);
	const size_t first = rig.received.size();
	rig.stream->pause_reading(true);
	rig.settle();
	CHECK(rig.received.size() == first);
	rig.stream->pause_reading(false);
	rig.settle();
	CHECK_BYTES(rig.received, sent);
}

TEST_CASE("TLS output that the socket does not take goes out whole and in order") {
	Stream_Rig rig;
	Tls_Client client;
	shake_hands(rig, client);
	const std::string sent = pattern(500'000);
	std::vector<iovec> parts;
	for (size_t at = 0; at < sent.size(); at += 125'000) {
		parts.push_back({const_cast<char*>(sent.data()) + at, 125'000});
	}
	REQUIRE(rig.stream->send(parts.data(), static_cast<int>(parts.size())));
	CHECK(rig.stream->unsent_bytes() > 0);
	std::string got;
	for (int round = 0; round < 1000 && got.size() < sent.size(); ++round) {
		client.feed(rig.peer->available());
		got += client.opened();
		rig.loop.run_once(0);
	}
	CHECK_BYTES(got, sent);
	CHECK(rig.drained == 1);
}

TEST_CASE("a client's close_notify ends the stream behind its bytes") {
	Stream_Rig rig;
	Tls_Client client;
	shake_hands(rig, client);
	const std::string last = client.sealed("last");
	rig.peer->send(last + client.farewell());
	rig.settle();
	CHECK(rig.received == "last");
	CHECK(rig.at_end);
}

TEST_CASE("the first byte can be looked at without taking it") {
	Stream_Rig rig;
	rig.stream->pause_reading(true);
	CHECK(rig.stream->peek_byte() == -1);
	rig.peer->send("\x16");
	CHECK(rig.stream->peek_byte() == 0x16);
	CHECK(rig.stream->peek_byte() == 0x16);
	char byte = 0;
	CHECK(rig.stream->receive(&byte, 1) == 1);
	rig.peer->close();
	CHECK(rig.stream->peek_byte() == -2);
}

} // namespace proxy::wire
