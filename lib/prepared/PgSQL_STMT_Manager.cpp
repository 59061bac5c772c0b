#include "prepared/PgSQL_STMT_Manager.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace proxy {

struct PgSQL_STMT_Manager::Wanted {
	std::string_view name = {}; // by_sql only
	std::string_view sql;
	std::string_view parameter_types;
	const Statement_Analysis_Ptr& analysis;
	uint64_t meaning = 0;
	bool by_sql = false;

	// The class depends on how the session reads strings, so the analysis has a part in it: two
	// sessions share a statement only when they agree on what it is.
	uint64_t hash() const {
		uint64_t value = XXH3_64bits_withSeed(sql.data(), sql.size(), meaning);
		value = XXH3_64bits_withSeed(parameter_types.data(), parameter_types.size(), value);
		return value ^ (by_sql ? 1 : 0);
	}
	bool is(const Prepared_Statement& other) const {
		return other.sql == sql && other.parameter_types == parameter_types &&
		       other.meaning == meaning && other.by_sql == by_sql &&
		       other.analysis->statement.kind == analysis->statement.kind &&
		       other.analysis->statement.veto == analysis->statement.veto;
	}
};

struct PgSQL_STMT_Manager::Shard {
	mutable Mutex mutex{Lock_Rank::shared_maps};
	// Every statement that somebody holds, by hash. An entry whose statement has ended is about to
	// be erased by that end, which waits for the mutex.
	struct Entry {
		uint64_t id = 0;
		std::weak_ptr<const Prepared_Statement> statement;
	};
	std::unordered_multimap<uint64_t, Entry> known GUARDED_BY(mutex);
	// The last used ones, kept alive.
	Lru_Map<uint64_t, Prepared_Statement_Ptr> kept GUARDED_BY(mutex);
	size_t limit GUARDED_BY(mutex) = 625; // of pgsql-max_stmts_cache, 10000
	size_t bytes GUARDED_BY(mutex) = 0;

	// `others`: what was looked at besides; it may end with the last reference here, so not under
	// the mutex.
	Prepared_Statement_Ptr find(uint64_t hash, const Wanted& wanted,
	                            std::vector<Prepared_Statement_Ptr>& others) REQUIRES(mutex) {
		const auto [from, to] = known.equal_range(hash);
		for (auto place = from; place != to; ++place) {
			Prepared_Statement_Ptr statement = place->second.statement.lock();
			if (statement != nullptr && wanted.is(*statement)) {
				return statement;
			}
			others.push_back(std::move(statement));
		}
		return nullptr;
	}
	void forget(uint64_t hash, uint64_t id, size_t size) EXCLUDES(mutex) {
		Lock lock(mutex);
		const auto [from, to] = known.equal_range(hash);
		const auto place =
		    std::find_if(from, to, [id](const auto& entry) { return entry.second.id == id; });
		if (place != to) {
			known.erase(place);
			bytes -= size;
		}
	}
};

PgSQL_STMT_Manager::PgSQL_STMT_Manager() {
	for (std::shared_ptr<Shard>& shard : shards_) {
		shard = std::make_shared<Shard>();
	}
}

// What is kept refers to its shard, which keeps it: cut here.
PgSQL_STMT_Manager::~PgSQL_STMT_Manager() {
	set_limit(0);
}

namespace {
// 'now', 'today' and the like become a constant when the server parses the statement.
bool names_a_moment(std::string_view sql) {
	static constexpr std::array<std::string_view, 4> kWords = {"now", "today", "tomorrow",
	                                                           "yesterday"};
	for (size_t at = sql.find('\''); at != std::string_view::npos; at = sql.find('\'', at + 1)) {
		size_t start = at + 1;
		while (start < sql.size() && std::isspace(static_cast<unsigned char>(sql[start])) != 0) {
			++start;
		}
		for (const std::string_view word : kWords) {
			const std::string_view here = sql.substr(start, word.size());
			if (std::equal(here.begin(), here.end(), word.begin(), word.end(),
			               [](char a, char b) { return (a | 0x20) == b; })) {
				return true;
			}
		}
	}
	return false;
}
} // namespace

