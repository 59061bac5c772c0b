#include "config/Database_Limits.h"

#include "String_Checks.h"

#include <charconv>

namespace proxy {

namespace {
constexpr int64_t kMaxLimit = 1'000'000; // that of pgsql-max_connections

Result<int64_t> parse_limit(std::string_view text) {
	int64_t limit = -1;
	const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), limit);
	if (fault != std::errc() || end != text.data() + text.size() || limit < 0 ||
	    limit > kMaxLimit) {
		return make_error("22023", "\"" + std::string(text) + "\" is not a number from 0 to " +
		                               std::to_string(kMaxLimit));
	}
	return limit;
}
} // namespace

Result<Database_Limits> Database_Limits::parse(std::string_view text) {
	Database_Limits limits;
	for (const std::string_view part : split_list(text, ',')) {
		// The last one: a database's name may have an equals sign, a number has none.
		const size_t equals = part.rfind('=');
		const std::string name(trimmed(part.substr(0, equals)));
		if (equals == std::string_view::npos || name.empty()) {
			return make_error("22023", "\"" + std::string(part) + "\" is not database=number");
		}
		const auto limit = parse_limit(trimmed(part.substr(equals + 1)));
		PROXY_TRY(limit);
		if (name == "*") {
			limits.all_others_ = limit.value();
		} else if (!limits.by_name_.emplace(name, limit.value()).second) {
			return make_error("22023", "\"" + name + "\" is listed twice");
		}
	}
	return limits;
}

} // namespace proxy
