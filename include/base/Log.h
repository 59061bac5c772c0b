// The error log. Lines look like ProxySQL's, so that existing log parsers keep working:
//   YYYY-MM-DD HH:MM:SS file.cpp:line:func(): [LEVEL] text
// Any thread; a line is written by one write(2). Never pass a secret or a query's literals.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace proxy {

enum class Log_Level { debug, info, warning, error };

// Where a log call is written. std::source_location would do, but clang 14 lacks what this
// standard library needs for it.
struct Source_Place {
	const char* file;
	unsigned line;
	const char* function;
};

// A format string that remembers where it was written.
template <typename... Args> struct Located_Format {
	fmt::format_string<Args...> format;
	Source_Place where;

	template <typename Text>
	consteval Located_Format(const Text& text, const char* file = __builtin_FILE(),
	                         unsigned line = __builtin_LINE(),
	                         const char* function = __builtin_FUNCTION())
	    : format(text), where{file, line, function} {}
};

// Redirects the log to `path` (created 0640, appended to). Empty path: stderr. Returns false when
// the file cannot be opened (the old target stays). reopen_log() follows a rotation (SIGUSR1).
bool open_log(const std::string& path);
void reopen_log();

// Lines below this level are dropped; default info.
void set_log_level(Log_Level level);

void write_log_line(Log_Level level, const Source_Place& where, std::string_view text);
bool log_enabled(Log_Level level);

template <typename... Args>
void log_info(Located_Format<std::type_identity_t<Args>...> text, Args&&... args) {
	write_log_line(Log_Level::info, text.where,
	               fmt::format(text.format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(Located_Format<std::type_identity_t<Args>...> text, Args&&... args) {
	write_log_line(Log_Level::warning, text.where,
	               fmt::format(text.format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(Located_Format<std::type_identity_t<Args>...> text, Args&&... args) {
	write_log_line(Log_Level::error, text.where,
	               fmt::format(text.format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(Located_Format<std::type_identity_t<Args>...> text, Args&&... args) {
	if (log_enabled(Log_Level::debug)) {
		write_log_line(Log_Level::debug, text.where,
		               fmt::format(text.format, std::forward<Args>(args)...));
	}
}

// Says whether an event that can repeat quickly may be logged now: at most `per_second` a second.
// One object per place; not thread-safe on purpose (worst case: one line more).
class Log_Rate_Limit {
public:
	explicit Log_Rate_Limit(int per_second) : per_second_(per_second) {}
	bool allow();

private:
	int per_second_;
	int64_t second_ = 0;
	int used_ = 0;
};

} // namespace proxy
