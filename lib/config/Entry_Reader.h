// Reads the keys of one libconfig group with types, ranges and messages; private to lib/config.
#pragma once

#include "config/Config_File.h"
#include "config/Config_Words.h"

#include <fmt/core.h>
#include <libconfig.h++>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace proxy {

// Everything found wrong or odd in one reading.
class Config_Faults {
public:
	explicit Config_Faults(std::string name) : name_(std::move(name)) {}

	// "FILE:LINE" of a setting; text read from memory carries no file name of its own.
	std::string place(const libconfig::Setting& where) const;
	std::string first_line() const { return name_ + ":1"; }
	void error(const std::string& place, const std::string& text);
	void warning(const std::string& place, const std::string& text);

	bool any() const { return !errors_.empty(); }
	Error to_error() const;
	std::vector<std::string> take_warnings() { return std::move(warnings_); }

private:
	std::string name_;
	std::vector<std::string> errors_;
	std::vector<std::string> warnings_;
};

// A key and its other name ("hostname", "address").
struct Config_Key {
	Config_Key(const char* key) : name(key) {}
	Config_Key(const char* key, const char* alias) : name(key), other(alias) {}
	const char* name;
	const char* other = nullptr;
};

struct Integer_Range {
	int64_t min = 0;
	int64_t max = std::numeric_limits<int>::max();
};
constexpr Integer_Range kZeroOrOne{0, 1};
constexpr Integer_Range kPort{0, 65535};

// One entry of a section. Lives while the section is read; every fault goes to `faults` and the
// key's default is returned, so that one reading finds all faults.
class Entry_Reader {
public:
	Entry_Reader(const libconfig::Setting& entry, std::string_view section, Config_Faults& faults);

	// False: not a group; reported, and there is nothing to read.
	bool is_group() const { return entry_.isGroup(); }
	std::string place() const { return faults_.place(entry_); }
	// "FILE:LINE: section NAME: ", to put in front of a fault found later.
	std::string where() const { return place() + ": " + headed(""); }

	std::string required_text(Config_Key key);
	std::string text(Config_Key key, std::string_view fallback = "");
	std::optional<std::string> optional_text(Config_Key key);
	// Empty or JSON.
	std::string json(Config_Key key);

	int64_t required_integer(Config_Key key, Integer_Range range);
	int64_t integer(Config_Key key, int64_t fallback, Integer_Range range);
	// -1 is how ProxySQL's files write NULL.
	std::optional<int64_t> optional_integer(Config_Key key, Integer_Range range);
	std::optional<int> optional_int(Config_Key key, Integer_Range range);
	int required_int(Config_Key key, Integer_Range range);
	int small_integer(Config_Key key, int fallback, Integer_Range range);
	bool flag(Config_Key key, bool fallback);

	template <typename E> E word(Config_Key key, E fallback) {
		const auto written = optional_text(key);
		if (!written) {
			return fallback;
		}
		const auto value = from_word<E>(*written);
		if (!value) {
			error(fmt::format("{} \"{}\" is not one of {}", key.name, *written, words_of<E>()));
			return fallback;
		}
		return *value;
	}

	// Faults of the entry as a whole.
	void error(const std::string& text);
	// Reports `key` a second time within the section. `seen` belongs to the section's reader.
	void unique(std::set<std::string>& seen, const std::string& key, std::string_view what);
	// Reports the keys that nobody asked for. Call last.
	void finish();

private:
	const libconfig::Setting* find(Config_Key key);
	void missing(Config_Key key);
	std::optional<int64_t> number(Config_Key key, Integer_Range range);
	std::string headed(const std::string& text) const;
	const libconfig::Setting& entry_;
	std::string section_;
	Config_Faults& faults_;
	std::set<std::string> asked_;
};

// The value of an integer setting; booleans count as 0 and 1.
std::optional<int64_t> integer_of(const libconfig::Setting& setting);

} // namespace proxy
