// The messages of an extended batch whose answers are outstanding, in the order of the answers.
// Plain data of one request. Each call takes constant time, however long the pipeline is, and what
// is answered takes no memory.
#pragma once

#include "prepared/PgSQL_STMT_Manager.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace proxy {

// One message whose answer is outstanding.
enum class Operation_Kind : uint8_t {
	parse,
	bind,
	describe,
	execute,
	close,
	sync,
	query,    // a Query (or FunctionCall) behind extended messages without a Sync
	copy_end, // CopyDone or CopyFail sent along with the batch
};

// Prepared statements by the client's names; the unnamed one apart.
using Statement_Names = std::map<std::string, Prepared_Statement_Ptr, std::less<>>;

// What a message does with the names SQL uses.
struct Prepared_Change {
	std::string name = {}; // changed on the connection: unsure if the message is skipped
	// The statement's class with what its EXECUTEs run, where it has some.
	Statement_Analysis_Ptr resolved = {};
	// DEALLOCATE ALL, DISCARD ALL: the names the client had.
	bool drops_all = false;
	Statement_Names all_names = {};
};

struct Operation {
	Operation_Kind kind = Operation_Kind::sync;
	bool hidden = false; // the proxy's own: its answer is not for the client
	bool local = false;  // not sent to the server: the proxy answers when its turn comes
	// The server's "already exists" is to be reworded with the client's name.
	bool duplicate_name = false;
	Prepared_Statement_Ptr statement = {};
	uint64_t unnamed_id = 0; // parse of the unnamed statement
	uint64_t closed_id = 0;  // close of a shared statement, to make room
	uint64_t stale_id = 0;   // close of one that must not be used
	bool closes_unnamed = false;
	std::string client_name = {}; // a statement's name that this message gives or takes away
	std::shared_ptr<Prepared_Change> change = {}; // of SQL's names; rare
	// What the name (or the unnamed statement) stood for before: it does so again when the server
	// skips this message after an error.
	Prepared_Statement_Ptr before = {};
	uint64_t unnamed_before = 0;

	// What it runs. REQUIRES: statement.
	const Statement_Analysis& analysis() const {
		return change != nullptr && change->resolved != nullptr ? *change->resolved
		                                                        : *statement->analysis;
	}
};

class Operation_Queue {
public:
	bool empty() const { return head_ == items_.size(); }
	size_t size() const { return items_.size() - head_; }
	Operation& front() { return items_[head_]; }
	const Operation& front() const { return items_[head_]; }
	// The one behind front(); nullptr: there is none.
	const Operation* second() const { return size() > 1 ? &items_[head_ + 1] : nullptr; }
	// All of them, first the next one to be answered.
	template <typename Visitor> void for_each(const Visitor& visit) const {
		for (size_t i = head_; i < items_.size(); ++i) {
			visit(items_[i]);
		}
	}

	// The reference is valid until the next push or pop.
	Operation& push(Operation operation) {
		if (operation.kind == Operation_Kind::parse && operation.statement != nullptr) {
			++shared_parses_[operation.statement->id];
			++shared_count_;
		}
		if (operation.unnamed_id != 0) {
			last_unnamed_ = operation.unnamed_id;
		}
		items_.push_back(std::move(operation));
		return items_.back();
	}
	void pop() {
		const Operation& gone = items_[head_];
		if (gone.kind == Operation_Kind::parse && gone.statement != nullptr) {
			const auto found = shared_parses_.find(gone.statement->id);
			if (found != shared_parses_.end() && --found->second == 0) {
				shared_parses_.erase(found);
			}
			--shared_count_;
		}
		if (gone.unnamed_id == last_unnamed_) {
			last_unnamed_ = 0;
		}
		++head_;
		if (head_ >= kCompactAt && head_ * 2 >= items_.size()) {
			items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
			head_ = 0;
		}
	}
	// Drops the one behind front(), or all behind it: never sent, or ignored by the server.
	void drop_second() { items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(head_ + 1)); }
	void drop_all_but_front() { items_.resize(head_ + 1); }

	// A Parse of this shared statement is on its way.
	bool parses(uint64_t statement_id) const { return shared_parses_.contains(statement_id); }
	// All statements are dropped behind what is on its way: what it parses does not stay.
	void forget_parses() {
		shared_parses_.clear();
		last_unnamed_ = 0;
	}
	// Parses of shared statements on their way.
	size_t shared_parses() const { return shared_count_; }
	// The latest Parse of the unnamed statement is on its way and has this id.
	bool parses_unnamed(uint64_t unnamed_id) const {
		return unnamed_id != 0 && last_unnamed_ == unnamed_id;
	}

	// Ready for another request; keeps memory of a usual size.
	void clear() {
		items_.clear();
		if (items_.capacity() > kKept) {
			items_.shrink_to_fit();
		}
		head_ = 0;
		last_unnamed_ = 0;
		if (shared_count_ != 0) {
			shared_parses_.clear();
			shared_count_ = 0;
		}
	}

private:
	static constexpr size_t kCompactAt = 256;
	static constexpr size_t kKept = 256;

	std::vector<Operation> items_;
	size_t head_ = 0;
	uint64_t last_unnamed_ = 0;
	std::unordered_map<uint64_t, uint32_t> shared_parses_;
	size_t shared_count_ = 0;
};

} // namespace proxy
