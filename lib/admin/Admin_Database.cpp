#include "admin/Admin_Database.h"

#include "base/Clock.h"
#include "base/Log.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace proxy {

namespace {
constexpr std::string_view kBootState = "58030"; // io_error

// In-memory databases are shared by name inside the process; each Admin_Database has its own name.
std::string unique_name() {
	uint64_t random = 0;
	// So few bytes never come short.
	(void)getrandom(&random, sizeof(random), 0);
	return std::to_string(random);
}

bool has_column(SQLite3DB& db, std::string_view schema, std::string_view table,
                std::string_view column) {
	const Sql_Value parameters[] = {std::string(table), std::string(schema), std::string(column)};
	return db.value("SELECT 1 FROM pragma_table_info(?1, ?2) WHERE name = ?3", "", parameters) ==
	       "1";
}

Error about_file(const std::string& path, const Error& error) {
	return make_error(kBootState, "database " + path + ": " + error.message);
}

// The schema of a table that is neither configuration nor statistics.
std::string_view schema_name(Table_Place place) {
	return place == Table_Place::history ? "stats_history" : "monitor";
}

void remove_database(const std::string& path) {
	for (const char* suffix : {"", "-journal"}) {
		// Most often there is none.
		[[maybe_unused]] const int failed = unlink((path + suffix).c_str());
	}
}

// SQLite opens lazily and reports a directory without write permission only at the first write;
// by then the proxy would be running. Ask first.
Result<void> check_writable(const std::string& path, const std::string& datadir) {
	if (access(datadir.c_str(), W_OK | X_OK) != 0) {
		return make_error(kBootState, "datadir " + datadir + ": " + std::strerror(errno));
	}
	if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), R_OK | W_OK) != 0) {
		return make_error(kBootState, "database " + path + ": " + std::strerror(errno));
	}
	return {};
}
} // namespace

Result<std::unique_ptr<Admin_Database>> Admin_Database::open(const std::string& datadir,
                                                             bool fresh) {
	const std::string id = unique_name();
	const std::string stats_uri = "file:mem_statsdb_" + id + "?mode=memory&cache=shared";
	const std::string monitor_uri = "file:mem_monitordb_" + id + "?mode=memory&cache=shared";
	const std::string history_path = datadir + "/proxysql_stats.db";
	const std::string disk_path = datadir + "/proxysql.db";
	PROXY_TRY(check_writable(disk_path, datadir));
	PROXY_TRY(check_writable(history_path, datadir));

	auto admin = SQLite3DB::open("file:mem_admindb_" + id + "?mode=memory&cache=shared");
	if (!admin.ok()) {
		return admin.take_error();
	}
	auto stats = SQLite3DB::open(stats_uri);
	if (!stats.ok()) {
		return stats.take_error();
	}
	auto database = std::make_unique<Admin_Database>(admin.take(), stats.take());
	database->disk_path_ = disk_path;
	database->existed_ = access(disk_path.c_str(), F_OK) == 0;
	if (fresh || !database->existed_) {
		database->new_path_ = disk_path + ".new";
		remove_database(database->new_path_); // of a start that was killed
	}
	const mode_t old_mask = umask(0027); // the files hold passwords
	Result<void> attached = database->attach_disk();
	if (attached.ok()) {
		SQLite3DB& all = *database->admin_;
		SQLite3DB& only_stats = *database->stats_;
		for (const auto& [uri, schema] :
		     {std::pair{stats_uri, "stats"}, std::pair{monitor_uri, "monitor"},
		      std::pair{history_path, "stats_history"}}) {
			if (attached.ok()) {
				attached = all.attach(uri, schema);
			}
		}
		for (const auto& [uri, schema] :
		     {std::pair{monitor_uri, "monitor"}, std::pair{history_path, "stats_history"}}) {
			if (attached.ok()) {
				attached = only_stats.attach(uri, schema);
			}
		}
		if (attached.ok()) {
			attached = database->create_all();
		}
	}
	umask(old_mask);
	PROXY_TRY(std::move(attached));
	database->stats_->refuse_slow_functions();
	return database;
}

Admin_Database::~Admin_Database() {
	if (!new_path_.empty()) {
		remove_database(new_path_);
	}
}

