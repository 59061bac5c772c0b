// PROXYSQL ..., KILL, TRUNCATE, SET and what drivers send along with it.
#include "admin/Admin_Handler.h"
#include "admin/Admin_Text.h"
#include "base/Log.h"
#include "config/Config_Variables.h"
#include "config/Config_Words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unistd.h>

namespace proxy {

namespace {
using Action = Runtime_Control::Action;

Command_Outcome act(Admin_Core& core, Action action) {
	if (Result<void> result = core.control().act(action); !result.ok()) {
		return admin_error(result.error().message);
	}
	return done("PROXYSQL");
}

Command_Outcome start(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::start);
}
Command_Outcome stop(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::stop);
}
Command_Outcome restart(Admin_Core& core, const Admin_Statement&) {
	Command_Outcome stopped = act(core, Action::stop);
	return stopped->ok() ? act(core, Action::start) : stopped;
}
Command_Outcome pause_traffic(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::pause);
}
Command_Outcome resume_traffic(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::resume);
}
Command_Outcome shutdown_now(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::shutdown);
}
Command_Outcome shutdown_slow(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::shutdown_slow);
}
Command_Outcome flush_logs(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::flush_logs);
}
Command_Outcome reload_tls(Admin_Core& core, const Admin_Statement&) {
	return act(core, Action::reload_tls);
}

// Read-only mode is a variable too: memory and runtime agree on it.
Command_Outcome set_read_only(Admin_Core& core, bool read_only) {
	core.set_read_only(read_only);
	Result<Sql_Result> stored = core.database().admin().run(
	    fmt::format("UPDATE main.global_variables SET variable_value = '{}' WHERE variable_name = "
	                "'admin-read_only'",
	                read_only));
	if (!stored.ok()) {
		return stored.take_error();
	}
	return done("PROXYSQL");
}
Command_Outcome readonly(Admin_Core& core, const Admin_Statement&) {
	return set_read_only(core, true);
}
Command_Outcome readwrite(Admin_Core& core, const Admin_Statement&) {
	return set_read_only(core, false);
}

// There is no query cache: it is always empty.
Command_Outcome flush_query_cache(Admin_Core&, const Admin_Statement& statement) {
	return done(statement.upper == "PROXYSQL FLUSH PGSQL QUERY CACHE" ? "DELETE 0" : "PROXYSQL");
}
Command_Outcome flush_client_hosts(Admin_Core& core, const Admin_Statement&) {
	(void)core.control().stats("stats_pgsql_client_host_cache", Stats_Read::reset);
	return done("PROXYSQL");
}
Command_Outcome flush_configdb(Admin_Core& core, const Admin_Statement&) {
	if (Result<void> opened = core.database().reopen_disk(); !opened.ok()) {
		return opened.take_error();
	}
	return done("PROXYSQL");
}
Command_Outcome set_config_file(Admin_Core& core, const Admin_Statement& statement) {
	constexpr size_t kVerb = std::string_view("PROXYSQL SET CONFIG FILE ").size();
	const std::string path = unquote(std::string_view(statement.line).substr(kVerb));
	if (access(path.c_str(), R_OK) != 0) {
		return admin_error("Invalid config file");
	}
	core.options().config_path = path;
	return done("PROXYSQL");
}

Command_Outcome kill_connection(Admin_Core& core, const Admin_Statement& statement) {
	const std::string_view text = statement.upper;
	const std::string_view id_text = text.substr(text.rfind(' ') + 1);
	uint64_t id = 0;
	const char* end = id_text.data() + id_text.size();
	const auto [stopped, code] = std::from_chars(id_text.data(), end, id);
	if (code != std::errc() || stopped != end) {
		return admin_error(fmt::format("'{}' is not a connection id", id_text));
	}
	if (!core.control().kill_session(id)) {
		return make_error("P0001", fmt::format("Unknown thread id: {}", id));
	}
	return done("KILL");
}

