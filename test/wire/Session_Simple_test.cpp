// Simple queries, byte for byte on both sides.
#include "Wire_Kit.h"

namespace proxy::wire {

TEST_CASE("a query and its answer pass through unchanged") {
	Rig rig;
	Client client = rig.login();
	client->send(query("select 1"));
	Peer_Ptr server = rig.primary.accept();
	CHECK_BYTES(rig.primary.startup(), startup_packet({{"user", "app"}, {"database", "db"}}));
	server->expect(query("select 1"));
	server->send(one_row("1") + ready('I'));
	client->expect(one_row("1") + ready('I'));
	CHECK(rig.state(client) == Session_State::waiting_client_data);
	CHECK(rig.pooled() == 1);
	client->expect_nothing();
	server->expect_nothing();
}

} // namespace proxy::wire
