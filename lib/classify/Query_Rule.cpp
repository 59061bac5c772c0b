#include "classify/Query_Rule.h"

#include "base/Log.h"
#include "classify/Rule_Hash.h"
#include "classify/Rule_Match.h"
#include "classify/Words.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace proxy {

namespace {

struct Modifiers {
	bool caseless = false;
	bool global = false;
};

Modifiers modifiers_of(std::string_view text) {
	Modifiers result;
	size_t at = 0;
	while (at <= text.size()) {
		const size_t comma = std::min(text.find(',', at), text.size());
		std::string_view word = text.substr(at, comma - at);
		while (!word.empty() && word.front() == ' ') {
			word.remove_prefix(1);
		}
		while (!word.empty() && word.back() == ' ') {
			word.remove_suffix(1);
		}
		result.caseless = result.caseless || same_word(word, "caseless");
		result.global = result.global || same_word(word, "global");
		at = comma + 1;
	}
	return result;
}

// 0x and up to 16 hex digits, or decimal.
std::optional<uint64_t> parse_digest(std::string_view text) {
	const bool hex = text.size() > 2 && text[0] == '0' && lower_ascii(text[1]) == 'x';
	if (hex) {
		text.remove_prefix(2);
	}
	uint64_t value = 0;
	const auto [end, error] =
	    std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
	if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
		return std::nullopt;
	}
	return value;
}

// {"flagOUTs":[{"id":1000,"weight":10},...]}: members that are no such pair are logged and left
// out, as ProxySQL does.
void parse_attributes(const Query_Rule_Row& row, Compiled_Rule& rule) {
	if (row.attributes.empty()) {
		return;
	}
	const nlohmann::json json = nlohmann::json::parse(row.attributes, nullptr, false);
	if (!json.is_object() || !json.contains("flagOUTs")) {
		return;
	}
	const nlohmann::json& list = json["flagOUTs"];
	if (!list.is_array()) {
		log_warning("Failed to parse flagOUTs in attributes of query rule {}: not a list",
		            row.rule_id);
		return;
	}
	for (const nlohmann::json& item : list) {
		const bool valid = item.is_object() && item.contains("id") && item.contains("weight") &&
		                   item["id"].is_number_unsigned() && item["weight"].is_number_unsigned();
		const uint64_t id = valid ? item["id"].get<uint64_t>() : 0;
		const uint64_t weight = valid ? item["weight"].get<uint64_t>() : 0;
		if (!valid || id > INT32_MAX || weight > INT32_MAX) {
			log_warning("Failed to parse flagOUTs in attributes of query rule {}: \"id\" and "
			            "\"weight\" must be unsigned numbers",
			            row.rule_id);
			continue;
		}
		if (weight > 0) {
			rule.flags_out.push_back({static_cast<int64_t>(id), weight});
			rule.total_weight += weight;
		}
	}
}

class Rule_Compiler {
public:
	Rule_Compiler(const Query_Rule_Row& row, std::string& errors) : row_(row), errors_(errors) {}

	std::unique_ptr<Compiled_Rule> compile() {
		auto rule = std::make_unique<Compiled_Rule>();
		rule->row = &row_;
		const Modifiers modifiers = modifiers_of(row_.re_modifiers);
		rule->replace_all = modifiers.global;
		rule->match_digest = expression("match_digest", row_.match_digest, modifiers);
		rule->match_pattern = expression("match_pattern", row_.match_pattern, modifiers);
		rule->client_addr = address("client_addr", row_.client_addr, true);
		rule->proxy_addr = address("proxy_addr", row_.proxy_addr, false);
		if (row_.digest) {
			rule->digest = parse_digest(*row_.digest);
			if (!rule->digest) {
				fail("digest", "\"" + *row_.digest + "\" is neither 0x... nor a decimal number");
			}
		}
		std::string reason;
		if (row_.replace_pattern && rule->match_pattern != nullptr &&
		    !rule->match_pattern->CheckRewriteString(*row_.replace_pattern, &reason)) {
			fail("replace_pattern", reason);
		}
		parse_attributes(row_, *rule);
		return rule;
	}

private:
	void fail(std::string_view column, std::string_view reason) {
		errors_.append(errors_.empty() ? "" : "; ")
		    .append("rule_id ")
		    .append(std::to_string(row_.rule_id))
		    .append(": ")
		    .append(column)
		    .append(": ")
		    .append(reason);
	}

	std::unique_ptr<RE2> expression(std::string_view column,
	                                const std::optional<std::string>& pattern,
	                                const Modifiers& modifiers) {
		if (!pattern) {
			return nullptr;
		}
		RE2::Options options;
		options.set_log_errors(false);
		options.set_case_sensitive(!modifiers.caseless);
		auto made = std::make_unique<RE2>(*pattern, options);
		if (!made->ok()) {
			fail(column, made->error());
		}
		return made;
	}

	std::optional<Address_Match> address(std::string_view column,
	                                     const std::optional<std::string>& text, bool patterns) {
		if (!text) {
			return std::nullopt;
		}
		Result<Address_Match> parsed = Address_Match::parse(*text, patterns);
		if (!parsed) {
			fail(column, parsed.error().message);
			return std::nullopt;
		}
		return parsed.take();
	}

	const Query_Rule_Row& row_;
	std::string& errors_;
};

} // namespace

Query_Rules::Query_Rules() : compiled_(std::make_unique<Compiled>()) {}
Query_Rules::~Query_Rules() = default;

Result<std::shared_ptr<const Query_Rules>> Query_Rules::compile(const Query_Rules_Config& config,
                                                                int64_t iterations) {
	// A local class may call the private constructor, so that make_shared can build one.
	struct Made : Query_Rules {};
	const std::shared_ptr<Query_Rules> made = std::make_shared<Made>();
	Compiled& compiled = *made->compiled_;
	compiled.config = config;
	compiled.iterations = iterations;
	std::string errors;
	for (const Query_Rule_Row& row : compiled.config.rules) {
		if (row.active) {
			compiled.rules.push_back(Rule_Compiler(row, errors).compile());
		}
	}
	if (!errors.empty()) {
		return make_error("22023", "query rules cannot be loaded: " + errors);
	}
	std::stable_sort(
	    compiled.rules.begin(), compiled.rules.end(),
	    [](const auto& a, const auto& b) { return a->row->rule_id < b->row->rule_id; });
	for (size_t i = 0; i < compiled.config.fast_routing.size(); ++i) {
		const Fast_Routing_Row& row = compiled.config.fast_routing[i];
		compiled.fast_routing.emplace(fast_route_hash(row.username, row.database, row.flag_in), i);
	}
	return std::shared_ptr<const Query_Rules>(made);
}

const Query_Rules_Config& Query_Rules::config() const {
	return compiled_->config;
}

bool Query_Rules::empty() const {
	return compiled_->rules.empty() && compiled_->config.fast_routing.empty();
}

std::vector<std::pair<int64_t, uint64_t>> Query_Rules::hits() const {
	std::vector<std::pair<int64_t, uint64_t>> result;
	result.reserve(compiled_->rules.size());
	for (const std::unique_ptr<Compiled_Rule>& rule : compiled_->rules) {
		result.emplace_back(rule->row->rule_id, rule->hits.load(std::memory_order_relaxed));
	}
	return result;
}

} // namespace proxy
