// Query rules: each condition, each effect, the chain of flags, and what is refused at LOAD.
#include "base/Clock.h"
#include "classify/Query_Processor.h"

#include <re2/re2.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

using namespace proxy;

namespace {

Query_Rule_Row rule(int64_t id) {
	Query_Rule_Row row;
	row.rule_id = id;
	row.active = true;
	return row;
}

// A processor with rules, and a session to ask from.
class Fixture {
public:
	explicit Fixture(std::vector<Query_Rule_Row> rules, int64_t iterations = 0,
	                 std::vector<Fast_Routing_Row> fast = {}) {
		Query_Rules_Config config;
		config.rules = std::move(rules);
		config.fast_routing = std::move(fast);
		auto compiled = Query_Rules::compile(config, iterations);
		REQUIRE(compiled.ok());
		rules_ = compiled.take();
		processor_.set_rules(rules_);
		origin.username = "app";
		origin.database = "shop";
		origin.client_addr = "10.1.2.3";
		origin.proxy_addr = "127.0.0.1";
		origin.proxy_port = 6133;
	}

	Query_Processor_Output ask(std::string_view sql) {
		const Statement_Analysis_Ptr analysis = processor_.analyse(sql, true);
		return processor_.process(origin, sql, *analysis);
	}
	uint64_t hits(int64_t id) const {
		for (const auto& [rule_id, count] : rules_->hits()) {
			if (rule_id == id) {
				return count;
			}
		}
		return 0;
	}
	uint64_t digest_of(std::string_view sql) { return processor_.analyse(sql, true)->digest; }

	Query_Origin origin;

private:
	std::shared_ptr<const Query_Rules> rules_;
	Query_Processor processor_;
};

std::string refusal(const Query_Rule_Row& row) {
	Query_Rules_Config config;
	config.rules.push_back(row);
	const auto compiled = Query_Rules::compile(config, 0);
	return compiled.ok() ? "" : compiled.error().message;
}

} // namespace

TEST_CASE("no rules, no outcome") {
	Fixture empty({});
	const Query_Processor_Output output = empty.ask("SELECT 1");
	CHECK_FALSE(output.matched);
	CHECK(output.destination_hostgroup == -1);
	CHECK(output.rule_id == -1);
	CHECK(output.rewritten == nullptr);
	Query_Rule_Row inactive = rule(1);
	inactive.active = false;
	inactive.destination_hostgroup = 5;
	Fixture sleeping({inactive});
	CHECK_FALSE(sleeping.ask("SELECT 1").matched);
}

TEST_CASE("each condition can keep a rule from matching") {
	const auto matches = [](const Query_Rule_Row& row, const Query_Origin* origin = nullptr,
	                        std::string_view sql = "SELECT a FROM t WHERE a = 1") {
		Fixture fixture({row});
		if (origin != nullptr) {
			fixture.origin = *origin;
		}
		return fixture.ask(sql).matched;
	};
	CHECK(matches(rule(1)));
	Query_Rule_Row row = rule(1);
	row.username = "app";
	CHECK(matches(row));
	row.username = "App";
	CHECK_FALSE(matches(row));
	row = rule(1);
	row.database = "shop";
	CHECK(matches(row));
	row.database = "";
	CHECK_FALSE(matches(row));
	row = rule(1);
	row.proxy_port = 6133;
	CHECK(matches(row));
	row.proxy_port = 6134;
	CHECK_FALSE(matches(row));
	row = rule(1);
	row.proxy_addr = "127.0.0.1";
	CHECK(matches(row));
	row.proxy_addr = "127.0.0.%";
	CHECK_FALSE(matches(row));
	row.proxy_addr = "127.0.0.0/8";
	CHECK(matches(row));
	row = rule(1);
	row.flag_in = 3;
	CHECK_FALSE(matches(row));
	Query_Origin flagged;
	flagged.flag_in = 3;
	CHECK(matches(row, &flagged));
	row = rule(1);
	row.match_digest = "where a = \\?$";
	CHECK(matches(row));
	row.re_modifiers = "";
	CHECK_FALSE(matches(row));
	row.match_digest = "a = 1";
	CHECK_FALSE(matches(row));
	row = rule(1);
	row.match_pattern = "A = 1";
	CHECK(matches(row));
	row.match_pattern = "^a";
	CHECK_FALSE(matches(row));
	row.negate_match_pattern = true;
	CHECK(matches(row));
	row.username = "nobody";
	CHECK_FALSE(matches(row));
	row = rule(1);
	row.match_digest = "SELECT";
	row.match_pattern = "SELECT";
	row.negate_match_pattern = true;
	CHECK_FALSE(matches(row));
}

