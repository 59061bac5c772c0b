// LOAD and SAVE: one grammar for all modules.
//   LOAD <module> TO MEMORY|MEM, FROM DISK            disk -> memory
//   SAVE <module> FROM MEMORY|MEM, TO DISK            memory -> disk
//   LOAD <module> FROM MEMORY|MEM, TO RUNTIME|RUN     memory -> runtime
//   SAVE <module> TO MEMORY|MEM, FROM RUNTIME|RUN     runtime -> memory
//   LOAD <module> FROM CONFIG                         configuration file -> memory
#include "admin/Admin_Handler.h"
#include "admin/Admin_Text.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace proxy {

namespace {
enum class Move : uint8_t {
	disk_to_memory,
	memory_to_disk,
	memory_to_runtime,
	runtime_to_memory,
	config_to_memory,
};

struct Move_Spelling {
	std::string_view verb;
	std::string_view direction;
	Move move;
};
constexpr Move_Spelling kSpellings[] = {
    {"LOAD", "TO MEMORY", Move::disk_to_memory},
    {"LOAD", "TO MEM", Move::disk_to_memory},
    {"LOAD", "FROM DISK", Move::disk_to_memory},
    {"SAVE", "FROM MEMORY", Move::memory_to_disk},
    {"SAVE", "FROM MEM", Move::memory_to_disk},
    {"SAVE", "TO DISK", Move::memory_to_disk},
    {"LOAD", "FROM MEMORY", Move::memory_to_runtime},
    {"LOAD", "FROM MEM", Move::memory_to_runtime},
    {"LOAD", "TO RUNTIME", Move::memory_to_runtime},
    {"LOAD", "TO RUN", Move::memory_to_runtime},
    {"SAVE", "TO MEMORY", Move::runtime_to_memory},
    {"SAVE", "TO MEM", Move::runtime_to_memory},
    {"SAVE", "FROM RUNTIME", Move::runtime_to_memory},
    {"SAVE", "FROM RUN", Move::runtime_to_memory},
    {"LOAD", "FROM CONFIG", Move::config_to_memory},
};

Result<Admin_Answer> move_module(Admin_Core& core, const Admin_Module& module, Move move,
                                 std::string_view verb) {
	Admin_Answer answer = done(verb);
	switch (move) {
	case Move::disk_to_memory:
		PROXY_TRY(core.disk_to_memory(module));
		break;
	case Move::memory_to_disk:
		PROXY_TRY(core.memory_to_disk(module));
		break;
	case Move::memory_to_runtime: {
		Result<void> loaded = core.memory_to_runtime(module, answer.notices);
		if (!loaded.ok()) {
			return admin_error(fmt::format("{} not loaded, the runtime is unchanged: {}",
			                               module.name, loaded.error().message));
		}
		break;
	}
	case Move::runtime_to_memory:
		PROXY_TRY(core.runtime_to_memory(module));
		break;
	case Move::config_to_memory: {
		Result<int64_t> rows = core.config_to_memory(module);
		if (!rows.ok()) {
			return rows.take_error();
		}
		answer.result.changes = rows.value();
		break;
	}
	}
	return answer;
}

Command_Outcome load_or_save(Admin_Core& core, const Admin_Statement& statement) {
	const std::string_view text = statement.upper;
	for (const Move_Spelling& spelling : kSpellings) {
		// "VERB module DIRECTION", with single blanks.
		const size_t fixed = spelling.verb.size() + spelling.direction.size() + 2;
		if (text.size() <= fixed || !text.starts_with(spelling.verb) ||
		    !text.ends_with(spelling.direction)) {
			continue;
		}
		const std::string_view middle = text.substr(spelling.verb.size(), text.size() - fixed + 2);
		for (const Admin_Module& module : admin_modules()) {
			if (middle == fmt::format(" {} ", module.name)) {
				return move_module(core, module, spelling.move, spelling.verb);
			}
		}
	}
	return std::nullopt;
}

Command_Outcome save_digest(Admin_Core& core, const Admin_Statement&) {
	Result<int64_t> rows = core.save_digests();
	if (!rows.ok()) {
		return rows.take_error();
	}
	return done("SAVE", rows.value());
}

Command_Outcome load_coredump(Admin_Core&, const Admin_Statement&) {
	return done("LOAD");
}

// SELECT CONFIG FILE
Command_Outcome select_config(Admin_Core& core, const Admin_Statement&) {
	Result<Config_File_Contents> contents = core.memory_as_config();
	if (!contents.ok()) {
		return contents.take_error();
	}
	return one_value("Data", config_file_text(contents.value()));
}

Result<void> write_file(const std::string& path, std::string_view text) {
	constexpr mode_t kMode = 0600; // the file holds passwords
	const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
	if (fd < 0) {
		return admin_error(fmt::format("Cannot open file {}: {}", path, std::strerror(errno)));
	}
	while (!text.empty()) {
		const ssize_t written = write(fd, text.data(), text.size());
		if (written < 0 && errno != EINTR) {
			const std::string why = std::strerror(errno);
			close(fd);
			return admin_error(fmt::format("Error writing file {}: {}", path, why));
		}
		text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
	}
	// close() is where some file systems report a full disk.
	if (fsync(fd) != 0 || close(fd) != 0) {
		return admin_error(fmt::format("Error writing file {}: {}", path, std::strerror(errno)));
	}
	return {};
}

Command_Outcome save_config(Admin_Core& core, const std::string& path) {
	if (path.empty()) {
		return admin_error("empty file name");
	}
	Result<Config_File_Contents> contents = core.memory_as_config();
	if (!contents.ok()) {
		return contents.take_error();
	}
	if (Result<void> written = write_file(path, config_file_text(contents.value()));
	    !written.ok()) {
		return written.take_error();
	}
	Admin_Answer answer = done("SELECT");
	answer.notices.push_back(fmt::format("File {} is saved.", path));
	return answer;
}

Command_Outcome select_config_into(Admin_Core& core, const Admin_Statement& statement) {
	constexpr size_t kVerb = std::string_view("SELECT CONFIG INTO OUTFILE").size();
	const std::string_view rest = std::string_view(statement.line).substr(kVerb);
	return save_config(core, unquote(rest.substr(std::min(rest.size(), size_t{1}))));
}

Command_Outcome save_config_to_file(Admin_Core& core, const Admin_Statement& statement) {
	constexpr size_t kVerb = std::string_view("SAVE CONFIG TO FILE").size();
	const std::string_view rest = std::string_view(statement.line).substr(kVerb);
	return save_config(core, unquote(rest.substr(std::min(rest.size(), size_t{1}))));
}

constexpr Command_Match kPrefix = Command_Match::prefix;
constexpr Command_Match kExact = Command_Match::exact;
constexpr Admin_Role kAdmin = Admin_Role::admin;

constexpr Admin_Command kCommands[] = {
    {"SAVE PGSQL DIGEST TO DISK", kExact, kAdmin, save_digest,
     "append the digest statistics to history_pgsql_query_digest and zero them"},
    {"SAVE CONFIG TO FILE", kPrefix, kAdmin, save_config_to_file,
     "write memory as a configuration file"},
    {"LOAD COREDUMP FROM MEMORY", kExact, kAdmin, load_coredump, "accepted, no effect"},
    {"LOAD COREDUMP FROM MEM", kExact, kAdmin, load_coredump, "accepted, no effect"},
    {"LOAD COREDUMP TO RUNTIME", kExact, kAdmin, load_coredump, "accepted, no effect"},
    {"LOAD COREDUMP TO RUN", kExact, kAdmin, load_coredump, "accepted, no effect"},
    {"LOAD ", kPrefix, kAdmin, load_or_save, "move a module towards the runtime"},
    {"SAVE ", kPrefix, kAdmin, load_or_save, "move a module towards the disk"},
    {"SELECT CONFIG FILE", kExact, kAdmin, select_config, "memory as a configuration file"},
    {"SELECT CONFIG INTO OUTFILE", kPrefix, kAdmin, select_config_into,
     "write memory as a configuration file"},
};
} // namespace

std::span<const Admin_Command> load_save_commands() {
	return kCommands;
}

} // namespace proxy
