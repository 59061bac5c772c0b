// Prepared statements of all clients: equal text and parameter types are one statement with one
// name on every server connection. The name is never used for anything else (bug bank BB-086).
//
// A statement stays known while a client holds it, and beyond that while it is among the last used
// ones (pgsql-max_stmts_cache): Parse, Close, Parse meets the plan that the servers have already.
//
// Shared by all workers: sharded maps (rank 40), one look-up a Parse, none per execution. Each call
// takes constant time but list(): what goes is the oldest entry, and a statement that its last
// client gives up takes its own entry along.
#pragma once

#include "base/Lru_Map.h"
#include "base/Mutex.h"
#include "classify/Query_Processor.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace proxy {

struct Prepared_Statement {
	uint64_t id = 0;
	std::string name;            // on the servers: the proxy's, or for by_sql the client's own
	std::string sql;             // by_sql: all of the PREPARE
	std::string parameter_types; // wire form
	Statement_Analysis_Ptr analysis;
	// The session parameters under which literals of the text were, and are to be, read.
	uint64_t meaning = 0;
	bool by_sql = false;

	size_t memory_bytes() const {
		return sizeof(*this) + name.capacity() + sql.capacity() + parameter_types.capacity();
	}
};
using Prepared_Statement_Ptr = std::shared_ptr<const Prepared_Statement>;

// Names that begin like this belong to the proxy; a client cannot reach them.
inline constexpr std::string_view kStatementPrefix = "polar_ps_";

class PgSQL_STMT_Manager {
public:
	PgSQL_STMT_Manager();
	~PgSQL_STMT_Manager();
	PgSQL_STMT_Manager(const PgSQL_STMT_Manager&) = delete;
	PgSQL_STMT_Manager& operator=(const PgSQL_STMT_Manager&) = delete;

	// The statement for this text; makes it when it is new. `analysis` is the caller's; `meaning`
	// its Parameter_Set::meaning_hash(): a server resolves literals ('01/02/2024'::date) when it
	// parses, by the parameters of that moment. A text with a literal that means the time of the
	// Parse ('now'), or that names other prepared statements, is never shared.
	Prepared_Statement_Ptr get(std::string_view sql, std::string_view parameter_types,
	                           const Statement_Analysis_Ptr& analysis, uint64_t meaning);
	// The same for PREPARE `name`, of which `sql` is the whole text and `analysis` says what its
	// body is.
	Prepared_Statement_Ptr get_by_sql(std::string_view name, std::string_view sql,
	                                  const Statement_Analysis_Ptr& analysis, uint64_t meaning);

	// Statements kept although no client holds them (pgsql-max_stmts_cache).
	void set_limit(size_t statements);

	// All statements that are known, for stats_pgsql_prepared_statements_info, with the number of
	// their holders.
	std::vector<std::pair<Prepared_Statement_Ptr, long>> list() const;
	size_t size() const;
	size_t memory_bytes() const;
	// Names one unnamed statement of one session, so that a server connection can tell whose it
	// holds. Never 0, never twice.
	uint64_t next_unnamed_id() { return unnamed_id_.fetch_add(1, std::memory_order_relaxed) + 1; }
	uint64_t last_id() const { return next_id_.load(std::memory_order_relaxed); }

private:
	static constexpr size_t kShards = 16;
	struct Shard;
	struct Wanted; // what a statement is looked up by
	Prepared_Statement_Ptr find_or_make(const Wanted& wanted);
	std::shared_ptr<Prepared_Statement> make(const Wanted& wanted);

	// Shared with the statements, whose ends may come after the manager's.
	std::array<std::shared_ptr<Shard>, kShards> shards_;
	// Relaxed: only uniqueness counts.
	std::atomic<uint64_t> next_id_{0};
	std::atomic<uint64_t> unnamed_id_{0};
};

} // namespace proxy
