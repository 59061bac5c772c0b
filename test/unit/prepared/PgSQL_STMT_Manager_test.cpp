// The statements of all clients: which are one, how long they are remembered, what they take.
#include "base/Lru_Map.h"
#include "prepared/PgSQL_STMT_Manager.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

namespace proxy {

namespace {
Statement_Analysis_Ptr analysis() {
	auto result = std::make_shared<Statement_Analysis>();
	result->statement.kind = Statement_Kind::select;
	return result;
}

uint64_t id_of(PgSQL_STMT_Manager& manager, const std::string& sql) {
	return manager.get(sql, {}, analysis(), 0)->id;
}
} // namespace

TEST_CASE("the entry that was not used for longest is the oldest") {
	Lru_Map<int, int> map;
	for (int i = 0; i < 4; ++i) {
		map.put(i, i);
	}
	CHECK(map.oldest().first == 0);
	CHECK(*map.use(0) == 0);
	CHECK(map.find(1) != nullptr); // only a look
	CHECK(map.oldest().first == 1);
	map.put(1, 10);
	CHECK(map.oldest().first == 2);
	map.put_oldest(9, 9);
	map.put_oldest(1, 9);
	CHECK(map.oldest().first == 9);
	CHECK(*map.find(1) == 10);
	map.drop_oldest();
	CHECK(map.erase(2));
	CHECK_FALSE(map.erase(2));
	CHECK(map.oldest().first == 3);
	CHECK(map.size() == 3);
}

TEST_CASE("statements are one when text, types, parameters and class are") {
	PgSQL_STMT_Manager manager;
	const uint64_t first = id_of(manager, "select 1");
	CHECK(id_of(manager, "select 1") == first);
	CHECK(id_of(manager, "select 2") != first);
	CHECK(manager.get("select 1", std::string(4, 'x'), analysis(), 0)->id != first);
	CHECK(manager.get("select 1", {}, analysis(), 7)->id != first);
	CHECK(manager.get_by_sql("q", "select 1", analysis(), 0)->id != first);
	auto other = std::make_shared<Statement_Analysis>();
	CHECK(manager.get("select 1", {}, other, 0)->id != first);
	CHECK(manager.get_by_sql("q", "prepare q as select 1", analysis(), 0)->name == "q");
	// Literals of a moment, and names of other statements, are each client's own.
	CHECK(id_of(manager, "select 'now'::timestamp") != id_of(manager, "select 'now'::timestamp"));
	auto names = std::make_shared<Statement_Analysis>();
	names->statement.prepared.push_back({});
	CHECK(manager.get("execute q", {}, names, 0)->id != manager.get("execute q", {}, names, 0)->id);
}

TEST_CASE("statements that nobody holds are remembered up to the limit") {
	PgSQL_STMT_Manager manager;
	manager.set_limit(160); // ten a shard
	const Prepared_Statement_Ptr held = manager.get("select held", {}, analysis(), 0);
	const uint64_t first = id_of(manager, "select first");
	CHECK(id_of(manager, "select first") == first);
	for (int i = 0; i < 5000; ++i) {
		id_of(manager, "select " + std::to_string(i));
	}
	CHECK(manager.size() <= 161);
	CHECK(manager.list().size() == manager.size());
	// What a client holds stays known, what was pushed out is another one, with another name.
	CHECK(id_of(manager, "select held") == held->id);
	CHECK(id_of(manager, "select first") != first);
	CHECK(manager.memory_bytes() < 161 * 400);
	manager.set_limit(0);
	CHECK(manager.size() == 1);
	CHECK(manager.list().front().second == 1);
}

TEST_CASE("memory is counted down to nothing") {
	PgSQL_STMT_Manager manager;
	manager.set_limit(0);
	{
		const Prepared_Statement_Ptr one = manager.get(std::string(10'000, 'x'), {}, analysis(), 0);
		CHECK(manager.memory_bytes() > 10'000);
	}
	CHECK(manager.memory_bytes() == 0);
	CHECK(manager.size() == 0);
}

TEST_CASE("a statement may outlive the manager") {
	Prepared_Statement_Ptr left;
	{
		PgSQL_STMT_Manager manager;
		left = manager.get("select 1", {}, analysis(), 0);
	}
	CHECK(left->sql == "select 1");
}

TEST_CASE("threads that take and drop the same statements agree") {
	PgSQL_STMT_Manager manager;
	manager.set_limit(16);
	std::atomic<int> wrong{0};
	std::vector<std::thread> threads;
	for (int t = 0; t < 4; ++t) {
		threads.emplace_back([&manager, &wrong, t] {
			for (int i = 0; i < 4000; ++i) {
				const std::string sql = "select " + std::to_string((i * (t + 1)) % 50);
				const Prepared_Statement_Ptr one = manager.get(sql, {}, analysis(), 0);
				const Prepared_Statement_Ptr two = manager.get(sql, {}, analysis(), 0);
				wrong += one->id != two->id || one->sql != sql ? 1 : 0;
			}
		});
	}
	for (std::thread& thread : threads) {
		thread.join();
	}
	CHECK(wrong == 0);
	CHECK(manager.size() <= 16);
}

} // namespace proxy
