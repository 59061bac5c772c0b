#include "backend/Backend_State.h"

#include "base/Clock.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace proxy {

namespace {
constexpr std::string_view kEncoding = "client_encoding";

// Per process and not told to anybody, see Parameter_Set::hash().
uint64_t process_seed() {
	static const uint64_t seed = static_cast<uint64_t>(unix_time_us()) * 0x9E3779B97F4A7C15ULL ^
	                             reinterpret_cast<uintptr_t>(&seed);
	return seed;
}

std::string lower(std::string_view text) {
	std::string result(text);
	std::transform(result.begin(), result.end(), result.begin(),
	               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
	return result;
}

// Reported parameters whose value on a fresh connection is known, so that a client's startup value
// that equals it needs no SET.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kReportedNames = {{
    {"client_encoding", "client_encoding"},
    {"datestyle", "DateStyle"},
    {"intervalstyle", "IntervalStyle"},
    {"timezone", "TimeZone"},
    {"standard_conforming_strings", "standard_conforming_strings"},
    {"application_name", "application_name"},
}};
} // namespace

uint64_t Parameter_Set::hash_of(const std::string& name, const std::string& value) {
	const uint64_t name_hash = XXH3_64bits_withSeed(name.data(), name.size(), process_seed());
	const uint64_t both = XXH3_64bits_withSeed(value.data(), value.size(), name_hash);
	return both == 0 ? 1 : both;
}

void Parameter_Set::set(const std::string& name, const std::string& value) {
	const auto [place, inserted] = values_.try_emplace(name, value);
	if (!inserted) {
		hash_ ^= hash_of(name, place->second);
		place->second = value;
	}
	hash_ ^= hash_of(name, value);
}

void Parameter_Set::erase(const std::string& name) {
	const auto place = values_.find(name);
	if (place == values_.end()) {
		return;
	}
	hash_ ^= hash_of(name, place->second);
	values_.erase(place);
}

void Parameter_Set::clear() {
	values_.clear();
	hash_ = 0;
}

const std::string* Parameter_Set::find(const std::string& name) const {
	const auto place = values_.find(name);
	return place == values_.end() ? nullptr : &place->second;
}

uint64_t Parameter_Set::meaning_hash() const {
	static constexpr std::array<std::string_view, 6> kMeaningless = {
	    "application_name",   "statement_timeout",   "lock_timeout",
	    "extra_float_digits", "client_min_messages", "idle_in_transaction_session_timeout"};
	uint64_t hash = hash_;
	for (const std::string_view name : kMeaningless) {
		const auto place = values_.find(std::string(name));
		if (place != values_.end()) {
			hash ^= hash_of(place->first, place->second);
		}
	}
	return hash;
}

size_t Parameter_Set::memory_bytes() const {
	size_t bytes = 0;
	for (const auto& [name, value] : values_) {
		bytes += name.capacity() + value.capacity() + 3 * sizeof(void*);
	}
	return bytes;
}

std::string normalised_value(std::string_view name, std::string_view value) {
	std::string text = lower(value);
	if (name == "client_encoding") {
		text.erase(
		    std::remove_if(text.begin(), text.end(), [](char c) { return c == '-' || c == '_'; }),
		    text.end());
		return text == "unicode" ? "utf8" : text;
	}
	if (name == "datestyle") {
		// "ISO" alone keeps the field order, which is MDY unless somebody says otherwise.
		text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
		return text == "iso" ? "iso,mdy" : text;
	}
	if (name == "timezone" || name == "intervalstyle") {
		return text;
	}
	if (text == "true" || text == "yes" || text == "1") {
		return "on";
	}
	if (text == "false" || text == "no" || text == "0") {
		return "off";
	}
	return text == "on" || text == "off" ? text : std::string(value);
}

namespace {
enum class Datestyle_Part : uint8_t { neither, style, order };

Datestyle_Part datestyle_part(std::string_view word) {
	if (word == "iso" || word == "sql" || word == "german" || word.starts_with("postgres")) {
		return Datestyle_Part::style;
	}
	if (word == "ymd" || word == "dmy" || word == "mdy" || word == "us" ||
	    word.starts_with("euro") || word.starts_with("noneuro")) {
		return Datestyle_Part::order;
	}
	return Datestyle_Part::neither;
}

void take_datestyle(std::string_view value, std::string& style, std::string& order) {
	const std::string text = lower(value);
	for (size_t at = 0; at < text.size();) {
		const size_t end = std::min(text.find_first_of(", ", at), text.size());
		const std::string word = text.substr(at, end - at);
		at = end + 1;
		switch (datestyle_part(word)) {
		case Datestyle_Part::style:
			style = word;
			if (word == "german" && order.empty()) {
				order = "dmy"; // German dates have that order unless another one is named
			}
			break;
		case Datestyle_Part::order:
			order = word;
			break;
		case Datestyle_Part::neither:
			break;
		}
	}
}
} // namespace

