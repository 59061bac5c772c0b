#include "config/Config_File.h"

#include "Config_Sections.h"
#include "String_Checks.h"
#include "config/Listen_Address.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace proxy {

using libconfig::Setting;

namespace {

// Where a variable was set, by its listed name.
using Variable_Places = std::map<std::string, std::string>;

// One reading of one file.
class File_Reader {
public:
	File_Reader(const Setting& root, std::string name, Config_Scope scope)
	    : root_(root), scope_(scope), faults_(std::move(name)) {}

	Result<Config_File_Contents> run() {
		read_globals();
		for (int i = 0; i < root_.getLength(); ++i) {
			read_top_level(root_[i]);
		}
		if (scope_ == Config_Scope::everything && !faults_.any()) {
			check_together();
		}
		if (faults_.any()) {
			return faults_.to_error();
		}
		contents_.warnings = faults_.take_warnings();
		return std::move(contents_);
	}

private:
	void read_globals();
	void read_top_level(const Setting& setting);
	void read_variables(const Setting& section, const std::string& module);
	void read_variable(const Setting& setting, const std::string& section,
	                   const std::string& module);
	void check_together();
	void report_variables(const Error& error);
	// The place of what concerns several variables: the first variables section.
	std::string anywhere() const {
		return sections_place_.empty() ? faults_.first_line() : sections_place_;
	}
	std::optional<std::string> global_text(const char* key);
	std::optional<bool> global_flag(const char* key);

