// The compiled form of pgsql_query_rules and the run over it. The compiled rules are shared by
// all workers and never change but for their hit counters; a Rule_Matcher belongs to one worker.
#pragma once

#include "base/Ip_Address.h"
#include "classify/Query_Processor.h"
#include "classify/Query_Rule.h"

#include <re2/re2.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace proxy {

// An address condition: exact, LIKE pattern (% and _), or a list of networks.
class Address_Match {
public:
	// Networks a rule may list.
	static constexpr size_t kMaxNetworks = 64;

	// Error: what is wrong with the text. `patterns`: % and _ are wildcards.
	static Result<Address_Match> parse(std::string_view text, bool patterns);
	bool matches(std::string_view address) const;

private:
	std::string text_;
	bool wildcard_ = false;
	std::vector<Ip_Network> networks_;
};

// One of a rule's weighted ways on.
struct Weighted_Flag {
	int64_t id = 0;
	uint64_t weight = 0;
};

struct Compiled_Rule {
	const Query_Rule_Row* row = nullptr;
	std::optional<Address_Match> client_addr;
	std::optional<Address_Match> proxy_addr;
	std::optional<uint64_t> digest;
	std::unique_ptr<RE2> match_digest;
	std::unique_ptr<RE2> match_pattern;
	bool replace_all = false;
	std::vector<Weighted_Flag> flags_out;
	uint64_t total_weight = 0;
	mutable std::atomic<uint64_t> hits{0}; // relaxed: a counter, nothing hangs on its order
};

struct Query_Rules::Compiled {
	Query_Rules_Config config;
	int64_t iterations = 0;
	std::vector<std::unique_ptr<Compiled_Rule>> rules; // active, by rule_id
	// Hash of (username, database, flagIN) -> index in config.fast_routing.
	std::unordered_multimap<uint64_t, size_t> fast_routing;

	// Hostgroup of the fast routing table, or -1.
	int fast_route(std::string_view username, std::string_view database, int64_t flag) const;
};

class Rule_Matcher {
public:
	Query_Processor_Output run(const Query_Rules::Compiled& rules, const Query_Origin& origin,
	                           std::string_view sql, const Statement_Analysis& analysis);

private:
	bool matches(const Compiled_Rule& rule, const Query_Origin& origin, std::string_view sql,
	             const Statement_Analysis& analysis) const;
	void apply(const Compiled_Rule& rule, Query_Processor_Output& output);
	void rewrite(const Compiled_Rule& rule, std::string_view sql, Query_Processor_Output& output);
	// Replaces every match in rewritten_.
	enum class Replaced : uint8_t { nothing, some, gave_up };
	Replaced replace_all(const RE2& pattern, const std::string& replacement);
	// The flag to go on with, or -1.
	int64_t flag_out(const Compiled_Rule& rule);

	std::string rewritten_;
	std::string refusal_;                   // why a statement could not be rewritten
	uint64_t random_ = 0x9e3779b97f4a7c15u; // state of the generator for weighted flags
};

} // namespace proxy
