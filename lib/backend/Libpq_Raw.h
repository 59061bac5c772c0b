// The patched libpq; every other file of lib/backend reaches it through here.
#pragma once

#include "base/Secret.h"

#include <libpq-fe.h>

#include <memory>

namespace proxy {

struct Pg_Conn_Deleter {
	void operator()(PGconn* connection) const { PQfinish(connection); }
};
using Pg_Conn_Ptr = std::unique_ptr<PGconn, Pg_Conn_Deleter>;

// Goes on with a login that waits for SCRAM keys; false: they are none, or it did not work.
inline bool give_scram_keys(PGconn* connection, const Secret& client, const Secret& server) {
	const auto bytes = [](const Secret& key) {
		return reinterpret_cast<const unsigned char*>(key.reveal().data());
	};
	return client.reveal().size() == PQSCRAM_KEY_LEN && server.reveal().size() == PQSCRAM_KEY_LEN &&
	       PQscramSetKeys(connection, bytes(client), bytes(server)) == 1;
}

} // namespace proxy
