// PgSQL_Connection without a server behind it: the parts of the class that would connect.
#include "Pool_Test_Kit.h"

#include <atomic>

namespace proxy {

namespace {
std::atomic<int64_t> g_live{0};
}

PgSQL_Connection::PgSQL_Connection(Server_Ptr server, const Connect_Request& request,
                                   int64_t now_us)
    : server_(std::move(server)), key_(request.key), created_us_(now_us) {
	last_used_us = now_us;
	++g_live;
}

PgSQL_Connection::~PgSQL_Connection() {
	--g_live;
}

void PgSQL_Connection::on_io(int) {}

namespace pool_test {
int64_t live_connections() {
	return g_live.load();
}
} // namespace pool_test

} // namespace proxy
