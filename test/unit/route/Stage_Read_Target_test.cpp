#include "Route_Test_Kit.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::route_test;

TEST_CASE("read target primary keeps reads on the writer in every mode") {
	Scene scene(GENERATE(Consistency_Mode::eventual, Consistency_Mode::session_lsn,
	                     Consistency_Mode::global_lsn));
	scene.request.read_target_primary = true;
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK(scene.plan().reason == Route_Reason::read_target_primary);
}
