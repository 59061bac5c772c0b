#include "config/Hostgroup_Settings.h"

#include <nlohmann/json.hpp>

namespace proxy {

namespace {
// The range of pgsql-default_query_timeout.
constexpr int64_t kMinTimeoutMs = 1000;
constexpr int64_t kMaxTimeoutMs = 1728000000;
} // namespace

Result<Hostgroup_Settings> parse_hostgroup_settings(const std::string& json) {
	Hostgroup_Settings settings;
	if (json.empty()) {
		return settings;
	}
	const nlohmann::json object = nlohmann::json::parse(json, nullptr, false);
	if (!object.is_object()) {
		return make_error("22023", "hostgroup_settings is not a JSON object");
	}
	const auto timeout = object.find("default_query_timeout");
	if (timeout == object.end()) {
		return settings;
	}
	const int64_t value = timeout->is_number_integer() ? timeout->get<int64_t>() : -1;
	if (value < kMinTimeoutMs || value > kMaxTimeoutMs) {
		return make_error("22023",
		                  "hostgroup_settings: default_query_timeout is not a number from " +
		                      std::to_string(kMinTimeoutMs) + " to " +
		                      std::to_string(kMaxTimeoutMs) + " ms");
	}
	settings.default_query_timeout_ms = value;
	return settings;
}

} // namespace proxy
