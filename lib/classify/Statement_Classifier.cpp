#include "classify/Statement_Classifier.h"

#include "classify/Command_Names.h"
#include "classify/Nesting.h"
#include "classify/Parse_Tree.h"
#include "classify/Statement_Batch.h"
#include "classify/Statement_Command.h"
#include "classify/Statement_Set.h"
#include "classify/Tree_Facts.h"
#include "classify/Words.h"

#include <pg_query.h>

#include <algorithm>
#include <cstring>
#include <string>

// Settings of the parser's lexer, one set a thread. The first decides how '...' is read; the
// second would make the parser write warnings to stderr.
extern "C" {
extern __thread bool standard_conforming_strings;
extern __thread bool escape_string_warning;
}

namespace proxy {

namespace {

constexpr uint32_t kStickyAll = ~0u;
// A longer batch is not followed statement by statement.
constexpr uint32_t kMaxPartsKept = 256;

// The parse tree of one text; frees it.
class Parsed_Text {
public:
	Parsed_Text(const char* sql, bool standard_strings) {
		::standard_conforming_strings = standard_strings;
		::escape_string_warning = false;
		result_ = pg_query_parse_protobuf(sql);
	}
	~Parsed_Text() { pg_query_free_protobuf_parse_result(result_); }
	Parsed_Text(const Parsed_Text&) = delete;
	Parsed_Text& operator=(const Parsed_Text&) = delete;

	bool ok() const { return result_.error == nullptr; }
	std::string_view tree() const { return {result_.parse_tree.data, result_.parse_tree.len}; }

private:
	PgQueryProtobufParseResult result_;
};

class Classifier {
public:
	Classifier(const Tree_Node& statement, std::string_view node, const Function_Safety& safety)
	    : safety_(safety), statement_(statement), message_(statement.bytes),
	      facts_(collect_facts(node, safety)) {}

	Statement_Class run() {
		result_.statement_count = 1;
		result_.command = command_of(statement_);
		if (!facts_.complete) {
			return result_;
		}
		result_.veto = Read_Veto::not_a_query;
		result_.may_write = true;
		result_.transaction_time = facts_.transaction_time;
		result_.calls_unknown = facts_.function_unknown;
		result_.sticky = facts_.sticky;
		result_.sticky_ends = facts_.sticky_ends;
		result_.sticky_may_end = facts_.sticky_may_end;
		result_.notifies = facts_.notifies;
		result_.asks_channels = facts_.asks_channels;
		result_.functions = std::move(facts_.functions);
		result_.relations = std::move(facts_.relations);
		result_.lists_prepared = names_relation("pg_prepared_statements");
		dispatch();
		// Two functions of one statement may do both, in an order that is not known.
		result_.sticky_ends &= ~result_.sticky;
		return std::move(result_);
	}

private:
	void dispatch();
	void dispatch_session();
	void on_select();
	bool names_relation(std::string_view name) const;
	void on_change(Statement_Kind kind, uint32_t returning_field);
	void on_transaction();
	void on_explain();
	void on_copy();
	void on_discard();
	void on_declare();
	void on_ddl();
	void on_prepare();
	void on_deallocate();
	void on_execute(const Tree_Node& execute, bool runs);

	void plain(Statement_Kind kind, bool may_write) {
		result_.kind = kind;
		result_.may_write = may_write;
	}
	std::string text(uint32_t field) const { return std::string(field_bytes(message_, field)); }

	// Why the query in this statement may not be read from a replica.
	Read_Veto query_veto() const;
	bool query_writes() const {
		return facts_.row_lock || facts_.changes > 0 || facts_.into || facts_.function_writes ||
		       facts_.function_unknown || facts_.function_xid;
	}

