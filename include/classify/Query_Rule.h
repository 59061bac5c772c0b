// pgsql_query_rules, compiled at LOAD into an immutable set that all workers share.
#pragma once

#include "base/Result.h"
#include "config/Config_Rows.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace proxy {

class Query_Rules {
public:
	// Compiles regexes and indexes; the error names each rule that cannot be (rule_id, reason).
	// regex_engine: pgsql-query_processor_regex (1 and 2 both run on RE2; what RE2 lacks is
	// refused with its reason). iterations: pgsql-query_processor_iterations.
	static Result<std::shared_ptr<const Query_Rules>> compile(const Query_Rules_Config& config,
	                                                          int64_t iterations);
	~Query_Rules();

	const Query_Rules_Config& config() const;
	bool empty() const;
	// (rule_id, hits) of the active rules, ascending. Any thread.
	std::vector<std::pair<int64_t, uint64_t>> hits() const;

	struct Compiled; // private to lib/classify
	const Compiled& compiled() const { return *compiled_; }

private:
	Query_Rules();
	std::unique_ptr<Compiled> compiled_;
};

} // namespace proxy
