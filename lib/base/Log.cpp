#include "base/Log.h"

#include "base/Clock.h"
#include "base/Mutex.h"

#include <atomic>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace proxy {

namespace {
// Guards the target; a line is short, so holding it over write(2) keeps lines whole.
Mutex log_mutex{Lock_Rank::log};
std::string log_path GUARDED_BY(log_mutex);
int log_fd GUARDED_BY(log_mutex) = STDERR_FILENO;
// Relaxed: a filter that may take effect a moment later.
std::atomic<int> minimum_level{static_cast<int>(Log_Level::info)};

constexpr mode_t kLogMode = 0640;

const char* level_name(Log_Level level) {
	switch (level) {
	case Log_Level::debug:
		return "DEBUG";
	case Log_Level::info:
		return "INFO";
	case Log_Level::warning:
		return "WARNING";
	case Log_Level::error:
		return "ERROR";
	}
	return "?";
}

std::string_view base_name(std::string_view path) {
	const size_t slash = path.rfind('/');
	return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "proxy::Class::name(args)" -> "name": what ProxySQL prints.
std::string_view short_function(std::string_view function) {
	function = function.substr(0, function.find('('));
	const size_t space = function.rfind(' ');
	if (space != std::string_view::npos) {
		function = function.substr(space + 1);
	}
	const size_t colon = function.rfind(':');
	return colon == std::string_view::npos ? function : function.substr(colon + 1);
}

bool open_locked(const std::string& path) REQUIRES(log_mutex) {
	const int fd = path.empty()
	                   ? STDERR_FILENO
	                   : open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kLogMode);
	if (fd < 0) {
		return false;
	}
	if (log_fd != STDERR_FILENO) {
		close(log_fd);
	}
	log_fd = fd;
	log_path = path;
	return true;
}
} // namespace

bool open_log(const std::string& path) {
	Lock lock(log_mutex);
	return open_locked(path);
}

void reopen_log() {
	Lock lock(log_mutex);
	open_locked(std::string(log_path));
}

void set_log_level(Log_Level level) {
	minimum_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

bool log_enabled(Log_Level level) {
	return static_cast<int>(level) >= minimum_level.load(std::memory_order_relaxed);
}

void write_log_line(Log_Level level, const Source_Place& where, std::string_view text) {
	if (!log_enabled(level)) {
		return;
	}
	const time_t now = static_cast<time_t>(unix_time_s());
	tm local{};
	localtime_r(&now, &local);
	std::string line = fmt::format(
	    "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {}:{}:{}(): [{}] {}\n", local.tm_year + 1900,
	    local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
	    base_name(where.file), where.line, short_function(where.function), level_name(level), text);
	// A client's bytes can end up in a message: keep one event on one line.
	for (size_t i = 0; i + 1 < line.size(); ++i) {
		if (static_cast<unsigned char>(line[i]) < 0x20) {
			line[i] = ' ';
		}
	}
	Lock lock(log_mutex);
	// A full disk must not stop the proxy: a lost line is lost.
	[[maybe_unused]] const ssize_t written = write(log_fd, line.data(), line.size());
}

bool Log_Rate_Limit::allow() {
	const int64_t now = unix_time_s();
	if (now != second_) {
		second_ = now;
		used_ = 0;
	}
	if (used_ >= per_second_) {
		return false;
	}
	++used_;
	return true;
}

} // namespace proxy
