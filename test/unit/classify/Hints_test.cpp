// Routing hints in comments.
#include "classify/Query_Processor.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {

Statement_Hints hints(std::string_view sql) {
	const Query_Processor processor;
	return processor.hints(sql);
}

} // namespace

TEST_CASE("hints name the primary or a replica in any spelling") {
	for (const char* sql : {"/*FORCE_MASTER*/ SELECT 1", "/* master */SELECT 1",
	                        "/* route=primary */ SELECT 1", "  /*Route = PRIMARY*/ SELECT 1",
	                        "/*+ route=primary */ SELECT 1", "/* app=x; route=primary */ SELECT 1",
	                        "SELECT /*FORCE_MASTER*/ 1", "SELECT/* route=primary */1",
	                        "/* route=replica; route=primary */ SELECT 1", "/*force_master*/"}) {
		INFO(sql);
		CHECK(hints(sql).route == Route_Hint::primary);
		CHECK(hints(sql).any);
	}
	for (const char* sql :
	     {"/*FORCE_SLAVE*/ SELECT 1", "/* route=replica */ SELECT 1",
	      "/* split=off route=replica */ SELECT 1", "\n/*ROUTE=REPLICA*/SELECT 1"}) {
		INFO(sql);
		CHECK(hints(sql).route == Route_Hint::replica);
	}
}

TEST_CASE("hints carry values") {
	const Statement_Hints found = hints("/* hostgroup=7, split=off; consistency=Session "
	                                    "wait_timeout_ms = 250 */ SELECT 1");
	CHECK(found.route == Route_Hint::hostgroup);
	CHECK(found.hostgroup == 7);
	CHECK(found.split_off);
	CHECK(found.consistency == "session");
	CHECK(found.wait_timeout_ms == 250);
	CHECK(hints("/* hostgroup=0 */ SELECT 1").hostgroup == 0);
	CHECK(hints("/* consistency=eventual */").consistency == "eventual");
	CHECK(hints("/* consistency=global */").consistency == "global");
}

TEST_CASE("anything else is no hint") {
	for (const char* sql : {"",
	                        "/",
	                        "/*",
	                        "/**/",
	                        "/* */",
	                        "/*/",
	                        "SELECT 1",
	                        "SELECT '/* route=primary */'",
	                        "/* the master plan */ SELECT 1",
	                        "/* masters */ SELECT 1",
	                        "/* route=primary SELECT 1",
	                        "/* route=elsewhere */ SELECT 1",
	                        "/* hostgroup=-1 */ SELECT 1",
	                        "/* hostgroup=1x */ SELECT 1",
	                        "/* hostgroup= */ SELECT 1",
	                        "/* hostgroup=99999999999999999999 */ SELECT 1",
	                        "/* split=on */ SELECT 1",
	                        "/* consistency=strong */ SELECT 1",
	                        "/* wait_timeout_ms=-5 */ SELECT 1",
	                        "/* x */ /* route=primary */ SELECT 1",
	                        "-- route=primary\nSELECT 1",
	                        "SELECT 1 /* route=primary */",
	                        "/* = */ SELECT 1",
	                        "/* ;;,, */ SELECT 1",
	                        "/* route primary */ SELECT 1"}) {
		INFO(sql);
		CHECK_FALSE(hints(sql).any);
		CHECK(hints(sql).route == Route_Hint::none);
		CHECK(hints(sql).hostgroup == -1);
	}
}
