// What a statement is, found by PostgreSQL's own parser (libpg_query). Pure data: no session, no
// server. Made by Statement_Classifier, kept in a bounded cache, read by routing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace proxy {

enum class Statement_Kind : uint8_t {
	unknown, // the parser rejects it: goes to the primary as it is
	empty,
	select, // also VALUES, TABLE t, WITH ... SELECT
	insert,
	update,
	delete_rows,
	merge,
	ddl,
	copy_in,
	copy_out,
	begin,
	commit,
	rollback,
	savepoint,
	rollback_to,
	release,
	prepare_transaction, // also COMMIT PREPARED, ROLLBACK PREPARED
	set,
	reset,
	show,
	set_transaction, // SET TRANSACTION, SET SESSION CHARACTERISTICS
	discard,
	prepare,
	execute,
	deallocate,
	declare_cursor,
	fetch, // also MOVE
	close_cursor,
	listen,
	notify,
	unlisten,
	lock,
	explain,
	call,
	do_block,
	utility,  // VACUUM, ANALYZE, CHECKPOINT, GRANT, ...
	multiple, // a batch: `statements` has the parts' flags merged, worst case
};

// Why a statement may not be read from a replica; first reason found.
enum class Read_Veto : uint8_t {
	none, // it is a read
	not_a_query,
	unparsed,
	row_lock,
	modifying_cte,
	select_into,
	volatile_function,
	unknown_function,
	session_function, // pg_backend_pid(), currval(), advisory locks, ...
	explain_of_write,
	server_state, // catalogs or settings that differ by node (SHOW, pg_stat_*, in_hot_standby)
	multi_statement,
	temp_object, // names pg_temp
};

// Things that outlive the statement on its server connection.
enum Sticky_Bit : uint32_t {
	kStickyNone = 0,
	kStickyTempTable = 1u << 0,
	kStickyListen = 1u << 1,
	kStickyHoldCursor = 1u << 2,
	kStickyAdvisoryLock = 1u << 3,
	kStickySet = 1u << 4,     // a SET that cannot be tracked
	kStickyPrepare = 1u << 5, // a PREPARE or EXECUTE the parser has not seen
	kStickyCopy = 1u << 6,
	kStickySequence = 1u << 7, // nextval/setval seen: currval must meet the same session
	kStickySessionFunction = 1u << 8,
	kStickyLoad = 1u << 9,  // LOAD 'library'
	kStickyRule = 1u << 10, // a query rule says multiplex = 0
};

enum class Set_Scope : uint8_t { session, local };

// One SET or RESET with constant values. value absent: DEFAULT / RESET. name "all": RESET ALL.
struct Set_Item {
	std::string name;  // lower case; "timezone" for SET TIME ZONE, "client_encoding" for SET NAMES
	std::string value; // list elements joined with ", ", each quoted as SET needs it; see quoted
	bool has_value = false;
	Set_Scope scope = Set_Scope::session;
};

struct Statement_Class;

enum class Prepared_Verb : uint8_t { prepare, execute, deallocate, deallocate_all, discard_all };

// One naming of a prepared statement in a text.
struct Prepared_Use {
	Prepared_Verb verb = Prepared_Verb::execute;
	bool runs = true; // execute: false when EXPLAIN only plans it
	// execute: what the text itself does besides (functions in the arguments).
	bool may_write = false;
	Read_Veto veto = Read_Veto::none;
	std::string name = {};
	// prepare: the statement's own text, and what runs at EXECUTE.
	std::string text = {};
	std::shared_ptr<const Statement_Class> body = {};
};

enum class Isolation : uint8_t {
	unspecified,
	read_uncommitted,
	read_committed,
	repeatable_read,
	serializable,
};
enum class Access_Mode : uint8_t { unspecified, read_only, read_write };

struct Statement_Class {
	Statement_Kind kind = Statement_Kind::unknown;
	Read_Veto veto = Read_Veto::unparsed;
	// Index into the command names of stats_pgsql_commands_counters.
	uint8_t command = 0;
	// Statements in the text (0 for an empty query).
	uint16_t statement_count = 0;

	// May run on any replica when no transaction is open. REQUIRES for true: veto == none.
	bool is_read() const { return veto == Read_Veto::none; }
	// May have written when it has succeeded: the session's write position must advance.
	bool may_write = true;
	// Calls now(), current_timestamp & co: same value all through a transaction, so inside an open
	// transaction it stays on the transaction's own server.
	bool transaction_time = false;
	bool explain_analyze = false;
	bool returns_rows = false;
	// BEGIN / COMMIT / ROLLBACK ... AND CHAIN.
	bool and_chain = false;
	// DISCARD ALL, or RESET ALL / DEALLOCATE ALL for those kinds.
	bool all = false;
	// kind multiple: a part begins, ends or marks a transaction.
	bool controls_transaction = false;
	// Calls a procedure, or a function of which nothing is known: it may SET what it likes.
	bool calls_unknown = false;
	bool lists_prepared = false; // reads pg_prepared_statements
	// Sends notifications by itself: NOTIFY, pg_notify().
	bool notifies = false;
	// Asks for the channels that the session listens to.
	bool asks_channels = false;

	uint32_t sticky = kStickyNone;      // bits that begin with this statement
	uint32_t sticky_ends = kStickyNone; // bits that end with it (UNLISTEN *, DISCARD TEMP, ...)
	// Bits that may have ended with it, which only the server can tell (CLOSE c, a lock that was
	// not got, DROP of what may be temporary).
	uint32_t sticky_may_end = kStickyNone;

	Isolation isolation = Isolation::unspecified; // BEGIN, SET TRANSACTION
	Access_Mode access_mode = Access_Mode::unspecified;
	bool deferrable = false;

	std::vector<Set_Item> sets;         // kind set/reset, or set_config() with constants
	std::string name;                   // PREPARE/EXECUTE/DEALLOCATE/savepoint/channel/cursor/SHOW
	std::vector<std::string> functions; // as written, lower case, "schema.name" where qualified
	std::vector<std::string> relations; // likewise

	// kind multiple: its statements, when one of them has an effect on the session.
	std::vector<Statement_Class> parts;
	// PREPARE, EXECUTE, DEALLOCATE, DISCARD ALL in the order of the text; EXECUTE also inside
	// EXPLAIN and CREATE TABLE AS.
	std::vector<Prepared_Use> prepared;
	// An EXECUTE whose body is part of this class, see add_executed().
	bool resolved = false;

	// The class depends on literal values, so it may be kept only under the exact text, never
	// under the digest (SET x = v, set_config('x', ...), EXPLAIN (ANALYZE 0), ...).
	bool depends_on_literals = false;
};

// The routing hint in a statement's first comment.
enum class Route_Hint : uint8_t { none, primary, replica, hostgroup };

struct Statement_Hints {
	Route_Hint route = Route_Hint::none;
	int hostgroup = -1;
	bool split_off = false;
	// "eventual", "session", "global" or empty.
	std::string consistency;
	int64_t wait_timeout_ms = -1;
	bool any = false;
};

const char* name_of(Statement_Kind kind);
const char* name_of(Read_Veto veto);

} // namespace proxy
