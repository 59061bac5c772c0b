#include "classify/Statement_Command.h"

#include "classify/Command_Names.h"

#include <iterator>
#include <string>

namespace proxy {

namespace {

// ObjectType of pg_query.proto -> the noun in the command names; empty: none of them has it.
constexpr std::string_view kNouns[] = {"",              // undefined
                                       "ACCESS_METHOD", // 1
                                       "AGGREGATE",
                                       "",
                                       "",
                                       "TYPE",
                                       "CAST",
                                       "TABLE",
                                       "COLLATION",
                                       "",
                                       "DATABASE",
                                       "",
                                       "",
                                       "DOMAIN",
                                       "DOMAIN",
                                       "EVENT_TRIGGER",
                                       "EXTENSION",
                                       "",
                                       "SERVER",
                                       "FOREIGN_TABLE",
                                       "FUNCTION", // 20
                                       "INDEX",
                                       "",
                                       "",
                                       "MATERIALIZED_VIEW",
                                       "OPERATOR_CLASS",
                                       "OPERATOR",
                                       "OPERATOR_FAMILY",
                                       "",
                                       "POLICY",
                                       "PROCEDURE",
                                       "PUBLICATION",
                                       "PUBLICATION",
                                       "PUBLICATION",
                                       "ROLE",
                                       "FUNCTION",
                                       "RULE",
                                       "SCHEMA",
                                       "SEQUENCE",
                                       "SUBSCRIPTION",
                                       "", // 40
                                       "TABLE",
                                       "TABLE",
                                       "TABLESPACE",
                                       "TRANSFORM",
                                       "TRIGGER",
                                       "TEXT_SEARCH_CONFIGURATION",
                                       "TEXT_SEARCH_DICTIONARY",
                                       "TEXT_SEARCH_PARSER",
                                       "TEXT_SEARCH_TEMPLATE",
                                       "TYPE",
                                       "USER_MAPPING",
                                       "VIEW"};

uint8_t by_object(std::string_view verb, uint64_t object_type) {
	if (object_type >= std::size(kNouns) || kNouns[object_type].empty()) {
		return command_index("UNKNOWN");
	}
	return command_index(std::string(verb).append("_").append(kNouns[object_type]));
}

uint8_t transaction_command(std::string_view message) {
	// TransactionStmtKind, from BEGIN on.
	static constexpr const char* kByKind[] = {"UNKNOWN",
	                                          "BEGIN",
	                                          "BEGIN",
	                                          "COMMIT",
	                                          "ROLLBACK",
	                                          "SAVEPOINT",
	                                          "RELEASE_SAVEPOINT",
	                                          "ROLLBACK_TO_SAVEPOINT",
	                                          "PREPARE",
	                                          "COMMIT",
	                                          "ROLLBACK"};
	const uint64_t kind = field_value(message, 1);
	return command_index(kind < std::size(kByKind) ? kByKind[kind] : "UNKNOWN");
}

struct Fixed_Command {
	uint16_t tag; // field number in Node
	const char* name;
};

// Statements whose command does not depend on what is inside.
constexpr Fixed_Command kFixed[] = {
    {54, "INSERT"},
    {55, "DELETE"},
    {56, "UPDATE"},
    {57, "MERGE"},
    {58, "SELECT"},
    {62, "ALTER_TABLE"},
    {63, "ALTER_DOMAIN"},
    {68, "CLOSE_CURSOR"},
    {69, "CLUSTER"},
    {70, "COPY"},
    {71, "CREATE_TABLE"},
    {74, "TRUNCATE"},
    {75, "COMMENT"},
    {77, "CREATE_INDEX"},
    {82, "CREATE_RULE"},
    {83, "NOTIFY"},
    {84, "LISTEN"},
    {85, "UNLISTEN"},
    {87, "CREATE_VIEW"},
    {89, "CREATE_DOMAIN"},
    {90, "CREATE_DATABASE"},
    {91, "DROP_DATABASE"},
    {93, "EXPLAIN"},
    {95, "CREATE_SEQUENCE"},
    {96, "ALTER_SEQUENCE"},
    {98, "SHOW"},
    {99, "DISCARD"},
    {100, "CREATE_TRIGGER"},
    {103, "ALTER_ROLE"},
    {104, "DROP_ROLE"},
    {105, "LOCK"},
    {106, "SET"},
    {107, "REINDEX"},
    {108, "CHECKPOINT"},
    {109, "CREATE_SCHEMA"},
    {110, "ALTER_DATABASE"},
    {111, "ALTER_DATABASE"},
    {112, "ALTER_DATABASE"},
    {113, "ALTER_ROLE"},
    {115, "CREATE_CAST"},
    {116, "CREATE_OPERATOR_CLASS"},
    {117, "CREATE_OPERATOR_FAMILY"},
    {118, "ALTER_OPERATOR_FAMILY"},
    {119, "PREPARE"},
    {120, "EXECUTE"},
    {121, "DEALLOCATE"},
    {122, "DECLARE_CURSOR"},
    {123, "CREATE_TABLESPACE"},
    {124, "DROP_TABLESPACE"},
    {128, "ALTER_OPERATOR"},
    {129, "ALTER_TYPE"},
    {132, "CREATE_TYPE"},
    {133, "CREATE_TYPE"},
    {134, "CREATE_TYPE"},
    {135, "ALTER_TYPE"},
    {136, "ALTER_TEXT_SEARCH_DICTIONARY"},
    {137, "ALTER_TEXT_SEARCH_CONFIGURATION"},
    {140, "CREATE_SERVER"},
    {141, "ALTER_SERVER"},
    {142, "CREATE_USER_MAPPING"},
    {143, "ALTER_USER_MAPPING"},
    {144, "DROP_USER_MAPPING"},
    {145, "ALTER_TABLESPACE"},
    {146, "ALTER_TABLE"},
    {148, "CREATE_FOREIGN_TABLE"},
    {149, "IMPORT_FOREIGN_SCHEMA"},
    {150, "CREATE_EXTENSION"},
    {151, "ALTER_EXTENSION"},
    {152, "ALTER_EXTENSION"},
    {153, "CREATE_EVENT_TRIGGER"},
    {154, "ALTER_EVENT_TRIGGER"},
    {155, "REFRESH_MATERIALIZED_VIEW"},
    {158, "CREATE_POLICY"},
    {159, "ALTER_POLICY"},
    {160, "CREATE_TRANSFORM"},
    {161, "CREATE_ACCESS_METHOD"},
    {162, "CREATE_PUBLICATION"},
    {163, "ALTER_PUBLICATION"},
    {164, "CREATE_SUBSCRIPTION"},
    {165, "ALTER_SUBSCRIPTION"},
    {166, "DROP_SUBSCRIPTION"},
    {168, "ALTER_COLLATION"},
    {169, "CALL"},
};

uint8_t fixed_command(Node_Tag tag) {
	for (const Fixed_Command& row : kFixed) {
		if (row.tag == static_cast<uint16_t>(tag)) {
			return command_index(row.name);
		}
	}
	return command_index("UNKNOWN");
}

} // namespace

uint8_t command_of(const Tree_Node& statement) {
	const std::string_view message = statement.bytes;
	switch (statement.tag) {
	case Node_Tag::transaction_stmt:
		return transaction_command(message);
	case Node_Tag::drop_stmt:
		return by_object("DROP", field_value(message, 2));
	case Node_Tag::define_stmt:
		return by_object("CREATE", field_value(message, 1));
	case Node_Tag::alter_table_stmt:
		return by_object("ALTER", field_value(message, 3));
	case Node_Tag::rename_stmt: {
		// RENAME COLUMN names the kind of relation apart.
		constexpr uint64_t kAttribute = 5;
		constexpr uint64_t kColumn = 7;
		const uint64_t renamed = field_value(message, 1);
		const bool column = renamed == kColumn || renamed == kAttribute;
		return by_object("ALTER", column ? field_value(message, 2) : renamed);
	}
	case Node_Tag::alter_object_depends_stmt:
	case Node_Tag::alter_object_schema_stmt:
	case Node_Tag::alter_owner_stmt:
	case Node_Tag::alter_function_stmt:
		return by_object("ALTER", field_value(message, 1));
	case Node_Tag::create_function_stmt:
		return command_index(field_value(message, 1) != 0 ? "CREATE_PROCEDURE" : "CREATE_FUNCTION");
	case Node_Tag::create_role_stmt: {
		constexpr uint64_t kUser = 2;
		return command_index(field_value(message, 1) == kUser ? "CREATE_USER" : "CREATE_ROLE");
	}
	case Node_Tag::create_table_as_stmt: {
		constexpr uint64_t kMaterializedView = 24;
		return command_index(field_value(message, 3) == kMaterializedView
		                         ? "CREATE_MATERIALIZED_VIEW"
		                         : "CREATE_TABLE");
	}
	case Node_Tag::grant_stmt:
		return command_index(field_value(message, 1) != 0 ? "GRANT" : "REVOKE");
	case Node_Tag::grant_role_stmt:
		return command_index(field_value(message, 3) != 0 ? "GRANT" : "REVOKE");
	case Node_Tag::vacuum_stmt:
		return command_index(field_value(message, 3) != 0 ? "VACUUM" : "ANALYZE");
	case Node_Tag::fetch_stmt:
		return command_index(field_value(message, 4) != 0 ? "MOVE" : "FETCH");
	case Node_Tag::variable_set_stmt: {
		constexpr uint64_t kReset = 5;
		return command_index(field_value(message, 1) >= kReset ? "RESET" : "SET");
	}
	default:
		// The table knows the rest.
		return fixed_command(statement.tag);
	}
}

} // namespace proxy
