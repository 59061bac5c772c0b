#include "Scripted_Server.h"

#include "Harness.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr int kPatience_ms = 10000; // far above anything that happens on a loaded machine

[[noreturn]] void fail(const std::string& what) {
	throw Test_Failure(what + ": " + std::strerror(errno));
}

void await(int fd, short events, const char* what) {
	pollfd poll_fd{fd, events, 0};
	if (poll(&poll_fd, 1, kPatience_ms) <= 0) {
		throw Test_Failure(std::string("nothing happened while ") + what);
	}
}

// A server context with a certificate made on the spot.
SSL_CTX* tls_context() {
	static const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context = [] {
		std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> made(SSL_CTX_new(TLS_server_method()),
		                                                  SSL_CTX_free);
		const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"),
		                                                         EVP_PKEY_free);
		const std::unique_ptr<X509, void (*)(X509*)> cert(X509_new(), X509_free);
		ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
		X509_gmtime_adj(X509_getm_notBefore(cert.get()), 0);
		X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
		X509_set_pubkey(cert.get(), key.get());
		X509_NAME* name = X509_get_subject_name(cert.get());
		const std::array<unsigned char, 9> host{'l', 'o', 'c', 'a', 'l', 'h', 'o', 's', 't'};
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host.data(),
		                           static_cast<int>(host.size()), -1, 0);
		X509_set_issuer_name(cert.get(), name);
		X509_sign(cert.get(), key.get(), EVP_sha256());
		if (SSL_CTX_use_certificate(made.get(), cert.get()) != 1 ||
		    SSL_CTX_use_PrivateKey(made.get(), key.get()) != 1) {
			throw Test_Failure("no TLS certificate could be made");
		}
		return made;
	}();
	return context.get();
}

// Listens on a port that the kernel picks. Small buffers, so that they fill up fast.
class Listener {
public:
	Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
		constexpr int kBuffer_bytes = 16384;
		setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &kBuffer_bytes, sizeof(kBuffer_bytes));
		sockaddr_in address{};
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		socklen_t size = sizeof(address);
		if (bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd_, 4) != 0 ||
		    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
			fail("listen");
		}
		port_ = ntohs(address.sin_port);
	}
	~Listener() { close(fd_); }
	Listener(const Listener&) = delete;
	Listener& operator=(const Listener&) = delete;

	std::unique_ptr<Peer> accept_one() const {
		await(fd_, POLLIN, "accepting");
		const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
		if (fd < 0) {
			fail("accept");
		}
		return std::make_unique<Peer>(fd);
	}
	int port() const { return port_; }

private:
	int fd_;
	int port_ = 0;
};

Conn start(const Link_Setup& setup, int port) {
	Options options = {{"host", "127.0.0.1"},
	                   {"port", std::to_string(port)},
	                   {"user", "u"},
	                   {"dbname", setup.conninfo.empty() ? "d" : setup.conninfo},
	                   {"passfile", "/nonexistent"},
	                   {"connect_timeout", "10"},
	                   {"sslmode", setup.tls ? "require" : "disable"},
	                   {"sslrootcert", "/nonexistent"}};
	options.insert(options.end(), setup.options.begin(), setup.options.end());
	std::vector<const char*> keywords;
	std::vector<const char*> values;
	for (const auto& [keyword, value] : options) {
		keywords.push_back(keyword.c_str());
		values.push_back(value.c_str());
	}
	keywords.push_back(nullptr);
	values.push_back(nullptr);
	return Conn(
	    PQconnectStartParams(keywords.data(), values.data(), setup.conninfo.empty() ? 0 : 1));
}

} // namespace