// TRUNCATE [TABLE] [stats.]stats_pgsql_query_digest[_reset]
Command_Outcome truncate(Admin_Core& core, const Admin_Statement& statement) {
	std::string_view name = std::string_view(statement.upper).substr(9);
	for (const std::string_view optional : {"TABLE ", "STATS."}) {
		if (name.starts_with(optional)) {
			name.remove_prefix(optional.size());
		}
	}
	if (name != "STATS_PGSQL_QUERY_DIGEST" && name != "STATS_PGSQL_QUERY_DIGEST_RESET") {
		return std::nullopt;
	}
	(void)core.control().stats("stats_pgsql_query_digest", Stats_Read::reset);
	const Result<void> emptied =
	    core.database().admin().execute("DELETE FROM stats.stats_pgsql_query_digest; DELETE FROM "
	                                    "stats.stats_pgsql_query_digest_reset");
	if (!emptied.ok()) {
		return emptied.error();
	}
	return done("TRUNCATE");
}

Command_Outcome log_entry(Admin_Core&, const Admin_Statement& statement) {
	constexpr size_t kVerb = std::string_view("LOGENTRY ").size();
	log_info("LOGENTRY: {}", std::string_view(statement.line).substr(kVerb));
	return done("LOGENTRY");
}

// Each statement stands alone here: transactions begin and end without effect.
Command_Outcome nothing(Admin_Core&, const Admin_Statement& statement) {
	std::string word = first_word(statement.line);
	return done(word == "START" ? "START TRANSACTION" : word);
}

// SET name = value, SET name TO value. A name of a module is stored in memory; names that only
// drivers know are taken without effect.
Command_Outcome set_variable(Admin_Core& core, const Admin_Statement& statement) {
	std::string_view rest = std::string_view(statement.line).substr(4);
	for (const std::string_view scope : {"GLOBAL ", "SESSION ", "@@"}) {
		if (starts_with_ignoring_case(rest, scope)) {
			rest.remove_prefix(scope.size());
		}
	}
	size_t end = 0;
	while (end < rest.size() && rest[end] != '=' && rest[end] != ' ') {
		++end;
	}
	const std::string name(rest.substr(0, end));
	rest.remove_prefix(end);
	const auto skip_blanks = [&rest] {
		while (!rest.empty() && rest.front() == ' ') {
			rest.remove_prefix(1);
		}
	};
	skip_blanks();
	if (rest.starts_with('=')) {
		rest.remove_prefix(1);
	} else if (starts_with_ignoring_case(rest, "TO ")) {
		rest.remove_prefix(3);
	} else {
		return done("SET"); // SET NAMES ..., SET TIME ZONE ...
	}
	skip_blanks();
	if (core.read_only()) {
		return admin_error("attempt to write a readonly database");
	}
	const Sql_Value parameters[] = {unquote(rest), name};
	Result<Sql_Result> updated = core.database().admin().run(
	    "UPDATE main.global_variables SET variable_value = ?1 WHERE variable_name = ?2 COLLATE "
	    "NOCASE",
	    parameters);
	if (!updated.ok()) {
		return updated.take_error();
	}
	if (updated.value().changes > 0) {
		return done(fmt::format("UPDATE {}", updated.value().changes));
	}
	Admin_Answer answer = done("SET");
	for (const std::string_view module : {"pgsql-", "admin-", "mysql-", "ldap-"}) {
		if (starts_with_ignoring_case(name, module)) {
			answer.notices.push_back(fmt::format("ERROR: Unknown global variable: '{}'.", name));
		}
	}
	return answer;
}

constexpr Command_Match kPrefix = Command_Match::prefix;
constexpr Command_Match kExact = Command_Match::exact;
constexpr Admin_Role kAdmin = Admin_Role::admin;
constexpr Admin_Role kAll = Admin_Role::stats;

// For stats users a SET of a driver must do no harm, and must change nothing.
Command_Outcome set_as_stats(Admin_Core&, const Admin_Statement&) {
	return done("SET");
}

