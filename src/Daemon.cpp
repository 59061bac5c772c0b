#include "Daemon.h"

#include "base/Clock.h"
#include "base/Log.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace proxy {

namespace {
constexpr long kWaitNanos = 200'000'000;
// ProxySQL's back-off: a proxy that lived for less than this counts as a failed attempt, after the
// n-th of which the angel waits 2^n seconds; it gives up after kMaxAttempts.
constexpr int64_t kShortLifeUs = 10'000'000;
constexpr int kMaxAttempts = 5;

sigset_t handled_signals() {
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	return set;
}

bool write_pid_file(const std::string& path) {
	const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0) {
		return false;
	}
	const std::string text = std::to_string(getpid()) + "\n";
	const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
	close(fd);
	return written;
}

void redirect_standard_streams(const std::string& log_file) {
	const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int log_fd = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	dup2(null_fd, STDIN_FILENO);
	dup2(log_fd >= 0 ? log_fd : null_fd, STDOUT_FILENO);
	dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
	close(null_fd);
	if (log_fd >= 0) {
		close(log_fd);
	}
}

// Waits for the child, passing a termination on to it. Its wait status.
int watch_child(pid_t child) {
	while (true) {
		int status = 0;
		const pid_t ended = waitpid(child, &status, WNOHANG);
		if (ended == child) {
			return status;
		}
		switch (wait_for_signal()) {
		case Signal_Event::terminate:
			kill(child, SIGTERM);
			break;
		case Signal_Event::reopen_logs:
			kill(child, SIGUSR1);
			reopen_log();
			break;
		case Signal_Event::none:
			break;
		}
	}
}

void run_failure_script(const std::string& script) {
	if (script.empty()) {
		return;
	}
	const pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
		_exit(127);
	}
	if (child > 0) {
		waitpid(child, nullptr, 0);
	}
}

// The parent of the proxy. nullopt: this is a new child, which serves.
std::optional<int> supervise(const Daemon_Options& options) {
	int attempts = 0;
	while (true) {
		const int64_t started_us = monotonic_us();
		const pid_t child = fork();
		if (child == 0) {
			return std::nullopt;
		}
		if (child < 0) {
			log_error("cannot fork: {}", std::strerror(errno));
			return EXIT_FAILURE;
		}
		const int status = watch_child(child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			log_info("Shutdown angel process");
			unlink(options.pid_file.c_str());
			return EXIT_SUCCESS;
		}
		if (WIFEXITED(status)) {
			log_error("ProxySQL exited with code {} . Restarting!", WEXITSTATUS(status));
		} else {
			log_error("ProxySQL crashed. Restarting!");
		}
		run_failure_script(options.exit_failure_script);
		attempts = monotonic_us() - started_us < kShortLifeUs ? attempts + 1 : 0;
		if (options.exit_on_error || attempts > kMaxAttempts) {
			log_error("Angel process already attempted to restart ProxySQL {} times and has no "
			          "retries left",
			          attempts - 1);
			unlink(options.pid_file.c_str());
			return EXIT_FAILURE;
		}
		if (attempts > 0) {
			sleep(1U << static_cast<unsigned>(attempts));
		}
	}
}
} // namespace

void block_signals() {
	const sigset_t set = handled_signals();
	sigprocmask(SIG_BLOCK, &set, nullptr);
	signal(SIGPIPE, SIG_IGN); // NOLINT: a constant of the system's in C style
}

namespace {
constexpr int kCrashSignals[] = {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL};
constexpr int kMaxFrames = 64;

// Only calls that are safe in a signal handler; backtrace() was called once before, so that it
// needs no memory now.
void on_crash(int number) {
	void* frames[kMaxFrames];
	const int count = backtrace(frames, kMaxFrames);
	constexpr std::string_view kText =
	    "polar-proxy: crashed; stack (addr2line -Cfe polar-proxy):\n";
	[[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
	backtrace_symbols_fd(frames, count, STDERR_FILENO);
	raise(number); // the handler was for one time: now the default action
}
} // namespace

void report_crashes() {
	void* frames[1];
	backtrace(frames, 1);
	for (const int number : kCrashSignals) {
		struct sigaction action {};
		action.sa_handler = on_crash;
		action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
		sigaction(number, &action, nullptr);
	}
}

Signal_Event wait_for_signal() {
	const sigset_t set = handled_signals();
	timespec wait{};
	wait.tv_nsec = kWaitNanos;
	switch (sigtimedwait(&set, nullptr, &wait)) {
	case SIGTERM:
	case SIGINT:
		return Signal_Event::terminate;
	case SIGUSR1:
		return Signal_Event::reopen_logs;
	default:
		return Signal_Event::none;
	}
}

std::optional<int> become_daemon(const Daemon_Options& options) {
	const pid_t first = fork();
	if (first != 0) {
		return first < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	setsid();
	if (!write_pid_file(options.pid_file)) {
		log_error("cannot write {}: {}", options.pid_file, std::strerror(errno));
		return EXIT_FAILURE;
	}
	redirect_standard_streams(options.log_file);
	if (!open_log(options.log_file)) {
		return EXIT_FAILURE;
	}
	return supervise(options);
}

} // namespace proxy
