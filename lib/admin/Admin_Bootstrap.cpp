// Start-up: which of database and configuration file counts, and the first load to the runtime.
// (ProxySQL's precedence: an existing proxysql.db wins over the file, unless --initial or
// --reload.)
#include "admin/Admin_Core.h"
#include "base/Log.h"

#include <fmt/format.h>

#include <array>
#include <sys/random.h>

namespace proxy {

namespace {
// A random (version 4) UUID.
std::string make_uuid() {
	std::array<uint8_t, 16> bytes{};
	// Up to 256 bytes getrandom() never gives less than asked for.
	(void)getrandom(bytes.data(), bytes.size(), 0);
	bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
	bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
	std::string out;
	for (size_t i = 0; i < bytes.size(); ++i) {
		if (i == 4 || i == 6 || i == 8 || i == 10) {
			out += '-';
		}
		out += fmt::format("{:02x}", bytes[i]);
	}
	return out;
}
} // namespace

Admin_Core::Admin_Core(Runtime_Control& control, Admin_Options options)
    : control_(control), options_(std::move(options)),
      pgsql_(std::make_shared<const Pgsql_Config>()),
      admin_(std::make_shared<const Admin_Config>()) {}

Result<void> Admin_Core::open() {
	Result<std::unique_ptr<Admin_Database>> opened =
	    Admin_Database::open(options_.datadir, options_.initial);
	if (!opened.ok()) {
		return opened.take_error();
	}
	database_ = opened.take();
	// Rows of other modules (mysql-) are kept too, so that nothing of a ProxySQL file is lost.
	PROXY_TRY(database_->copy_table(*find_table("global_variables"), "disk.global_variables",
	                                "main.global_variables"));
	PROXY_TRY(insert_defaults("main"));
	for (const Admin_Module& module : admin_modules()) {
		if (module.tables[0] != "global_variables") {
			PROXY_TRY(disk_to_memory(module));
		}
	}
	file_counts_ =
	    options_.config && (options_.initial || options_.reload || !database_->existed());
	if (!options_.config) {
		return {};
	}
	if (!file_counts_) {
		log_info("Ignoring configuration file at {}", options_.config_path);
		log_info("Loading configuration from the config DB ({}) as it has higher precedence over "
		         "the config file.",
		         database_->disk_path());
		return {};
	}
	for (const std::string& warning : options_.config->warnings) {
		log_warning("{}", warning);
	}
	for (const Admin_Module& module : admin_modules()) {
		int64_t rows = 0;
		if (Result<void> applied = apply_config(*options_.config, module, rows); !applied.ok()) {
			return make_error(applied.error().sqlstate,
			                  fmt::format("{}: {}: {}", options_.config_path, module.name,
			                              applied.error().message));
		}
	}
	return {};
}

Result<void> Admin_Core::keep_configuration() {
	PROXY_TRY(insert_defaults("disk"));
	PROXY_TRY(ensure_uuid());
	if (file_counts_) {
		for (const Admin_Module& module : admin_modules()) {
			PROXY_TRY(memory_to_disk(module));
		}
		file_counts_ = false;
	}
	return database_->keep();
}

Result<void> Admin_Core::load_all_to_runtime() {
	std::string problems;
	for (const Admin_Module& module : admin_modules()) {
		std::vector<std::string> notices;
		if (Result<void> loaded = memory_to_runtime(module, notices); !loaded.ok()) {
			problems += problems.empty() ? "" : "\n";
			problems += fmt::format("{}: {}", module.name, loaded.error().message);
		}
		for (const std::string& notice : notices) {
			log_warning("{}: {}", module.name, notice);
		}
	}
	if (!problems.empty()) {
		return make_error("F0000", problems); // config_file_error
	}
	started_ = true;
	return {};
}

Result<void> Admin_Core::insert_defaults(std::string_view schema) {
	std::vector<Sql_Row> rows;
	for (const auto& [name, value] : default_variables()) {
		rows.push_back({name, value});
	}
	const std::string insert =
	    fmt::format("INSERT OR IGNORE INTO {}.global_variables VALUES (?1, ?2)", schema);
	Sql_Transaction transaction(database_->admin());
	PROXY_TRY(transaction.begin());
	{
		Result<Sql_Statement> statement = database_->admin().prepare(insert);
		if (!statement.ok()) {
			return statement.take_error();
		}
		for (const Sql_Row& row : rows) {
			PROXY_TRY(statement.value().run(row));
		}
	}
	return transaction.commit();
}

Result<void> Admin_Core::ensure_uuid() {
	std::string uuid;
	if (options_.uuid) {
		uuid = *options_.uuid;
	} else if (options_.config && options_.config->globals.uuid) {
		uuid = *options_.config->globals.uuid;
	} else {
		uuid = database_->admin().value(
		    "SELECT variable_value FROM disk.global_settings WHERE variable_name = 'uuid'", "");
		if (uuid.empty()) {
			uuid = make_uuid();
		}
	}
	return database_->insert_rows(*find_table("global_settings"), "disk.global_settings",
	                              {{"uuid", uuid}}, Row_Conflict::replace);
}

} // namespace proxy
