#include "classify/Tree_Facts.h"

#include "classify/Statement_Classifier.h"
#include "classify/Words.h"

#include <algorithm>
#include <iterator>

namespace proxy {

namespace {

// A token can make up to three messages on top of each other (Node, expression, list), besides
// the levels that the text does not show.
constexpr unsigned kMaxTreeDepth = 6000;

bool starts_with(std::string_view text, std::string_view prefix) {
	return text.substr(0, prefix.size()) == prefix;
}

bool is_temp_schema(std::string_view name) {
	return name == "pg_temp" || starts_with(name, "pg_temp_");
}

// Views and tables that show one server's own state, or the session's. By name whatever the
// schema, because extensions (pg_stat_statements) put theirs anywhere.
bool shows_server_state(std::string_view name) {
	static constexpr std::string_view kNames[] = {"pg_aios",
	                                              "pg_available_extension_versions",
	                                              "pg_available_extensions",
	                                              "pg_backend_memory_contexts",
	                                              "pg_buffercache",
	                                              "pg_config",
	                                              "pg_cursors",
	                                              "pg_dsm_registry_allocations",
	                                              "pg_file_settings",
	                                              "pg_hba_file_rules",
	                                              "pg_ident_file_mappings",
	                                              "pg_locks",
	                                              "pg_prepared_statements",
	                                              "pg_prepared_xacts",
	                                              "pg_replication_origin_status",
	                                              "pg_replication_slots",
	                                              "pg_sequences",
	                                              "pg_settings",
	                                              "pg_shmem_allocations",
	                                              "pg_shmem_allocations_numa",
	                                              "pg_wait_events"};
	if (starts_with(name, "pg_stat")) {
		// Planner statistics are ordinary rows and the same everywhere.
		return !starts_with(name, "pg_statistic") && !starts_with(name, "pg_stats");
	}
	return std::binary_search(std::begin(kNames), std::end(kNames), name);
}

void keep(std::vector<std::string>& list, std::string name) {
	if (list.size() < kMaxNamesKept && std::find(list.begin(), list.end(), name) == list.end()) {
		list.push_back(std::move(name));
	}
}

class Collector {
public:
	Collector(Tree_Facts& facts, const Function_Safety& safety) : facts_(facts), safety_(safety) {}

	bool visit(Node_Tag tag, std::string_view message) {
		switch (tag) {
		case Node_Tag::locking_clause:
			facts_.row_lock = true;
			return true;
		case Node_Tag::insert_stmt:
		case Node_Tag::update_stmt:
		case Node_Tag::delete_stmt:
		case Node_Tag::merge_stmt:
			++facts_.changes;
			return true;
		case Node_Tag::into_clause:
			facts_.into = true;
			return true;
		case Node_Tag::func_call:
			on_function(name_parts(message, 1));
			return true;
		case Node_Tag::range_table_sample:
			on_sample(name_parts(message, 2));
			return true;
		case Node_Tag::sql_value_function:
			on_value_function(field_value(message, 2));
			return true;
		case Node_Tag::range_var:
			on_relation(message);
			return true;
		case Node_Tag::common_table_expr:
			ctes_.push_back(field_bytes(message, 1));
			return true;
		case Node_Tag::column_ref:
			on_column(name_parts(message, 1));
			return true;
		case Node_Tag::string:
			facts_.temp_named = facts_.temp_named || is_temp_schema(field_bytes(message, 1));
			return true;
		case Node_Tag::a_const:
			on_constant(message);
			return false; // its String is no name
		default:
			// Every other kind of node only matters for what is inside it.
			return true;
		}
	}

	// References to WITH queries look like relations.
	void finish() {
		auto is_cte = [this](const std::string& name) {
			return std::find(ctes_.begin(), ctes_.end(), name) != ctes_.end();
		};
		facts_.relations.erase(
		    std::remove_if(facts_.relations.begin(), facts_.relations.end(), is_cte),
		    facts_.relations.end());
	}

private:
	void on_function(const std::vector<std::string_view>& parts) {
		if (parts.empty()) {
			facts_.function_unknown = true;
			return;
		}
		const std::string_view name = parts.back();
		const std::string_view schema = parts.size() > 1 ? parts[parts.size() - 2] : "";
		keep(facts_.functions,
		     schema.empty() ? std::string(name) : std::string(schema).append(".").append(name));
		const Function_Class function_class = safety_.classify(schema, name);
		on_class(function_class);
		facts_.notifies = facts_.notifies || name == "pg_notify";
		facts_.asks_channels = facts_.asks_channels || name == "pg_listening_channels";
		if (function_class == Function_Class::advisory_unlock || starts_with(name, "pg_try_adv")) {
			facts_.sticky_may_end |= kStickyAdvisoryLock; // the last one of several, or not got
		}
	}

