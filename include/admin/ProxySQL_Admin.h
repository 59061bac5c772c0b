// The admin interface: configuration in SQLite, moved between disk, memory and runtime, and a
// server that answers SQL and ProxySQL's commands in PostgreSQL's protocol.
//
// Owned by main(). Call open(), then load_all_to_runtime() once the runtime can take it, then
// start_listening(); stop() (or the destructor) ends all clients within a second. Each client has
// a service thread; all statements run one at a time under db_mu_.
#pragma once

#include "admin/Runtime_Control.h"
#include "base/Mutex.h"
#include "base/Result.h"
#include "config/Config_File.h"
#include "config/Config_Variables.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

class Admin_Core;
class Admin_Turns;
class Admin_Server;

struct Admin_Options {
	std::string datadir = ".";
	// Where LOAD ... FROM CONFIG reads; empty: no file.
	std::string config_path;
	// The file as read at start; nullopt: none was found.
	std::optional<Config_File_Contents> config;
	bool initial = false;                    // --initial: set proxysql.db aside, take the file
	bool reload = false;                     // --reload: the file's rows over the database's
	std::optional<std::string> uuid;         // -U
	std::optional<std::string> admin_socket; // -S: replaces admin-mysql_ifaces
};

class ProxySQL_Admin {
public:
	ProxySQL_Admin(Runtime_Control& control, Admin_Options options);
	~ProxySQL_Admin();
	ProxySQL_Admin(const ProxySQL_Admin&) = delete;
	ProxySQL_Admin& operator=(const ProxySQL_Admin&) = delete;

	// Opens or creates the databases and fills memory. Fails on a database that cannot be read or
	// written.
	Result<void> open() EXCLUDES(db_mu_);
	// Every module from memory to the runtime. The error names each rejected row.
	Result<void> load_all_to_runtime() EXCLUDES(db_mu_);
	// Writes a configuration that was read from the file to proxysql.db. To be called when nothing
	// can be refused any more: until then the disk is as it was.
	Result<void> keep_configuration() EXCLUDES(db_mu_);
	// Binds admin-pgsql_ifaces and answers clients.
	Result<void> start_listening() EXCLUDES(db_mu_);
	// Not from a client's thread: Runtime_Control::act(shutdown) only asks main() for it.
	void stop();

	// Values in memory, for what must be known before load_all_to_runtime(): full names with
	// prefix. Empty before open().
	Variable_Map pgsql_variables() EXCLUDES(db_mu_);
	Variable_Map admin_variables() EXCLUDES(db_mu_);
	// The addresses bound, with the ports the kernel chose.
	std::vector<std::string> listening() const;

	// One statement as an administrator, without a connection; the rows as text.
	Result<Stats_Rows> run_for_test(std::string_view statement) EXCLUDES(db_mu_);

private:
	class Host;

	// Taken before the mutex by whoever serves a client.
	std::unique_ptr<Admin_Turns> turns_;
	Mutex db_mu_{Lock_Rank::admin_db};
	std::unique_ptr<Admin_Core> core_ PT_GUARDED_BY(db_mu_);
	// Destroyed in the opposite order: first the clients' threads, then what they use.
	std::unique_ptr<Host> host_;
	std::unique_ptr<Admin_Server> server_;
};

} // namespace proxy
