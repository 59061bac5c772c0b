// The next deadline of each of many owners (sessions of a worker): one entry each, moved in place,
// so that those without anything due cost nothing, and those that end leave nothing behind. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace proxy {

// A place in the heap; owned by its owner.
struct Deadline_Slot {
	static constexpr int64_t kNever = INT64_MAX;

	int64_t at_us = kNever;
	size_t place = SIZE_MAX; // index in the heap; SIZE_MAX: not in it
};

// A binary heap that knows where its entries are. Owner has `Deadline_Slot& deadline_slot()`.
template <typename Owner> class Deadline_Heap {
public:
	// Owner of the earliest deadline; nullptr: none.
	Owner* first() const { return entries_.empty() ? nullptr : entries_.front(); }
	int64_t first_us() const { return entries_.empty() ? Deadline_Slot::kNever : slot(0).at_us; }

	// From now on `owner` is due at `at_us`, whatever it was before; kNever: not at all.
	void set(Owner& owner, int64_t at_us) {
		Deadline_Slot& mine = owner.deadline_slot();
		if (at_us == Deadline_Slot::kNever) {
			remove(owner);
			return;
		}
		mine.at_us = at_us;
		if (mine.place == SIZE_MAX) {
			mine.place = entries_.size();
			entries_.push_back(&owner);
		}
		sift_down(sift_up(mine.place));
	}
	// The same when that is earlier than what it was.
	void set_earlier(Owner& owner, int64_t at_us) {
		if (at_us < owner.deadline_slot().at_us) {
			set(owner, at_us);
		}
	}
	void remove(Owner& owner) {
		Deadline_Slot& mine = owner.deadline_slot();
		const size_t hole = std::exchange(mine.place, SIZE_MAX);
		mine.at_us = Deadline_Slot::kNever;
		if (hole == SIZE_MAX) {
			return;
		}
		Owner* const last = entries_.back();
		entries_.pop_back();
		if (hole < entries_.size()) {
			put(hole, last);
			sift_down(sift_up(hole));
		}
	}
	size_t size() const { return entries_.size(); }

private:
	Deadline_Slot& slot(size_t at) const { return entries_[at]->deadline_slot(); }
	void put(size_t at, Owner* owner) {
		entries_[at] = owner;
		owner->deadline_slot().place = at;
	}
	void swap(size_t a, size_t b) {
		Owner* const other = entries_[a];
		put(a, entries_[b]);
		put(b, other);
	}
	size_t sift_up(size_t at) {
		while (at > 0 && slot(at).at_us < slot((at - 1) / 2).at_us) {
			swap(at, (at - 1) / 2);
			at = (at - 1) / 2;
		}
		return at;
	}
	void sift_down(size_t at) {
		for (;;) {
			size_t least = at;
			for (size_t child = 2 * at + 1; child <= 2 * at + 2; ++child) {
				if (child < entries_.size() && slot(child).at_us < slot(least).at_us) {
					least = child;
				}
			}
			if (least == at) {
				return;
			}
			swap(at, least);
			at = least;
		}
	}

	std::vector<Owner*> entries_;
};

} // namespace proxy
