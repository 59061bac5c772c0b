// pgsql-max_connections_per_database: "app=100, reports=10, *=500". Pure.
#pragma once

#include "base/Result.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace proxy {

class Database_Limits {
public:
	static constexpr int64_t kNone = INT64_MAX;

	// The error says which part is wrong, without the variable's name.
	static Result<Database_Limits> parse(std::string_view text);
	// Client connections that `database` may have.
	int64_t of(std::string_view database) const {
		const auto found = by_name_.find(database);
		return found == by_name_.end() ? all_others_ : found->second;
	}

private:
	std::map<std::string, int64_t, std::less<>> by_name_;
	int64_t all_others_ = kNone;
};

} // namespace proxy
