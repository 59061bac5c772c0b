// The admin's databases: one connection that sees all schemas (administrators), one that sees only
// statistics (stats users). Creates and upgrades the tables and moves rows between schemas.
//
//   main, memory   what an administrator edits (MEMORY), and the runtime_ tables
//   disk           <datadir>/proxysql.db, what the next start reads
//   stats, monitor memory, filled when a statement names a table
//   stats_history  <datadir>/proxysql_stats.db
//
// Not thread-safe: guarded by the admin's mutex.
#pragma once

#include "admin/ProxySQL_Admin_Tables_Definitions.h"
#include "admin/sqlite3db.h"
#include "base/Result.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

// How rows meet rows that are already there.
enum class Row_Conflict : uint8_t { replace, fail };

class Admin_Database {
public:
	// Opens or creates both files and all tables. Fails with a clear error on a file that is no
	// database, is damaged or cannot be written.
	// `fresh`: nothing is read from proxysql.db. A new one is built beside it, or in its place when
	// there is none, and only keep() gives it its name: a start that is refused leaves the old one
	// as it was.
	static Result<std::unique_ptr<Admin_Database>> open(const std::string& datadir,
	                                                    bool fresh = false);
	~Admin_Database();
	// The new database becomes proxysql.db, an old one proxysql.db.bak.
	Result<void> keep();

	SQLite3DB& admin() { return *admin_; }
	SQLite3DB& stats_only() { return *stats_; }
	// Whether proxysql.db was there before open().
	bool existed() const { return existed_; }
	const std::string& disk_path() const { return disk_path_; }

	// Replaces the content of one table by another's of the same definition, e.g. main.pgsql_users
	// by disk.pgsql_users. `where` (may be empty) limits both sides to some rows.
	Result<void> copy_table(const Table_Definition& table, std::string_view from,
	                        std::string_view to, std::string_view where = {});
	// Replaces the whole content by these rows (all columns, in definition order; short rows are
	// filled up with NULL).
	Result<void> replace_rows(const Table_Definition& table, std::string_view target,
	                          const std::vector<Sql_Row>& rows);
	Result<void> insert_rows(const Table_Definition& table, std::string_view target,
	                         const std::vector<Sql_Row>& rows, Row_Conflict conflict);

	// Closes and opens proxysql.db again (PROXYSQL FLUSH CONFIGDB).
	Result<void> reopen_disk();

	Admin_Database(std::unique_ptr<SQLite3DB> admin, std::unique_ptr<SQLite3DB> stats)
	    : admin_(std::move(admin)), stats_(std::move(stats)) {}

private:
	const std::string& present_path() const { return new_path_.empty() ? disk_path_ : new_path_; }
	Result<void> attach_disk();
	Result<void> create_all();
	Result<void> create_disk_tables();
	Result<void> create_memory_tables();
	// Creates the table, or adds it to `old_forms` when it exists in another form.
	Result<void> create_missing(const Table_Definition& table, std::string_view schema,
	                            std::vector<const Table_Definition*>& old_forms);
	// Gives the table its present form and keeps its rows.
	Result<void> upgrade(const Table_Definition& table, std::string_view schema);
	Result<void> backup_once();

	std::unique_ptr<SQLite3DB> admin_;
	std::unique_ptr<SQLite3DB> stats_;
	std::string disk_path_;
	std::string new_path_; // until keep(): where the new database is; empty: none is new
	bool existed_ = false;
	bool backed_up_ = false;
};

} // namespace proxy
