#include "Entry_Reader.h"

#include <nlohmann/json.hpp>

namespace proxy {

using libconfig::Setting;

std::string Config_Faults::place(const Setting& where) const {
	const char* file = where.getSourceFile();
	return fmt::format("{}:{}", file == nullptr ? name_ : std::string(file), where.getSourceLine());
}

void Config_Faults::error(const std::string& place, const std::string& text) {
	std::string line = fmt::format("{}: {}", place, text);
	if (errors_.empty() || errors_.back() != line) { // a key that is looked up twice
		errors_.push_back(std::move(line));
	}
}

void Config_Faults::warning(const std::string& place, const std::string& text) {
	warnings_.push_back(fmt::format("{}: {}", place, text));
}

Error Config_Faults::to_error() const {
	std::string text;
	for (const std::string& line : errors_) {
		text += text.empty() ? "" : "\n";
		text += line;
	}
	return make_error("F0000", std::move(text)); // config_file_error
}

std::optional<int64_t> integer_of(const Setting& setting) {
	switch (setting.getType()) {
	case Setting::TypeInt:
		return static_cast<int>(setting);
	case Setting::TypeInt64:
		return static_cast<long long>(setting);
	case Setting::TypeBoolean:
		return static_cast<bool>(setting) ? 1 : 0;
	case Setting::TypeNone:
	case Setting::TypeFloat:
	case Setting::TypeString:
	case Setting::TypeGroup:
	case Setting::TypeArray:
	case Setting::TypeList:
		return std::nullopt;
	}
	return std::nullopt;
}

Entry_Reader::Entry_Reader(const Setting& entry, std::string_view section, Config_Faults& faults)
    : entry_(entry), section_(section), faults_(faults) {
	if (!entry_.isGroup()) {
		error("an entry must be a group in braces");
	}
}

std::string Entry_Reader::headed(const std::string& text) const {
	return fmt::format("section {}: {}", section_, text);
}

void Entry_Reader::error(const std::string& text) {
	faults_.error(place(), headed(text));
}

void Entry_Reader::missing(Config_Key key) {
	if (key.other == nullptr) {
		error(fmt::format("{} is missing", key.name));
	} else {
		error(fmt::format("{} (or {}) is missing", key.name, key.other));
	}
}

const Setting* Entry_Reader::find(Config_Key key) {
	asked_.insert(key.name);
	const bool named = entry_.exists(key.name);
	if (key.other != nullptr) {
		asked_.insert(key.other);
		if (entry_.exists(key.other)) {
			if (named) {
				error(fmt::format("{} and {} are the same, give one", key.name, key.other));
			}
			return &entry_[key.other];
		}
	}
	return named ? &entry_[key.name] : nullptr;
}

std::optional<std::string> Entry_Reader::optional_text(Config_Key key) {
	const Setting* setting = find(key);
	if (setting == nullptr) {
		return std::nullopt;
	}
	if (setting->getType() != Setting::TypeString) {
		faults_.error(faults_.place(*setting),
		              headed(fmt::format("{} must be a text in quotes", setting->getName())));
		return std::nullopt;
	}
	return std::string(setting->c_str());
}

std::string Entry_Reader::text(Config_Key key, std::string_view fallback) {
	return optional_text(key).value_or(std::string(fallback));
}

std::string Entry_Reader::required_text(Config_Key key) {
	const Setting* setting = find(key);
	if (setting == nullptr) {
		missing(key);
		return {};
	}
	std::string value = text(key);
	if (value.empty() && setting->getType() == Setting::TypeString) {
		faults_.error(faults_.place(*setting),
		              headed(fmt::format("{} is empty", setting->getName())));
	}
	return value;
}

std::string Entry_Reader::json(Config_Key key) {
	std::string value = text(key);
	if (!value.empty() && !nlohmann::json::accept(value)) {
		error(fmt::format("{} is neither empty nor valid JSON", key.name));
	}
	return value;
}

std::optional<int64_t> Entry_Reader::number(Config_Key key, Integer_Range range) {
	const Setting* setting = find(key);
	if (setting == nullptr) {
		return std::nullopt;
	}
	const auto value = integer_of(*setting);
	if (!value) {
		faults_.error(faults_.place(*setting), headed(fmt::format("{} must be a whole number, "
		                                                          "without quotes",
		                                                          setting->getName())));
		return std::nullopt;
	}
	if (*value < range.min || *value > range.max) {
		faults_.error(faults_.place(*setting),
		              headed(fmt::format("{} {} is out of range, allowed is {} to {}",
		                                 setting->getName(), *value, range.min, range.max)));
		return std::nullopt;
	}
	return value;
}

int64_t Entry_Reader::required_integer(Config_Key key, Integer_Range range) {
	if (find(key) == nullptr) {
		missing(key);
		return range.min;
	}
	return number(key, range).value_or(range.min);
}

int64_t Entry_Reader::integer(Config_Key key, int64_t fallback, Integer_Range range) {
	return number(key, range).value_or(fallback);
}

std::optional<int64_t> Entry_Reader::optional_integer(Config_Key key, Integer_Range range) {
	const Setting* setting = find(key);
	if (setting != nullptr && integer_of(*setting) == -1) {
		return std::nullopt;
	}
	return number(key, range);
}

std::optional<int> Entry_Reader::optional_int(Config_Key key, Integer_Range range) {
	const auto value = optional_integer(key, range);
	return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

int Entry_Reader::required_int(Config_Key key, Integer_Range range) {
	return static_cast<int>(required_integer(key, range));
}

int Entry_Reader::small_integer(Config_Key key, int fallback, Integer_Range range) {
	return static_cast<int>(integer(key, fallback, range));
}

bool Entry_Reader::flag(Config_Key key, bool fallback) {
	return integer(key, fallback ? 1 : 0, kZeroOrOne) != 0;
}

void Entry_Reader::unique(std::set<std::string>& seen, const std::string& key,
                          std::string_view what) {
	if (!seen.insert(key).second) {
		error(fmt::format("{} appears twice", what));
	}
}

void Entry_Reader::finish() {
	for (int i = 0; i < entry_.getLength(); ++i) {
		const Setting& setting = entry_[i];
		const std::string name = setting.getName();
		if (asked_.contains(name)) {
			continue;
		}
		std::string hint;
		for (const std::string& known : asked_) {
			if (equal_ignoring_case(known, name)) {
				hint = fmt::format(", is {} meant?", known);
			}
		}
		faults_.error(faults_.place(setting), headed(fmt::format("unknown key {}{}", name, hint)));
	}
}

} // namespace proxy