TEST_CASE("a digest is given in hex or decimal") {
	Fixture empty({});
	const std::string_view sql = "SELECT a FROM t WHERE a = 1";
	const uint64_t digest = empty.digest_of(sql);
	char hex[32];
	snprintf(hex, sizeof(hex), "0x%016llX", static_cast<unsigned long long>(digest));
	for (const std::string& text : {std::string(hex), std::to_string(digest)}) {
		Query_Rule_Row row = rule(1);
		row.digest = text;
		Fixture fixture({row});
		CHECK(fixture.ask(sql).matched);
		CHECK(fixture.ask("SELECT a FROM t WHERE a = 2").matched);
		CHECK_FALSE(fixture.ask("SELECT b FROM t WHERE a = 2").matched);
	}
}

TEST_CASE("client addresses match exactly, by pattern or by network") {
	struct Row {
		const char* rule;
		const char* client;
		bool matches;
	};
	static constexpr Row kRows[] = {
	    {"10.1.2.3", "10.1.2.3", true},
	    {"10.1.2.3", "10.1.2.33", false},
	    {"10.1.2.%", "10.1.2.33", true},
	    {"10.1.2.%", "10.1.3.33", false},
	    {"%", "10.1.2.3", true},
	    {"%", "", true},
	    {"10.1.2._", "10.1.2.3", true},
	    {"10.1.2._", "10.1.2.33", false},
	    {"10.%.3", "10.1.2.3", true},
	    {"10.0.0.0/8", "10.1.2.3", true},
	    {"10.0.0.0/8", "11.1.2.3", false},
	    {"10.1.2.3/8", "10.200.2.3", true},
	    {"10.1.2.3/32", "10.1.2.3", true},
	    {"10.1.2.3/32", "10.1.2.2", false},
	    {"10.1.2.2/31", "10.1.2.3", true},
	    {"0.0.0.0/0", "1.2.3.4", true},
	    {"0.0.0.0/0", "::1", false},
	    {"::/0", "::1", true},
	    {"192.168.0.0/16, 10.0.0.0/8", "10.1.2.3", true},
	    {"192.168.0.0/16,2001:db8::/32", "2001:db8::5", true},
	    {"192.168.0.0/16,2001:db8::/32", "2001:db9::5", false},
	    {"10.0.0.0/8", "::ffff:10.1.2.3", true},
	    {"10.0.0.0/8", "", false},
	    {"10.0.0.0/8", "not an address", false},
	    {"10.1.2.3,10.1.2.4", "10.1.2.4", true},
	};
	for (const Row& row : kRows) {
		INFO(row.rule << " / " << row.client);
		Query_Rule_Row conditions = rule(1);
		conditions.client_addr = row.rule;
		Fixture fixture({conditions});
		fixture.origin.client_addr = row.client;
		CHECK(fixture.ask("SELECT 1").matched == row.matches);
	}
}