	const Function_Safety& safety_;
	const Tree_Node statement_;
	const std::string_view message_;
	Tree_Facts facts_;
	Statement_Class result_;
};

Read_Veto Classifier::query_veto() const {
	if (facts_.row_lock) {
		return Read_Veto::row_lock;
	}
	if (facts_.changes > 0) {
		return Read_Veto::modifying_cte;
	}
	if (facts_.into) {
		return Read_Veto::select_into;
	}
	if (facts_.function_writes) {
		return Read_Veto::volatile_function;
	}
	if (facts_.function_unknown) {
		return Read_Veto::unknown_function;
	}
	if (facts_.function_session) {
		return Read_Veto::session_function;
	}
	if (facts_.temp_named || facts_.temp_created) {
		return Read_Veto::temp_object;
	}
	if (facts_.server_state || facts_.function_state) {
		return Read_Veto::server_state;
	}
	return Read_Veto::none;
}

void Classifier::on_select() {
	plain(Statement_Kind::select, query_writes());
	result_.veto = query_veto();
	result_.returns_rows = !facts_.into;
	if (facts_.temp_created) {
		result_.sticky |= kStickyTempTable;
	}
	if (facts_.set_configs > 0) {
		result_.depends_on_literals = true;
		if (read_set_configs(message_, result_) != facts_.set_configs) {
			result_.sets.clear();
			result_.sticky |= kStickySet;
		}
	}
}

// The statement names this relation of the system catalog.
bool Classifier::names_relation(std::string_view name) const {
	const auto& relations = result_.relations;
	return std::any_of(relations.begin(), relations.end(), [name](const std::string& relation) {
		constexpr std::string_view kSchema = "pg_catalog.";
		const std::string_view text = relation;
		return text == name || (text.starts_with(kSchema) && text.substr(kSchema.size()) == name);
	});
}

void Classifier::on_change(Statement_Kind kind, uint32_t returning_field) {
	plain(kind, true);
	result_.returns_rows = returning_field != 0 && !field_bytes(message_, returning_field).empty();
	const bool settings = names_relation("pg_settings");
	// An UPDATE of pg_settings is a SET.
	if (facts_.set_configs > 0 || (settings && kind == Statement_Kind::update)) {
		result_.sticky |= kStickySet;
	}
}

void Classifier::on_transaction() {
	result_.name = text(3);
	result_.and_chain = field_value(message_, 5) != 0;
	result_.may_write = false;
	switch (field_value(message_, 1)) {
	case 1: // BEGIN
	case 2: // START TRANSACTION
		result_.kind = Statement_Kind::begin;
		read_transaction_options(message_, 2, result_);
		break;
	case 3:
		// What the transaction wrote becomes visible with it.
		plain(Statement_Kind::commit, true);
		break;
	case 4:
		result_.kind = Statement_Kind::rollback;
		break;
	case 5:
		result_.kind = Statement_Kind::savepoint;
		break;
	case 6:
		result_.kind = Statement_Kind::release;
		break;
	case 7:
		result_.kind = Statement_Kind::rollback_to;
		break;
	default:
		plain(Statement_Kind::prepare_transaction, true);
		result_.depends_on_literals = true;
		result_.name = text(4);
		break;
	}
}

// The options decide whether the statement runs or is only planned; the last one of a name counts.
void Classifier::on_explain() {
	Wire_Reader reader(message_);
	Wire_Field field;
	bool analyze = false;
	while (reader.next(field)) {
		const Tree_Node option = field.number == 2 ? open_node(field.bytes) : Tree_Node();
		if (option.tag != Node_Tag::def_elem || field_bytes(option.bytes, 2) != "analyze") {
			continue;
		}
		analyze = true;
		const std::string_view argument = field_bytes(option.bytes, 3);
		if (argument.empty()) {
			continue;
		}
		result_.depends_on_literals = true;
		const Tree_Node value = open_node(argument);
		if (value.tag == Node_Tag::integer) {
			analyze = field_value(value.bytes, 1) != 0;
		} else if (value.tag == Node_Tag::string) {
			const std::string_view word = field_bytes(value.bytes, 1);
			analyze = !same_word(word, "false") && !same_word(word, "off");
		}
	}
	const Tree_Node query = open_node(field_bytes(message_, 1));
	on_execute(query, analyze);
	const bool of_select = query.tag == Node_Tag::select_stmt;
	const bool writes = query_writes() || !of_select;
	result_.explain_analyze = analyze;
	result_.returns_rows = true;
	plain(Statement_Kind::explain, analyze && writes);
	const Read_Veto veto = query_veto();
	if (!of_select || veto == Read_Veto::row_lock || veto == Read_Veto::modifying_cte ||
	    veto == Read_Veto::select_into || veto == Read_Veto::volatile_function ||
	    veto == Read_Veto::unknown_function) {
		result_.veto = Read_Veto::explain_of_write;
	} else if (veto != Read_Veto::none) {
		result_.veto = veto;
	} else {
		// Times and buffers measured on another server answer another question.
		result_.veto = analyze ? Read_Veto::server_state : Read_Veto::none;
	}
	if (!analyze) {
		// Nothing was called, so nothing was left behind.
		result_.sticky = kStickyNone;
		result_.sticky_ends = kStickyNone;
		result_.sticky_may_end = kStickyNone;
		result_.notifies = false;
		result_.transaction_time = false;
	} else {
		result_.sticky |= facts_.temp_created ? static_cast<uint32_t>(kStickyTempTable) : 0u;
		result_.sticky |= facts_.set_configs > 0 ? static_cast<uint32_t>(kStickySet) : 0u;
	}
}

void Classifier::on_copy() {
	const bool from = field_value(message_, 4) != 0;
	const bool program = field_value(message_, 5) != 0;
	result_.kind = from ? Statement_Kind::copy_in : Statement_Kind::copy_out;
	result_.may_write = from || program || query_writes();
	if (facts_.set_configs > 0) {
		result_.sticky |= kStickySet;
	}
}

void Classifier::on_discard() {
	plain(Statement_Kind::discard, false);
	switch (field_value(message_, 1)) {
	case 1:
		result_.all = true;
		result_.sticky_ends = kStickyAll;
		result_.prepared.push_back({.verb = Prepared_Verb::discard_all});
		break;
	case 3:
		result_.sticky_ends = kStickySequence;
		break;
	case 4:
		result_.sticky_ends = kStickyTempTable;
		break;
	default: // PLANS
		break;
	}
}

void Classifier::on_declare() {
	constexpr uint64_t kHold = 0x0020; // CURSOR_OPT_HOLD
	// The query runs at FETCH; what it writes is counted here, once.
	plain(Statement_Kind::declare_cursor, query_writes());
	result_.name = text(1);
	if ((field_value(message_, 2) & kHold) != 0) {
		result_.sticky |= kStickyHoldCursor;
	}
	if (facts_.set_configs > 0) {
		result_.sticky |= kStickySet;
	}
}

void Classifier::on_ddl() {
	plain(Statement_Kind::ddl, true);
	// CREATE TEMP ..., and anything made in pg_temp by name.
	const bool drops = statement_.tag == Node_Tag::drop_stmt;
	if (facts_.temp_created || (facts_.temp_named && !drops)) {
		result_.sticky |= kStickyTempTable;
	}
	if (drops) {
		result_.sticky_may_end |= kStickyTempTable;
	}
	if (facts_.set_configs > 0) {
		result_.sticky |= kStickySet;
	}
	const Tree_Node query = statement_.tag == Node_Tag::create_table_as_stmt
	                            ? open_node(field_bytes(message_, 1))
	                            : Tree_Node();
	on_execute(query, true);
}

// The body runs at EXECUTE: nothing in it has an effect now.
void Classifier::on_prepare() {
	plain(Statement_Kind::prepare, false);
	result_.name = text(1);
	result_.sticky = result_.sticky_ends = result_.sticky_may_end = kStickyNone;
	result_.transaction_time = result_.calls_unknown = result_.notifies = false;
	result_.lists_prepared = false;
	const std::string_view body = field_bytes(message_, 3);
	Prepared_Use use{.verb = Prepared_Verb::prepare, .name = result_.name};
	use.body =
	    std::make_shared<const Statement_Class>(Classifier(open_node(body), body, safety_).run());
	result_.prepared.push_back(std::move(use));
	result_.depends_on_literals = true; // the text is kept
}

void Classifier::on_deallocate() {
	plain(Statement_Kind::deallocate, false);
	result_.name = text(1);
	result_.all = result_.name.empty();
	result_.sticky_ends = result_.all ? kStickyPrepare : kStickyNone;
	result_.prepared.push_back(
	    {.verb = result_.all ? Prepared_Verb::deallocate_all : Prepared_Verb::deallocate,
	     .name = result_.name});
}

// EXECUTE, by itself or inside EXPLAIN and CREATE TABLE AS; other nodes are none.
void Classifier::on_execute(const Tree_Node& execute, bool runs) {
	if (execute.tag == Node_Tag::create_table_as_stmt) { // EXPLAIN of one
		on_execute(open_node(field_bytes(execute.bytes, 1)), runs);
		return;
	}
	if (execute.tag != Node_Tag::execute_stmt) {
		return;
	}
	result_.prepared.push_back({.verb = Prepared_Verb::execute,
	                            .runs = runs,
	                            .may_write = query_writes(),
	                            .veto = query_veto(),
	                            .name = std::string(field_bytes(execute.bytes, 1))});
}

void Classifier::dispatch_session() {
	switch (statement_.tag) {
	case Node_Tag::prepare_stmt:
		on_prepare();
		return;
	case Node_Tag::execute_stmt:
		// What was prepared is for the session to say: add_executed().
		plain(Statement_Kind::execute, true);
		on_execute(statement_, true);
		result_.name = text(1);
		result_.returns_rows = true;
		if (facts_.set_configs > 0) {
			result_.sticky |= kStickySet;
		}
		return;
	case Node_Tag::deallocate_stmt:
		on_deallocate();
		return;
	case Node_Tag::declare_cursor_stmt:
		on_declare();
		return;
	case Node_Tag::fetch_stmt:
		plain(Statement_Kind::fetch, false);
		result_.name = text(3);
		result_.returns_rows = field_value(message_, 4) == 0;
		return;
	case Node_Tag::close_portal_stmt:
		plain(Statement_Kind::close_cursor, false);
		result_.name = text(1);
		result_.all = result_.name.empty();
		result_.sticky_ends = result_.all ? kStickyHoldCursor : kStickyNone;
		result_.sticky_may_end |= kStickyHoldCursor;
		return;
	case Node_Tag::listen_stmt:
		plain(Statement_Kind::listen, false);
		result_.name = text(1);
		result_.sticky = kStickyListen;
		return;
	case Node_Tag::unlisten_stmt:
		plain(Statement_Kind::unlisten, false);
		result_.name = text(1);
		result_.all = result_.name.empty();
		result_.sticky_ends = result_.all ? kStickyListen : kStickyNone;
		result_.sticky_may_end = kStickyListen;
		return;
	case Node_Tag::notify_stmt:
		plain(Statement_Kind::notify, true);
		result_.notifies = true;
		result_.name = text(1);
		return;
	case Node_Tag::variable_set_stmt:
		result_.may_write = false;
		classify_set(message_, result_);
		return;
	case Node_Tag::variable_show_stmt:
		plain(Statement_Kind::show, false);
		result_.veto = Read_Veto::server_state;
		result_.name = lower_copy(field_bytes(message_, 1));
		result_.returns_rows = true;
		return;
	case Node_Tag::discard_stmt:
		on_discard();
		return;
	default:
		on_ddl();
		return;
	}
}

void Classifier::dispatch() {
	switch (statement_.tag) {
	case Node_Tag::select_stmt:
		on_select();
		return;
	case Node_Tag::insert_stmt:
		on_change(Statement_Kind::insert, 5);
		return;
	case Node_Tag::update_stmt:
		on_change(Statement_Kind::update, 5);
		return;
	case Node_Tag::delete_stmt:
		on_change(Statement_Kind::delete_rows, 4);
		return;
	case Node_Tag::merge_stmt:
		on_change(Statement_Kind::merge, 0);
		return;
	case Node_Tag::copy_stmt:
		on_copy();
		return;
	case Node_Tag::transaction_stmt:
		on_transaction();
		return;
	case Node_Tag::explain_stmt:
		on_explain();
		return;
	case Node_Tag::call_stmt:
		plain(Statement_Kind::call, true);
		result_.calls_unknown = true;
		result_.returns_rows = true;
		result_.sticky |= facts_.set_configs > 0 ? static_cast<uint32_t>(kStickySet) : 0u;
		return;
	case Node_Tag::do_stmt:
		// Its body may do anything to the session.
		plain(Statement_Kind::do_block, true);
		result_.calls_unknown = true;
		return;
	case Node_Tag::lock_stmt:
		plain(Statement_Kind::lock, false);
		return;
	case Node_Tag::load_stmt:
		plain(Statement_Kind::utility, true);
		result_.sticky |= kStickyLoad;
		return;
	case Node_Tag::constraints_set_stmt:
		plain(Statement_Kind::utility, false);
		return;
	case Node_Tag::vacuum_stmt:
	case Node_Tag::cluster_stmt:
	case Node_Tag::reindex_stmt:
	case Node_Tag::check_point_stmt:
	case Node_Tag::grant_stmt:
	case Node_Tag::grant_role_stmt:
	case Node_Tag::alter_system_stmt:
		plain(Statement_Kind::utility, true);
		return;
	default:
		dispatch_session();
		return;
	}
}

Statement_Class unknown_class() {
	Statement_Class result;
	result.command = command_index("UNKNOWN");
	result.returns_rows = true;
	return result;
}

Statement_Class empty_class() {
	Statement_Class result = unknown_class();
	result.kind = Statement_Kind::empty;
	result.veto = Read_Veto::not_a_query;
	result.may_write = false;
	result.returns_rows = false;
	return result;
}

} // namespace

Statement_Class classify_statement(std::string_view sql, bool standard_strings,
                                   const Function_Safety& functions) {
	// The parser would stop at a NUL and never see what the server may see behind it.
	const bool has_nul = std::memchr(sql.data(), 0, sql.size()) != nullptr;
	if (sql.size() > kMaxParsedBytes || has_nul || !is_cheap_to_parse(sql, standard_strings)) {
		return unknown_class();
	}
	const std::string copy(sql);
	const Parsed_Text parsed(copy.c_str(), standard_strings);
	if (!parsed.ok()) {
		return unknown_class();
	}
	constexpr uint32_t kStatements = 2; // ParseResult.stmts: RawStmt each
	Statement_Class result = empty_class();
	Wire_Reader reader(parsed.tree());
	Wire_Field field;
	uint32_t count = 0;
	std::vector<Statement_Class> parts;
	bool matters = false;
	while (reader.next(field)) {
		if (field.number != kStatements) {
			continue;
		}
		const std::string_view node = field_bytes(field.bytes, 1);
		Statement_Class part = Classifier(open_node(node), node, functions).run();
		if (part.kind == Statement_Kind::prepare) {
			// RawStmt: where the statement begins in the text, and its length (0: up to the end).
			const size_t begin = std::min<size_t>(field_value(field.bytes, 2), sql.size());
			const size_t length = field_value(field.bytes, 3);
			part.prepared.front().text = sql.substr(begin, length == 0 ? sql.npos : length);
		}
		if (++count == 1) {
			result = std::move(part);
			continue;
		}
		if (count == 2) {
			parts.push_back(result);
			matters = matters_by_itself(result);
		}
		matters = (matters || matters_by_itself(part)) && count <= kMaxPartsKept;
		if (parts.size() < kMaxPartsKept) {
			parts.push_back(part);
		}
		if (count == 2) {
			note_kind(result, result.kind);
			result.kind = Statement_Kind::multiple;
			result.veto = Read_Veto::multi_statement;
			result.all = result.and_chain = false;
			result.name.clear();
		}
		note_kind(result, part.kind);
		merge_into(result, std::move(part));
	}
	if (matters) {
		for (Statement_Class& part : parts) {
			part.functions.clear();
			part.relations.clear();
		}
		result.parts = std::move(parts);
	}
	result.statement_count = static_cast<uint16_t>(count > UINT16_MAX ? UINT16_MAX : count);
	return reader.ok() ? result : unknown_class();
}

} // namespace proxy
