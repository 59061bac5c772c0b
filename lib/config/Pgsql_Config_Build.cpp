// Whole configurations from texts: values first, then what they must agree on.
//
// Profiles (pgsql-polardb_profile). A profile is a name for a set of values of the settings it
// owns. In one load either the name changes, and the owned settings follow, or owned settings
// change, and the name becomes custom. Both at once must agree: guessing which one was meant could
// turn consistency off behind the administrator's back.
#include "Variable_Rows.h"
#include "config/Config_Variables.h"
#include "config/Config_Words.h"
#include "config/Listen_Address.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>

namespace proxy {

namespace {

constexpr std::string_view kInvalidValue = "22023";
constexpr std::string_view kProfileName = "pgsql-polardb_profile";
constexpr std::string_view kCustomProfile = "custom";

constexpr size_t kOwnedCount = 10;
constexpr std::array<std::string_view, kOwnedCount> kOwnedNames{
    "pgsql-polardb_consistency_mode",     "pgsql-polardb_read_target",
    "pgsql-polardb_action_read_fallback", "pgsql-polardb_action_missing_lsn",
    "pgsql-polardb_action_lsn_timeout",   "pgsql-polardb_action_replica_error",
    "pgsql-polardb_action_replica_loss",  "pgsql-polardb_proxy_protocol",
    "pgsql-polardb_monitor_lsn_updates",  "pgsql-polardb_lazy_warmup_split",
};

struct Profile {
	std::string_view name;
	std::array<std::string_view, kOwnedCount> values; // in the order of kOwnedNames
};

constexpr std::array kProfiles{
    Profile{"off",
            {"off", "primary", "primary", "primary", "primary", "primary", "replica_then_primary",
             "off", "false", "false"}},
    Profile{"eventual",
            {"eventual", "replica", "primary", "primary", "primary", "primary",
             "replica_then_primary", "off", "false", "false"}},
    Profile{"session_warning",
            {"session_lsn", "replica", "primary", "warning", "warning", "primary",
             "replica_then_primary", "v15", "true", "true"}},
    Profile{"session_fallback",
            {"session_lsn", "replica", "primary", "primary", "primary", "primary",
             "replica_then_primary", "v15", "true", "true"}},
    Profile{"session_error",
            {"session_lsn", "replica", "error", "error", "error", "error", "replica_then_error",
             "v15", "true", "true"}},
    Profile{"global_fallback",
            {"global_lsn", "replica", "primary", "primary", "primary", "primary",
             "replica_then_primary", "v15", "true", "true"}},
    Profile{"global_error",
            {"global_lsn", "replica", "error", "error", "error", "error", "replica_then_error",
             "v15", "true", "true"}},
};

const Profile* find_profile(std::string_view name) {
	const auto* found =
	    std::find_if(kProfiles.begin(), kProfiles.end(),
	                 [name](const Profile& profile) { return profile.name == name; });
	return found == kProfiles.end() ? nullptr : found;
}

// Messages of one build, a line each.
struct Findings {
	std::vector<std::string> errors;
	std::vector<std::string> warnings;
	std::set<std::string> given; // listed names of the variables in the map

