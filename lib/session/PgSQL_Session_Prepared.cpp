// Which prepared statements a server connection holds, and what the client's names stand for.
//
// Protocol-level statements have names of the proxy's on the servers and are shared. SQL uses the
// client's own names (PREPARE q, EXECUTE q), and its text goes to the server as it came. So before
// a text that names q is sent, the connection's q is made the client's: somebody else's is closed,
// a missing one is prepared by hidden messages in front, in the same write. To the client both
// kinds are one set of names (statements_), as in PostgreSQL; PREPARE and DEALLOCATE are no part of
// a transaction, so no rollback brings anything back.
//
// The connection's record may say too much: a message that was skipped, or a function that ran
// DEALLOCATE. Then the name is unsure, and closed before its next use, which is never an error.
#include "classify/Prepared_Use.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

namespace {
// Statement and portal of the hidden PREPARE: the client's unnamed ones stay as they are.
constexpr std::string_view kPrepareStatement = "polar_ps_prepare";

bool names(const Statement_Class& statement, const std::string& name) {
	return std::any_of(statement.prepared.begin(), statement.prepared.end(),
	                   [&name](const Prepared_Use& use) { return use.name == name; });
}

bool is_execute(const Prepared_Use& use) {
	return use.verb == Prepared_Verb::execute;
}
} // namespace

// ---- statements of the protocol ----

// From now on the client's name stands for this statement.
Prepared_Statement_Ptr PgSQL_Session::learn_statement(const Parse_View& view) {
	const Statement_Analysis_Ptr analysis =
	    worker_.queries.analyse(view.sql, standard_conforming_strings_);
	if (!view.statement.empty()) {
		const Prepared_Statement_Ptr statement = worker_.statements.get(
		    view.sql, view.parameter_types.wire(), analysis, wanted_.meaning_hash());
		statements_[std::string(view.statement)] = statement;
		return statement;
	}
	auto statement = std::make_shared<Prepared_Statement>();
	statement->sql = view.sql;
	statement->parameter_types = view.parameter_types.wire();
	statement->analysis = analysis;
	unnamed_ = std::move(statement);
	unnamed_id_ = worker_.statements.next_unnamed_id();
	return unnamed_;
}

// The server connection has, or gets by a hidden Parse, the statement of this place of statements_.
// When the session's parameters have changed since its Parse, a new Parse would read its literals
// in another way: then the name gets a statement of its own for these parameters, and no other
// client meets it.
Prepared_Statement_Ptr PgSQL_Session::ensure_statement(Prepared_Statement_Ptr& statement,
                                                       std::string& out) {
	Backend_State& held = backend_->backend_state;
	if (held.statements.use(statement->id) != nullptr) {
		return statement;
	}
	if (request_.operations.parses(statement->id)) {
		return statement;
	}
	if (statement->meaning != wanted_.meaning_hash()) {
		statement = worker_.statements.get(statement->sql, statement->parameter_types,
		                                   statement->analysis, wanted_.meaning_hash());
		return ensure_statement(statement, out);
	}
	make_room_for(*statement, out);
	append_parse(out, statement->name, statement->sql, Oid_List(statement->parameter_types));
	queue({.kind = Operation_Kind::parse, .hidden = true, .statement = statement});
	return statement;
}

void PgSQL_Session::make_room_for(const Prepared_Statement& statement, std::string& out) {
	Backend_State& held = backend_->backend_state;
	evict_statement(out);
	if (held.stale_statements.erase(statement.id) != 0) {
		append_close(out, Target_Kind::statement, statement.name);
		queue({.kind = Operation_Kind::close, .hidden = true, .stale_id = statement.id});
	}
}

// Makes room for one statement more: closes the one that was not used for longest when the
// connection holds, and will hold, as many as pgsql-max_stmts_per_connection.
void PgSQL_Session::evict_statement(std::string& out) {
	auto& held = backend_->backend_state.statements;
	if (held.empty() || held.size() + request_.operations.shared_parses() <
	                        static_cast<size_t>(worker_.config->max_stmts_per_connection)) {
		return;
	}
	const uint64_t oldest = held.oldest().first;
	append_close(out, Target_Kind::statement,
	             std::string(kStatementPrefix) + std::to_string(oldest));
	queue({.kind = Operation_Kind::close, .hidden = true, .closed_id = oldest});
	held.drop_oldest();
}

