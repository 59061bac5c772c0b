// What a server connection holds for whoever uses it next: parameters that differ from its startup
// and prepared statements. And the difference to what a session wants.
#pragma once

#include "base/Lru_Map.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

namespace proxy {

// A set of parameters with values, as SET wrote them; names in lower case. Small, sorted.
class Parameter_Set {
public:
	void set(const std::string& name, const std::string& value);
	void erase(const std::string& name);
	void clear();
	const std::string* find(const std::string& name) const;
	const std::map<std::string, std::string>& values() const { return values_; }
	bool empty() const { return values_.empty(); }
	// Equal sets have equal hashes; 0 for the empty set. Keyed per process, so that a client
	// cannot construct two sets with one hash.
	uint64_t hash() const { return hash_; }
	// The same without parameters that have no part in what a statement means (application_name,
	// timeouts): sessions that agree on it may share prepared statements.
	uint64_t meaning_hash() const;
	size_t memory_bytes() const;

private:
	static uint64_t hash_of(const std::string& name, const std::string& value);

	std::map<std::string, std::string> values_;
	uint64_t hash_ = 0; // xor of the entries' hashes
};

// Statements that set parameters. `encoding` goes first, and in a message of its own when `rest` is
// not plain ASCII: a server reads a message in the encoding it has when that comes.
struct Parameter_Sql {
	std::string encoding;
	std::string rest;

	bool empty() const { return encoding.empty() && rest.empty(); }
	bool needs_two() const;
};

// In place of a session: whatever is set on the connection, it must be reset first.
inline constexpr uint32_t kChangedByNobody = UINT32_MAX;

class Backend_State {
public:
	// Parameters set on this connection by sessions.
	Parameter_Set parameters;
	// What the server reported (ParameterStatus), by name as the server spells it.
	std::map<std::string, std::string> reported;
	// Hash of a session's parameter set that was found equal to this connection's, so that the
	// comparison by value is done once.
	uint64_t equal_to_hash = 0;

	// True when nothing has to be sent for a session that wants `wanted`.
	bool matches(const Parameter_Set& wanted) const {
		return wanted.hash() == parameters.hash() ||
		       (equal_to_hash != 0 && wanted.hash() == equal_to_hash);
	}
	// The statements that bring this connection in line with `wanted`; empty: nothing to do (and
	// equal_to_hash is set). Call apply() when they have succeeded.
	Parameter_Sql difference_sql(const Parameter_Set& wanted);
	// The same after everything has been reset, for a connection on which more may be set than is
	// known.
	static Parameter_Sql reset_sql(const Parameter_Set& wanted);
	// Session whose functions may have set parameters unseen; 0: none. The next other session
	// resets them.
	uint32_t changed_by = 0;
	void apply(const Parameter_Set& wanted);
	// The server has reported this value for it, in whatever spelling.
	bool is_reported(const std::string& name, const std::string& value) const;

	// Protocol-level statements prepared here, by global statement id.
	struct Nothing {};
	Lru_Map<uint64_t, Nothing> statements;
	// Such statements that may be there under their name but must not be used: they are closed
	// before they are parsed again. (Closing what is not there is no error.)
	std::unordered_set<uint64_t> stale_statements;
	// From now on `id` (or none at all) is taken to be prepared here.
	void doubt_statement(uint64_t id) {
		statements.erase(id);
		stale_statements.insert(id);
	}
	void doubt_all_statements() {
		for (const auto& entry : statements) {
			stale_statements.insert(entry.first);
		}
		statements.clear();
	}

	// Names that SQL may use here (PREPARE, EXECUTE), and which statement each stands for. Any
	// client's; a session brings those it names in line with its own before it uses them.
	static constexpr uint64_t kUnsure = 0; // it may be there, as whatever
	Lru_Map<std::string, uint64_t> names;
	void doubt_name(const std::string& name) { names.put(name, kUnsure); }
	void doubt_all_names() {
		for (auto& entry : names) {
			entry.second = kUnsure;
		}
	}
	// Functions of some session have run that may have prepared names unseen.
	bool unseen_names = false;
	// Which unnamed statement is there: the id of its Parse (unique per process), 0 none.
	uint64_t unnamed_statement = 0;
};

// A DateStyle value with both of its parts. SET takes one alone ("iso") and keeps the other: `now`
// is the value before it, as the server reports it.
std::string full_datestyle(std::string_view now, std::string_view value);

// The one spelling of a parameter's value for comparison ("utf8" and "UTF-8", "on" and "true").
std::string normalised_value(std::string_view name, std::string_view value);

// `text` as an SQL string literal, whatever standard_conforming_strings is.
std::string quote_literal(std::string_view text);
std::string quote_identifier(std::string_view text);

} // namespace proxy
