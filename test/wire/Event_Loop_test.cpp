// Event_Loop, Io_Watcher and Listener.
#include "Wire_Kit.h"
#include "base/Clock.h"
#include "net/Listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace proxy::wire {

namespace {
struct Recorder final : Io_Handler, Wake_Handler, Pass_Handler {
	std::string seen;
	Io_Watcher* stops = nullptr;
	void on_io(int events) override {
		seen += events == kIoRead ? 'r' : events == kIoWrite ? 'w' : 'b';
		if (stops != nullptr) {
			stops->stop();
		}
	}
	void on_wake() override { seen += 'k'; }
	void on_pass() override { seen += 'p'; }
};

struct Pair {
	Pair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0); }
	~Pair() {
		close(ends[0]);
		close(ends[1]);
	}
	Pair(const Pair&) = delete;
	Pair& operator=(const Pair&) = delete;
	int ends[2] = {-1, -1};
};

struct Acceptor final : Accept_Handler {
	std::vector<int> fds;
	std::string host;
	int port = 0;
	void on_accept(int fd, std::string peer_host, int peer_port, const Listen_Address&) override {
		fds.push_back(fd);
		host = std::move(peer_host);
		port = peer_port;
	}
	~Acceptor() {
		for (const int fd : fds) {
			close(fd);
		}
	}
};
} // namespace

TEST_CASE("the wait ends at its time when nothing happens") {
	Event_Loop loop;
	for (const int64_t wait_ms : {20, 60, 5}) {
		const int64_t before = monotonic_us();
		loop.run_once(wait_ms);
		const int64_t took_us = monotonic_us() - before;
		CHECK(took_us >= (wait_ms - 2) * 1000);
		CHECK(took_us < 2'000'000);
	}
}

TEST_CASE("a shorter wait is not held up by a longer one that was cut short") {
	Event_Loop loop;
	Recorder recorder;
	loop.set_wake_handler(&recorder);
	loop.wake();
	loop.run_once(60'000);
	CHECK(recorder.seen == "k");
	const int64_t before = monotonic_us();
	loop.run_once(10);
	CHECK(monotonic_us() - before < 5'000'000);
}

TEST_CASE("a pass without a wait comes back at once") {
	Event_Loop loop;
	const int64_t before = monotonic_us();
	for (int i = 0; i < 100; ++i) {
		loop.run_once(0);
	}
	CHECK(monotonic_us() - before < 2'000'000);
}

TEST_CASE("wake-ups from another thread are coalesced and end the wait") {
	Event_Loop loop;
	Recorder recorder;
	loop.set_wake_handler(&recorder);
	std::thread other([&loop] {
		for (int i = 0; i < 100; ++i) {
			loop.wake();
		}
	});
	loop.run_once(10'000);
	other.join();
	loop.run_once(0);
	CHECK(recorder.seen.size() >= 1);
	CHECK(recorder.seen.size() <= 2);
}

TEST_CASE("the pass handler runs before the descriptors of its pass") {
	Event_Loop loop;
	Recorder recorder;
	Pair pair;
	Io_Watcher watcher;
	loop.set_pass_handler(&recorder);
	watcher.start(loop, pair.ends[0], kIoRead, recorder);
	REQUIRE(write(pair.ends[1], "x", 1) == 1);
	loop.run_once(1000);
	CHECK(recorder.seen == "pr");
}

TEST_CASE("a watcher tells only what it was asked for") {
	Event_Loop loop;
	Recorder recorder;
	Pair pair;
	Io_Watcher watcher;
	watcher.start(loop, pair.ends[0], kIoNone, recorder);
	REQUIRE(write(pair.ends[1], "x", 1) == 1);
	loop.run_once(0);
	CHECK(recorder.seen.empty());
	watcher.set_events(kIoWrite);
	loop.run_once(0);
	CHECK(recorder.seen == "w");
	watcher.set_events(kIoRead | kIoWrite);
	loop.run_once(0);
	CHECK(recorder.seen == "wb");
	watcher.set_events(kIoNone);
	loop.run_once(0);
	CHECK(recorder.seen == "wb");
	watcher.set_events(kIoRead);
	watcher.stop();
	CHECK_FALSE(watcher.active());
	watcher.set_events(kIoRead);
	loop.run_once(0);
	CHECK(recorder.seen == "wb");
}

TEST_CASE("a handler that stops another ready watcher is obeyed in the same pass") {
	Event_Loop loop;
	Recorder first;
	Recorder second;
	Pair one;
	Pair two;
	Io_Watcher watch_one;
	Io_Watcher watch_two;
	first.stops = &watch_two;
	second.stops = &watch_one;
	watch_one.start(loop, one.ends[0], kIoRead, first);
	watch_two.start(loop, two.ends[0], kIoRead, second);
	REQUIRE(write(one.ends[1], "x", 1) == 1);
	REQUIRE(write(two.ends[1], "x", 1) == 1);
	loop.run_once(0);
	CHECK(first.seen + second.seen == "r");
}

TEST_CASE("a new descriptor under an old number is watched") {
	Event_Loop loop;
	Recorder recorder;
	Io_Watcher watcher;
	for (int round = 0; round < 3; ++round) {
		Pair pair;
		watcher.start(loop, pair.ends[0], kIoRead, recorder);
		REQUIRE(write(pair.ends[1], "x", 1) == 1);
		loop.run_once(1000);
		watcher.stop();
	}
	CHECK(recorder.seen == "rrr");
}

TEST_CASE("a listener takes all that wait and none while it is stopped") {
	Listen_Address address;
	address.host = "127.0.0.1";
	address.port = 0;
	auto fd = open_tcp_listener(address);
	REQUIRE(fd.ok());
	sockaddr_in name{};
	socklen_t size = sizeof(name);
	REQUIRE(getsockname(fd.value(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
	Event_Loop loop;
	Acceptor acceptor;
	Listener listener(fd.value(), true, address, acceptor);
	std::vector<std::unique_ptr<Peer>> clients;
	const auto connect_one = [&] {
		const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		REQUIRE(connect(client, reinterpret_cast<sockaddr*>(&name), size) == 0);
		clients.push_back(std::make_unique<Peer>(client, [] {}));
	};
	for (int i = 0; i < 3; ++i) {
		connect_one();
	}
	loop.run_once(0);
	CHECK(acceptor.fds.empty());
	listener.start(loop);
	loop.run_once(1000);
	CHECK(acceptor.fds.size() == 3);
	CHECK(acceptor.host == "127.0.0.1");
	CHECK(acceptor.port > 0);
	listener.stop();
	connect_one();
	loop.run_once(0);
	CHECK(acceptor.fds.size() == 3);
	listener.start(loop);
	loop.run_once(1000);
	CHECK(acceptor.fds.size() == 4);
}

TEST_CASE("a listener says why it cannot listen") {
	Listen_Address address;
	address.host = "localhost"; // not numeric
	address.port = 6133;
	const auto fd = open_tcp_listener(address);
	REQUIRE_FALSE(fd.ok());
	CHECK(fd.error().message.find("numeric") != std::string::npos);
}

} // namespace proxy::wire
