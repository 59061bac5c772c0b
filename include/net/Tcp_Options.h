// When a silent peer counts as gone: keepalive and TCP_USER_TIMEOUT, for sockets to clients and, by
// libpq, to servers.
#pragma once

#include <cstdint>

namespace proxy {

struct Tcp_Options {
	bool keepalive = false;
	int64_t keepalive_idle_s = 0; // 0: the system's times
	int64_t user_timeout_ms = 0;  // 0: the system's

	// Probes behind the first one: a peer that is gone is noticed half a minute after them.
	static constexpr int kProbeIntervalS = 10;
	static constexpr int kProbes = 3;
};

// Best effort: a socket of another family is left as it is.
void set_tcp_options(int fd, const Tcp_Options& options);

} // namespace proxy
