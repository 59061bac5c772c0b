#include "classify/Rule_Match.h"

#include "base/Clock.h"
#include "classify/Rule_Hash.h"

#include <fmt/format.h>

#include <array>

namespace proxy {

namespace {

// One search is linear, but finding all matches is not: `x.*y|x` reads to the end of the line from
// each x of "xxxx". The rule is the administrator's, the text is the client's.
constexpr int64_t kMaxReplaceUs = 200'000;
// Rules that run again and again may double a text each time.
constexpr size_t kMaxRewrittenBytes = size_t{64} << 20;
constexpr int kMaxGroups = 10; // \0 to \9

// A character that is no match is passed whole.
size_t character_bytes(const RE2& pattern, std::string_view rest) {
	size_t bytes = 1;
	if (pattern.options().encoding() == RE2::Options::EncodingUTF8) {
		while (bytes < rest.size() && (static_cast<uint8_t>(rest[bytes]) & 0xc0) == 0x80) {
			++bytes;
		}
	}
	return bytes;
}

} // namespace

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
	Replaced replaced = Replaced::nothing;
	if (rule.replace_all) {
		replaced = replace_all(*rule.match_pattern, *row.replace_pattern);
	} else if (RE2::Replace(&rewritten_, *rule.match_pattern, *row.replace_pattern)) {
		replaced = rewritten_.size() > kMaxRewrittenBytes ? Replaced::gave_up : Replaced::some;
	}
	if (replaced == Replaced::gave_up) {
		// Sent on as it is, the statement would show what the rule takes out.
		refusal_ =
		    fmt::format("query rule {} cannot rewrite this statement: it takes longer than {} "
		                "ms or becomes longer than {} MB",
		                row.rule_id, kMaxReplaceUs / 1000, kMaxRewrittenBytes >> 20);
		output.error_msg = &refusal_;
	} else if (replaced == Replaced::some) {
		output.rewritten = &rewritten_;
	}
}

// RE2::GlobalReplace with an end to its patience.
Rule_Matcher::Replaced Rule_Matcher::replace_all(const RE2& pattern,
                                                 const std::string& replacement) {
	const int64_t give_up_us = monotonic_us() + kMaxReplaceUs;
	const re2::StringPiece text(rewritten_);
	std::array<re2::StringPiece, kMaxGroups> groups;
	const int group_count = 1 + RE2::MaxSubmatch(replacement);
	std::string result;
	size_t at = 0;
	size_t last_end = std::string::npos;
	bool any = false;
	while (at <= text.size() &&
	       pattern.Match(text, at, text.size(), RE2::UNANCHORED, groups.data(), group_count)) {
		const auto begin = static_cast<size_t>(groups[0].data() - text.data());
		result.append(rewritten_, at, begin - at);
		if (begin == last_end && groups[0].empty()) {
			// An empty match right behind a match is none.
			const size_t bytes =
			    character_bytes(pattern, std::string_view(rewritten_).substr(begin));
			result.append(rewritten_, begin, bytes);
			at = begin + bytes;
			continue;
		}
		pattern.Rewrite(&result, replacement, groups.data(), group_count);
		at = last_end = begin + groups[0].size();
		any = true;
		if (monotonic_us() > give_up_us || result.size() > kMaxRewrittenBytes) {
			return Replaced::gave_up;
		}
	}
	if (!any) {
		return Replaced::nothing;
	}
	if (at < text.size()) {
		result.append(rewritten_, at, std::string::npos);
	}
	rewritten_.swap(result);
	return Replaced::some;
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
		applied = rule.row->apply || output.error_msg == &refusal_;
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
