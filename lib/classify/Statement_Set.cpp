#include "classify/Statement_Set.h"

#include "classify/Parse_Tree.h"
#include "classify/Tree_Facts.h"
#include "classify/Words.h"

#include <algorithm>
#include <iterator>

namespace proxy {

namespace {

// VariableSetKind of pg_query.proto.
enum class Set_Kind : uint64_t {
	undefined = 0,
	value = 1,
	to_default = 2,
	from_current = 3,
	multi = 4, // SET TRANSACTION and its kin
	reset = 5,
	reset_all = 6,
};

// GUC_LIST_QUOTE: the server quotes each element of these lists as an identifier.
bool is_name_list(std::string_view name) {
	static constexpr std::string_view kNames[] = {"local_preload_libraries", "search_path",
	                                              "session_preload_libraries", "temp_tablespaces",
	                                              "unix_socket_directories"};
	return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// As the server's quote_identifier(), but without the keyword list: a quoted keyword means the
// same.
std::string quote_name(std::string_view name) {
	const bool plain = !name.empty() && !char_is_digit(name[0]) &&
	                   std::all_of(name.begin(), name.end(), [](char c) {
		                   return (c >= 'a' && c <= 'z') || char_is_digit(c) || c == '_';
	                   });
	if (plain) {
		return std::string(name);
	}
	std::string quoted = "\"";
	for (const char c : name) {
		quoted.append(c == '"' ? 2 : 1, c);
	}
	return quoted.append("\"");
}

Isolation isolation_of(std::string_view text) {
	if (same_word(text, "read uncommitted")) {
		return Isolation::read_uncommitted;
	}
	if (same_word(text, "read committed")) {
		return Isolation::read_committed;
	}
	if (same_word(text, "repeatable read")) {
		return Isolation::repeatable_read;
	}
	return same_word(text, "serializable") ? Isolation::serializable : Isolation::unspecified;
}

// The server takes any unique beginning of these words ("of" and "t" too).
bool is_true(std::string_view text) {
	const std::string lower = lower_copy(text);
	const auto begins = [&lower](std::string_view word) {
		return !lower.empty() && word.substr(0, lower.size()) == lower;
	};
	return begins("true") || begins("yes") || lower == "on" || lower == "1";
}

// The three options that both BEGIN and SET may name. False: another name.
bool apply_transaction_option(std::string_view name, std::string_view value,
                              Statement_Class& result) {
	if (name == "transaction_isolation") {
		result.isolation = isolation_of(value);
		return true;
	}
	if (name == "transaction_read_only") {
		result.access_mode = is_true(value) ? Access_Mode::read_only : Access_Mode::read_write;
		return true;
	}
	if (name == "transaction_deferrable") {
		result.deferrable = is_true(value);
		return true;
	}
	return false;
}

void classify_multi(std::string_view message, std::string_view name, Statement_Class& result) {
	result.kind = Statement_Kind::set_transaction;
	result.name = lower_copy(name);
	const bool characteristics = result.name == "session characteristics";
	if (!characteristics && result.name != "transaction") {
		return; // SET TRANSACTION SNAPSHOT: holds for the open transaction only
	}
	read_transaction_options(message, 3, result);
	if (!characteristics) {
		return;
	}
	// The same as setting the defaults, and known to the session by those names.
	const auto add = [&result](std::string_view guc, std::string_view value) {
		Set_Item item;
		item.name = guc;
		item.value = value;
		item.has_value = true;
		result.sets.push_back(std::move(item));
	};
	static constexpr std::string_view kIsolationText[] = {"", "read uncommitted", "read committed",
	                                                      "repeatable read", "serializable"};
	if (result.isolation != Isolation::unspecified) {
		add("default_transaction_isolation", kIsolationText[static_cast<size_t>(result.isolation)]);
	}
	if (result.access_mode != Access_Mode::unspecified) {
		add("default_transaction_read_only",
		    result.access_mode == Access_Mode::read_only ? "on" : "off");
	}
	if (result.deferrable) {
		add("default_transaction_deferrable", "on");
	}
}

// The arguments of SET joined as the server joins them. False: not constants only.
bool join_arguments(std::string_view message, std::string_view name, std::string& value) {
	Wire_Reader reader(message);
	Wire_Field field;
	bool first = true;
	while (reader.next(field)) {
		if (field.number != 3) {
			continue;
		}
		std::string text;
		bool is_null = false;
		if (!constant_text(field.bytes, text, is_null) || is_null) {
			return false;
		}
		value.append(first ? "" : ", ").append(is_name_list(name) ? quote_name(text) : text);
		first = false;
	}
	return true;
}

} // namespace

bool constant_text(std::string_view node, std::string& text, bool& is_null) {
	const Tree_Node constant = open_node(node);
	if (constant.tag != Node_Tag::a_const) {
		return false;
	}
	is_null = false;
	Wire_Reader reader(constant.bytes);
	Wire_Field field;
	while (reader.next(field)) {
		switch (field.number) {
		case 1: // ival: a varint of int32, sign-extended to 64 bits
			text = std::to_string(static_cast<int64_t>(field_value(field.bytes, 1)));
			return true;
		case 2: // fval
		case 4: // sval
			text = std::string(field_bytes(field.bytes, 1));
			return true;
		case 3: // boolval
			text = field_value(field.bytes, 1) != 0 ? "true" : "false";
			return true;
		case 10:
			is_null = field.value != 0;
			return is_null;
		default:
			break;
		}
	}
	return false;
}

void read_transaction_options(std::string_view message, uint32_t field_number,
                              Statement_Class& result) {
	Wire_Reader reader(message);
	Wire_Field field;
	while (reader.next(field)) {
		if (field.number != field_number) {
			continue;
		}
		const Tree_Node option = open_node(field.bytes);
		if (option.tag != Node_Tag::def_elem) {
			continue;
		}
		std::string value;
		bool is_null = false;
		if (constant_text(field_bytes(option.bytes, 3), value, is_null)) {
			apply_transaction_option(field_bytes(option.bytes, 2), value, result);
		}
	}
}

void classify_set(std::string_view message, Statement_Class& result) {
	const auto set_kind = static_cast<Set_Kind>(field_value(message, 1));
	const std::string name = lower_copy(field_bytes(message, 2));
	const bool local = field_value(message, 4) != 0;
	result.kind = Statement_Kind::set;
	result.depends_on_literals = true;
	Set_Item item;
	item.name = name;
	item.scope = local ? Set_Scope::local : Set_Scope::session;
	switch (set_kind) {
	case Set_Kind::reset_all:
		result.kind = Statement_Kind::reset;
		result.all = true;
		item.name = "all";
		result.sets.push_back(std::move(item));
		return;
	case Set_Kind::reset:
		result.kind = Statement_Kind::reset;
		result.sticky_may_end = kStickySet; // RESET ROLE
		break;
	case Set_Kind::multi:
		classify_multi(message, name, result);
		return;
	case Set_Kind::value:
		item.has_value = join_arguments(message, name, item.value);
		if (!item.has_value) {
			// SET TIME ZONE INTERVAL '...': the server works the value out.
			result.sticky |= local ? 0u : static_cast<uint32_t>(kStickySet);
			return;
		}
		break;
	case Set_Kind::to_default:
	case Set_Kind::undefined:
		break;
	case Set_Kind::from_current:
		result.sticky |= local ? 0u : static_cast<uint32_t>(kStickySet);
		return;
	}
	if (apply_transaction_option(name, item.value, result)) {
		result.kind = Statement_Kind::set_transaction;
		result.name = "transaction";
		return;
	}
	// These change who the session is; a value alone cannot be carried to another connection.
	if (!local && (name == "role" || name == "session_authorization")) {
		result.sticky |= kStickySet;
		result.sticky_may_end |= kStickySet; // SET ROLE NONE
	}
	result.sets.push_back(std::move(item));
}

unsigned read_set_configs(std::string_view select_stmt, Statement_Class& result) {
	unsigned found = 0;
	Wire_Reader reader(select_stmt);
	Wire_Field field;
	std::vector<Set_Item> items;
	while (reader.next(field)) {
		if (field.number != 3) {
			// Anything but a target list may make the call happen never, or many times. Plain
			// numbers (op, limit option) are always there.
			if (!field.bytes.empty()) {
				return 0;
			}
			continue;
		}
		const Tree_Node target = open_node(field.bytes);
		if (target.tag != Node_Tag::res_target) {
			continue;
		}
		const Tree_Node call = open_node(field_bytes(target.bytes, 3));
		if (call.tag != Node_Tag::func_call) {
			continue;
		}
		const std::vector<std::string_view> parts = name_parts(call.bytes, 1);
		if (parts.empty() || parts.back() != "set_config") {
			continue;
		}
		std::string arguments[3];
		bool nulls[3] = {};
		size_t count = 0;
		bool constant = true;
		Wire_Reader argument_reader(call.bytes);
		Wire_Field argument;
		while (argument_reader.next(argument)) {
			if (argument.number == 2) {
				constant = constant && count < 3 &&
				           constant_text(argument.bytes, arguments[count], nulls[count]);
				++count;
			}
		}
		if (!constant || count != 3 || nulls[0] || nulls[2]) {
			continue;
		}
		Set_Item item;
		item.name = lower_copy(arguments[0]);
		item.value = arguments[1];
		item.has_value = !nulls[1];
		item.scope = is_true(arguments[2]) ? Set_Scope::local : Set_Scope::session;
		items.push_back(std::move(item));
		++found;
	}
	result.sets.insert(result.sets.end(), items.begin(), items.end());
	return found;
}

} // namespace proxy
