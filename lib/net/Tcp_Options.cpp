#include "net/Tcp_Options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace proxy {

namespace {
void set_option(int fd, int level, int option, int value) {
	setsockopt(fd, level, option, &value, sizeof(value));
}
} // namespace

void set_tcp_options(int fd, const Tcp_Options& options) {
	if (options.keepalive) {
		set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
		if (options.keepalive_idle_s > 0) {
			set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(options.keepalive_idle_s));
			set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, Tcp_Options::kProbeIntervalS);
			set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, Tcp_Options::kProbes);
		}
	}
	if (options.user_timeout_ms > 0) {
		set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(options.user_timeout_ms));
	}
}

} // namespace proxy
