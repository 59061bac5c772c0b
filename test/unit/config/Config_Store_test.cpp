#include "config/Config_Store.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace proxy;

TEST_CASE("a reader keeps its picture until it refreshes") {
	Config_Store store;
	Snapshot_Reader<Pgsql_Config> reader(store.pgsql());
	CHECK(reader.version() == 1);
	CHECK_FALSE(reader.refresh());

	auto next = std::make_shared<Pgsql_Config>();
	next->threads = 9;
	CHECK(store.pgsql().publish(next) == 2);
	CHECK(reader->threads == 4);
	CHECK(reader.refresh());
	CHECK(reader->threads == 9);
	CHECK((*reader).threads == 9);
	CHECK_FALSE(reader.refresh());
	CHECK(store.admin().version() == 1);
}

TEST_CASE("an old value lives as long as someone holds it, and not longer") {
	Config_Store store;
	std::weak_ptr<const Pgsql_Config> old = store.pgsql().get().value;
	std::shared_ptr<const Pgsql_Config> held = old.lock();
	store.pgsql().publish(std::make_shared<const Pgsql_Config>());
	CHECK_FALSE(old.expired());
	held.reset();
	CHECK(old.expired());
}

TEST_CASE("readers see whole values and versions that never fall, while others publish") {
	constexpr int kPublishes = 2000;
	Config_Store store;
	std::atomic<bool> done{false};
	std::atomic<int> torn{0};
	std::vector<std::thread> readers;
	for (int i = 0; i < 2; ++i) {
		readers.emplace_back([&] {
			Snapshot_Reader<Pgsql_Config> reader(store.pgsql());
			uint64_t last = 0;
			while (!done.load()) {
				reader.refresh();
				// The writer keeps these two equal, and equal to the version.
				const bool whole =
				    reader.version() == 1 || (reader->max_connections == reader->max_stmts_cache &&
				                              reader->max_connections == int64_t(reader.version()));
				if (!whole || reader.version() < last) {
					++torn;
				}
				last = reader.version();
			}
		});
	}
	for (int i = 2; i < kPublishes; ++i) {
		auto next = std::make_shared<Pgsql_Config>();
		next->max_connections = i;
		next->max_stmts_cache = i;
		store.pgsql().publish(std::move(next));
	}
	done = true;
	for (std::thread& reader : readers) {
		reader.join();
	}
	CHECK(torn == 0);
}