TEST_CASE("rules that cannot work are refused with their reason") {
	Query_Rule_Row row = rule(7);
	row.match_pattern = "(?=lookahead)";
	CHECK(refusal(row).find("rule_id 7: match_pattern: invalid perl operator") !=
	      std::string::npos);
	row = rule(8);
	row.match_digest = "(a)\\1";
	CHECK(refusal(row).find("rule_id 8: match_digest") != std::string::npos);
	row = rule(9);
	row.match_pattern = "(a)";
	row.replace_pattern = "\\2";
	CHECK(refusal(row).find("rule_id 9: replace_pattern") != std::string::npos);
	row = rule(10);
	row.digest = "0xZZ";
	CHECK(refusal(row).find("rule_id 10: digest") != std::string::npos);
	for (const char* address : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8,x",
	                            "10.0.0.0/8,", "300.0.0.0/8", "::/129", "10.0.0.0/8/9"}) {
		row = rule(11);
		row.client_addr = address;
		INFO(address);
		CHECK(refusal(row).find("rule_id 11: client_addr") != std::string::npos);
	}
	std::string many = "10.0.0.0/8";
	for (int i = 0; i < 64; ++i) {
		many += ",10.0.0.0/8";
	}
	row.client_addr = many;
	CHECK(refusal(row).find("networks") != std::string::npos);
	row.active = false;
	CHECK(refusal(row).empty());
	Query_Rules_Config two;
	two.rules = {rule(1), rule(2)};
	two.rules[0].match_pattern = "(";
	two.rules[1].match_pattern = "[";
	const auto compiled = Query_Rules::compile(two, 0);
	REQUIRE_FALSE(compiled.ok());
	CHECK(compiled.error().message.find("rule_id 1") != std::string::npos);
	CHECK(compiled.error().message.find("rule_id 2") != std::string::npos);
}

TEST_CASE("later rules overwrite what earlier ones set, and apply ends the run") {
	Query_Rule_Row first = rule(10);
	first.destination_hostgroup = 1;
	first.timeout = 100;
	first.retries = 2;
	first.cache_ttl = 500;
	first.replica_eligible = 1;
	first.rollout_pct = 25;
	Query_Rule_Row second = rule(20);
	second.destination_hostgroup = 2;
	second.delay = 30;
	second.next_query_flag_in = 4;
	second.multiplex = 0;
	second.log = 1;
	second.mirror_hostgroup = 9;
	second.mirror_flag_out = 8;
	second.cache_empty_result = 1;
	second.apply = true;
	Query_Rule_Row third = rule(30);
	third.destination_hostgroup = 3;
	Fixture fixture({third, second, first}); // the order is by rule_id
	const Query_Processor_Output output = fixture.ask("SELECT 1");
	CHECK(output.matched);
	CHECK(output.rule_id == 20);
	CHECK(output.destination_hostgroup == 2);
	CHECK(output.replica_eligible == -1);
	CHECK(output.rollout_pct == 100);
	CHECK(output.timeout_ms == 100);
	CHECK(output.retries == 2);
	CHECK(output.cache_ttl_ms == 500);
	CHECK(output.cache_empty_result == 1);
	CHECK(output.delay_ms == 30);
	CHECK(output.next_query_flag_in == 4);
	CHECK(output.multiplex == 0);
	CHECK(output.log == 1);
	CHECK(output.mirror_hostgroup == 9);
	CHECK(output.mirror_flag_out == 8);
	CHECK(fixture.hits(10) == 1);
	CHECK(fixture.hits(20) == 1);
	CHECK(fixture.hits(30) == 0);
}

TEST_CASE("replica_eligible and its share of sessions come with the rule that sets them") {
	Query_Rule_Row first = rule(1);
	first.destination_hostgroup = 1;
	Query_Rule_Row second = rule(2);
	second.replica_eligible = 1;
	second.rollout_pct = 10;
	const Query_Processor_Output output = Fixture({first, second}).ask("SELECT 1");
	CHECK(output.destination_hostgroup == 1);
	CHECK(output.replica_eligible == 1);
	CHECK(output.rollout_pct == 10);
}

TEST_CASE("messages are answered from the rule") {
	Query_Rule_Row row = rule(1);
	row.error_msg = "no";
	Query_Rule_Row ok = rule(2);
	ok.ok_msg = "";
	Fixture fixture({row, ok});
	const Query_Processor_Output output = fixture.ask("SELECT 1");
	REQUIRE(output.error_msg != nullptr);
	CHECK(*output.error_msg == "no");
	REQUIRE(output.ok_msg != nullptr);
	CHECK(output.ok_msg->empty());
}

