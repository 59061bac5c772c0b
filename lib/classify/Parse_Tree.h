// libpg_query's parse tree, read in its protobuf wire form: unpacking it into structures costs
// about as much as parsing, and a walk that follows the message descriptors meets every node of
// every kind by construction, today's and those of a newer library.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

struct ProtobufCMessageDescriptor;

namespace proxy {

// Field numbers of the Node message: what kind of node a Node holds. Only those that are looked
// at; pg_query.proto has them all.
enum class Node_Tag : uint16_t {
	none = 0,
	range_var = 2,
	sql_value_function = 35,
	into_clause = 50,
	insert_stmt = 54,
	delete_stmt = 55,
	update_stmt = 56,
	merge_stmt = 57,
	select_stmt = 58,
	alter_table_stmt = 61,
	grant_stmt = 65,
	grant_role_stmt = 66,
	close_portal_stmt = 68,
	cluster_stmt = 69,
	copy_stmt = 70,
	define_stmt = 72,
	drop_stmt = 73,
	comment_stmt = 75,
	fetch_stmt = 76,
	create_function_stmt = 78,
	alter_function_stmt = 79,
	do_stmt = 80,
	rename_stmt = 81,
	notify_stmt = 83,
	listen_stmt = 84,
	unlisten_stmt = 85,
	transaction_stmt = 86,
	load_stmt = 88,
	vacuum_stmt = 92,
	explain_stmt = 93,
	create_table_as_stmt = 94,
	variable_set_stmt = 97,
	variable_show_stmt = 98,
	discard_stmt = 99,
	create_role_stmt = 102,
	lock_stmt = 105,
	constraints_set_stmt = 106,
	reindex_stmt = 107,
	check_point_stmt = 108,
	prepare_stmt = 119,
	execute_stmt = 120,
	deallocate_stmt = 121,
	declare_cursor_stmt = 122,
	alter_object_depends_stmt = 125,
	alter_object_schema_stmt = 126,
	alter_owner_stmt = 127,
	alter_system_stmt = 157,
	call_stmt = 169,
	column_ref = 172,
	func_call = 174,
	res_target = 179,
	type_cast = 181,
	range_table_sample = 187,
	def_elem = 195,
	locking_clause = 208,
	common_table_expr = 216,
	integer = 230,
	float_value = 231,
	boolean = 232,
	string = 233,
	list = 235,
	a_const = 238,
};

// One field of a message in wire form.
struct Wire_Field {
	uint32_t number = 0;
	uint64_t value = 0;     // varints
	std::string_view bytes; // strings and messages
};

// Fields of one message in order. Stops at the end and at anything malformed.
class Wire_Reader {
public:
	explicit Wire_Reader(std::string_view message) : rest_(message) {}
	bool next(Wire_Field& field);
	// False once something malformed was met.
	bool ok() const { return ok_; }

private:
	bool varint(uint64_t& value);
	std::string_view rest_;
	bool ok_ = true;
};

// What a message's descriptor says, as tables.
class Tree_Schema {
public:
	// Built once, at the first call.
	static const Tree_Schema& get();

	static constexpr uint16_t kNoMessage = UINT16_MAX;
	struct Message {
		// The message as Node's oneof knows it; none for messages that only occur directly.
		Node_Tag tag = Node_Tag::none;
		bool is_node = false;
		// By field number: index of the field's message type, or kNoMessage.
		std::vector<uint16_t> children;
	};
	const Message& message(uint16_t index) const { return messages_[index]; }
	uint16_t root() const { return 0; } // ParseResult
	uint16_t node() const { return node_; }

private:
	Tree_Schema();
	uint16_t add(const ProtobufCMessageDescriptor* descriptor);
	std::vector<const ProtobufCMessageDescriptor*> seen_;
	std::vector<Message> messages_;
	uint16_t node_ = kNoMessage;
};

// A Node taken apart: its kind and the message in it.
struct Tree_Node {
	Node_Tag tag = Node_Tag::none;
	std::string_view bytes;
};
Tree_Node open_node(std::string_view node);

// First field `number` of a message; empty / zero when it is absent.
std::string_view field_bytes(std::string_view message, uint32_t number);
uint64_t field_value(std::string_view message, uint32_t number);

// Calls visit(tag, bytes) for every message below and including a Node, in document order. visit
// returns false to leave out what is inside. False when the tree is deeper than `max_depth` or
// malformed.
template <typename Visit>
bool walk_tree(uint16_t message, std::string_view bytes, const Visit& visit, unsigned max_depth) {
	if (max_depth == 0) {
		return false;
	}
	const Tree_Schema& schema = Tree_Schema::get();
	const Tree_Schema::Message& shape = schema.message(message);
	if (!shape.is_node && !visit(shape.tag, bytes)) {
		return true;
	}
	Wire_Reader reader(bytes);
	Wire_Field field;
	while (reader.next(field)) {
		const uint16_t child = field.number < shape.children.size() ? shape.children[field.number]
		                                                            : Tree_Schema::kNoMessage;
		if (child != Tree_Schema::kNoMessage &&
		    !walk_tree(child, field.bytes, visit, max_depth - 1)) {
			return false;
		}
	}
	return reader.ok();
}

} // namespace proxy
