#include "config/Config_Variables.h"

#include "String_Checks.h"
#include "Variable_Rows.h"
#include "config/Config_Words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

namespace proxy {

namespace {

constexpr std::string_view kInvalidValue = "22023";
constexpr std::string_view kUndefinedName = "42704";

// ProxySQL 3.0.0 and 3.0.1 had these for MySQL's sake, 3.1 and later add the last two. Dropped
// with a warning, so that configurations that name them still load.
constexpr std::array kRetiredNames{
    "pgsql-server_capabilities",
    "pgsql-handle_warnings",
    "pgsql-enable_client_deprecate_eof",
    "pgsql-enable_server_deprecate_eof",
    "pgsql-enable_load_data_local_infile",
    "pgsql-log_mysql_warnings_enabled",
    "pgsql-client_session_track_gtid",
    "pgsql-default_session_track_gtids",
    "pgsql-monitor_unshun_on_ping_success",
    "admin-hash_passwords",
};

constexpr std::array kSecretNames{
    "pgsql-monitor_password",
    "admin-admin_credentials",
    "admin-stats_credentials",
    "admin-cluster_password",
};

template <size_t N>
bool contains(const std::array<const char*, N>& names, std::string_view full_name) {
	return std::any_of(names.begin(), names.end(), [full_name](std::string_view name) {
		return equal_ignoring_case(name, full_name);
	});
}

std::vector<Variable_Info> make_infos() {
	std::vector<Variable_Info> infos;
	for (const auto& row : variable_rows<Pgsql_Config>()) {
		infos.push_back(row.info);
	}
	for (const auto& row : variable_rows<Admin_Config>()) {
		infos.push_back(row.info);
	}
	return infos;
}

Error refused(const Variable_Info& info, std::string_view value, std::string_view reason) {
	if (is_secret_variable(info.name)) {
		return make_error(kInvalidValue, fmt::format("{}: the value {}", info.name, reason));
	}
	return make_error(kInvalidValue, fmt::format("{}: \"{}\" {}", info.name, value, reason));
}

Result<std::string> check_integer(const Variable_Info& info, std::string_view text) {
	std::string_view digits = trimmed(text);
	if (!digits.empty() && digits.front() == '+') {
		digits.remove_prefix(1);
	}
	int64_t number = 0;
	const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
	if (digits.empty() || parsed.ptr != digits.data() + digits.size() ||
	    parsed.ec == std::errc::invalid_argument) {
		return refused(info, text, "is not a whole number");
	}
	const bool overflow = parsed.ec == std::errc::result_out_of_range;
	if (overflow || number < info.min || number > info.max) {
		if (info.min == info.max) {
			return refused(info, text, fmt::format("is not allowed, only {}", info.min));
		}
		return refused(info, text,
		               fmt::format("is out of range, allowed is {} to {}{}{}", info.min, info.max,
		                           info.unit.empty() ? "" : " ", info.unit));
	}
	return std::to_string(number);
}

Result<std::string> check_boolean(const Variable_Info& info, std::string_view text) {
	const std::string_view word = trimmed(text);
	if (word == "1" || equal_ignoring_case(word, "true")) {
		return std::string("true");
	}
	if (word == "0" || equal_ignoring_case(word, "false")) {
		return std::string("false");
	}
	return refused(info, text, "is neither true nor false (1 and 0 are accepted too)");
}

// Other ways to write the words of one variable, from older versions and from PostgreSQL.
std::string_view word_alias(const Variable_Info& info, std::string_view word) {
	if (info.name == "pgsql-polardb_consistency_mode") {
		const auto mode = from_word<Consistency_Mode>(word);
		return mode && *mode != Consistency_Mode::inherit ? word_of(*mode) : word;
	}
	struct Alias {
		std::string_view variable;
		std::string_view from;
		std::string_view to;
	};
	constexpr std::array kAliases{
	    Alias{"pgsql-default_standard_conforming_strings", "true", "on"},
	    Alias{"pgsql-default_standard_conforming_strings", "1", "on"},
	    Alias{"pgsql-default_standard_conforming_strings", "false", "off"},
	    Alias{"pgsql-default_standard_conforming_strings", "0", "off"},
	    Alias{"admin-ssl_verify_client", "0", "DISABLED"},
	    Alias{"admin-ssl_verify_client", "1", "OPTIONAL"},
	    Alias{"admin-ssl_verify_client", "2", "REQUIRED"},
	};
	for (const Alias& alias : kAliases) {
		if (alias.variable == info.name && equal_ignoring_case(alias.from, word)) {
			return alias.to;
		}
	}
	return word;
}

Result<std::string> check_word(const Variable_Info& info, std::string_view text) {
	const std::string_view word = word_alias(info, trimmed(text));
	std::string allowed;
	for (const std::string_view known : split_list(info.words, '|')) {
		if (equal_ignoring_case(known, word)) {
			return std::string(known);
		}
		allowed += allowed.empty() ? "" : ", ";
		allowed += known;
	}
	return refused(info, text, fmt::format("is not one of {}", allowed));
}

// The history intervals take only these values; anything between is rounded up.
int64_t rounded_up(int64_t seconds) {
	constexpr std::array<int64_t, 9> kSteps{0, 1, 5, 10, 30, 60, 120, 300, 600};
	const auto* step = std::lower_bound(kSteps.begin(), kSteps.end(), seconds);
	return step == kSteps.end() ? kSteps.back() : *step;
}

bool is_rounded(std::string_view name) {
	constexpr std::array<std::string_view, 5> kRounded{
	    "admin-stats_mysql_connections", "admin-stats_mysql_connection_pool",
	    "admin-stats_mysql_query_cache", "admin-stats_system_cpu", "admin-stats_system_memory"};
	return std::find(kRounded.begin(), kRounded.end(), name) != kRounded.end();
}

Result<std::string> check_text(const Variable_Info& info, std::string_view text) {
	if (text.find('\0') != std::string_view::npos) {
		return refused(info, "", "contains a zero byte");
	}
	if (text.size() > static_cast<size_t>(info.max)) {
		return refused(info, text.substr(0, 32),
		               fmt::format("... is longer than {} bytes", info.max));
	}
	auto stored = check_string(info.check, text);
	if (!stored.ok()) {
		return make_error(kInvalidValue, fmt::format("{}: {}", info.name, stored.error().message));
	}
	return stored;
}

Result<std::string> check_value(const Variable_Info& info, std::string_view text) {
	switch (info.kind) {
	case Variable_Kind::integer: {
		auto number = check_integer(info, text);
		if (number.ok() && is_rounded(info.name)) {
			return std::to_string(rounded_up(std::stoll(number.value())));
		}
		return number;
	}
	case Variable_Kind::boolean:
		return check_boolean(info, text);
	case Variable_Kind::text:
		return check_text(info, text);
	case Variable_Kind::word:
		return check_word(info, text);
	}
	return refused(info, text, "has no kind");
}

template <typename T> Variable_Map texts_of(const T& config) {
	Variable_Map texts;
	for (const auto& row : variable_rows<T>()) {
		texts.emplace(row.info.name, text_of(row, config));
	}
	return texts;
}

} // namespace

std::span<const Variable_Info> variable_infos() {
	static const std::vector<Variable_Info> infos = make_infos();
	return infos;
}

const Variable_Info* find_variable(std::string_view full_name) {
	static const auto by_name = [] {
		std::unordered_map<std::string, const Variable_Info*> index;
		for (const Variable_Info& info : variable_infos()) {
			index.emplace(to_lower(info.name), &info);
		}
		return index;
	}();
	const auto found = by_name.find(to_lower(full_name));
	return found == by_name.end() ? nullptr : found->second;
}

bool is_retired_variable(std::string_view full_name) {
	return contains(kRetiredNames, full_name);
}

bool is_secret_variable(std::string_view full_name) {
	return contains(kSecretNames, full_name);
}

Result<std::string> check_variable(std::string_view full_name, std::string_view text) {
	const Variable_Info* info = find_variable(full_name);
	if (info == nullptr) {
		return make_error(kUndefinedName, fmt::format("{}: there is no such variable", full_name));
	}
	if (info->when == Variable_When::fixed) {
		if (text == info->default_text) {
			return info->default_text;
		}
		return make_error("55P02", fmt::format("{}: the variable cannot be changed", info->name));
	}
	return check_value(*info, text);
}

Variable_Map variable_texts(const Pgsql_Config& config) {
	return texts_of(config);
}

Variable_Map variable_texts(const Admin_Config& config) {
	return texts_of(config);
}

Variable_Map default_variables() {
	Variable_Map defaults;
	for (const Variable_Info& info : variable_infos()) {
		defaults.emplace(info.name, info.default_text);
	}
	return defaults;
}

} // namespace proxy
