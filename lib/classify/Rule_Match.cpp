#include "classify/Rule_Match.h"

#include "classify/Rule_Hash.h"

namespace proxy {

bool Rule_Matcher::matches(const Compiled_Rule& rule, const Query_Origin& origin,
                           std::string_view sql, const Statement_Analysis& analysis) const {
	const Query_Rule_Row& row = *rule.row;
	if ((row.username && *row.username != origin.username) ||
	    (row.database && *row.database != origin.database) ||
	    (row.proxy_port && *row.proxy_port != origin.proxy_port) ||
	    (rule.digest && *rule.digest != analysis.digest)) {
		return false;
	}
	if ((rule.client_addr && !rule.client_addr->matches(origin.client_addr)) ||
	    (rule.proxy_addr && !rule.proxy_addr->matches(origin.proxy_addr))) {
		return false;
	}
	const auto found = [](const RE2& expression, std::string_view text) {
		return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), expression);
	};
	if (rule.match_digest != nullptr &&
	    found(*rule.match_digest, analysis.digest_text) == row.negate_match_pattern) {
		return false;
	}
	return rule.match_pattern == nullptr ||
	       found(*rule.match_pattern, sql) != row.negate_match_pattern;
}

void Rule_Matcher::apply(const Compiled_Rule& rule, Query_Processor_Output& output) {
	const Query_Rule_Row& row = *rule.row;
	rule.hits.fetch_add(1, std::memory_order_relaxed);
	output.matched = true;
	output.rule_id = row.rule_id;
	const auto take = [](auto& target, const auto& source) {
		if (source) {
			target = *source;
		}
	};
	if (row.destination_hostgroup) {
		output.destination_hostgroup = *row.destination_hostgroup;
	}
	if (row.destination_hostgroup || row.replica_eligible != -1) {
		output.replica_eligible = row.replica_eligible;
		output.rollout_pct = row.rollout_pct;
	}
	take(output.timeout_ms, row.timeout);
	take(output.delay_ms, row.delay);
	take(output.retries, row.retries);
	take(output.cache_ttl_ms, row.cache_ttl);
	take(output.cache_empty_result, row.cache_empty_result);
	take(output.next_query_flag_in, row.next_query_flag_in);
	take(output.multiplex, row.multiplex);
	take(output.log, row.log);
	take(output.mirror_flag_out, row.mirror_flag_out);
	if (row.mirror_hostgroup) {
		output.mirror_hostgroup = static_cast<int>(*row.mirror_hostgroup);
	}
	if (row.error_msg) {
		output.error_msg = &*row.error_msg;
	}
	if (row.ok_msg) {
		output.ok_msg = &*row.ok_msg;
	}
}

void Rule_Matcher::rewrite(const Compiled_Rule& rule, std::string_view sql,
                           Query_Processor_Output& output) {
	const Query_Rule_Row& row = *rule.row;
	if (!row.replace_pattern || rule.match_pattern == nullptr || row.negate_match_pattern) {
		return;
	}
	if (output.rewritten == nullptr) {
		rewritten_.assign(sql);
	}
	const bool changed =
	    rule.replace_all
	        ? RE2::GlobalReplace(&rewritten_, *rule.match_pattern, *row.replace_pattern) > 0
	        : RE2::Replace(&rewritten_, *rule.match_pattern, *row.replace_pattern);
	if (changed) {
		output.rewritten = &rewritten_;
	}
}

int64_t Rule_Matcher::flag_out(const Compiled_Rule& rule) {
	if (rule.flags_out.empty()) {
		return rule.row->flag_out.value_or(-1);
	}
	// xorshift64: even enough to spread load by weight.
	random_ ^= random_ << 13;
	random_ ^= random_ >> 7;
	random_ ^= random_ << 17;
	uint64_t place = random_ % rule.total_weight;
	for (const Weighted_Flag& flag : rule.flags_out) {
		if (place < flag.weight) {
			return flag.id;
		}
		place -= flag.weight;
	}
	return rule.flags_out.back().id;
}

Query_Processor_Output Rule_Matcher::run(const Query_Rules::Compiled& rules,
                                         const Query_Origin& origin, std::string_view sql,
                                         const Statement_Analysis& analysis) {
	Query_Processor_Output output;
	int64_t flag = origin.flag_in;
	int64_t restarts = 0;
	bool applied = false;
	size_t i = 0;
	while (i < rules.rules.size() && !applied) {
		const Compiled_Rule& rule = *rules.rules[i++];
		const std::string_view text = output.rewritten != nullptr ? *output.rewritten : sql;
		if (rule.row->flag_in != flag || !matches(rule, origin, text, analysis)) {
			continue;
		}
		apply(rule, output);
		rewrite(rule, sql, output);
		applied = rule.row->apply;
		const int64_t out = flag_out(rule);
		if (out >= 0) {
			flag = out;
			if (!applied && restarts < rules.iterations) {
				++restarts;
				i = 0;
			}
		}
	}
	if (!applied) {
		const int hostgroup = rules.fast_route(origin.username, origin.database, flag);
		if (hostgroup >= 0) {
			output.destination_hostgroup = hostgroup;
		}
	}
	return output;
}

int Query_Rules::Compiled::fast_route(std::string_view username, std::string_view database,
                                      int64_t flag) const {
	if (fast_routing.empty()) {
		return -1;
	}
	for (const std::string_view user : {username, std::string_view()}) {
		const auto [first, last] = fast_routing.equal_range(fast_route_hash(user, database, flag));
		for (auto entry = first; entry != last; ++entry) {
			const Fast_Routing_Row& row = config.fast_routing[entry->second];
			if (row.username == user && row.database == database && row.flag_in == flag) {
				return row.destination_hostgroup;
			}
		}
	}
	return -1;
}

} // namespace proxy
