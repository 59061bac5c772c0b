// What calling a function means for routing: may it run on a replica, does it write, does it need
// its own session. An immutable snapshot, shared by all workers: PostgreSQL's built-in functions,
// plus entries that the catalogs of a primary or an administrator's rules supply.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

enum class Function_Class : uint8_t {
	safe,             // same answer on a caught-up replica
	transaction_time, // safe, but one value all through a transaction: now()
	server_state,     // reads what differs by node: settings, statistics, recovery state
	session,          // belongs to the session or its transaction: pg_backend_pid(), currval()
	settings,         // set_config()
	xact_lock,        // advisory lock that ends with the transaction
	advisory_lock,    // advisory lock that outlives it
	advisory_unlock,
	advisory_unlock_all,
	session_state,  // leaves something in the session: setseed()
	transaction_id, // takes a transaction id: txid_current()
	sequence,       // nextval(), setval()
	unknown,        // not known: counts as a write
	writes,         // volatile, and not on the list of harmless ones
};

class Function_Safety {
public:
	struct Entry {
		std::string schema; // empty: whatever the schema, and above every other knowledge
		std::string name;
		Function_Class function_class = Function_Class::unknown;
	};

	// Built-in functions only; one shared object.
	static std::shared_ptr<const Function_Safety> built_in();
	// Built-ins and `entries`; of two entries with one (schema, name), the worse counts, as an
	// overload may be the one that is called.
	static std::shared_ptr<const Function_Safety> with_entries(std::vector<Entry> entries);

	// Class of a function as written, folded as PostgreSQL folds names. Without a schema, a
	// built-in name is the built-in (pg_catalog comes first on every search path unless it is
	// named elsewhere on it); entries of other schemas with that name can only make it worse.
	Function_Class classify(std::string_view schema, std::string_view name) const;

private:
	Function_Safety() = default;
	const Entry* worst(std::string_view schema, bool any_schema, std::string_view name) const;

	std::vector<Entry> entries_; // sorted by name, then schema
};

} // namespace proxy