std::string int16_bytes(uint16_t value) {
	return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

std::string int32_bytes(uint32_t value) {
	return int16_bytes(static_cast<uint16_t>(value >> 16)) +
	       int16_bytes(static_cast<uint16_t>(value & 0xffff));
}

std::string int64_bytes(uint64_t value) {
	return int32_bytes(static_cast<uint32_t>(value >> 32)) +
	       int32_bytes(static_cast<uint32_t>(value & 0xffffffff));
}

std::string message(char type, std::string_view body) {
	std::string bytes(1, type);
	bytes += int32_bytes(static_cast<uint32_t>(body.size() + 4));
	return bytes.append(body);
}

std::string greeting(std::string_view ready_tail) {
	return message('R', int32_bytes(0)) +
	       message('S', std::string("server_version\0"
	                                "15.0\0",
	                                20)) +
	       message('K', int32_bytes(kBackendPid) + int32_bytes(kCancelKey)) +
	       message('Z', "I" + std::string(ready_tail));
}

Peer::Peer(int fd) : fd_(fd) {
	const timeval patience{kPatience_ms / 1000, 0};
	setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	// Pieces are to be sent one by one, without waiting for the one before to be acknowledged.
	constexpr int kOn = 1;
	setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
}

Peer::~Peer() {
	if (fd_ >= 0) {
		close(fd_);
	}
}

size_t Peer::read_some(char* buffer, size_t size) {
	const ssize_t n =
	    ssl_ ? SSL_read(ssl_.get(), buffer, static_cast<int>(size)) : recv(fd_, buffer, size, 0);
	if (n <= 0) {
		throw Test_Failure("the server's side got end of stream, an error, or nothing in time");
	}
	return static_cast<size_t>(n);
}

std::string Peer::read_exactly(size_t bytes) {
	std::string data(bytes, '\0');
	size_t got = 0;
	while (got < bytes) {
		got += read_some(data.data() + got, bytes - got);
	}
	return data;
}

namespace {
uint32_t length_word(std::string_view bytes) {
	uint32_t value = 0;
	for (const char c : bytes.substr(0, 4)) {
		value = value << 8 | static_cast<unsigned char>(c);
	}
	return value;
}
} // namespace

std::string Peer::read_startup(SSL_CTX* tls) {
	constexpr uint32_t kSsl_request = 80877103;
	std::string body = read_exactly(length_word(read_exactly(4)) - 4);
	if (body.size() != 4 || length_word(body) != kSsl_request) {
		return body;
	}
	send(tls != nullptr ? "S" : "N");
	if (tls != nullptr) {
		ssl_.reset(SSL_new(tls));
		SSL_set_fd(ssl_.get(), fd_);
		if (SSL_accept(ssl_.get()) != 1) {
			throw Test_Failure("TLS handshake failed on the server's side");
		}
	}
	return read_exactly(length_word(read_exactly(4)) - 4);
}

std::pair<char, std::string> Peer::read_message() {
	const std::string head = read_exactly(5);
	return {head[0], read_exactly(length_word(std::string_view(head).substr(1)) - 4)};
}

std::string Peer::read_available() {
	std::string data;
	std::array<char, 65536> buffer{};
	// Half a TLS record may be there, so that polling says yes and reading would wait for ever.
	const int flags = fcntl(fd_, F_GETFL);
	fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
	for (;;) {
		const ssize_t n = ssl_
		                      ? SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()))
		                      : recv(fd_, buffer.data(), buffer.size(), 0);
		if (n <= 0) {
			break;
		}
		data.append(buffer.data(), static_cast<size_t>(n));
	}
	fcntl(fd_, F_SETFL, flags);
	return data;
}

void Peer::send(std::string_view bytes) {
	while (!bytes.empty()) {
		const ssize_t n = ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
		                       : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
		if (n <= 0) {
			throw Test_Failure("the server's side could not send");
		}
		bytes.remove_prefix(static_cast<size_t>(n));
	}
}

void Peer::close_in_order() {
	if (ssl_) {
		SSL_shutdown(ssl_.get());
	}
	close_abruptly();
}

void Peer::close_abruptly() {
	close(fd_);
	fd_ = -1;
}

void Peer::close_with_reset() {
	const linger at_once{1, 0};
	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close_abruptly();
}

void finish_connecting(PGconn* conn) {
	PostgresPollingStatusType state = PGRES_POLLING_WRITING;
	while (PQstatus(conn) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
	       state != PGRES_POLLING_FAILED && state != PGRES_POLLING_ACTIVE) {
		await(PQsocket(conn), state == PGRES_POLLING_READING ? POLLIN : POLLOUT, "connecting");
		state = PQconnectPoll(conn);
	}
}

Link try_connect(const Link_Setup& setup) {
	Link link;
	const Listener listener;
	SSL_CTX* tls = setup.tls ? tls_context() : nullptr;
	std::thread server([&] {
		try {
			std::unique_ptr<Peer> peer = listener.accept_one();
			link.startup = peer->read_startup(tls);
			for (size_t at = 0; at < setup.answer.size();
			     at += std::min(setup.answer_piece, setup.answer.size() - at)) {
				peer->send(std::string_view(setup.answer).substr(at, setup.answer_piece));
				if (setup.answer_piece != SIZE_MAX) {
					std::this_thread::sleep_for(std::chrono::milliseconds(1));
				}
			}
			setup.dialogue(*peer);
			link.peer = std::move(peer);
		} catch (const std::exception&) {
			link.peer.reset(); // connect() says so
		}
	});
	try {
		link.conn = start(setup, listener.port());
		setup.before_login(link.conn.get());
		finish_connecting(link.conn.get());
	} catch (...) {
		link.conn.reset();
		server.join();
		throw;
	}
	server.join();
	return link;
}

Link connect(const Link_Setup& setup) {
	Link link = try_connect(setup);
	if (PQstatus(link.conn.get()) != CONNECTION_OK || !link.peer) {
		throw Test_Failure(std::string("no connection: ") + PQerrorMessage(link.conn.get()));
	}
	return link;
}

void await_readable(PGconn* conn) {
	await(PQsocket(conn), POLLIN, "reading");
}

void await_bytes(PGconn* conn, size_t bytes) {
	for (int tries = 0; tries < kPatience_ms; ++tries) {
		int there = 0;
		if (ioctl(PQsocket(conn), FIONREAD, &there) == 0 && static_cast<size_t>(there) >= bytes) {
			return;
		}
		usleep(1000);
	}
	throw Test_Failure("sent bytes did not arrive");
}
