// Everything a statement's parse tree says about reading, locking and writing, found in one walk
// over all of it. Each check is independent of the others and none ends the walk.
#pragma once

#include "classify/Function_Safety.h"
#include "classify/Parse_Tree.h"
#include "classify/Statement_Class.h"

#include <string>
#include <string_view>
#include <vector>

namespace proxy {

struct Tree_Facts {
	bool complete = false; // the walk met the whole tree
	bool row_lock = false;
	unsigned changes = 0;      // INSERT, UPDATE, DELETE, MERGE nodes, at any depth
	bool into = false;         // SELECT INTO
	bool temp_created = false; // a relation marked TEMP
	bool temp_named = false;   // pg_temp as a schema
	bool server_state = false; // relations whose rows differ by node
	bool transaction_time = false;
	bool function_state = false;   // functions that read what differs by node
	bool function_session = false; // functions bound to the session
	bool function_writes = false;
	bool function_unknown = false;
	bool function_xid = false;
	unsigned set_configs = 0;
	uint32_t sticky = kStickyNone;
	uint32_t sticky_ends = kStickyNone;
	uint32_t sticky_may_end = kStickyNone;
	bool notifies = false;
	bool asks_channels = false;
	std::vector<std::string> functions;
	std::vector<std::string> relations;
};

// REQUIRES: `node` is a Node message.
Tree_Facts collect_facts(std::string_view node, const Function_Safety& safety);

// The strings in a repeated Node field (a dotted name), joined with dots; others are left out.
std::vector<std::string_view> name_parts(std::string_view message, uint32_t field_number);

} // namespace proxy
