// One worker's view of the query text: digest, class, hints and rules, with bounded caches.
//
// Owned by one worker, used on its thread only, except Query_Digest_Stats (see there).
#pragma once

#include "classify/Query_Rule.h"
#include "classify/Statement_Class.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace proxy {

class Function_Safety;

// Normalisation options (pgsql-query_digests_*), copied from the configuration by the worker.
struct Digest_Options {
	bool lowercase = false;
	bool replace_null = false;
	bool no_digits = false;
	bool keep_comment = false;
	int grouping_limit = 3;
	int groups_grouping_limit = 10;
	int max_digest_length = 2048; // bytes
	int max_query_length = 65000; // bytes
	bool operator==(const Digest_Options&) const = default;
};

// What is known about one statement text. Valid until the next call of analyse() on the same
// processor unless held by shared_ptr (prepared statements hold it).
struct Statement_Analysis {
	uint64_t digest = 0;
	std::string digest_text;
	Statement_Class statement;
};
using Statement_Analysis_Ptr = std::shared_ptr<const Statement_Analysis>;

// The session's facts that rules can match.
struct Query_Origin {
	std::string_view username;
	std::string_view database;
	std::string_view client_addr;
	std::string_view proxy_addr;
	int proxy_port = 0;
	int64_t flag_in = 0; // next_query_flagIN of the statement before, else 0
};

// Outcome of the rules, in ProxySQL's terms. -1 / empty: not set by any rule.
struct Query_Processor_Output {
	int destination_hostgroup = -1;
	int replica_eligible = -1;
	// Share of sessions, in percent, to which replica_eligible applies (canary).
	int rollout_pct = 100;
	bool matched = false;
	int64_t rule_id = -1; // last matching rule
	int64_t timeout_ms = -1;
	int64_t delay_ms = -1;
	int64_t retries = -1;
	int64_t cache_ttl_ms = -1;
	int cache_empty_result = -1;
	int64_t next_query_flag_in = -1;
	int multiplex = -1;
	int log = -1;
	int mirror_hostgroup = -1;
	int64_t mirror_flag_out = -1;
	// Views into the rule set, which the processor keeps alive.
	const std::string* error_msg = nullptr;
	const std::string* ok_msg = nullptr;
	// The statement after replace_pattern; nullptr: unchanged. Valid until the next call.
	const std::string* rewritten = nullptr;
};

class Query_Processor {
public:
	Query_Processor();
	~Query_Processor();
	Query_Processor(const Query_Processor&) = delete;
	Query_Processor& operator=(const Query_Processor&) = delete;

	void set_options(const Digest_Options& options);
	// Entries and bytes the statement cache may hold. Defaults 10,000 entries, 16 MiB.
	void set_cache_limits(size_t entries, size_t bytes);
	// Takes new knowledge about functions; what was classified by the old one is forgotten.
	void set_function_safety(std::shared_ptr<const Function_Safety> functions);
	// Takes the new rule set; hits of the rules are counted inside it (shared, atomic).
	void set_rules(std::shared_ptr<const Query_Rules> rules);

	// Digest and class of `sql` (no trailing NUL). `standard_conforming_strings` is the session's.
	// Never fails: what cannot be parsed is Statement_Kind::unknown. One hash look-up when the
	// digest (or, where literals matter, the text) is known.
	const Statement_Analysis_Ptr& analyse(std::string_view sql, bool standard_conforming_strings);

	// Hints in the first comment of `sql`, at its beginning or behind its first word.
	Statement_Hints hints(std::string_view sql) const;

	Query_Processor_Output process(const Query_Origin& origin, std::string_view sql,
	                               const Statement_Analysis& analysis);

	struct Cache_Stats {
		uint64_t hits = 0;
		uint64_t misses = 0;
		size_t entries = 0;
		size_t bytes = 0;
	};
	Cache_Stats cache_stats() const;

private:
	struct Impl;
	std::unique_ptr<Impl> impl_;
};

} // namespace proxy
