// Builds the objects, hands references down, waits for signals. The only place that knows them all.
#include "Daemon.h"
#include "Runtime.h"
#include "admin/ProxySQL_Admin.h"
#include "base/Log.h"
#include "base/Version.def"
#include "config/Command_Line.h"
#include "config/Config_File.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

extern char** environ; // NOLINT: POSIX

namespace {

using namespace proxy;

constexpr int kExitFailure = 1;

int fail(const std::string& text) {
	std::fprintf(stderr, "polar-proxy: %s\n", text.c_str());
	return kExitFailure;
}

// libpq takes defaults from PG* variables; the configuration alone decides here.
void clear_libpq_environment() {
	std::vector<std::string> names;
	for (char** entry = environ; *entry != nullptr; ++entry) {
		const std::string text(*entry);
		if (text.starts_with("PG")) {
			names.push_back(text.substr(0, text.find('=')));
		}
	}
	for (const std::string& name : names) {
		unsetenv(name.c_str());
	}
}

// As ProxySQL: a soft limit of 1024 is too few descriptors for a proxy.
void raise_descriptor_limit() {
	constexpr rlim_t kTooFew = 1024;
	constexpr rlim_t kWanted = 102400;
	rlimit limit{};
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= kTooFew) {
		limit.rlim_cur = std::min(kWanted, limit.rlim_max);
		setrlimit(RLIMIT_NOFILE, &limit);
		log_info("limit of open files raised to {}", limit.rlim_cur);
	}
}

struct Setup {
	Command_Line_Options options;
	std::string config_path;
	std::optional<Config_File_Contents> config;
	std::string datadir;
};

// Query rules compile only above lib/config, so their faults get file and line here.
Result<void> check_rules(const Query_Rules_Config& config) {
	std::string faults;
	for (const Query_Rule_Row& row : config.rules) {
		Query_Rules_Config one;
		one.rules.push_back(row);
		if (const auto compiled = Query_Rules::compile(one, 0); !compiled) {
			faults += (faults.empty() ? "" : "\n") + row.source + compiled.error().message;
		}
	}
	return faults.empty() ? Result<void>() : Result<void>(make_error("22023", faults));
}

