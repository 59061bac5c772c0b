// Prepared statements of all clients: equal text and parameter types are one statement with one
// name on every server connection. The name is never used for anything else (bug bank BB-086).
//
// Shared by all workers: sharded maps (rank 40), one look-up a Parse, none per execution.
#pragma once

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
	std::string name; // on the servers
	std::string sql;
	std::string parameter_types; // wire form
	Statement_Analysis_Ptr analysis;
	// The session parameters under which literals of the text were, and are to be, read.
	uint64_t meaning = 0;
};
using Prepared_Statement_Ptr = std::shared_ptr<const Prepared_Statement>;

// Names that begin like this belong to the proxy; a client cannot reach them.
inline constexpr std::string_view kStatementPrefix = "polar_ps_";

class PgSQL_STMT_Manager {
public:
	// The statement for this text; makes it when it is new. `analysis` is the caller's; `meaning`
	// its Parameter_Set::meaning_hash(): a server resolves literals ('01/02/2024'::date) when it
	// parses, by the parameters of that moment. A text with a literal that means the time of the
	// Parse ('now') is never shared.
	Prepared_Statement_Ptr get(std::string_view sql, std::string_view parameter_types,
	                           const Statement_Analysis_Ptr& analysis, uint64_t meaning);

	// Statements some client still holds, for stats_pgsql_prepared_statements_info: statement and
	// number of holders.
	std::vector<std::pair<Prepared_Statement_Ptr, long>> list() const;
	// Names one unnamed statement of one session, so that a server connection can tell whose it
	// holds. Never 0, never twice.
	uint64_t next_unnamed_id() { return unnamed_id_.fetch_add(1, std::memory_order_relaxed) + 1; }
	uint64_t last_id() const { return next_id_.load(std::memory_order_relaxed); }

private:
	static constexpr size_t kShards = 16;
	struct Shard {
		mutable Mutex mutex{Lock_Rank::shared_maps};
		std::unordered_map<std::string, std::weak_ptr<const Prepared_Statement>>
		    statements GUARDED_BY(mutex);
		size_t prune_at GUARDED_BY(mutex) = 64;
	};
	static void prune(Shard& shard) REQUIRES(shard.mutex);

	std::array<Shard, kShards> shards_;
	// Relaxed: only uniqueness counts.
	std::atomic<uint64_t> next_id_{0};
	std::atomic<uint64_t> unnamed_id_{0};
};

} // namespace proxy
