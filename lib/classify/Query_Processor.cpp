#include "classify/Query_Processor.h"

#include "classify/Digest.h"
#include "classify/Function_Safety.h"
#include "classify/Hints.h"
#include "classify/Rule_Match.h"
#include "classify/Statement_Cache.h"
#include "classify/Statement_Classifier.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace proxy {

namespace {

uint64_t hash_of(std::string_view text, uint64_t seed = 0) {
	return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

} // namespace

struct Query_Processor::Impl {
	Digest_Builder digests;
	Statement_Cache cache;
	std::shared_ptr<const Function_Safety> functions = Function_Safety::built_in();
	std::shared_ptr<const Query_Rules> rules;
	Rule_Matcher matcher;
	// The analysis given out last, when the cache does not hold it.
	Statement_Analysis_Ptr last;
	uint64_t hits = 0;
	uint64_t misses = 0;

	const Statement_Analysis_Ptr& analyse(std::string_view sql, bool standard_strings);
	Statement_Analysis_Ptr make(std::string_view sql, bool standard_strings,
	                            const Digest_View& digest, uint64_t shown_hash) const;
};

Statement_Analysis_Ptr Query_Processor::Impl::make(std::string_view sql, bool standard_strings,
                                                   const Digest_View& digest,
                                                   uint64_t shown_hash) const {
	auto analysis = std::make_shared<Statement_Analysis>();
	analysis->digest = shown_hash;
	const int max_bytes = std::max(digests.options().max_digest_length, 1);
	analysis->digest_text = shorten_digest(digest.shown, static_cast<size_t>(max_bytes));
	analysis->statement = classify_statement(sql, standard_strings, *functions);
	return analysis;
}

const Statement_Analysis_Ptr& Query_Processor::Impl::analyse(std::string_view sql,
                                                             bool standard_strings) {
	// What is too long to be parsed is unknown whatever it says; only the part that shows in the
	// statistics is looked at.
	const bool parsed = sql.size() <= kMaxParsedBytes;
	const auto shown_bytes = static_cast<size_t>(std::max(digests.options().max_query_length, 1));
	const Digest_View digest = digests.build(
	    parsed ? sql : sql.substr(0, std::min(shown_bytes, kMaxParsedBytes)), standard_strings);
	const uint64_t shown_hash = hash_of(digest.shown);
	if (!parsed) {
		++misses;
		last = make(sql, standard_strings, digest, shown_hash);
		return last;
	}
	Cache_Key key;
	key.text = digest.text;
	key.extra = digest.shape;
	key.hash = (digest.shown.size() == digest.text.size() ? shown_hash : hash_of(digest.text)) ^
	           digest.shape;
	if (const Statement_Analysis_Ptr* found = cache.find(key); found != nullptr) {
		if (!digest.unterminated) {
			++hits;
			return *found;
		}
	}
	Cache_Key exact;
	exact.text = sql;
	exact.extra = standard_strings ? 1 : 0;
	exact.exact = true;
	exact.hash = sql.size() <= Statement_Cache::kMaxKeyBytes ? hash_of(sql, exact.extra + 1) : 0;
	if (sql.size() <= Statement_Cache::kMaxKeyBytes) {
		if (const Statement_Analysis_Ptr* found = cache.find(exact); found != nullptr) {
			++hits;
			return *found;
		}
	}
	++misses;
	last = make(sql, standard_strings, digest, shown_hash);
	// A text that does not parse says nothing about others with its digest.
	const Statement_Class& statement = last->statement;
	const bool by_digest = statement.kind != Statement_Kind::unknown &&
	                       !statement.depends_on_literals && !digest.unterminated;
	cache.insert(by_digest ? key : exact, last);
	return last;
}

Query_Processor::Query_Processor() : impl_(std::make_unique<Impl>()) {}
Query_Processor::~Query_Processor() = default;

void Query_Processor::set_options(const Digest_Options& options) {
	if (!(options == impl_->digests.options())) {
		impl_->digests.set_options(options);
		impl_->cache.clear();
	}
}

void Query_Processor::set_cache_limits(size_t entries, size_t bytes) {
	impl_->cache.set_limits(entries, bytes);
}

void Query_Processor::set_function_safety(std::shared_ptr<const Function_Safety> functions) {
	impl_->functions = functions != nullptr ? std::move(functions) : Function_Safety::built_in();
	impl_->cache.clear();
}

void Query_Processor::set_rules(std::shared_ptr<const Query_Rules> rules) {
	impl_->rules = std::move(rules);
}

const Statement_Analysis_Ptr& Query_Processor::analyse(std::string_view sql,
                                                       bool standard_conforming_strings) {
	return impl_->analyse(sql, standard_conforming_strings);
}

Statement_Hints Query_Processor::hints(std::string_view sql) const {
	return parse_hints(sql);
}

Query_Processor_Output Query_Processor::process(const Query_Origin& origin, std::string_view sql,
                                                const Statement_Analysis& analysis) {
	if (impl_->rules == nullptr || impl_->rules->empty()) {
		return {};
	}
	return impl_->matcher.run(impl_->rules->compiled(), origin, sql, analysis);
}

Query_Processor::Cache_Stats Query_Processor::cache_stats() const {
	Cache_Stats stats;
	stats.hits = impl_->hits;
	stats.misses = impl_->misses;
	stats.entries = impl_->cache.entries();
	stats.bytes = impl_->cache.bytes();
	return stats;
}

} // namespace proxy