	void on_class(Function_Class function_class) {
		switch (function_class) {
		case Function_Class::safe:
			return;
		case Function_Class::transaction_time:
			facts_.transaction_time = true;
			return;
		case Function_Class::server_state:
			facts_.function_state = true;
			return;
		case Function_Class::session:
		case Function_Class::xact_lock:
		case Function_Class::advisory_unlock:
			facts_.function_session = true;
			return;
		case Function_Class::settings:
			facts_.function_session = true;
			++facts_.set_configs;
			return;
		case Function_Class::advisory_lock:
			facts_.function_session = true;
			facts_.sticky |= kStickyAdvisoryLock;
			return;
		case Function_Class::advisory_unlock_all:
			facts_.function_session = true;
			facts_.sticky_ends |= kStickyAdvisoryLock;
			return;
		case Function_Class::session_state:
			facts_.function_session = true;
			facts_.sticky |= kStickySessionFunction;
			return;
		case Function_Class::transaction_id:
			facts_.function_session = true;
			facts_.function_xid = true;
			return;
		case Function_Class::sequence:
			facts_.function_writes = true;
			facts_.sticky |= kStickySequence;
			return;
		case Function_Class::writes:
			facts_.function_writes = true;
			return;
		case Function_Class::unknown:
			facts_.function_unknown = true;
			return;
		}
	}

	void on_sample(const std::vector<std::string_view>& parts) {
		const std::string_view method = parts.empty() ? std::string_view() : parts.back();
		if (method != "system" && method != "bernoulli") {
			facts_.function_unknown = true;
		}
	}

	void on_constant(std::string_view message) {
		constexpr uint32_t kString = 4; // A_Const.sval
		const std::string_view text = field_bytes(field_bytes(message, kString), 1);
		facts_.transaction_time = facts_.transaction_time || names_moment(text);
	}

	void on_value_function(uint64_t op) {
		// CURRENT_DATE .. LOCALTIMESTAMP(n) are 1 to 9; the rest are user, catalog and schema.
		constexpr uint64_t kLastTime = 9;
		facts_.transaction_time = facts_.transaction_time || op <= kLastTime;
	}

	void on_relation(std::string_view message) {
		Wire_Reader reader(message);
		Wire_Field field;
		std::string_view schema;
		std::string_view name;
		while (reader.next(field)) {
			if (field.number == 2) {
				schema = field.bytes;
			} else if (field.number == 3) {
				name = field.bytes;
			} else if (field.number == 5) {
				facts_.temp_created = facts_.temp_created || field.bytes == "t";
			}
		}
		facts_.temp_named = facts_.temp_named || is_temp_schema(schema);
		facts_.server_state = facts_.server_state || shows_server_state(name);
		keep(facts_.relations,
		     schema.empty() ? std::string(name) : std::string(schema).append(".").append(name));
	}

	// A sequence read like a table: a standby's row runs ahead of the primary's by the values
	// that were logged in advance. These column names belong to nothing else.
	void on_column(const std::vector<std::string_view>& parts) {
		if (!parts.empty()) {
			const std::string_view column = parts.back();
			facts_.server_state = facts_.server_state || column == "last_value" ||
			                      column == "log_cnt" || column == "is_called";
		}
	}

	Tree_Facts& facts_;
	const Function_Safety& safety_;
	std::vector<std::string_view> ctes_;
};

} // namespace

std::vector<std::string_view> name_parts(std::string_view message, uint32_t field_number) {
	std::vector<std::string_view> parts;
	Wire_Reader reader(message);
	Wire_Field field;
	while (reader.next(field)) {
		if (field.number == field_number) {
			const Tree_Node node = open_node(field.bytes);
			if (node.tag == Node_Tag::string) {
				parts.push_back(field_bytes(node.bytes, 1));
			}
		}
	}
	return parts;
}

Tree_Facts collect_facts(std::string_view node, const Function_Safety& safety) {
	Tree_Facts facts;
	Collector collector(facts, safety);
	const auto visit = [&collector](Node_Tag tag, std::string_view message) {
		return collector.visit(tag, message);
	};
	facts.complete = walk_tree(Tree_Schema::get().node(), node, visit, kMaxTreeDepth);
	collector.finish();
	return facts;
}

} // namespace proxy
