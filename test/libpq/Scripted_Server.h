#pragma once

#include <libpq-fe.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The server's side of the tests. Only connecting needs a thread, since libpq waits for answers
// there; afterwards test and server are one thread, so that every step is in a known order.

std::string int16_bytes(uint16_t value);
std::string int32_bytes(uint32_t value);
std::string int64_bytes(uint64_t value);
// A message with its type byte and length word.
std::string message(char type, std::string_view body);
// AuthenticationOk up to ReadyForQuery, which carries the given tail.
std::string greeting(std::string_view ready_tail = {});

constexpr uint32_t kBackendPid = 10000123;
constexpr uint32_t kCancelKey = 0x0badcafe;

// One accepted connection. Every operation gives up after some seconds by a Test_Failure.
class Peer {
public:
	explicit Peer(int fd);
	~Peer();
	Peer(const Peer&) = delete;
	Peer& operator=(const Peer&) = delete;

	// Answers an SSLRequest if one comes, and returns the startup packet without its length.
	std::string read_startup(SSL_CTX* tls);
	void send(std::string_view bytes);
	std::string read_exactly(size_t bytes);
	std::pair<char, std::string> read_message();
	// What is there to be read now, maybe nothing.
	std::string read_available();
	void close_in_order();   // with TLS: close_notify first
	void close_abruptly();   // just the end of the stream
	void close_with_reset(); // the client gets ECONNRESET
	int fd() const { return fd_; }
	SSL* tls() { return ssl_.get(); }

private:
	size_t read_some(char* buffer, size_t size);

	int fd_;
	std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
};

struct Conn_Deleter {
	void operator()(PGconn* conn) const { PQfinish(conn); }
};
using Conn = std::unique_ptr<PGconn, Conn_Deleter>;
using Options = std::vector<std::pair<std::string, std::string>>;

struct Link {
	Conn conn;
	std::unique_ptr<Peer> peer; // null if the server's side failed
	std::string startup;        // what the client sent first
};

struct Link_Setup {
	Options options{};
	std::string conninfo{};          // instead of the database: more options, as one string
	std::string answer = greeting(); // to the startup packet
	size_t answer_piece = SIZE_MAX;  // bytes sent at a time
	bool tls = false;
	std::function<void(Peer&)> dialogue = [](Peer&) {}; // behind the answer, by the server
	std::function<void(PGconn*)> before_login = [](PGconn*) {};
};

// Connects, whatever comes of it; use PQstatus(link.conn.get()).
Link try_connect(const Link_Setup& setup);
// Connects, and fails the test if it does not work.
Link connect(const Link_Setup& setup = {});

// Goes on with a login until it is over or waits for SCRAM keys.
void finish_connecting(PGconn* conn);

// Waits until the client's socket holds that many bytes, so that one read gets them all.
void await_bytes(PGconn* conn, size_t bytes);
void await_readable(PGconn* conn);