TEST_CASE("flags lead from rule to rule") {
	Query_Rule_Row enter = rule(10);
	enter.match_pattern = "^SELECT";
	enter.flag_out = 5;
	Query_Rule_Row skipped = rule(20);
	skipped.destination_hostgroup = 1;
	Query_Rule_Row inside = rule(30);
	inside.flag_in = 5;
	inside.destination_hostgroup = 2;
	Fixture fixture({enter, skipped, inside});
	CHECK(fixture.ask("SELECT 1").destination_hostgroup == 2);
	CHECK(fixture.ask("UPDATE t SET a = 1").destination_hostgroup == 1);
	// Without iterations only later rules are looked at.
	Query_Rule_Row back = rule(5);
	back.flag_in = 5;
	back.destination_hostgroup = 3;
	CHECK(Fixture({enter, back}, 0).ask("SELECT 1").destination_hostgroup == -1);
	CHECK(Fixture({enter, back}, 1).ask("SELECT 1").destination_hostgroup == 3);
	// A circle ends with the iterations.
	Query_Rule_Row circle = rule(1);
	circle.flag_out = 0;
	Fixture circular({circle}, 10);
	CHECK(circular.ask("SELECT 1").matched);
	CHECK(circular.hits(1) == 11);
}

TEST_CASE("weighted flags spread the load") {
	Query_Rule_Row spread = rule(1);
	spread.flag_out = 99; // not used when there are weights
	spread.attributes = R"({"flagOUTs":[{"id":1,"weight":90},{"id":2,"weight":10},
	                        {"id":3,"weight":0},{"id":-1,"weight":5},{"weight":1},"x"]})";
	std::vector<Query_Rule_Row> rules{spread};
	for (int id : {1, 2, 3, 99}) {
		Query_Rule_Row target = rule(10 + id);
		target.flag_in = id;
		target.destination_hostgroup = id;
		rules.push_back(target);
	}
	Fixture fixture(rules);
	std::map<int, int> counts;
	for (int i = 0; i < 10000; ++i) {
		++counts[fixture.ask("SELECT 1").destination_hostgroup];
	}
	CHECK(counts.size() == 2);
	CHECK(counts[1] > 8700);
	CHECK(counts[2] > 700);
	Query_Rule_Row broken = rule(1);
	broken.flag_out = 4;
	broken.attributes = R"({"flagOUTs":{"id":1}})";
	Query_Rule_Row target = rule(2);
	target.flag_in = 4;
	target.destination_hostgroup = 8;
	CHECK(Fixture({broken, target}).ask("SELECT 1").destination_hostgroup == 8);
}

TEST_CASE("statements are rewritten with their groups") {
	Query_Rule_Row row = rule(1);
	row.match_pattern = "FROM (\\w+)_old";
	row.replace_pattern = "FROM \\1_new";
	Fixture once({row});
	const std::string_view sql = "SELECT * FROM a_old, (SELECT 1 FROM b_old) x";
	Query_Processor_Output output = once.ask(sql);
	REQUIRE(output.rewritten != nullptr);
	CHECK(*output.rewritten == "SELECT * FROM a_new, (SELECT 1 FROM b_old) x");
	row.re_modifiers = "CASELESS,GLOBAL";
	Fixture all({row});
	output = all.ask(sql);
	REQUIRE(output.rewritten != nullptr);
	CHECK(*output.rewritten == "SELECT * FROM a_new, (SELECT 1 FROM b_new) x");
	CHECK(all.ask("SELECT 1").rewritten == nullptr);
	// A later rule sees the new text.
	Query_Rule_Row next = rule(2);
	next.match_pattern = "a_new";
	next.destination_hostgroup = 4;
	Fixture chained({row, next});
	CHECK(chained.ask(sql).destination_hostgroup == 4);
	row.negate_match_pattern = true;
	CHECK(Fixture({row}).ask("SELECT 1").rewritten == nullptr);
}

