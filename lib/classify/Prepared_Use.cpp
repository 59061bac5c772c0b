#include "classify/Prepared_Use.h"

#include <algorithm>

namespace proxy {

namespace {
// As for EXPLAIN of the query itself: what it would do, did it run.
bool would_write(const Statement_Class& body) {
	if (body.kind != Statement_Kind::select) {
		return true;
	}
	switch (body.veto) {
	case Read_Veto::row_lock:
	case Read_Veto::modifying_cte:
	case Read_Veto::select_into:
	case Read_Veto::volatile_function:
	case Read_Veto::unknown_function:
		return true;
	case Read_Veto::none:
	case Read_Veto::not_a_query:
	case Read_Veto::unparsed:
	case Read_Veto::session_function:
	case Read_Veto::explain_of_write:
	case Read_Veto::server_state:
	case Read_Veto::multi_statement:
	case Read_Veto::temp_object:
		return false;
	}
	return true;
}

Read_Veto first_veto(Read_Veto body, Read_Veto arguments) {
	return body != Read_Veto::none ? body : arguments;
}

void add_effects(Statement_Class& text, const Prepared_Use& use, const Statement_Class& body) {
	text.may_write = text.may_write || body.may_write || use.may_write;
	text.transaction_time = text.transaction_time || body.transaction_time;
	text.calls_unknown = text.calls_unknown || body.calls_unknown;
	text.lists_prepared = text.lists_prepared || body.lists_prepared;
	text.notifies = text.notifies || body.notifies;
	text.asks_channels = text.asks_channels || body.asks_channels;
	text.sticky |= body.sticky;
	text.sticky_ends &= ~text.sticky;
	text.sticky_may_end |= body.sticky_may_end;
	text.functions.insert(text.functions.end(), body.functions.begin(), body.functions.end());
}
} // namespace

void add_executed(Statement_Class& text, const Prepared_Use& use, const Statement_Class& body) {
	text.resolved = true;
	if (text.kind == Statement_Kind::explain) {
		if (!use.runs) {
			text.veto =
			    would_write(body) ? Read_Veto::explain_of_write : first_veto(body.veto, use.veto);
			return;
		}
		text.veto = would_write(body) ? Read_Veto::explain_of_write : Read_Veto::server_state;
		add_effects(text, use, body);
		text.sticky |= body.sets.empty() ? kStickyNone : kStickySet;
		return;
	}
	if (text.kind == Statement_Kind::execute) {
		text.may_write = false; // until the body says so
		text.veto = first_veto(body.veto, use.veto);
		text.returns_rows = body.returns_rows;
		text.sets = body.sets;
		add_effects(text, use, body);
		return;
	}
	// CREATE TABLE AS EXECUTE, or a part of several statements.
	add_effects(text, use, body);
	if (text.parts.empty()) { // else each part is followed by itself
		text.sticky |= body.sets.empty() ? kStickyNone : kStickySet;
	}
}

bool meets_all_names(const Statement_Class& statement) {
	return statement.calls_unknown || statement.lists_prepared ||
	       statement.kind == Statement_Kind::unknown || statement.kind == Statement_Kind::call ||
	       statement.kind == Statement_Kind::do_block;
}

} // namespace proxy