	Error to_error() const {
		std::string text;
		for (const std::string& line : errors) {
			text += text.empty() ? "" : "\n";
			text += line;
		}
		return make_error(kInvalidValue, std::move(text));
	}
};

template <typename T> const Variable_Row<T>* row_named(std::string_view listed_name) {
	for (const auto& row : variable_rows<T>()) {
		if (row.info.name == listed_name) {
			return &row;
		}
	}
	return nullptr;
}

std::string owned_text(const Pgsql_Config& config, std::string_view name) {
	const auto* row = row_named<Pgsql_Config>(name);
	return row == nullptr ? std::string() : text_of(*row, config);
}

// Step 1: every value on its own, defaults for the rest.
template <typename T>
void take_values(const Variable_Map& values, std::string_view prefix, T& next, Findings& findings) {
	for (const auto& [name, text] : values) {
		if (!equal_ignoring_case(std::string_view(name).substr(0, prefix.size()), prefix)) {
			continue;
		}
		const Variable_Info* info = find_variable(name);
		if (info == nullptr) {
			findings.warnings.push_back(
			    is_retired_variable(name)
			        ? fmt::format("{}: ignored, this version does not have it", name)
			        : fmt::format("{}: ignored, there is no such variable", name));
			continue;
		}
		if (info->when == Variable_When::fixed) {
			continue; // an old database may carry another program's value
		}
		auto stored = check_variable(info->name, text);
		if (!stored.ok()) {
			findings.errors.push_back(stored.error().message);
			continue;
		}
		findings.given.insert(info->name);
		if (const auto* row = row_named<T>(info->name); row != nullptr) {
			set_member(*row, next, stored.value());
		}
	}
}

bool is_whole_bundle(const Pgsql_Config& config) {
	return std::any_of(kProfiles.begin(), kProfiles.end(), [&config](const Profile& profile) {
		for (size_t i = 0; i < kOwnedCount; ++i) {
			if (owned_text(config, kOwnedNames[i]) != profile.values[i]) {
				return false;
			}
		}
		return true;
	});
}

// The name changed: the settings follow, unless one was touched to say something else.
void follow_profile(const Profile& profile, const Pgsql_Config& running, Variable_Source source,
                    Pgsql_Config& next, Findings& findings) {
	// Saved after SET and before LOAD: the settings still spell the profile that ran then.
	const bool stale = source == Variable_Source::saved && is_whole_bundle(next);
	for (size_t i = 0; i < kOwnedCount; ++i) {
		const std::string name(kOwnedNames[i]);
		const std::string value = owned_text(next, name);
		if (value == profile.values[i]) {
			continue;
		}
		const bool touched = source == Variable_Source::file ? findings.given.contains(name)
		                                                     : value != owned_text(running, name);
		if (touched && !stale) {
			findings.errors.push_back(fmt::format(
			    "{}: \"{}\" contradicts {} \"{}\", which sets it to \"{}\"; use the profile "
			    "\"custom\" to set it apart",
			    name, value, kProfileName, profile.name, profile.values[i]));
			continue;
		}
		if (const auto* row = row_named<Pgsql_Config>(name); row != nullptr) {
			set_member(*row, next, std::string(profile.values[i]));
		}
	}
}

// Step 2: the profile and what it owns.
void apply_profile(const Pgsql_Config& running, Variable_Source source, Pgsql_Config& next,
                   Findings& findings) {
	const Profile* profile = find_profile(next.polardb_profile);
	if (profile == nullptr) {
		return; // custom owns nothing
	}
	const bool named_now = source == Variable_Source::file
	                           ? findings.given.contains(std::string(kProfileName))
	                           : next.polardb_profile != running.polardb_profile;
	if (named_now) {
		follow_profile(*profile, running, source, next, findings);
		return;
	}
	for (size_t i = 0; i < kOwnedCount; ++i) {
		if (owned_text(next, kOwnedNames[i]) != profile->values[i]) {
			findings.warnings.push_back(fmt::format("{}: now \"{}\", because {} was changed",
			                                        kProfileName, kCustomProfile, kOwnedNames[i]));
			next.polardb_profile = std::string(kCustomProfile);
			return;
		}
	}
}

// The words were checked against the .def rows; the unit test compares both lists.
template <typename E> void take_word(const std::string& text, E& value) {
	value = from_word<E>(text).value_or(value);
}

void fill_policy(Pgsql_Config& config) {
	Polardb_Policy& policy = config.policy;
	take_word(config.polardb_consistency_mode, policy.consistency_mode);
	take_word(config.polardb_read_target, policy.read_target);
	take_word(config.polardb_action_read_fallback, policy.read_fallback);
	take_word(config.polardb_action_missing_lsn, policy.missing_lsn);
	take_word(config.polardb_action_lsn_timeout, policy.lsn_timeout);
	take_word(config.polardb_action_replica_error, policy.replica_error);
	take_word(config.polardb_action_replica_loss, policy.replica_loss);
	take_word(config.polardb_proxy_protocol, policy.proxy_protocol);
	take_word(config.polardb_proxy_identity_mode, policy.identity_mode);
}

// What a consistency mode needs from protocol and policies; empty: fine.
std::string policy_fault(const Polardb_Policy& policy, Consistency_Mode mode,
                         Proxy_Protocol protocol) {
	if (mode == Consistency_Mode::session_lsn && protocol == Proxy_Protocol::off) {
		return "consistency session_lsn needs a protocol other than off";
	}
	if (mode == Consistency_Mode::global_lsn) {
		if (policy.missing_lsn == Missing_Lsn_Action::warning) {
			return "consistency global_lsn does not go with polardb_action_missing_lsn=warning";
		}
		if (policy.lsn_timeout == Lsn_Timeout_Action::warning) {
			return "consistency global_lsn does not go with polardb_action_lsn_timeout=warning";
		}
	}
	return {};
}

// Step 3: what values must agree on.
void check_together(const Pgsql_Config& running, const Pgsql_Config& next, Findings& findings) {
	const std::string fault =
	    policy_fault(next.policy, next.policy.consistency_mode, next.policy.proxy_protocol);
	if (!fault.empty()) {
		findings.errors.push_back(fmt::format("pgsql-polardb_consistency_mode: {}", fault));
	}
	const bool has_host = !next.polardb_proxy_identity_host.empty();
	const bool has_port = next.polardb_proxy_identity_port != 0;
	if (has_host && !has_port && running.polardb_proxy_identity_port != 0) {
		findings.errors.push_back("pgsql-polardb_proxy_identity_port: may not go back to 0 while "
		                          "pgsql-polardb_proxy_identity_host is set");
	} else if (has_host != has_port) {
		findings.warnings.push_back(
		    "pgsql-polardb_proxy_identity_host, pgsql-polardb_proxy_identity_port: "
		    "not used until both are set");
	}
}

bool is_wildcard(std::string_view host) {
	return host == "0.0.0.0" || host == "::" || host == "*";
}

bool is_v6(std::string_view host) {
	return host.find(':') != std::string_view::npos;
}

bool collide(const Listen_Address& left, const Listen_Address& right) {
	if (left.is_unix() || right.is_unix()) {
		return left == right;
	}
	if (left.port != right.port || left.port == 0 || is_v6(left.host) != is_v6(right.host)) {
		return false;
	}
	return left.host == right.host || is_wildcard(left.host) || is_wildcard(right.host);
}

} // namespace

Result<Built_Config<Pgsql_Config>> build_pgsql_config(const Variable_Map& values,
                                                      const Pgsql_Config& running,
                                                      Variable_Source source) {
	auto next = std::make_shared<Pgsql_Config>();
	Findings findings;
	take_values(values, "pgsql-", *next, findings);
	if (findings.errors.empty()) {
		apply_profile(running, source, *next, findings);
		fill_policy(*next);
		if (auto limits = Database_Limits::parse(next->max_connections_per_database); limits.ok()) {
			next->database_limits = limits.take();
		}
		next->proxy_networks = Network_List::parse(next->proxy_protocol_networks).take();
		check_together(running, *next, findings);
	}
	if (!findings.errors.empty()) {
		return findings.to_error();
	}
	return Built_Config<Pgsql_Config>{std::move(next), std::move(findings.warnings)};
}

Result<Built_Config<Admin_Config>> build_admin_config(const Variable_Map& values) {
	auto next = std::make_shared<Admin_Config>();
	Findings findings;
	take_values(values, "admin-", *next, findings);
	if (next->ssl_enabled && (next->ssl_key.empty() || next->ssl_cert.empty())) {
		findings.errors.push_back("admin-ssl_enabled: needs admin-ssl_key and admin-ssl_cert");
	}
	if (!findings.errors.empty()) {
		return findings.to_error();
	}
	return Built_Config<Admin_Config>{std::move(next), std::move(findings.warnings)};
}

std::vector<std::string> keep_restart_values(Pgsql_Config& next, const Pgsql_Config& running) {
	std::vector<std::string> kept;
	for (const auto& row : variable_rows<Pgsql_Config>()) {
		if (row.info.when != Variable_When::restart) {
			continue;
		}
		const std::string value = text_of(row, running);
		if (text_of(row, next) != value) {
			set_member(row, next, value);
			kept.push_back(row.info.name);
		}
	}
	return kept;
}

Result<void> check_consistency_policy(const Pgsql_Config& config,
                                      const std::vector<Replication_Hostgroup_Row>& pairs) {
	Findings findings;
	for (const Replication_Hostgroup_Row& pair : pairs) {
		const auto add = [&findings, &pair](std::string_view fault) {
			findings.errors.push_back(fmt::format("pair of writer hostgroup {} and reader "
			                                      "hostgroup {}: {}",
			                                      pair.writer_hostgroup, pair.reader_hostgroup,
			                                      fault));
		};
		const bool polardb = pair.check_type == Check_Type::polardb;
		if (pair.txn_split_enabled && !polardb) {
			add("txn_split_enabled needs check_type polardb");
		}
		// A plain pair promises nothing unless it says so itself.
		if (!polardb && pair.consistency_mode == Consistency_Mode::inherit) {
			continue;
		}
		const Consistency_Mode mode = pair.consistency_mode == Consistency_Mode::inherit
		                                  ? config.policy.consistency_mode
		                                  : pair.consistency_mode;
		const Proxy_Protocol protocol = pair.proxy_protocol == Proxy_Protocol::inherit
		                                    ? config.policy.proxy_protocol
		                                    : pair.proxy_protocol;
		if (const std::string fault = policy_fault(config.policy, mode, protocol); !fault.empty()) {
			add(fault);
		}
	}
	if (!findings.errors.empty()) {
		return findings.to_error();
	}
	return {};
}

Result<void> check_listeners(const Pgsql_Config& pgsql, const Admin_Config& admin) {
	struct Named {
		std::string_view variable;
		Listen_Address address;
	};
	std::vector<Named> seen;
	Findings findings;
	const std::array<std::pair<std::string_view, std::string_view>, 3> lists{{
	    {"pgsql-interfaces", pgsql.interfaces},
	    {"admin-mysql_ifaces", admin.mysql_ifaces},
	    {"admin-pgsql_ifaces", admin.pgsql_ifaces},
	}};
	for (const auto& [variable, text] : lists) {
		auto addresses = parse_listen_list(text);
		PROXY_TRY(addresses);
		for (Listen_Address& address : addresses.value()) {
			for (const Named& other : seen) {
				if (collide(address, other.address)) {
					findings.errors.push_back(fmt::format("{}: {} collides with {} of {}", variable,
					                                      address.text(), other.address.text(),
					                                      other.variable));
				}
			}
			seen.push_back(Named{variable, std::move(address)});
		}
	}
	if (!findings.errors.empty()) {
		return findings.to_error();
	}
	return {};
}

std::shared_ptr<const Server_Ssl_Params_Row> default_ssl_params(const Pgsql_Config& config) {
	auto params = std::make_shared<Server_Ssl_Params_Row>();
	params->ssl_ca = config.ssl_p2s_ca;
	params->ssl_cert = config.ssl_p2s_cert;
	params->ssl_key = config.ssl_p2s_key;
	params->ssl_crl = config.ssl_p2s_crl;
	params->ssl_crlpath = config.ssl_p2s_crlpath;
	return params;
}

} // namespace proxy
