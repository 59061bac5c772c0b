// Process matters: signals, the background process, and the parent ("angel") that starts the proxy
// again after a crash. Main thread only.
#pragma once

#include <optional>
#include <string>

namespace proxy {

enum class Signal_Event { none, terminate, reopen_logs };

// Blocks the signals that wait_for_signal() takes, for this thread and all it starts; ignores
// SIGPIPE.
void block_signals();
// A crash writes the stack to the error log (ProxySQL does too), then takes its usual course, so
// that the angel sees it and a core file is written.
void report_crashes();
// Waits for up to 200 ms.
Signal_Event wait_for_signal();

struct Daemon_Options {
	std::string pid_file;
	std::string log_file;
	bool exit_on_error = false;      // the angel does not restart the proxy
	std::string exit_failure_script; // run after each failure
};

// Forks into the background; returns nullopt in the process that is to serve, or the exit code in
// the processes that are done (the caller's, and the angel when it gives up or the proxy ended).
std::optional<int> become_daemon(const Daemon_Options& options);

} // namespace proxy
