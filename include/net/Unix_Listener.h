// A listening Unix socket with its file. A file left over by a process that is gone is replaced;
// one that is in use, or is no socket, is left alone and named in the error.
#pragma once

#include "base/Result.h"

#include <string>
#include <sys/stat.h>
#include <sys/types.h>

namespace proxy {

// The file of a bound socket, to be removed when the listener goes.
struct Socket_File {
	std::string path;
	dev_t device = 0;
	ino_t inode = 0;

	// Unless another process has put its own in this place.
	void remove() const;
};

struct Unix_Listener {
	int fd = -1; // non-blocking
	Socket_File file;
};

constexpr mode_t kDefaultSocketMode = 0777; // as PostgreSQL's: whoever reaches the folder

// Nobody can connect before the permissions are set.
Result<Unix_Listener> listen_unix(const std::string& path, mode_t mode, int backlog);

} // namespace proxy
