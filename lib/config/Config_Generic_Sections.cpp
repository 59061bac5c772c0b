// Sections that this layer only hands on: their columns as data.
#include "Config_Sections.h"

#include <limits>

namespace proxy {

const std::vector<Generic_Section>& generic_sections() {
	using Type = Generic_Column::Type;
	constexpr Integer_Range kAnyInt{0, std::numeric_limits<int>::max()};
	constexpr Integer_Range kInterval{100, 100000000}; // ms
	constexpr Integer_Range kPriority{1, 1000000};
	static const Generic_Column active{"active", nullptr, Type::integer, kZeroOrOne, "1"};
	static const Generic_Column comment{"comment", nullptr, Type::text, {}, ""};
	static const std::vector<Generic_Section> sections{
	    {"proxysql_servers",
	     "proxysql_servers",
	     {{"hostname", "address", Type::required_text, {}, nullptr},
	      {"port", nullptr, Type::required_integer, kPort, nullptr},
	      {"weight", nullptr, Type::integer, kAnyInt, "0"},
	      comment},
	     {"hostname", "port"}},
	    {"scheduler",
	     "scheduler",
	     {{"id", nullptr, Type::required_integer, kAnyInt, nullptr},
	      active,
	      {"interval_ms", nullptr, Type::integer, kInterval, "10000"},
	      {"filename", nullptr, Type::required_text, {}, nullptr},
	      {"arg1", nullptr, Type::text, {}, nullptr},
	      {"arg2", nullptr, Type::text, {}, nullptr},
	      {"arg3", nullptr, Type::text, {}, nullptr},
	      {"arg4", nullptr, Type::text, {}, nullptr},
	      {"arg5", nullptr, Type::text, {}, nullptr},
	      comment},
	     {"id"}},
	    {"restapi",
	     "restapi_routes",
	     {{"id", nullptr, Type::required_integer, kAnyInt, nullptr},
	      active,
	      {"timeout_ms", "interval_ms", Type::integer, kInterval, "1000"},
	      {"method", nullptr, Type::required_text, {}, nullptr},
	      {"uri", nullptr, Type::required_text, {}, nullptr},
	      {"script", nullptr, Type::required_text, {}, nullptr},
	      comment},
	     {"id"}},
	    {"pgsql_firewall_whitelist_users",
	     "pgsql_firewall_whitelist_users",
	     {active,
	      {"username", nullptr, Type::text, {}, ""},
	      {"client_address", nullptr, Type::text, {}, ""},
	      {"mode", nullptr, Type::text, {}, "OFF"},
	      comment},
	     {"username", "client_address"}},
	    {"pgsql_firewall_whitelist_rules",
	     "pgsql_firewall_whitelist_rules",
	     {active,
	      {"username", nullptr, Type::text, {}, ""},
	      {"client_address", nullptr, Type::text, {}, ""},
	      {"database", nullptr, Type::text, {}, ""},
	      {"flagIN", nullptr, Type::integer, kAnyInt, "0"},
	      {"digest", nullptr, Type::required_text, {}, nullptr},
	      comment},
	     {"username", "client_address", "database", "flagIN", "digest"}},
	    {"pgsql_firewall_whitelist_sqli_fingerprints",
	     "pgsql_firewall_whitelist_sqli_fingerprints",
	     {active, {"fingerprint", nullptr, Type::required_text, {}, nullptr}},
	     {"fingerprint"}},
	    {"pgsql_ldap_mapping",
	     "pgsql_ldap_mapping",
	     {{"priority", nullptr, Type::required_integer, kPriority, nullptr},
	      {"frontend_entity", nullptr, Type::required_text, {}, nullptr},
	      {"backend_entity", nullptr, Type::required_text, {}, nullptr},
	      comment},
	     {"priority"}},
	};
	return sections;
}

} // namespace proxy