std::shared_ptr<Prepared_Statement> PgSQL_STMT_Manager::make(const Wanted& wanted) {
	auto statement = std::make_shared<Prepared_Statement>();
	statement->id = next_id_.fetch_add(1, std::memory_order_relaxed) + 1;
	statement->name = wanted.by_sql ? std::string(wanted.name)
	                                : std::string(kStatementPrefix) + std::to_string(statement->id);
	statement->sql = wanted.sql;
	statement->parameter_types = wanted.parameter_types;
	statement->analysis = wanted.analysis;
	statement->meaning = wanted.meaning;
	statement->by_sql = wanted.by_sql;
	return statement;
}

Prepared_Statement_Ptr PgSQL_STMT_Manager::find_or_make(const Wanted& wanted) {
	const uint64_t hash = wanted.hash();
	const std::shared_ptr<Shard>& shard = shards_[hash % kShards];
	// What goes may end here, which takes the mutex: so it ends after the lock.
	std::vector<Prepared_Statement_Ptr> gone;
	Lock lock(shard->mutex);
	Prepared_Statement_Ptr statement = shard->find(hash, wanted, gone);
	if (statement == nullptr) {
		const std::shared_ptr<Prepared_Statement> fresh = make(wanted);
		const uint64_t id = fresh->id;
		const size_t size = fresh->memory_bytes();
		statement = Prepared_Statement_Ptr(
		    fresh.get(), [fresh, shard, hash, id, size](const Prepared_Statement*) {
			    shard->forget(hash, id, size);
		    });
		shard->known.emplace(hash, Shard::Entry{id, statement});
		shard->bytes += size;
	}
	if (shard->limit > 0) {
		shard->kept.put(statement->id, statement);
	}
	while (shard->kept.size() > shard->limit) {
		gone.push_back(shard->kept.oldest().second);
		shard->kept.drop_oldest();
	}
	return statement;
}

Prepared_Statement_Ptr PgSQL_STMT_Manager::get(std::string_view sql,
                                               std::string_view parameter_types,
                                               const Statement_Analysis_Ptr& analysis,
                                               uint64_t meaning) {
	const Wanted wanted{
	    .sql = sql, .parameter_types = parameter_types, .analysis = analysis, .meaning = meaning};
	if (!analysis->statement.prepared.empty() || names_a_moment(sql)) {
		return make(wanted);
	}
	return find_or_make(wanted);
}

Prepared_Statement_Ptr PgSQL_STMT_Manager::get_by_sql(std::string_view name, std::string_view sql,
                                                      const Statement_Analysis_Ptr& analysis,
                                                      uint64_t meaning) {
	const Wanted wanted{.name = name,
	                    .sql = sql,
	                    .parameter_types = {},
	                    .analysis = analysis,
	                    .meaning = meaning,
	                    .by_sql = true};
	return names_a_moment(sql) ? Prepared_Statement_Ptr(make(wanted)) : find_or_make(wanted);
}

void PgSQL_STMT_Manager::set_limit(size_t statements) {
	const size_t each = (statements + kShards - 1) / kShards;
	for (const std::shared_ptr<Shard>& shard : shards_) {
		std::vector<Prepared_Statement_Ptr> gone;
		Lock lock(shard->mutex);
		shard->limit = each;
		while (shard->kept.size() > each) {
			gone.push_back(shard->kept.oldest().second);
			shard->kept.drop_oldest();
		}
	}
}

std::vector<std::pair<Prepared_Statement_Ptr, long>> PgSQL_STMT_Manager::list() const {
	std::vector<std::pair<Prepared_Statement_Ptr, long>> result;
	for (const std::shared_ptr<Shard>& shard : shards_) {
		Lock lock(shard->mutex);
		for (const auto& [hash, entry] : shard->known) {
			if (Prepared_Statement_Ptr statement = entry.statement.lock()) {
				const long ours = shard->kept.contains(statement->id) ? 2 : 1;
				const long holders = statement.use_count() - ours;
				result.emplace_back(std::move(statement), holders);
			}
		}
	}
	return result;
}

size_t PgSQL_STMT_Manager::size() const {
	size_t count = 0;
	for (const std::shared_ptr<Shard>& shard : shards_) {
		Lock lock(shard->mutex);
		count += shard->known.size();
	}
	return count;
}

size_t PgSQL_STMT_Manager::memory_bytes() const {
	size_t bytes = 0;
	for (const std::shared_ptr<Shard>& shard : shards_) {
		Lock lock(shard->mutex);
		bytes += shard->bytes;
	}
	return bytes;
}

} // namespace proxy
