// The command table of the admin interface: what is recognised before SQLite sees a statement.
#pragma once

#include "admin/Admin_Core.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy {

// How a pattern (upper case, single blanks) meets the collapsed statement, ignoring case.
enum class Command_Match : uint8_t { exact, prefix };

// A statement on its way through the table.
struct Admin_Statement {
	const Admin_Client& client;
	std::string_view text; // as sent
	std::string line;      // collapsed, see Admin_Text.h
	std::string upper;     // line in upper case
};

// nullopt: the text is not for this command after all; the next row is tried.
using Command_Outcome = std::optional<Result<Admin_Answer>>;
using Command_Function = Command_Outcome (*)(Admin_Core& core, const Admin_Statement& statement);

struct Admin_Command {
	std::string_view pattern;
	Command_Match match = Command_Match::exact;
	Admin_Role least_role = Admin_Role::admin; // stats: everyone
	Command_Function run = nullptr;
	std::string_view doc;
};

// In the order they are tried; one list a file.
std::span<const Admin_Command> load_save_commands();
std::span<const Admin_Command> show_commands();
std::span<const Admin_Command> proxysql_commands();
std::span<const Admin_Command> psql_commands();

// --- helpers for command functions ---
inline Error admin_error(std::string message) {
	return make_error("P0001", std::move(message));
}
// A success without rows; the tag is the statement's first word unless given.
Admin_Answer done(std::string_view tag, int64_t changes = 0);
// Runs a rewritten statement as this client; the tag is that of the rewritten statement.
Command_Outcome run_rewritten(Admin_Core& core, const Admin_Statement& statement,
                              const std::string& sql);
// One row, one column.
Admin_Answer one_value(std::string_view column, std::string_view value);

} // namespace proxy
