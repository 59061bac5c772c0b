// Everything the admin does that needs no socket: the databases, the configuration modules and
// their way between disk, memory and runtime, and the statements of a client.
//
// One object, owned by ProxySQL_Admin, which guards it with its mutex: one call at a time.
#pragma once

#include "admin/Admin_Database.h"
#include "admin/ProxySQL_Admin.h"
#include "admin/Runtime_Control.h"
#include "base/Result.h"
#include "config/Config_File.h"
#include "config/Config_Variables.h"
#include "config/Listen_Address.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

enum class Admin_Role : uint8_t { admin, stats };

// Who asks.
struct Admin_Client {
	Admin_Role role = Admin_Role::admin;
	// Raised by a CancelRequest or at shutdown; may be null.
	const std::atomic<bool>* cancelled = nullptr;
	// How many clients wait behind this one; may be null.
	const std::atomic<int>* waiting = nullptr;
	// Bytes of rows that the client may still be sent; 0: as many as one statement may have.
	size_t result_bytes = 0;
};

struct Admin_Answer {
	Sql_Result result;
	std::string tag;                  // CommandComplete
	std::vector<std::string> notices; // WARNING lines for the client
};

// What a configuration module is made of; determines how it gets to the runtime.
enum class Module_Kind : uint8_t {
	servers,
	users,
	query_rules,
	pgsql_variables,
	admin_variables,
	plain, // a copy in the runtime_ tables is all there is
};

struct Admin_Module {
	std::string_view name; // as in commands: "PGSQL SERVERS"
	Module_Kind kind = Module_Kind::plain;
	std::span<const std::string_view> tables = {};
	std::string_view checksum = {}; // row of runtime_checksums_values; empty: none
	std::string_view where = {};    // the module's rows when it shares a table
};

std::span<const Admin_Module> admin_modules();

class Admin_Core {
public:
	Admin_Core(Runtime_Control& control, Admin_Options options);

	// Opens the databases, fills memory from disk and, where it counts, from the configuration
	// file. Nothing that is on disk changes (but for the form of an older proxysql.db).
	Result<void> open();
	Result<void> load_all_to_runtime();
	// Once all of it has been found good: what the file said goes to disk.
	Result<void> keep_configuration();

	// One statement (Admin_Handler.cpp).
	Result<Admin_Answer> execute(const Admin_Client& client, std::string_view statement);

	// SQLite's part of it: refreshes the tables that `sql` names and runs it, no commands.
	Result<Admin_Answer> execute_sql(const Admin_Client& client, std::string_view sql);

	// --- one module between the layers (Admin_Cmd_LoadSave.cpp) ---
	Result<void> disk_to_memory(const Admin_Module& module);
	Result<void> memory_to_disk(const Admin_Module& module);
	// `notices` gets what the administrator should know although it worked.
	Result<void> memory_to_runtime(const Admin_Module& module, std::vector<std::string>& notices);
	Result<void> runtime_to_memory(const Admin_Module& module);
	// Returns the number of rows read from the file.
	Result<int64_t> config_to_memory(const Admin_Module& module);
	// What memory holds, as the configuration file would say it.
	Result<Config_File_Contents> memory_as_config();

	// --- dynamic tables (ProxySQL_Admin_Stats.cpp) ---
	// Rebuilds the stats and runtime_ tables that `sql` names.
	Result<void> refresh_named_tables(std::string_view sql, Admin_Role role);
	Result<void> refresh_stats_table(const Table_Definition& table, Stats_Read read);
	// Appends the digest statistics to history_pgsql_query_digest and zeroes them; rows written.
	Result<int64_t> save_digests();

	Runtime_Control& control() { return control_; }
	Admin_Database& database() { return *database_; }
	Admin_Options& options() { return options_; }
	const Pgsql_Config& pgsql_config() const { return *pgsql_; }
	const Admin_Config& admin_config() const { return *admin_; }
	void set_read_only(bool read_only) { read_only_ = read_only; }
	bool read_only() const { return read_only_; }
	// nullptr: no such user. Roles in the order of ProxySQL: admin_credentials first.
	const Credential* find_credential(std::string_view username, Admin_Role& role) const;

	// Called with the new interfaces when admin-pgsql_ifaces changes while listening.
	using Rebind = std::function<Result<void>(const std::vector<Listen_Address>&)>;
	void on_rebind(Rebind rebind) { rebind_ = std::move(rebind); }

	// "mysql-..." etc. of main.global_variables under a LIKE pattern.
	Result<Variable_Map> variables_in(std::string_view schema, std::string_view prefix);

private:
	struct Module_Checksum {
		int64_t version = 0;
		int64_t epoch_s = 0;
		std::string checksum;
	};

	Result<void> insert_defaults(std::string_view schema);
	Result<void> ensure_uuid();
	Result<void> apply_config(const Config_File_Contents& contents, const Admin_Module& module,
	                          int64_t& rows);
	Result<void> load_pgsql_variables(std::vector<std::string>& notices);
	Result<void> load_admin_variables(std::vector<std::string>& notices);
	Result<Variable_Map> take_known_variables(std::string_view prefix,
	                                          std::vector<std::string>& notices);
	Result<void> store_variables(const Variable_Map& values);
	void note_loaded(const Admin_Module& module);
	// Names the users who cannot log in by the method that runs.
	void note_md5_users(const std::vector<Pgsql_User_Row>& users,
	                    std::vector<std::string>& notices) const;
	Result<std::string> checksum_of(const Admin_Module& module);

	Result<void> refresh_runtime_table(std::string_view name);
	Result<void> refresh_checksums();
	Result<void> refresh_runtime_variables();
	Stats_Rows stats_rows(std::string_view table, Stats_Read read);

	Runtime_Control& control_;
	Admin_Options options_;
	std::unique_ptr<Admin_Database> database_;
	// What runs; starts with the defaults.
	std::shared_ptr<const Pgsql_Config> pgsql_;
	std::shared_ptr<const Admin_Config> admin_;
	std::vector<Credential> admin_credentials_;
	std::vector<Credential> stats_credentials_;
	std::map<std::string, Module_Checksum, std::less<>> checksums_;
	Rebind rebind_;
	bool file_counts_ = false; // what open() read from the file is not on disk yet
	bool started_ = false;     // load_all_to_runtime() succeeded
	bool read_only_ = false;
};

} // namespace proxy
