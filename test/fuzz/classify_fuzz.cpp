// Any bytes: classification, hints and rules end without a crash, and a class taken from the
// cache is the one the text would get on its own, whatever was seen before.
#include "Fuzz_Check.h"
#include "classify/Function_Safety.h"
#include "classify/Query_Processor.h"
#include "classify/Statement_Classifier.h"

#include <cstdint>
#include <string>

using namespace proxy;

namespace {

std::shared_ptr<const Query_Rules> some_rules() {
	Query_Rules_Config config;
	for (int i = 0; i < 3; ++i) {
		Query_Rule_Row row;
		row.rule_id = i;
		row.active = true;
		row.flag_in = i;
		row.flag_out = i + 1;
		config.rules.push_back(row);
	}
	config.rules[0].match_digest = "^(select|update) .*from (\\w+)";
	config.rules[1].match_pattern = "(\\w+) *= *('[^']*'|\\d+)";
	config.rules[1].replace_pattern = "\\2 = \\1";
	config.rules[1].re_modifiers = "CASELESS,GLOBAL";
	config.rules[2].client_addr = "10.0.0.0/8";
	auto compiled = Query_Rules::compile(config, 4);
	return compiled.ok() ? compiled.take() : nullptr;
}

struct Worker {
	Worker() {
		processor.set_rules(some_rules());
		processor.set_cache_limits(500, size_t{1} << 20);
	}
	Query_Processor processor;
};

void check_class(const Statement_Class& found) {
	FUZZ_CHECK(!found.is_read() || (!found.may_write && found.sticky == 0));
	FUZZ_CHECK(!found.is_read() || found.kind == Statement_Kind::select ||
	           found.kind == Statement_Kind::explain);
	FUZZ_CHECK((found.sticky & found.sticky_ends) == 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static Worker worker;
	if (size == 0) {
		return 0;
	}
	const bool standard_strings = (data[0] & 1) != 0;
	const std::string_view sql(reinterpret_cast<const char*>(data) + 1, size - 1);
	const Statement_Analysis_Ptr analysis = worker.processor.analyse(sql, standard_strings);
	const Statement_Class alone =
	    classify_statement(sql, standard_strings, *Function_Safety::built_in());
	check_class(analysis->statement);
	check_class(alone);
	if (alone.kind != Statement_Kind::unknown) {
		// A cached class may know more than a text that does not parse, never less than one that
		// does.
		FUZZ_CHECK(alone.kind == analysis->statement.kind);
		FUZZ_CHECK(alone.veto == analysis->statement.veto);
		FUZZ_CHECK(alone.may_write == analysis->statement.may_write);
		FUZZ_CHECK(alone.sticky == analysis->statement.sticky);
		FUZZ_CHECK(alone.sets.size() == analysis->statement.sets.size());
		for (size_t i = 0; i < alone.sets.size(); ++i) {
			FUZZ_CHECK(alone.sets[i].value == analysis->statement.sets[i].value);
		}
	}
	worker.processor.hints(sql);
	Query_Origin origin;
	origin.client_addr = "10.1.1.1";
	worker.processor.process(origin, sql, *analysis);
	return 0;
}