// Both names stay on one file system, so each step is whole: at any moment one of the files is
// there. The handle does not follow a name; it is attached anew.
Result<void> Admin_Database::keep() {
	if (new_path_.empty()) {
		return {};
	}
	const auto rename_to = [](const std::string& from, const std::string& to) -> Result<void> {
		if (std::rename(from.c_str(), to.c_str()) == 0) {
			return {};
		}
		return make_error(kBootState,
		                  "cannot rename " + from + " to " + to + ": " + std::strerror(errno));
	};
	PROXY_TRY(admin_->execute("DETACH DATABASE disk"));
	if (existed_) {
		PROXY_TRY(rename_to(disk_path_, disk_path_ + ".bak"));
		log_info("--initial: {} is now {}.bak", disk_path_, disk_path_);
	}
	PROXY_TRY(rename_to(new_path_, disk_path_));
	new_path_.clear();
	return attach_disk();
}

Result<void> Admin_Database::attach_disk() {
	const std::string& path = present_path();
	if (Result<void> attached = admin_->attach(path, "disk"); !attached.ok()) {
		return about_file(path, attached.error());
	}
	// Configuration is written rarely and must be there after a power cut: full synchronisation.
	Result<void> set = admin_->execute("PRAGMA disk.synchronous=FULL");
	if (set.ok()) {
		const std::string state = admin_->value("PRAGMA disk.quick_check(1)", "unreadable");
		if (state != "ok") {
			set = make_error(kBootState, "the file is damaged or not a database (" + state + ")");
		}
	}
	if (!set.ok()) {
		return about_file(path, set.error());
	}
	return {};
}

Result<void> Admin_Database::reopen_disk() {
	PROXY_TRY(admin_->execute("DETACH DATABASE disk"));
	PROXY_TRY(attach_disk());
	Result<void> made = create_disk_tables();
	if (!made.ok()) {
		return about_file(disk_path_, made.error());
	}
	return {};
}

Result<void> Admin_Database::create_all() {
	// The history can be lost with the power; only its form must hold.
	PROXY_TRY(admin_->execute("PRAGMA stats_history.synchronous=OFF"));
	if (Result<void> made = create_disk_tables(); !made.ok()) {
		return about_file(disk_path_, made.error());
	}
	PROXY_TRY(create_memory_tables());
	std::vector<const Table_Definition*> old_forms;
	Sql_Transaction transaction(*admin_);
	PROXY_TRY(transaction.begin());
	for (const Table_Definition& table : monitor_and_history_tables()) {
		PROXY_TRY(create_missing(table, schema_name(table.place), old_forms));
	}
	PROXY_TRY(transaction.commit());
	for (const Table_Definition* table : old_forms) {
		PROXY_TRY(upgrade(*table, schema_name(table->place)));
	}
	return {};
}

// One transaction for all new tables: one wait for the disk instead of one a table.
Result<void> Admin_Database::create_disk_tables() {
	std::vector<const Table_Definition*> old_forms;
	{
		Sql_Transaction transaction(*admin_);
		PROXY_TRY(transaction.begin());
		for (const Table_Definition& table : config_tables()) {
			if (table.place != Table_Place::runtime) {
				PROXY_TRY(create_missing(table, "disk", old_forms));
			}
		}
		PROXY_TRY(transaction.commit());
	}
	for (const Table_Definition* table : old_forms) {
		PROXY_TRY(upgrade(*table, "disk"));
	}
	return {};
}

Result<void> Admin_Database::create_memory_tables() {
	for (const Table_Definition& table : config_tables()) {
		const std::string name(table.name);
		if (table.place != Table_Place::disk) {
			PROXY_TRY(admin_->execute(create_table_sql(table, name)));
		}
		if (table.place == Table_Place::config) {
			PROXY_TRY(admin_->execute(create_table_sql(table, "runtime_" + name)));
		}
	}
	for (const Table_Definition& table : stats_tables()) {
		const std::string name(table.name);
		PROXY_TRY(stats_->execute(create_table_sql(table, name)));
		if (table.reset_twin == Reset_Twin::yes) {
			PROXY_TRY(stats_->execute(create_table_sql(table, name + "_reset")));
		}
	}
	for (const View_Definition& view : stats_views()) {
		PROXY_TRY(stats_->execute("CREATE VIEW " + std::string(view.name) + " AS " +
		                          std::string(view.select)));
	}
	return stats_->execute(
	    "INSERT INTO global_variables VALUES ('mysql-max_allowed_packet', '4194304')");
}

Result<void> Admin_Database::create_missing(const Table_Definition& table, std::string_view schema,
                                            std::vector<const Table_Definition*>& old_forms) {
	const std::string wanted = create_table_sql(table, table.name);
	const Sql_Value parameters[] = {std::string(table.name)};
	const std::string found = admin_->value("SELECT sql FROM " + std::string(schema) +
	                                            ".sqlite_master WHERE type = 'table' AND name = ?1",
	                                        "", parameters);
	if (found == wanted) {
		return {};
	}
	if (!found.empty()) {
		old_forms.push_back(&table);
		return {};
	}
	// "CREATE TABLE name" -> "CREATE TABLE schema.name"; the stored text has no schema again.
	std::string create = wanted;
	create.insert(std::string_view("CREATE TABLE ").size(), std::string(schema) + ".");
	return admin_->execute(create);
}

