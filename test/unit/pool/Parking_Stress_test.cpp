// Many threads on few connections: nothing lost, nobody left waiting, no slot leaked. Also run
// under tsan.
#include "Pool_Test_Kit.h"
#include "base/Mutex.h"
#include "pool/Reader_Selection.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <thread>

using namespace proxy;
using namespace proxy::pool_test;

namespace {

// A worker's mailbox: deliveries wait until the worker's thread takes them.
class Worker_Sink final : public Pool_Waiter_Sink {
public:
	struct Delivery {
		uint64_t ticket = 0;
		std::unique_ptr<PgSQL_Connection> connection;
	};
	void deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) override {
		Lock lock(mutex_);
		deliveries_.push_back(Delivery{ticket, std::move(connection)});
		arrived_.notify_all();
	}
	bool take(Delivery& delivery, int64_t wait_ms) {
		Lock lock(mutex_);
		if (deliveries_.empty()) {
			arrived_.wait_for(mutex_, wait_ms);
		}
		if (deliveries_.empty()) {
			return false;
		}
		delivery = std::move(deliveries_.front());
		deliveries_.pop_front();
		return true;
	}

private:
	Mutex mutex_{Lock_Rank::mailbox};
	Cond_Var arrived_;
	std::deque<Delivery> deliveries_ GUARDED_BY(mutex_);
};

constexpr int kWorkers = 16;
constexpr int kRequestsEach = 1500;
constexpr int kKeys = 3;

struct Shared {
	Server_Ptr server = make_server(1, 1, 4);
	std::atomic<int64_t> in_use{0};
	std::atomic<int64_t> served{0};
	std::atomic<bool> over_limit{false};
	std::atomic<bool> wrong_key{false};
	std::atomic<bool> stuck{false};
};

void use(Shared& shared, const Conn_Key& key, std::unique_ptr<PgSQL_Connection> connection,
         Random_Source& random) {
	if (shared.in_use.fetch_add(1) >= 4) {
		shared.over_limit.store(true);
	}
	if (!(connection->key() == key)) {
		shared.wrong_key.store(true);
	}
	if (random.below(4) == 0) {
		std::this_thread::yield();
	}
	shared.in_use.fetch_sub(1);
	shared.served.fetch_add(1);
	if (random.below(10) == 0) { // it broke
		connection.reset();
		shared.server->drop_used();
		return;
	}
	const std::unique_ptr<PgSQL_Connection> closed =
	    shared.server->give_back(std::move(connection));
}

// One request until it is served or given up; false: it waited in vain.
bool serve(Shared& shared, Worker_Sink& sink, uint64_t ticket, Random_Source& random) {
	constexpr int64_t kPatienceMs = 20'000;
	const Conn_Key key = key_of("user" + std::to_string(random.below(kKeys)));
	const Pool_Waiter waiter{key, &sink, ticket};
	for (;;) {
		std::unique_ptr<PgSQL_Connection> connection;
		std::unique_ptr<PgSQL_Connection> evicted;
		switch (shared.server->acquire(key, &waiter, connection, evicted)) {
		case Acquire_Status::connection:
			use(shared, key, std::move(connection), random);
			return true;
		case Acquire_Status::create:
			use(shared, key, open_connection(shared.server, key), random);
			return true;
		case Acquire_Status::unavailable:
			return false;
		case Acquire_Status::busy:
			break;
		}
		if (random.below(20) == 0 && shared.server->cancel_wait(&sink, ticket)) {
			return true; // the client left
		}
		Worker_Sink::Delivery delivery;
		do {
			if (!sink.take(delivery, kPatienceMs)) {
				return false;
			}
			// A null for a ticket that was given up may still be on its way.
			if (delivery.ticket != ticket && delivery.connection != nullptr) {
				shared.wrong_key.store(true);
			}
		} while (delivery.ticket != ticket);
		if (delivery.connection != nullptr) {
			use(shared, key, std::move(delivery.connection), random);
			return true;
		}
	}
}

} // namespace

TEST_CASE("parking under load loses no wake-up, no slot and no connection") {
	Shared shared;
	std::vector<std::unique_ptr<Worker_Sink>> sinks;
	std::vector<std::thread> workers;
	std::atomic<bool> stopping{false};
	for (int i = 0; i < kWorkers; ++i) {
		sinks.push_back(std::make_unique<Worker_Sink>());
	}
	for (int i = 0; i < kWorkers; ++i) {
		workers.emplace_back([&shared, sink = sinks[static_cast<size_t>(i)].get(), i] {
			Random_Source random(static_cast<uint64_t>(i) * 77 + 1);
			for (uint64_t request = 1; request <= kRequestsEach; ++request) {
				if (!serve(shared, *sink, request, random)) {
					shared.stuck.store(true);
					return;
				}
			}
		});
	}
	// Housekeeping at the same time, as the service thread does it.
	std::thread housekeeper([&] {
		while (!stopping.load()) {
			shared.server->take_excess(2, INT64_MAX);
			shared.server->wake_for_slots(0);
			std::this_thread::yield();
		}
	});
	for (std::thread& worker : workers) {
		worker.join();
	}
	stopping.store(true);
	housekeeper.join();
	CHECK_FALSE(shared.stuck.load());
	CHECK_FALSE(shared.over_limit.load());
	CHECK_FALSE(shared.wrong_key.load());
	CHECK(shared.served.load() > kWorkers * kRequestsEach / 2);
	CHECK(shared.server->used.load() == 0);
	CHECK(shared.server->waiting.load() == 0);
	shared.server->take_free(INT64_MAX);
	sinks.clear();
	CHECK(live_connections() == 0);
}