// The connection's unnamed statement is this session's, or there is none on both sides.
void PgSQL_Session::ensure_unnamed(std::string& out) {
	const uint64_t here = backend_->backend_state.unnamed_statement;
	if (request_.operations.parses_unnamed(unnamed_id_)) {
		return; // its Parse is on the way
	}
	if (unnamed_id_ != 0 && here == unnamed_id_) {
		return;
	}
	if (unnamed_ == nullptr) {
		// Somebody else's must not be reached: the server is to say that there is none.
		append_close(out, Target_Kind::statement, {});
		queue({.kind = Operation_Kind::close, .hidden = true});
		backend_->backend_state.unnamed_statement = 0;
		return;
	}
	append_parse(out, {}, unnamed_->sql, Oid_List(unnamed_->parameter_types));
	queue({.kind = Operation_Kind::parse, .hidden = true, .unnamed_id = unnamed_id_});
}

// The name by which the server is asked for the client's statement, which it has by then. Nobody
// else's is reached by any name.
std::string_view PgSQL_Session::server_name(std::string_view name,
                                            Prepared_Statement_Ptr& statement, std::string& out) {
	if (name.empty()) {
		ensure_unnamed(out);
		statement = unnamed_;
		if (unnamed_ != nullptr) {
			align_for(*unnamed_, out);
		}
		return name;
	}
	const auto found = statements_.find(name);
	if (found == statements_.end()) {
		align_name(std::string(name), Name_Need::itself, out);
		// Never a statement: the server says that it does not exist.
		return name.starts_with(kStatementPrefix) ? kStatementPrefix : name;
	}
	if (found->second->by_sql) {
		align_name(found->first, Name_Need::itself, out);
		statement = found->second;
		return name;
	}
	statement = ensure_statement(found->second, out);
	align_for(*statement, out);
	return statement->name;
}

// ---- what an EXECUTE runs ----

// What part `use` of the text runs: prepared earlier in the text, or known. nullptr: neither.
const Statement_Class* PgSQL_Session::body_of(const Statement_Class& text, size_t use) const {
	const std::string& name = text.prepared[use].name;
	for (size_t i = use; i > 0; --i) {
		const Prepared_Use& before = text.prepared[i - 1];
		if (before.verb == Prepared_Verb::prepare && before.name == name) {
			return before.body.get();
		}
	}
	const auto found = statements_.find(name);
	return found == statements_.end() ? nullptr : &found->second->analysis->statement;
}

// The text's analysis with what its EXECUTEs run. Unresolved ones stay as they are: writes.
Statement_Analysis_Ptr PgSQL_Session::resolve_prepared(const Statement_Analysis_Ptr& text) {
	const std::vector<Prepared_Use>& uses = text->statement.prepared;
	if (std::none_of(uses.begin(), uses.end(), is_execute)) {
		return text;
	}
	Prepared_Statement_Ptr single;
	if (uses.size() == 1) {
		const auto found = statements_.find(uses.front().name);
		if (found == statements_.end()) {
			return text;
		}
		single = found->second;
		if (sql_prepared_ != nullptr && sql_prepared_->text == text &&
		    sql_prepared_->body.lock() == single) {
			return sql_prepared_->result;
		}
	}
	auto result = std::make_shared<Statement_Analysis>(*text);
	bool all_known = true;
	auto part = result->statement.parts.begin(); // each names at most one
	for (size_t i = 0; i < uses.size(); ++i) {
		while (part != result->statement.parts.end() && part->prepared.empty()) {
			++part;
		}
		Statement_Class* const alone = part == result->statement.parts.end() ? nullptr : &*part++;
		if (!is_execute(uses[i])) {
			continue;
		}
		const Statement_Class* body = body_of(text->statement, i);
		all_known = all_known && body != nullptr;
		if (body != nullptr) {
			add_executed(result->statement, uses[i], *body);
		}
		if (body != nullptr && alone != nullptr) {
			add_executed(*alone, uses[i], *body);
		}
	}
	result->statement.resolved = all_known;
	if (single != nullptr) {
		if (sql_prepared_ == nullptr) {
			sql_prepared_ = std::make_unique<Sql_Prepared>();
		}
		*sql_prepared_ = {text, single, result};
	}
	return result;
}

Statement_Analysis_Ptr PgSQL_Session::analyse_query(std::string_view sql) {
	const Statement_Analysis_Ptr& text = worker_.queries.analyse(sql, standard_conforming_strings_);
	return text->statement.prepared.empty() ? text : resolve_prepared(text);
}

// ---- the names on the connection ----

