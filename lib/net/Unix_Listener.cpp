#include "net/Unix_Listener.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace proxy {

namespace {

Error cannot_listen(const std::string& path, const std::string& why) {
	return make_error("08000", "cannot listen on " + path + ": " + why);
}

// Is somebody behind the socket file? The kernel refuses only when nobody is; a full queue, or a
// socket of another kind, has an owner.
bool has_owner(const sockaddr_un& address) {
	const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (probe < 0) {
		return true;
	}
	const bool refused =
	    connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
	    errno == ECONNREFUSED;
	close(probe);
	return !refused;
}

// Makes way for a new socket file.
Result<void> clear_place(const sockaddr_un& address) {
	const std::string path = address.sun_path;
	struct stat info {};
	if (lstat(address.sun_path, &info) != 0) {
		return {}; // nothing there, or bind() tells why not
	}
	if (!S_ISSOCK(info.st_mode)) {
		return cannot_listen(path, "a file that is no socket is in its place");
	}
	if (has_owner(address)) {
		return cannot_listen(path, "another process listens there");
	}
	if (unlink(address.sun_path) != 0) {
		return cannot_listen(path, std::string("a left-over socket file cannot be removed: ") +
		                               std::strerror(errno));
	}
	return {};
}

} // namespace

void Socket_File::remove() const {
	struct stat info {};
	if (lstat(path.c_str(), &info) == 0 && info.st_dev == device && info.st_ino == inode) {
		unlink(path.c_str());
	}
}

Result<Unix_Listener> listen_unix(const std::string& path, mode_t mode, int backlog) {
	sockaddr_un address{};
	if (path.size() >= sizeof(address.sun_path)) {
		return cannot_listen(path, "the path is too long for a Unix socket");
	}
	address.sun_family = AF_UNIX;
	std::memcpy(address.sun_path, path.data(), path.size());
	PROXY_TRY(clear_place(address));
	Unix_Listener listener;
	listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener.fd < 0) {
		return cannot_listen(path, std::strerror(errno));
	}
	struct stat info {};
	if (bind(listener.fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
		const std::string why = std::strerror(errno);
		close(listener.fd);
		return cannot_listen(path, why);
	}
	if (chmod(path.c_str(), mode) != 0 || lstat(path.c_str(), &info) != 0 ||
	    listen(listener.fd, backlog) != 0) {
		const std::string why = std::strerror(errno);
		close(listener.fd);
		unlink(path.c_str());
		return cannot_listen(path, why);
	}
	listener.file = {path, info.st_dev, info.st_ino};
	return listener;
}

} // namespace proxy
