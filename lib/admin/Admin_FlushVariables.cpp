// Variables between global_variables and the running configuration.
#include "admin/Admin_Core.h"
#include "base/Log.h"

#include <fmt/format.h>

namespace proxy {

Result<Variable_Map> Admin_Core::variables_in(std::string_view schema, std::string_view prefix) {
	if (database_ == nullptr) {
		return Variable_Map();
	}
	const Sql_Value parameters[] = {std::string(prefix)};
	Result<Sql_Result> rows = database_->admin().run(
	    fmt::format("SELECT variable_name, variable_value FROM {}.global_variables WHERE "
	                "SUBSTR(LOWER(variable_name), 1, LENGTH(?1)) = ?1",
	                schema),
	    parameters);
	if (!rows.ok()) {
		return rows.take_error();
	}
	Variable_Map out;
	for (const Sql_Row& row : rows.value().rows) {
		out.emplace(row[0].value_or(""), row[1].value_or(""));
	}
	return out;
}

// Names that no variable has are dropped with a warning, as ProxySQL does: they come from other
// versions and would otherwise be complained about for ever.
Result<Variable_Map> Admin_Core::take_known_variables(std::string_view prefix,
                                                      std::vector<std::string>& notices) {
	Result<Variable_Map> found = variables_in("main", prefix);
	if (!found.ok()) {
		return found.take_error();
	}
	Variable_Map known;
	for (auto& [name, value] : found.value()) {
		const Variable_Info* info = find_variable(name);
		if (info != nullptr) {
			known.insert_or_assign(info->name, value);
			continue;
		}
		const Sql_Value parameters[] = {name};
		Result<Sql_Result> gone = database_->admin().run(
		    "DELETE FROM main.global_variables WHERE variable_name = ?1", parameters);
		if (!gone.ok()) {
			return gone.take_error();
		}
		notices.push_back(fmt::format("there is no variable {}: its row is removed", name));
	}
	return known;
}

Result<void> Admin_Core::store_variables(const Variable_Map& values) {
	std::vector<Sql_Row> rows;
	for (const auto& [name, value] : values) {
		rows.push_back({name, value});
	}
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	PROXY_TRY(database_->insert_rows(*find_table("global_variables"), "main.global_variables", rows,
	                                 Row_Conflict::replace));
	return transaction.commit();
}

Result<void> Admin_Core::load_pgsql_variables(std::vector<std::string>& notices) {
	Result<Variable_Map> values = take_known_variables("pgsql-", notices);
	if (!values.ok()) {
		return values.take_error();
	}
	Result<Built_Config<Pgsql_Config>> built = build_pgsql_config(values.value(), *pgsql_);
	if (!built.ok()) {
		return built.take_error();
	}
	notices.insert(notices.end(), built.value().warnings.begin(), built.value().warnings.end());
	PROXY_TRY(check_listeners(*built.value().config, *admin_));
	PROXY_TRY(check_consistency_policy(*built.value().config,
	                                   control_.runtime_servers().replication_hostgroups));
	auto next = std::make_shared<Pgsql_Config>(*built.value().config);
	// What memory keeps: a restart variable's new value stays there, so that SAVE ... TO DISK
	// followed by a restart brings it.
	Variable_Map stored = variable_texts(*next);
	if (started_) {
		for (const std::string& name : keep_restart_values(*next, *pgsql_)) {
			notices.push_back(fmt::format("{} changes with SAVE PGSQL VARIABLES TO DISK and a "
			                              "restart; the running value stays until then",
			                              name));
		}
	}
	PROXY_TRY(control_.load_pgsql_variables(variable_texts(*next)));
	const bool raised = next->authentication_method > pgsql_->authentication_method;
	pgsql_ = next;
	if (raised) {
		note_md5_users(control_.runtime_users(), notices);
	}
	return store_variables(stored);
}

Result<void> Admin_Core::load_admin_variables(std::vector<std::string>& notices) {
	Result<Variable_Map> values = take_known_variables("admin-", notices);
	if (!values.ok()) {
		return values.take_error();
	}
	if (options_.admin_socket && !started_) {
		values.value()["admin-mysql_ifaces"] = *options_.admin_socket;
	}
	Result<Built_Config<Admin_Config>> built = build_admin_config(values.value());
	if (!built.ok()) {
		return built.take_error();
	}
	notices.insert(notices.end(), built.value().warnings.begin(), built.value().warnings.end());
	const Admin_Config& next = *built.value().config;
	if (started_) { // at start the other module's addresses come next, and are checked with these
		PROXY_TRY(check_listeners(*pgsql_, next));
	}
	Result<std::vector<Credential>> admins = parse_credentials(next.admin_credentials);
	if (!admins.ok()) {
		return admins.take_error();
	}
	Result<std::vector<Credential>> stats = parse_credentials(next.stats_credentials);
	if (!stats.ok()) {
		return stats.take_error();
	}
	if (rebind_ && next.pgsql_ifaces != admin_->pgsql_ifaces) {
		Result<std::vector<Listen_Address>> addresses = parse_listen_list(next.pgsql_ifaces);
		if (!addresses.ok()) {
			return addresses.take_error();
		}
		PROXY_TRY(rebind_(addresses.value()));
	}
	PROXY_TRY(control_.load_admin_variables(variable_texts(next)));
	admin_ = built.value().config;
	admin_credentials_ = admins.take();
	stats_credentials_ = stats.take();
	read_only_ = next.read_only;
	return store_variables(variable_texts(next));
}

const Credential* Admin_Core::find_credential(std::string_view username, Admin_Role& role) const {
	for (const auto& [list, list_role] : {std::pair{&admin_credentials_, Admin_Role::admin},
	                                      std::pair{&stats_credentials_, Admin_Role::stats}}) {
		for (const Credential& credential : *list) {
			if (credential.username == username) {
				role = list_role;
				return &credential;
			}
		}
	}
	return nullptr;
}

} // namespace proxy