// Before `statement` is sent: the names it uses mean on the connection what they mean to the
// client. In a failed transaction the server refuses to use any.
void PgSQL_Session::align_names(const Statement_Class& statement, std::string& out) {
	if (transaction_status_ == 'E') {
		return;
	}
	for (const Prepared_Use& use : statement.prepared) {
		const bool dropped =
		    use.verb == Prepared_Verb::deallocate && statement.prepared.size() == 1;
		if (!use.name.empty()) {
			align_name(use.name, dropped ? Name_Need::placeholder : Name_Need::itself, out);
		}
	}
	if (meets_all_names(statement)) {
		align_all_names(out);
	}
	if (!statement.prepared.empty()) {
		make_room_for_names(statement, out);
	}
}

// What a Parse, Bind or Describe of `statement` looks up: the columns of an EXECUTE are those of
// the statement it names.
void PgSQL_Session::align_for(const Prepared_Statement& statement, std::string& out) {
	const std::vector<Prepared_Use>& uses = statement.analysis->statement.prepared;
	if (transaction_status_ == 'E' || statement.by_sql || uses.empty() ||
	    !is_execute(uses.front())) {
		return;
	}
	align_name(uses.front().name, Name_Need::itself, out);
}

void PgSQL_Session::align_name(const std::string& name, Name_Need need, std::string& out) {
	Backend_State& held = backend_->backend_state;
	if (transaction_status_ == 'E') {
		return;
	}
	const uint64_t* here = held.names.use(name);
	// Functions of other sessions may have prepared anything.
	const bool unseen = held.unseen_names || (held.changed_by != 0 && held.changed_by != id_);
	const auto found = statements_.find(name);
	if (found == statements_.end()) {
		if (here != nullptr || unseen) {
			close_name(name, out);
		}
		return;
	}
	if (here != nullptr && *here == found->second->id) {
		return;
	}
	if (here != nullptr || unseen) {
		close_name(name, out);
	}
	auto change = std::make_shared<Prepared_Change>();
	change->name = name;
	if (need == Name_Need::placeholder) {
		append_parse(out, name, {});
		queue({.kind = Operation_Kind::parse, .hidden = true, .change = std::move(change)});
		held.doubt_name(name);
		return;
	}
	if (found->second->meaning != wanted_.meaning_hash()) {
		// As ensure_statement(): prepared under other parameters, it is another statement.
		const Prepared_Statement& old = *found->second;
		found->second = old.by_sql ? worker_.statements.get_by_sql(old.name, old.sql, old.analysis,
		                                                           wanted_.meaning_hash())
		                           : worker_.statements.get(old.sql, old.parameter_types,
		                                                    old.analysis, wanted_.meaning_hash());
	}
	const Prepared_Statement& statement = *found->second;
	if (statement.by_sql) {
		append_sql_prepare(statement, out);
	} else {
		append_parse(out, name, statement.sql, Oid_List(statement.parameter_types));
		queue({.kind = Operation_Kind::parse, .hidden = true, .change = std::move(change)});
	}
	held.names.put(name, statement.id);
}

// The client's PREPARE once more; parameter types by name are the server's to resolve.
void PgSQL_Session::append_sql_prepare(const Prepared_Statement& statement, std::string& out) {
	append_close(out, Target_Kind::statement, kPrepareStatement);
	append_parse(out, kPrepareStatement, statement.sql);
	append_bind_empty(out, kPrepareStatement, kPrepareStatement);
	append_execute(out, kPrepareStatement);
	append_close(out, Target_Kind::portal, kPrepareStatement);
	for (const Operation_Kind kind :
	     {Operation_Kind::close, Operation_Kind::parse, Operation_Kind::bind,
	      Operation_Kind::execute, Operation_Kind::close}) {
		auto change = std::make_shared<Prepared_Change>();
		change->name = statement.name;
		queue({.kind = kind, .hidden = true, .change = std::move(change)});
	}
}

void PgSQL_Session::close_name(const std::string& name, std::string& out) {
	auto change = std::make_shared<Prepared_Change>();
	change->name = name;
	append_close(out, Target_Kind::statement, name);
	queue({.kind = Operation_Kind::close, .hidden = true, .change = std::move(change)});
	backend_->backend_state.names.erase(name);
}

// A list of the names, or code that nobody has looked into, is about to run: it meets all of the
// client's names, and nobody else's.
void PgSQL_Session::align_all_names(std::string& out) {
	Backend_State& held = backend_->backend_state;
	std::vector<std::string> foreign;
	for (const auto& [name, id] : held.names) {
		const auto found = statements_.find(name);
		if (found == statements_.end() || found->second->id != id) {
			foreign.push_back(name);
		}
	}
	for (const std::string& name : foreign) {
		close_name(name, out);
	}
	if (sql_prepared_ == nullptr) {
		return;
	}
	for (const auto& [name, statement] : statements_) {
		if (statement->by_sql) {
			align_name(name, Name_Need::itself, out);
		}
	}
}