std::string full_datestyle(std::string_view now, std::string_view value) {
	std::string style;
	std::string order;
	take_datestyle(value, style, order);
	std::string old_style;
	std::string old_order;
	take_datestyle(now, old_style, old_order);
	style = style.empty() ? old_style : style;
	order = order.empty() ? old_order : order;
	if (style.empty() || order.empty()) {
		return std::string(value); // DEFAULT, or nothing known of the value before
	}
	return style + ", " + order;
}

std::string quote_literal(std::string_view text) {
	std::string result;
	const bool backslash = text.find('\\') != std::string_view::npos;
	if (backslash) {
		result += " E";
	}
	result += '\'';
	for (const char c : text) {
		if (c == '\'' || c == '\\') {
			result += c;
		}
		result += c;
	}
	result += '\'';
	return result;
}

std::string quote_identifier(std::string_view text) {
	std::string result = "\"";
	for (const char c : text) {
		if (c == '"') {
			result += c;
		}
		result += c;
	}
	result += '"';
	return result;
}

namespace {
// A dotted custom name is quoted part by part.
std::string quote_parameter(const std::string& name) {
	const size_t dot = name.find('.');
	if (dot == std::string::npos) {
		return quote_identifier(name);
	}
	return quote_identifier(name.substr(0, dot)) + "." + quote_identifier(name.substr(dot + 1));
}

// set_config() takes any value as one string, so list-valued parameters (search_path, DateStyle)
// need no knowledge of their grammar. SET's special words are SQL only: ROLE and SESSION
// AUTHORIZATION work through set_config() as well.
void append_assignment(std::string& sql, const std::string& name, const std::string& value) {
	sql += "SELECT pg_catalog.set_config(" + quote_literal(name) + "," + quote_literal(value) +
	       ",false);";
}
} // namespace

bool Backend_State::is_reported(const std::string& name, const std::string& value) const {
	const auto spelling = std::find_if(kReportedNames.begin(), kReportedNames.end(),
	                                   [&name](const auto& entry) { return entry.first == name; });
	if (spelling == kReportedNames.end()) {
		return false;
	}
	const auto now = reported.find(std::string(spelling->second));
	return now != reported.end() &&
	       normalised_value(name, now->second) == normalised_value(name, value);
}

bool Parameter_Sql::needs_two() const {
	return !encoding.empty() && std::any_of(rest.begin(), rest.end(), [](char c) {
		return static_cast<unsigned char>(c) >= 0x80;
	});
}

Parameter_Sql Backend_State::difference_sql(const Parameter_Set& wanted) {
	Parameter_Sql sql;
	const auto place = [&sql](const std::string& name) -> std::string& {
		return name == kEncoding ? sql.encoding : sql.rest;
	};
	for (const auto& [name, value] : parameters.values()) {
		if (wanted.find(name) == nullptr) {
			place(name) += "RESET " + quote_parameter(name) + ";";
		}
	}
	for (const auto& [name, value] : wanted.values()) {
		const std::string* here = parameters.find(name);
		if (here != nullptr) {
			if (*here != value) {
				if (name == "datestyle" && value.find(',') == std::string::npos) {
					sql.rest += "RESET datestyle;"; // what is not named keeps the default, not this
				}
				append_assignment(place(name), name, value);
			}
		} else if (!is_reported(name, value)) {
			append_assignment(place(name), name, value);
		}
	}
	if (sql.empty()) {
		equal_to_hash = wanted.hash();
	}
	return sql;
}

Parameter_Sql Backend_State::reset_sql(const Parameter_Set& wanted) {
	Parameter_Sql sql;
	sql.encoding = "RESET SESSION AUTHORIZATION;RESET ALL;";
	for (const auto& [name, value] : wanted.values()) {
		append_assignment(name == kEncoding ? sql.encoding : sql.rest, name, value);
	}
	return sql;
}

void Backend_State::apply(const Parameter_Set& wanted) {
	parameters = wanted;
	equal_to_hash = 0;
	unseen_names = unseen_names || changed_by != 0;
	changed_by = 0;
}

} // namespace proxy
