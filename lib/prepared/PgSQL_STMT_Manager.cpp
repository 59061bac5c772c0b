#include "prepared/PgSQL_STMT_Manager.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace proxy {

namespace {
std::string key_of(std::string_view sql, std::string_view parameter_types,
                   const Statement_Analysis_Ptr& analysis, uint64_t meaning) {
	// The class depends on how the session reads strings, so the analysis is part of the key: two
	// sessions share a statement only when they agree on what it is.
	std::string key;
	key.reserve(sql.size() + parameter_types.size() + 3 + sizeof(meaning));
	key.append(sql);
	key.push_back('\0');
	key.push_back(static_cast<char>(analysis->statement.kind));
	key.push_back(static_cast<char>(analysis->statement.veto));
	key.append(reinterpret_cast<const char*>(&meaning), sizeof(meaning));
	key.append(parameter_types);
	return key;
}

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

Prepared_Statement_Ptr PgSQL_STMT_Manager::get(std::string_view sql,
                                               std::string_view parameter_types,
                                               const Statement_Analysis_Ptr& analysis,
                                               uint64_t meaning) {
	std::string key = key_of(sql, parameter_types, analysis, meaning);
	if (names_a_moment(sql)) {
		const uint64_t own = next_unnamed_id();
		key.append(reinterpret_cast<const char*>(&own), sizeof(own));
	}
	Shard& shard = shards_[XXH3_64bits(key.data(), key.size()) % kShards];
	Lock lock(shard.mutex);
	const auto found = shard.statements.find(key);
	if (found != shard.statements.end()) {
		if (Prepared_Statement_Ptr statement = found->second.lock()) {
			return statement;
		}
	}
	auto statement = std::make_shared<Prepared_Statement>();
	statement->id = next_id_.fetch_add(1, std::memory_order_relaxed) + 1;
	statement->name = std::string(kStatementPrefix) + std::to_string(statement->id);
	statement->sql = sql;
	statement->parameter_types = parameter_types;
	statement->analysis = analysis;
	statement->meaning = meaning;
	if (shard.statements.size() >= shard.prune_at) {
		prune(shard);
	}
	shard.statements[std::move(key)] = statement;
	return statement;
}

// Statements that nobody holds any more go when the map has doubled since the last look, so the
// cost of looking is spread over as many insertions.
void PgSQL_STMT_Manager::prune(Shard& shard) {
	std::erase_if(shard.statements, [](const auto& entry) { return entry.second.expired(); });
	shard.prune_at = std::max<size_t>(64, shard.statements.size() * 2);
}

std::vector<std::pair<Prepared_Statement_Ptr, long>> PgSQL_STMT_Manager::list() const {
	std::vector<std::pair<Prepared_Statement_Ptr, long>> result;
	for (const Shard& shard : shards_) {
		Lock lock(shard.mutex);
		for (const auto& [key, weak] : shard.statements) {
			if (Prepared_Statement_Ptr statement = weak.lock()) {
				const long holders = statement.use_count() - 1;
				result.emplace_back(std::move(statement), holders);
			}
		}
	}
	return result;
}

} // namespace proxy
