#include "base/Deadline_Heap.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace proxy;

namespace {
struct Owner {
	Deadline_Slot slot;
	Deadline_Slot& deadline_slot() { return slot; }
};
} // namespace

TEST_CASE("the earliest deadline comes first, whatever was set, moved and removed before") {
	std::mt19937 random(7);
	std::vector<Owner> owners(60);
	std::vector<int64_t> model(owners.size(), Deadline_Slot::kNever);
	Deadline_Heap<Owner> heap;
	for (int step = 0; step < 20000; ++step) {
		const size_t i = random() % owners.size();
		const int64_t at = static_cast<int64_t>(random() % 1000);
		switch (random() % 4) {
		case 0:
			heap.set(owners[i], at);
			model[i] = at;
			break;
		case 1:
			heap.set_earlier(owners[i], at);
			model[i] = std::min(model[i], at);
			break;
		case 2:
			heap.remove(owners[i]);
			model[i] = Deadline_Slot::kNever;
			break;
		default:
			heap.set(owners[i], Deadline_Slot::kNever);
			model[i] = Deadline_Slot::kNever;
			break;
		}
		REQUIRE(heap.first_us() == *std::min_element(model.begin(), model.end()));
		REQUIRE(heap.size() ==
		        static_cast<size_t>(std::count_if(model.begin(), model.end(), [](int64_t due) {
			        return due != Deadline_Slot::kNever;
		        })));
		if (heap.first() != nullptr) {
			REQUIRE(heap.first()->slot.at_us == heap.first_us());
		}
	}
}

TEST_CASE("an owner has one entry, however often it asks") {
	Deadline_Heap<Owner> heap;
	Owner owner;
	for (int64_t at = 1000; at > 0; --at) {
		heap.set_earlier(owner, at);
	}
	heap.set_earlier(owner, 500);
	CHECK(heap.size() == 1);
	CHECK(heap.first_us() == 1);
	heap.remove(owner);
	heap.remove(owner);
	CHECK(heap.first() == nullptr);
}
