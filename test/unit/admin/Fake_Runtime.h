// A runtime that keeps what it is given, for the admin's tests.
#pragma once

#include "admin/ProxySQL_Admin.h"
#include "admin/Runtime_Control.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace proxy::test {

class Fake_Runtime final : public Runtime_Control {
public:
	Result<void> load_servers(const Pgsql_Servers_Config& config) override {
		if (!refuse.empty()) {
			return make_error("P0001", refuse);
		}
		servers = config;
		++loads;
		return {};
	}
	Result<void> load_users(const std::vector<Pgsql_User_Row>& rows) override {
		users = rows;
		return {};
	}
	Result<void> load_query_rules(const Query_Rules_Config& config) override {
		if (!refuse.empty()) {
			return make_error("P0001", refuse);
		}
		rules = config;
		return {};
	}
	Result<void> load_pgsql_variables(const std::map<std::string, std::string>& values) override {
		pgsql_variables = values;
		return {};
	}
	Result<void> load_admin_variables(const std::map<std::string, std::string>& values) override {
		admin_variables = values;
		return {};
	}
	Pgsql_Servers_Config runtime_servers() override { return servers; }
	std::vector<Pgsql_User_Row> runtime_users() override { return users; }
	Query_Rules_Config runtime_query_rules() override { return rules; }
	Stats_Rows stats(std::string_view table, Stats_Read read) override {
		asked.emplace_back(std::string(table), read);
		const auto found = stats_rows.find(std::string(table));
		return found == stats_rows.end() ? Stats_Rows() : found->second;
	}
	Result<void> act(Action action) override {
		actions.push_back(action);
		return {};
	}
	bool kill_session(uint64_t session_id) override {
		killed = session_id;
		return session_id == 7;
	}

	std::string refuse; // not empty: loads of servers and rules fail with it
	int loads = 0;
	Pgsql_Servers_Config servers;
	std::vector<Pgsql_User_Row> users;
	Query_Rules_Config rules;
	std::map<std::string, std::string> pgsql_variables;
	std::map<std::string, std::string> admin_variables;
	std::map<std::string, Stats_Rows> stats_rows;
	std::vector<std::pair<std::string, Stats_Read>> asked;
	std::vector<Action> actions;
	uint64_t killed = 0;
};

// A directory that goes with the test.
class Temporary_Directory {
public:
	Temporary_Directory() {
		// In memory where there is such a place: the tests wait for many a write otherwise.
		const bool in_memory = access("/dev/shm", W_OK) == 0;
		std::string name = std::string(in_memory ? "/dev/shm" : "/tmp") + "/polar-admin-XXXXXX";
		path = mkdtemp(name.data());
	}
	~Temporary_Directory() {
		std::error_code ignored;
		std::filesystem::remove_all(path, ignored);
	}
	Temporary_Directory(const Temporary_Directory&) = delete;
	Temporary_Directory& operator=(const Temporary_Directory&) = delete;
	std::string path;
};

// Opens an admin on `directory`, with a configuration file when `config` is not empty.
inline Admin_Options admin_options(const std::string& directory, const std::string& config = "") {
	Admin_Options options;
	options.datadir = directory;
	if (!config.empty()) {
		options.config_path = directory + "/test.cnf";
		Result<Config_File_Contents> contents = read_config_text(config, options.config_path);
		if (contents.ok()) {
			options.config = contents.take();
		}
	}
	return options;
}

} // namespace proxy::test
