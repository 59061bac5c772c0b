#include "classify/Statement_Class.h"

namespace proxy {

const char* name_of(Statement_Kind kind) {
	switch (kind) {
	case Statement_Kind::unknown:
		return "unknown";
	case Statement_Kind::empty:
		return "empty";
	case Statement_Kind::select:
		return "select";
	case Statement_Kind::insert:
		return "insert";
	case Statement_Kind::update:
		return "update";
	case Statement_Kind::delete_rows:
		return "delete";
	case Statement_Kind::merge:
		return "merge";
	case Statement_Kind::ddl:
		return "ddl";
	case Statement_Kind::copy_in:
		return "copy_in";
	case Statement_Kind::copy_out:
		return "copy_out";
	case Statement_Kind::begin:
		return "begin";
	case Statement_Kind::commit:
		return "commit";
	case Statement_Kind::rollback:
		return "rollback";
	case Statement_Kind::savepoint:
		return "savepoint";
	case Statement_Kind::rollback_to:
		return "rollback_to";
	case Statement_Kind::release:
		return "release";
	case Statement_Kind::prepare_transaction:
		return "prepare_transaction";
	case Statement_Kind::set:
		return "set";
	case Statement_Kind::reset:
		return "reset";
	case Statement_Kind::show:
		return "show";
	case Statement_Kind::set_transaction:
		return "set_transaction";
	case Statement_Kind::discard:
		return "discard";
	case Statement_Kind::prepare:
		return "prepare";
	case Statement_Kind::execute:
		return "execute";
	case Statement_Kind::deallocate:
		return "deallocate";
	case Statement_Kind::declare_cursor:
		return "declare_cursor";
	case Statement_Kind::fetch:
		return "fetch";
	case Statement_Kind::close_cursor:
		return "close_cursor";
	case Statement_Kind::listen:
		return "listen";
	case Statement_Kind::notify:
		return "notify";
	case Statement_Kind::unlisten:
		return "unlisten";
	case Statement_Kind::lock:
		return "lock";
	case Statement_Kind::explain:
		return "explain";
	case Statement_Kind::call:
		return "call";
	case Statement_Kind::do_block:
		return "do";
	case Statement_Kind::utility:
		return "utility";
	case Statement_Kind::multiple:
		return "multiple";
	}
	return "unknown";
}

const char* name_of(Read_Veto veto) {
	switch (veto) {
	case Read_Veto::none:
		return "none";
	case Read_Veto::not_a_query:
		return "not_a_query";
	case Read_Veto::unparsed:
		return "unparsed";
	case Read_Veto::row_lock:
		return "row_lock";
	case Read_Veto::modifying_cte:
		return "modifying_cte";
	case Read_Veto::select_into:
		return "select_into";
	case Read_Veto::volatile_function:
		return "volatile_function";
	case Read_Veto::unknown_function:
		return "unknown_function";
	case Read_Veto::session_function:
		return "session_function";
	case Read_Veto::explain_of_write:
		return "explain_of_write";
	case Read_Veto::server_state:
		return "server_state";
	case Read_Veto::multi_statement:
		return "multi_statement";
	case Read_Veto::temp_object:
		return "temp_object";
	}
	return "unparsed";
}

} // namespace proxy