// The old form's rows are copied column by column; a row that the new checks refuse stays behind
// in the backup file and is counted in the log.
Result<void> Admin_Database::upgrade(const Table_Definition& table, std::string_view schema) {
	if (schema == "disk") {
		PROXY_TRY(backup_once());
	}
	const std::string place(schema);
	const std::string name(table.name);
	const std::string old_name = name + "_before_upgrade";
	std::string columns;
	std::string values;
	for (const Column_Definition& column : table.columns) {
		if (!has_column(*admin_, schema, name, column.name)) {
			continue;
		}
		columns += columns.empty() ? "" : ", ";
		columns += column.name;
		values += values.empty() ? "" : ", ";
		values += column.upgrade.empty() ? column.name : column.upgrade;
	}
	std::string create = create_table_sql(table, name);
	create.insert(std::string_view("CREATE TABLE ").size(), place + ".");
	Sql_Transaction transaction(*admin_);
	PROXY_TRY(transaction.begin());
	PROXY_TRY(admin_->execute("DROP TABLE IF EXISTS " + place + "." + old_name));
	PROXY_TRY(admin_->execute("ALTER TABLE " + place + "." + name + " RENAME TO " + old_name));
	PROXY_TRY(admin_->execute(create));
	if (!columns.empty()) {
		PROXY_TRY(admin_->execute("INSERT OR IGNORE INTO " + place + "." + name + " (" + columns +
		                          ") SELECT " + values + " FROM " + place + "." + old_name));
	}
	const std::string left_behind =
	    admin_->value("SELECT (SELECT COUNT(*) FROM " + place + "." + old_name +
	                      ") - (SELECT COUNT(*) FROM " + place + "." + name + ")",
	                  "0");
	PROXY_TRY(admin_->execute("DROP TABLE " + place + "." + old_name));
	PROXY_TRY(transaction.commit());
	log_info("upgraded table {}.{} to its present form", schema, table.name);
	if (left_behind != "0") {
		log_warning("{} rows of {}.{} do not fit its present form and were left out", left_behind,
		            schema, table.name);
	}
	return {};
}

Result<void> Admin_Database::backup_once() {
	if (backed_up_) {
		return {};
	}
	const std::string path = disk_path_ + ".before-upgrade-" + std::to_string(unix_time_s());
	PROXY_TRY(admin_->execute("VACUUM disk INTO " + sql_literal(path)));
	backed_up_ = true;
	log_info("{} is of another version: a copy is kept as {}", disk_path_, path);
	return {};
}

Result<void> Admin_Database::copy_table(const Table_Definition& table, std::string_view from,
                                        std::string_view to, std::string_view where) {
	const std::string columns = column_list(table);
	const std::string condition = where.empty() ? "" : " WHERE " + std::string(where);
	PROXY_TRY(admin_->execute("DELETE FROM " + std::string(to) + condition));
	return admin_->execute("INSERT INTO " + std::string(to) + " (" + columns + ") SELECT " +
	                       columns + " FROM " + std::string(from) + condition);
}

Result<void> Admin_Database::replace_rows(const Table_Definition& table, std::string_view target,
                                          const std::vector<Sql_Row>& rows) {
	PROXY_TRY(admin_->execute("DELETE FROM " + std::string(target)));
	return insert_rows(table, target, rows, Row_Conflict::fail);
}

Result<void> Admin_Database::insert_rows(const Table_Definition& table, std::string_view target,
                                         const std::vector<Sql_Row>& rows, Row_Conflict conflict) {
	if (rows.empty()) {
		return {};
	}
	std::string places;
	for (size_t i = 0; i < table.columns.size(); ++i) {
		places += i == 0 ? "?" : ",?";
	}
	Result<Sql_Statement> insert = admin_->prepare(
	    std::string(conflict == Row_Conflict::replace ? "INSERT OR REPLACE INTO "
	                                                  : "INSERT INTO ") +
	    std::string(target) + " (" + column_list(table) + ") VALUES (" + places + ")");
	if (!insert.ok()) {
		return insert.take_error();
	}
	Sql_Row padded;
	for (const Sql_Row& row : rows) {
		if (row.size() == table.columns.size()) {
			PROXY_TRY(insert.value().run(row));
			continue;
		}
		padded = row;
		padded.resize(table.columns.size());
		PROXY_TRY(insert.value().run(padded));
	}
	return {};
}

} // namespace proxy
