#include "admin/Admin_Handler.h"

#include "admin/Admin_Text.h"
#include "base/Log.h"
#include "config/Config_Words.h"

#include <fmt/format.h>

#include <array>

namespace proxy {

namespace {
// Bounds of one statement: others wait while it runs, so a runaway query ends itself, and sooner
// when somebody does wait.
constexpr int64_t kStatementTimeUs = 30'000'000;
constexpr int64_t kContendedTimeUs = 800'000;
constexpr size_t kResultBytes = size_t{128} << 20;
// An administrator's values: above the largest pgsql-processlist_max_query_length. A stats user's:
// twice its default.
constexpr int kValueBytes = 48 << 20;
constexpr int kStatsValueBytes = 4 << 20;

// ProxySQL's prefix of every error on the admin port.
constexpr std::string_view kErrorPrefix = "ProxySQL Admin Error: ";

bool matches(const Admin_Command& command, const Admin_Statement& statement) {
	switch (command.match) {
	case Command_Match::exact:
		return statement.upper == command.pattern;
	case Command_Match::prefix:
		return std::string_view(statement.upper).starts_with(command.pattern);
	}
	return false;
}

// The tag of CommandComplete for a statement that SQLite ran.
std::string tag_for(std::string_view sql, const Sql_Result& result) {
	const std::string word = first_word(sql);
	const auto touched = result.returns_rows() && result.changes == 0
	                         ? static_cast<int64_t>(result.rows.size())
	                         : result.changes;
	if (word == "SELECT") {
		return fmt::format("SELECT {}", result.rows.size());
	}
	if (word == "INSERT") {
		return fmt::format("INSERT 0 {}", touched);
	}
	if (word == "UPDATE" || word == "DELETE") {
		return fmt::format("{} {}", word, touched);
	}
	return word;
}

void log_statement(const Admin_Statement& statement) {
	// A look is no event; a change is. Values may be secrets: they never reach the log.
	if (statement.upper.starts_with("SELECT") || statement.upper.starts_with("SHOW")) {
		return;
	}
	constexpr size_t kMaxLogged = 400;
	const std::string shown = without_literals(statement.line);
	log_info("Received {} command", std::string_view(shown).substr(0, kMaxLogged));
}

// Statements that reach beyond the statistics. SQLite runs some PRAGMAs while it compiles them, so
// EXPLAIN in front does not make one harmless.
bool is_refused_to_stats(std::string_view sql) {
	for (const std::string& name : names_in(sql)) {
		if (name == "explain" || name == "query" || name == "plan") {
			continue;
		}
		return name == "pragma" || name == "attach" || name == "detach" || name == "vacuum";
	}
	return false;
}

Command_Outcome run_command(Admin_Core& core, const Admin_Statement& statement) {
	for (const auto& list :
	     {load_save_commands(), show_commands(), proxysql_commands(), psql_commands()}) {
		for (const Admin_Command& command : list) {
			// A stats user falls through to SQLite, which knows no such statement.
			if (command.least_role == Admin_Role::admin &&
			    statement.client.role == Admin_Role::stats) {
				continue;
			}
			if (!matches(command, statement)) {
				continue;
			}
			if (Command_Outcome outcome = command.run(core, statement)) {
				return outcome;
			}
		}
	}
	return std::nullopt;
}
} // namespace

Admin_Answer done(std::string_view tag, int64_t changes) {
	Admin_Answer answer;
	answer.tag = tag;
	answer.result.changes = changes;
	return answer;
}

Admin_Answer one_value(std::string_view column, std::string_view value) {
	Admin_Answer answer;
	answer.tag = "SELECT 1";
	answer.result.columns.emplace_back(column);
	answer.result.rows.push_back({std::string(value)});
	return answer;
}

Command_Outcome run_rewritten(Admin_Core& core, const Admin_Statement& statement,
                              const std::string& sql) {
	return core.execute_sql(statement.client, sql);
}

Result<Admin_Answer> Admin_Core::execute(const Admin_Client& client, std::string_view text) {
	Admin_Statement statement{client, text, collapse(text), {}};
	statement.upper = to_upper(statement.line);
	if (client.role == Admin_Role::admin) {
		log_statement(statement);
	}
	Command_Outcome outcome = run_command(*this, statement);
	Result<Admin_Answer> answer =
	    outcome ? std::move(*outcome) : execute_sql(client, skip_leading_comments(text));
	if (!answer.ok()) {
		Error error = answer.take_error();
		error.message.insert(0, kErrorPrefix);
		return error;
	}
	return answer;
}

Result<Admin_Answer> Admin_Core::execute_sql(const Admin_Client& client, std::string_view sql) {
	std::string own;
	const bool stats_user = client.role == Admin_Role::stats;
	if (stats_user) {
		if (is_refused_to_stats(sql)) {
			return admin_error("Command not allowed");
		}
		own = without_stats_prefix(sql);
		sql = own;
	}
	PROXY_TRY(refresh_named_tables(sql, client.role));
	SQLite3DB& db = stats_user ? database_->stats_only() : database_->admin();
	db.set_read_only(stats_user || read_only_);
	Sql_Limits limits;
	limits.time_us = kStatementTimeUs;
	limits.contended_time_us = kContendedTimeUs;
	limits.result_bytes = client.result_bytes == 0 ? kResultBytes : client.result_bytes;
	limits.value_bytes = stats_user ? kStatsValueBytes : kValueBytes;
	limits.cancelled = client.cancelled;
	limits.waiting = client.waiting;
	Result<Sql_Result> result = db.run(sql, {}, limits);
	// The handle is shared by all clients: no transaction may stay open behind one statement.
	if (db.in_transaction()) {
		(void)db.execute("ROLLBACK"); // fails only when there is nothing left to roll back
	}
	db.set_read_only(false);
	if (!result.ok()) {
		return result.take_error();
	}
	Admin_Answer answer;
	answer.tag = tag_for(sql, result.value());
	answer.result = result.take();
	return answer;
}

} // namespace proxy