// As many as pgsql-max_stmts_per_connection stay, besides those in use.
void PgSQL_Session::make_room_for_names(const Statement_Class& statement, std::string& out) {
	auto& held = backend_->backend_state.names;
	while (held.size() > static_cast<size_t>(worker_.config->max_stmts_per_connection) &&
	       !names(statement, held.oldest().first)) {
		close_name(std::string(held.oldest().first), out);
	}
}

// ---- what the names mean to the client ----

const Prepared_Statement_Ptr& PgSQL_Session::learn_prepared(const Prepared_Use& use,
                                                            const Statement_Analysis& analysis) {
	auto body = std::make_shared<Statement_Analysis>();
	body->digest = analysis.digest;
	body->digest_text = analysis.digest_text;
	body->statement = *use.body;
	if (sql_prepared_ == nullptr) {
		sql_prepared_ = std::make_unique<Sql_Prepared>();
	}
	Prepared_Statement_Ptr& place = statements_[use.name];
	place = worker_.statements.get_by_sql(use.name, use.text, body, wanted_.meaning_hash());
	backend_->backend_state.names.put(use.name, place->id);
	return place;
}

// An Execute message is on its way. What it does with names counts from here on for the messages
// behind it; undo_names() takes it back.
void PgSQL_Session::use_prepared(Operation& operation, std::string& out) {
	const Statement_Analysis_Ptr analysis = resolve_prepared(operation.statement->analysis);
	const Statement_Class& statement = analysis->statement;
	note_execution(statement);
	if (!operation.statement->by_sql || meets_all_names(statement)) {
		align_names(statement, out);
	}
	if (statement.prepared.empty()) {
		return;
	}
	const Prepared_Use& use = statement.prepared.front();
	auto change = std::make_shared<Prepared_Change>();
	change->resolved = analysis;
	switch (use.verb) {
	case Prepared_Verb::execute:
		break;
	case Prepared_Verb::prepare:
	case Prepared_Verb::deallocate: {
		change->name = use.name;
		operation.client_name = use.name;
		const auto found = statements_.find(use.name);
		if (found != statements_.end()) {
			operation.before = found->second;
		}
		if (use.verb == Prepared_Verb::prepare) {
			learn_prepared(use, *analysis);
			break;
		}
		if (found != statements_.end()) {
			statements_.erase(found);
		}
		backend_->backend_state.names.erase(use.name);
		break;
	}
	case Prepared_Verb::deallocate_all:
	case Prepared_Verb::discard_all:
		change->drops_all = true;
		change->all_names.swap(statements_);
		backend_->backend_state.doubt_all_statements();
		backend_->backend_state.doubt_all_names();
		request_.operations.forget_parses();
		break;
	}
	operation.change = std::move(change);
}

// A statement of a Query has completed: which one of the text, its tag tells.
void PgSQL_Session::note_prepared_done(const Statement_Analysis& analysis, std::string_view tag) {
	const Statement_Class& statement = analysis.statement;
	const bool executes =
	    std::any_of(statement.prepared.begin(), statement.prepared.end(), is_execute);
	if (executes && !statement.resolved) {
		pinned_ |= kStickyPrepare; // prepared unseen: it may have done anything
		check_due_ |= kCheckAll;
		check_calls_ = 1;
	}
	Prepared_Verb verb = Prepared_Verb::execute;
	if (tag == "PREPARE") {
		verb = Prepared_Verb::prepare;
	} else if (tag == "DEALLOCATE") {
		verb = Prepared_Verb::deallocate;
	} else if (tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") {
		drop_all_statements();
		verb = tag == "DISCARD ALL" ? Prepared_Verb::discard_all : Prepared_Verb::deallocate_all;
	} else {
		return;
	}
	size_t& at = request_.prepared_done;
	while (at < statement.prepared.size() && statement.prepared[at].verb != verb) {
		++at;
	}
	if (at == statement.prepared.size()) {
		if (verb == Prepared_Verb::prepare || verb == Prepared_Verb::deallocate) {
			pinned_ |= kStickyPrepare; // a text the parser does not know
		}
		return;
	}
	const Prepared_Use& use = statement.prepared[at++];
	if (verb == Prepared_Verb::prepare) {
		learn_prepared(use, analysis);
	} else if (verb == Prepared_Verb::deallocate) {
		statements_.erase(use.name);
		backend_->backend_state.names.erase(use.name);
	}
}

