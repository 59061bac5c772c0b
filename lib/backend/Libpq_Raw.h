// The patched libpq; every other file of lib/backend reaches it through here.
#pragma once

#include <libpq-fe.h>

#include <memory>

namespace proxy {

struct Pg_Conn_Deleter {
	void operator()(PGconn* connection) const { PQfinish(connection); }
};
using Pg_Conn_Ptr = std::unique_ptr<PGconn, Pg_Conn_Deleter>;

} // namespace proxy