Result<Setup> read_setup(const std::vector<std::string>& arguments) {
	Setup setup;
	auto options = parse_command_line(arguments);
	PROXY_TRY(options);
	setup.options = options.take();
	if (setup.options.action != Command_Line_Action::run) {
		return setup;
	}
	std::array<char, 4096> directory{};
	const char* current = getcwd(directory.data(), directory.size());
	const std::string working_directory = current == nullptr ? "." : current;
	setup.config_path = setup.options.config_file.value_or(
	    find_config_file(working_directory).value_or(std::string()));
	if (!setup.config_path.empty()) {
		auto contents = read_config_file(setup.config_path);
		PROXY_TRY(contents);
		setup.config = contents.take();
		PROXY_TRY(check_rules(setup.config->rules));
	}
	setup.datadir = working_directory;
	if (setup.options.datadir.has_value()) {
		setup.datadir = *setup.options.datadir;
	} else if (setup.config.has_value() && setup.config->globals.datadir.has_value()) {
		setup.datadir = *setup.config->globals.datadir;
	}
	struct stat status {};
	if (stat(setup.datadir.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
	    access(setup.datadir.c_str(), W_OK | X_OK) != 0) {
		return make_error("58P01", "data directory \"" + setup.datadir +
		                               "\" does not exist or cannot be written; create it, or name "
		                               "another with -D or datadir=");
	}
	return setup;
}

bool component_on(const std::optional<bool>& from_command_line,
                  const std::optional<bool>& from_file) {
	return from_command_line.value_or(from_file.value_or(true));
}

// Runs until a signal or an admin command says stop; the exit code.
int serve(const Setup& setup) {
	const Config_File_Globals globals =
	    setup.config.has_value() ? setup.config->globals : Config_File_Globals{};
	Runtime_Options runtime_options;
	runtime_options.datadir = setup.datadir;
	runtime_options.monitor = !setup.options.no_monitor &&
	                          component_on(setup.options.pgsql_monitor, globals.pgsql_monitor);
	runtime_options.workers =
	    !setup.options.no_start && component_on(setup.options.pgsql_workers, globals.pgsql_workers);
	Runtime runtime(runtime_options);
	Admin_Options admin_options;
	admin_options.datadir = setup.datadir;
	admin_options.config_path = setup.config_path;
	admin_options.config = setup.config;
	admin_options.initial = setup.options.initial;
	admin_options.reload = setup.options.reload;
	admin_options.uuid = setup.options.uuid.has_value() ? setup.options.uuid : globals.uuid;
	admin_options.admin_socket = setup.options.admin_socket;
	ProxySQL_Admin admin(runtime, admin_options);
	const auto ready = [&]() -> Result<void> {
		PROXY_TRY(admin.open());
		PROXY_TRY(admin.load_all_to_runtime());
		PROXY_TRY(runtime.start());
		if (component_on(setup.options.pgsql_admin, globals.pgsql_admin)) {
			PROXY_TRY(admin.start_listening());
		}
		return admin.keep_configuration();
	};
	if (const Result<void> started = ready(); !started) {
		log_error("not started: {}", started.error().message);
		admin.stop();
		runtime.stop(Stop_Request::now);
		return fail(started.error().message);
	}
	log_info("{} is ready", version_text().substr(0, version_text().find('\n')));
	Stop_Request stop = Stop_Request::none;
	while (stop == Stop_Request::none) {
		switch (wait_for_signal()) {
		case Signal_Event::terminate:
			log_info("Received TERM signal: shutdown in progress...");
			stop = Stop_Request::now;
			break;
		case Signal_Event::reopen_logs:
			reopen_log();
			break;
		case Signal_Event::none:
			stop = runtime.stop_requested();
			break;
		}
	}
	admin.stop();
	runtime.stop(stop);
	log_info("shutdown complete");
	return 0;
}

} // namespace

int main(int argc, char** argv) {
	const std::vector<std::string> arguments(argv + 1, argv + argc);
	auto setup = read_setup(arguments);
	if (!setup) {
		return fail(setup.error().message);
	}
	const Command_Line_Options& options = setup.value().options;
	if (options.action == Command_Line_Action::show_help) {
		std::printf("%s", usage_text("polar-proxy").c_str());
		return 0;
	}
	if (options.action == Command_Line_Action::show_version) {
		std::printf("%s", version_text().c_str());
		return 0;
	}
	clear_libpq_environment();
	block_signals();
	report_crashes();
	const Config_File_Globals globals =
	    setup.value().config.has_value() ? setup.value().config->globals : Config_File_Globals{};
	Daemon_Options daemon_options;
	daemon_options.pid_file = globals.pidfile.value_or(setup.value().datadir + "/proxysql.pid");
	daemon_options.log_file = globals.errorlog.value_or(setup.value().datadir + "/proxysql.log");
	daemon_options.exit_on_error = options.exit_on_error;
	daemon_options.exit_failure_script = globals.execute_on_exit_failure.value_or(std::string());
	if (!options.foreground) {
		if (const std::optional<int> parent_exit = become_daemon(daemon_options)) {
			return *parent_exit;
		}
	}
	for (const std::string& warning : options.warnings) {
		log_warning("{}", warning);
	}
	if (setup.value().config.has_value()) {
		for (const std::string& warning : setup.value().config->warnings) {
			log_warning("{}", warning);
		}
		log_info("Using config file {}", setup.value().config_path);
	} else {
		log_warning("no configuration file found: defaults, and what {} holds",
		            setup.value().datadir + "/proxysql.db");
	}
	raise_descriptor_limit();
	return serve(setup.value());
}