// DEALLOCATE ALL, DISCARD ALL as a Query: they drop what was prepared by protocol messages, too.
void PgSQL_Session::drop_all_statements() {
	statements_.clear();
	backend_->backend_state.names.clear();
	backend_->backend_state.unseen_names = false;
	forget_statements();
}

// The connection has none any more. Of names that came later in the same pipeline it stays unsure.
void PgSQL_Session::forget_statements() {
	backend_->backend_state.statements.clear();
	backend_->backend_state.stale_statements.clear();
}

// The server has skipped this message, or (`failed`) this is what its error is about.
void PgSQL_Session::undo_names(Operation& operation, bool failed) {
	if (backend_ != nullptr) {
		Backend_State& held = backend_->backend_state;
		if (operation.closed_id != 0) {
			// Least recently used, as it was: it goes first when room is needed again.
			held.statements.put_oldest(operation.closed_id, {});
		}
		if (operation.stale_id != 0) {
			held.stale_statements.insert(operation.stale_id);
		}
		if (operation.unnamed_id != 0 && failed) {
			held.unnamed_statement = 0; // a Parse drops the old one first
		}
		if (operation.change != nullptr && !operation.change->name.empty()) {
			held.doubt_name(operation.change->name);
		}
	}
	if (operation.hidden || operation.duplicate_name) {
		return;
	}
	if (operation.change != nullptr && operation.change->drops_all) {
		statements_.swap(operation.change->all_names);
	} else if (operation.closes_unnamed || operation.unnamed_id != 0) {
		const bool gone = failed && operation.unnamed_id != 0;
		unnamed_ = gone ? nullptr : operation.before;
		unnamed_id_ = gone ? 0 : operation.unnamed_before;
	} else if (!operation.client_name.empty()) {
		if (operation.before == nullptr) {
			statements_.erase(operation.client_name);
		} else {
			statements_[operation.client_name] = operation.before;
		}
	}
}

// ---- statements that are not what they were ----

// The names an EXECUTE of this text has used are prepared anew before their next use.
bool PgSQL_Session::doubt_named(const Statement_Class& statement) {
	bool any = false;
	for (const Prepared_Use& use : statement.prepared) {
		if (is_execute(use) && statements_.find(use.name) != statements_.end()) {
			backend_->backend_state.doubt_name(use.name);
			any = true;
		}
	}
	return any;
}

// A statement that is not what it was on this connection: dropped unseen (26000), or the result it
// was planned for has changed (bug bank: "cached plan must not change result type"). It is prepared
// anew before the next use. True: nothing has been executed or answered yet, so that the request
// can run again unseen.
bool PgSQL_Session::note_lost_statement(const Error_Fields& fields) {
	const bool gone = fields.sqlstate == "26000";
	const bool outdated = fields.sqlstate == "0A000" && fields.routine == "RevalidateCachedQuery";
	if (!gone && !outdated) {
		return false;
	}
	Backend_State& held = backend_->backend_state;
	bool alone = request_.executions <= 1;
	if (request_.has_operation() && request_.front().kind != Operation_Kind::query) {
		const Operation& operation = request_.front();
		if (operation.statement == nullptr) {
			return false;
		}
		const bool named = doubt_named(operation.statement->analysis->statement);
		const bool looks_up =
		    operation.kind == Operation_Kind::bind || operation.kind == Operation_Kind::describe;
		if (gone && !looks_up && !named) {
			return false;
		}
		if (operation.statement->by_sql) {
			held.doubt_name(operation.statement->name);
		} else if (operation.statement->id != 0) {
			held.doubt_statement(operation.statement->id);
		} else {
			held.unnamed_statement = 0;
		}
		if (outdated && !request_.describes && described_ != nullptr &&
		    described_->contains(operation.statement->id)) {
			return false; // its driver would take the new columns for the old ones
		}
	} else {
		const bool behind_batch = request_.has_operation();
		if (request_.statement == nullptr || !doubt_named(*request_.statement)) {
			return false;
		}
		alone = !behind_batch && request_.statement->statement_count == 1;
	}
	if (gone) {
		// Where one has gone unseen, others may have: by a function's DEALLOCATE ALL.
		held.doubt_all_statements();
		held.doubt_all_names();
	}
	return transaction_status_ == 'I' && alone && !request_.open && !request_.result_started &&
	       !request_.healed && request_.completed == 0;
}

} // namespace proxy