TEST_CASE("fast routing decides when no rule was applied") {
	const std::vector<Fast_Routing_Row> fast = {
	    {"app", "shop", 0, 11, ""}, {"", "shop", 0, 12, ""}, {"app", "shop", 5, 13, ""}};
	CHECK(Fixture({}, 0, fast).ask("SELECT 1").destination_hostgroup == 11);
	Fixture other({}, 0, fast);
	other.origin.username = "other";
	CHECK(other.ask("SELECT 1").destination_hostgroup == 12);
	other.origin.database = "elsewhere";
	CHECK(other.ask("SELECT 1").destination_hostgroup == -1);
	Query_Rule_Row row = rule(1);
	row.destination_hostgroup = 1;
	CHECK(Fixture({row}, 0, fast).ask("SELECT 1").destination_hostgroup == 11);
	row.apply = true;
	CHECK(Fixture({row}, 0, fast).ask("SELECT 1").destination_hostgroup == 1);
	row.apply = false;
	row.flag_out = 5;
	CHECK(Fixture({row}, 0, fast).ask("SELECT 1").destination_hostgroup == 13);
}

TEST_CASE("the configuration comes back as it went in") {
	Query_Rules_Config config;
	config.rules = {rule(3), rule(1)};
	config.rules[0].active = false;
	auto compiled = Query_Rules::compile(config, 0);
	REQUIRE(compiled.ok());
	const auto rules = compiled.take();
	CHECK(rules->config().rules.size() == 2);
	CHECK(rules->hits().size() == 1);
	CHECK_FALSE(rules->empty());
}

TEST_CASE("all matches are replaced as RE2 itself does") {
	const std::string texts[] = {"",
	                             "a",
	                             "aaa",
	                             "abcabc",
	                             "xyz x y z",
	                             "\n\n",
	                             "a\xc3\xa4",
	                             "\xc3\xa4"
	                             "a",
	                             "\xff\xfe a a",
	                             "aXbXc"};
	for (const char* pattern :
	     {"a", "a*", "", "b|", "(a)(b)?", "^", "$", "\\b", "x.*y|x", "[^a]"}) {
		for (const std::string& text : texts) {
			Query_Rule_Row row = rule(1);
			row.match_pattern = pattern;
			row.replace_pattern = "<\\0>";
			row.re_modifiers = "GLOBAL";
			Fixture fixture({row});
			const Query_Processor_Output output = fixture.ask(text);
			std::string expected = text;
			const bool changed = RE2::GlobalReplace(&expected, pattern, *row.replace_pattern) > 0;
			INFO(pattern << " in " << text);
			CHECK((output.rewritten != nullptr) == changed);
			if (output.rewritten != nullptr) {
				CHECK(*output.rewritten == expected);
			}
		}
	}
}

TEST_CASE("a rule that would rewrite for seconds refuses the statement") {
	Query_Rule_Row row = rule(7);
	row.match_pattern = "x.*y|x";
	row.replace_pattern = "z";
	row.re_modifiers = "GLOBAL";
	Fixture fixture({row});
	const int64_t begin_us = monotonic_us();
	const Query_Processor_Output output = fixture.ask(std::string(size_t{1} << 19, 'x'));
	CHECK(monotonic_us() - begin_us < 3'000'000); // quadratic: minutes
	REQUIRE(output.error_msg != nullptr);
	CHECK(output.error_msg->find("query rule 7 cannot rewrite") != std::string::npos);
	CHECK(output.rewritten == nullptr);
	CHECK(*fixture.ask("x").rewritten == "z");
}

TEST_CASE("a rule that doubles the text again and again is refused") {
	Query_Rule_Row row = rule(8);
	row.match_pattern = ".*";
	row.replace_pattern = "\\0\\0";
	row.flag_out = 0;
	Fixture fixture({row}, 1000);
	REQUIRE(fixture.ask("select 1").error_msg != nullptr);
}
