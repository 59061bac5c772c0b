#include "classify/Statement_Batch.h"

#include "classify/Statement_Classifier.h"

#include <algorithm>

namespace proxy {

namespace {
bool controls_transaction(Statement_Kind kind) {
	switch (kind) {
	case Statement_Kind::begin:
	case Statement_Kind::commit:
	case Statement_Kind::rollback:
	case Statement_Kind::savepoint:
	case Statement_Kind::rollback_to:
	case Statement_Kind::release:
	case Statement_Kind::prepare_transaction:
		return true;
	default:
		return false;
	}
}
} // namespace

// What a batch must say of its parts' kinds, which it does not keep.
void note_kind(Statement_Class& batch, Statement_Kind kind) {
	batch.controls_transaction = batch.controls_transaction || controls_transaction(kind);
}

// Adds the next statement of a batch: flags add up, the worst case counts.
void merge_into(Statement_Class& batch, Statement_Class&& part) {
	batch.may_write = batch.may_write || part.may_write;
	batch.calls_unknown = batch.calls_unknown || part.calls_unknown;
	batch.lists_prepared = batch.lists_prepared || part.lists_prepared;
	batch.transaction_time = batch.transaction_time || part.transaction_time;
	batch.explain_analyze = batch.explain_analyze || part.explain_analyze;
	batch.returns_rows = batch.returns_rows || part.returns_rows;
	batch.depends_on_literals = batch.depends_on_literals || part.depends_on_literals;
	batch.sticky = (batch.sticky & ~part.sticky_ends) | part.sticky;
	// Whoever applies both, in whichever order, is left with what still holds at the end.
	batch.sticky_ends = (batch.sticky_ends | part.sticky_ends) & ~batch.sticky;
	batch.sticky_may_end |= part.sticky_may_end;
	batch.notifies = batch.notifies || part.notifies;
	batch.asks_channels = batch.asks_channels || part.asks_channels;
	if (part.kind == Statement_Kind::begin || part.kind == Statement_Kind::set_transaction) {
		batch.isolation = part.isolation;
		batch.access_mode = part.access_mode;
		batch.deferrable = part.deferrable;
	}
	for (Set_Item& item : part.sets) {
		batch.sets.push_back(std::move(item));
	}
	const auto append = [](std::vector<std::string>& to, std::vector<std::string>& from) {
		for (std::string& name : from) {
			if (to.size() < kMaxNamesKept) {
				to.push_back(std::move(name));
			}
		}
	};
	for (Prepared_Use& use : part.prepared) {
		batch.prepared.push_back(std::move(use));
	}
	append(batch.functions, part.functions);
	append(batch.relations, part.relations);
}

// The answers to this statement of a batch tell something about the session.
bool matters_by_itself(const Statement_Class& part) {
	const bool executes =
	    std::any_of(part.prepared.begin(), part.prepared.end(),
	                [](const Prepared_Use& use) { return use.verb == Prepared_Verb::execute; });
	return executes || controls_transaction(part.kind) || !part.sets.empty() ||
	       part.kind == Statement_Kind::unlisten || part.kind == Statement_Kind::discard;
}

} // namespace proxy