constexpr Admin_Command kCommands[] = {
    {"PROXYSQL START", kExact, kAdmin, start, "start the workers after -n or STOP"},
    {"PROXYSQL STOP", kExact, kAdmin, stop, "stop listeners and workers, keep the admin"},
    {"PROXYSQL RESTART", kExact, kAdmin, restart, "STOP, then START"},
    {"PROXYSQL PAUSE", kExact, kAdmin, pause_traffic, "accept no new clients"},
    {"PROXYSQL RESUME", kExact, kAdmin, resume_traffic, "accept clients again"},
    {"PROXYSQL SHUTDOWN", kExact, kAdmin, shutdown_now, "end the process"},
    {"PROXYSQL KILL", kExact, kAdmin, shutdown_now, "end the process"},
    {"PROXYSQL SHUTDOWN SLOW", kExact, kAdmin, shutdown_slow, "end the process when clients left"},
    {"PROXYSQL READONLY", kExact, kAdmin, readonly, "refuse changes on the admin port"},
    {"PROXYSQL READWRITE", kExact, kAdmin, readwrite, "allow changes on the admin port"},
    {"PROXYSQL FLUSH LOGS", kExact, kAdmin, flush_logs, "reopen the log files"},
    {"PROXYSQL FLUSH QUERY CACHE", kExact, kAdmin, flush_query_cache, "no effect"},
    {"PROXYSQL FLUSH PGSQL QUERY CACHE", kExact, kAdmin, flush_query_cache, "no effect"},
    {"PROXYSQL FLUSH MYSQL QUERY CACHE", kExact, kAdmin, flush_query_cache, "no effect"},
    {"PROXYSQL FLUSH PGSQL CLIENT HOSTS", kExact, kAdmin, flush_client_hosts,
     "forget failed logins"},
    {"PROXYSQL FLUSH MYSQL CLIENT HOSTS", kExact, kAdmin, flush_client_hosts,
     "forget failed logins"},
    {"PROXYSQL FLUSH CONFIGDB", kExact, kAdmin, flush_configdb, "reopen proxysql.db"},
    {"PROXYSQL RELOAD TLS", kExact, kAdmin, reload_tls, "read the certificate files again"},
    {"PROXYSQL SET CONFIG FILE ", kPrefix, kAdmin, set_config_file,
     "the file LOAD ... FROM CONFIG reads"},
    {"KILL PGSQL CONNECTION ", kPrefix, kAdmin, kill_connection, "end a client session"},
    {"KILL CONNECTION ", kPrefix, kAdmin, kill_connection, "end a client session"},
    {"TRUNCATE ", kPrefix, kAdmin, truncate, "zero the digest statistics"},
    {"LOGENTRY ", kPrefix, kAdmin, log_entry, "write a line to the error log"},
    {"SET ", kPrefix, kAdmin, set_variable, "change a variable in memory"},
    {"SET ", kPrefix, kAll, set_as_stats, "taken without effect"},
    {"BEGIN", kPrefix, kAll, nothing, "taken without effect"},
    {"START TRANSACTION", kPrefix, kAll, nothing, "taken without effect"},
    {"COMMIT", kPrefix, kAll, nothing, "taken without effect"},
    {"END", kExact, kAll, nothing, "taken without effect"},
    {"ROLLBACK", kPrefix, kAll, nothing, "taken without effect"},
    {"ABORT", kExact, kAll, nothing, "taken without effect"},
    {"SAVEPOINT ", kPrefix, kAll, nothing, "taken without effect"},
    {"RELEASE ", kPrefix, kAll, nothing, "taken without effect"},
    {"DISCARD ", kPrefix, kAll, nothing, "taken without effect"},
    {"RESET ", kPrefix, kAll, nothing, "taken without effect"},
    {"DEALLOCATE ", kPrefix, kAll, nothing, "taken without effect"},
    {"USE ", kPrefix, kAll, nothing, "taken without effect"},
    {"LOCK TABLES", kPrefix, kAll, nothing, "taken without effect"},
    {"UNLOCK TABLES", kPrefix, kAll, nothing, "taken without effect"},
};
} // namespace

std::span<const Admin_Command> proxysql_commands() {
	return kCommands;
}

} // namespace proxy