	const Setting& root_;
	const Config_Scope scope_;
	Config_Faults faults_;
	Config_File_Contents contents_;
	Variable_Places places_;
	std::string sections_place_;
	std::vector<Pair_Place> pairs_;
};

constexpr std::array kTextGlobals{
    "datadir",
    "errorlog",
    "pidfile",
    "uuid",
    "execute_on_exit_failure",
    "ldap_auth_plugin",
    "web_interface_plugin",
    "sqlite3_plugin",
};
constexpr std::array kFlagGlobals{
    "cluster_sync_interfaces", "pgsql-workers", "pgsql-admin",   "pgsql-monitor",
    "mysql-workers",           "mysql-admin",   "mysql-monitor",
};
constexpr const char* kHeartbeats = "restart_on_missing_heartbeats";
constexpr std::array kPluginGlobals{"ldap_auth_plugin", "web_interface_plugin", "sqlite3_plugin"};
// Sections of protocols and modules that this product does not have.
constexpr std::array<std::string_view, 4> kForeignPrefixes{"mysql_", "sqliteserver_", "clickhouse_",
                                                           "ldap_"};

template <size_t N> bool contains(const std::array<const char*, N>& names, std::string_view name) {
	for (const std::string_view known : names) {
		if (known == name) {
			return true;
		}
	}
	return false;
}

std::optional<std::string> File_Reader::global_text(const char* key) {
	if (!root_.exists(key)) {
		return std::nullopt;
	}
	const Setting& setting = root_[key];
	if (setting.getType() != Setting::TypeString) {
		faults_.error(faults_.place(setting), fmt::format("{} must be a text in quotes", key));
		return std::nullopt;
	}
	return std::string(setting.c_str());
}

std::optional<bool> File_Reader::global_flag(const char* key) {
	if (!root_.exists(key)) {
		return std::nullopt;
	}
	const Setting& setting = root_[key];
	const auto value = integer_of(setting);
	if (!value || (*value != 0 && *value != 1)) {
		faults_.error(faults_.place(setting), fmt::format("{} must be true or false", key));
		return std::nullopt;
	}
	return *value == 1;
}

void File_Reader::read_globals() {
	Config_File_Globals& globals = contents_.globals;
	globals.datadir = global_text("datadir");
	globals.errorlog = global_text("errorlog");
	globals.pidfile = global_text("pidfile");
	globals.uuid = global_text("uuid");
	globals.execute_on_exit_failure = global_text("execute_on_exit_failure");
	globals.cluster_sync_interfaces = global_flag("cluster_sync_interfaces").value_or(false);
	globals.pgsql_workers = global_flag("pgsql-workers");
	globals.pgsql_admin = global_flag("pgsql-admin");
	globals.pgsql_monitor = global_flag("pgsql-monitor");
	globals.mysql_workers = global_flag("mysql-workers");
	globals.mysql_admin = global_flag("mysql-admin");
	globals.mysql_monitor = global_flag("mysql-monitor");
	if (root_.exists(kHeartbeats)) {
		const Setting& setting = root_[kHeartbeats];
		const auto value = integer_of(setting);
		if (setting.getType() == Setting::TypeBoolean || !value || *value < 0 ||
		    *value > std::numeric_limits<int>::max()) {
			faults_.error(faults_.place(setting),
			              fmt::format("{} must be a whole number, 0 or more", kHeartbeats));
		} else {
			globals.restart_on_missing_heartbeats = static_cast<int>(*value);
		}
	}
}

void File_Reader::read_top_level(const Setting& setting) {
	const std::string name = setting.getName();
	if (contains(kPluginGlobals, name)) {
		faults_.warning(faults_.place(setting),
		                fmt::format("{} is ignored: there are no plugins", name));
		return;
	}
	if (contains(kTextGlobals, name) || contains(kFlagGlobals, name) || name == kHeartbeats ||
	    scope_ == Config_Scope::globals) {
		return;
	}
	if (name == "pgsql_variables" || name == "admin_variables") {
		read_variables(setting, name.substr(0, name.find('_')));
		return;
	}
	if (read_row_section(setting, name, contents_, pairs_, faults_) ||
	    read_generic_section(setting, name, contents_, faults_)) {
		return;
	}
	for (const std::string_view prefix : kForeignPrefixes) {
		if (name.starts_with(prefix)) {
			faults_.warning(
			    faults_.place(setting),
			    fmt::format("section {} is ignored: this proxy serves PostgreSQL only", name));
			return;
		}
	}
	faults_.warning(faults_.place(setting), fmt::format("unknown key {} is ignored", name));
}

void File_Reader::read_variables(const Setting& section, const std::string& module) {
	const std::string name = section.getName();
	if (sections_place_.empty()) {
		sections_place_ = faults_.place(section);
	}
	if (!section.isGroup()) {
		faults_.error(faults_.place(section),
		              fmt::format("section {}: must be a group in braces", name));
		return;
	}
	for (int i = 0; i < section.getLength(); ++i) {
		read_variable(section[i], name, module);
	}
}

void File_Reader::read_variable(const Setting& setting, const std::string& section,
                                const std::string& module) {
	// A name may carry its own module as prefix ("pgsql-threads").
	std::string name = to_lower(setting.getName());
	if (!name.starts_with(module + "-")) {
		name = module + "-" + name;
	}
	const auto headed = [&section](const std::string& text) {
		return fmt::format("section {}: {}", section, text);
	};
	const std::string place = faults_.place(setting);
	const Variable_Info* info = find_variable(name);
	if (info == nullptr || info->when == Variable_When::fixed) {
		if (info == nullptr && !is_retired_variable(name)) {
			faults_.error(place, headed(fmt::format("there is no variable {}", name)));
			return;
		}
		const char* reason = info != nullptr ? "it cannot be set" : "this version does not have it";
		faults_.warning(place, headed(fmt::format("{} is ignored: {}", name, reason)));
		return;
	}
	std::string text;
	if (setting.getType() == Setting::TypeString) {
		text = setting.c_str();
	} else if (setting.getType() == Setting::TypeBoolean) {
		text = static_cast<bool>(setting) ? "true" : "false";
	} else if (const auto number = integer_of(setting)) {
		text = std::to_string(*number);
	} else {
		faults_.error(
		    place, headed(fmt::format("{} must be a text in quotes, a whole number, true or false",
		                              name)));
		return;
	}
	auto stored = check_variable(info->name, text);
	if (!stored.ok()) {
		faults_.error(place, headed(stored.error().message));
		return;
	}
	if (!places_.emplace(info->name, place).second) {
		faults_.error(place, headed(fmt::format("{} appears twice", info->name)));
		return;
	}
	contents_.variables[info->name] = stored.take();
}

// Gives each line of the error the place of the variable it starts with.
void File_Reader::report_variables(const Error& error) {
	for (const std::string_view line : split_list(error.message, '\n')) {
		const auto found = places_.find(std::string(line.substr(0, line.find(':'))));
		// A rule about several variables may name one that the file leaves at its default.
		const std::string place = found != places_.end() ? found->second : anywhere();
		faults_.error(place, std::string(line));
	}
}

// What no section can say alone. Variables that the file does not set count with their defaults.
void File_Reader::check_together() {
	const auto pgsql =
	    build_pgsql_config(contents_.variables, Pgsql_Config{}, Variable_Source::file);
	const auto admin = build_admin_config(contents_.variables);
	if (!pgsql.ok()) {
		report_variables(pgsql.error());
	}
	if (!admin.ok()) {
		report_variables(admin.error());
	}
	if (!pgsql.ok() || !admin.ok()) {
		return;
	}
	for (const std::string& warning : pgsql.value().warnings) {
		faults_.warning(anywhere(), warning);
	}
	for (const Pair_Place& pair : pairs_) {
		const auto checked = check_consistency_policy(
		    *pgsql.value().config, {contents_.servers.replication_hostgroups[pair.index]});
		if (!checked.ok()) {
			for (const std::string_view line : split_list(checked.error().message, '\n')) {
				faults_.error(pair.place,
				              fmt::format("section pgsql_replication_hostgroups: {}", line));
			}
		}
	}
	if (const auto listeners = check_listeners(*pgsql.value().config, *admin.value().config);
	    !listeners.ok()) {
		report_variables(listeners.error());
	}
}

// What libconfig lets pass, per file that took part (@include).
void scan_sources(const Setting& setting, std::set<std::string>& files) {
	if (setting.getSourceFile() != nullptr) {
		files.insert(setting.getSourceFile());
	}
	if (setting.isAggregate()) {
		for (int i = 0; i < setting.getLength(); ++i) {
			scan_sources(setting[i], files);
		}
	}
}

void report_scan(std::string_view text, const std::string& name, Config_Faults& faults) {
	for (const Scan_Fault& fault : scan_config_text(text)) {
		faults.error(fmt::format("{}:{}", name, fault.line), fault.text);
	}
}

Result<std::string> file_text(const std::string& path) {
	std::error_code ignored;
	std::ifstream file(path, std::ios::binary);
	if (!file || std::filesystem::is_directory(path, ignored)) {
		const int reason = file ? EISDIR : errno;
		return make_error("58P01",
		                  fmt::format("{}: cannot be read: {}", path, std::strerror(reason)));
	}
	std::ostringstream text;
	text << file.rdbuf();
	return text.str();
}

// ` "NAME"` when the line is an @include: libconfig does not say which file it could not open.
std::string included_file(std::string_view text, int line) {
	for (int passed = 1; passed < line; ++passed) {
		const size_t end = text.find('\n');
		text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
	}
	text = text.substr(0, text.find('\n'));
	const size_t include = text.find("@include");
	const size_t begin = include == std::string_view::npos ? include : text.find('"', include);
	const size_t end = begin == std::string_view::npos ? begin : text.find('"', begin + 1);
	return end == std::string_view::npos ? std::string()
	                                     : fmt::format(" {}", text.substr(begin, end + 1 - begin));
}

// Runs `parse` and the reader behind the one place where libconfig's exceptions end.
template <typename Parse>
Result<Config_File_Contents> read(const std::string& name, const std::string& text,
                                  Config_Scope scope, Parse parse) {
	Config_Faults scanned(name);
	report_scan(text, name, scanned);
	if (scanned.any()) { // what libconfig would read is not what was written
		return scanned.to_error();
	}
	libconfig::Config config;
	try {
		parse(config);
		std::set<std::string> files;
		scan_sources(config.getRoot(), files);
		for (const std::string& file : files) {
			if (auto included = file_text(file); file != name && included.ok()) {
				report_scan(included.value(), file, scanned);
			}
		}
		if (scanned.any()) {
			return scanned.to_error();
		}
		return File_Reader(config.getRoot(), name, scope).run();
	} catch (const libconfig::ParseException& failure) {
		const std::string file = failure.getFile() == nullptr ? name : failure.getFile();
		auto included = file_text(file); // `text` may be of no file at all
		const std::string source = file == name || !included.ok() ? text : included.take();
		return make_error("F0000",
		                  fmt::format("{}:{}: {}{}", file, failure.getLine(), failure.getError(),
		                              included_file(source, failure.getLine())));
	} catch (const libconfig::FileIOException&) {
		return make_error("58P01", fmt::format("{}: cannot be read", name));
	} catch (const libconfig::SettingException& failure) {
		return make_error(
		    "F0000", fmt::format("{}: {}: {}", name, failure.getPath(), "unexpected type or name"));
	}
}

} // namespace

Result<Config_File_Contents> read_config_file(const std::string& path, Config_Scope scope) {
	auto text = file_text(path);
	PROXY_TRY(text);
	return read(path, text.value(), scope,
	            [&path](libconfig::Config& config) { config.readFile(path.c_str()); });
}

Result<Config_File_Contents> read_config_text(const std::string& text, const std::string& name,
                                              Config_Scope scope) {
	return read(name, text, scope, [&text](libconfig::Config& config) { config.readString(text); });
}

} // namespace proxy
