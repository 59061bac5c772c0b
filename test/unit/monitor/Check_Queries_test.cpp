#include "backend/Monitor_Connection.h"
#include "monitor/Check_Queries.h"

#include <catch2/catch.hpp>

using namespace proxy;

TEST_CASE("LSN text is read whole or not at all") {
	CHECK(parse_lsn("0/0") == 0);
	CHECK(parse_lsn("16/B374D848") == 0x16B374D848u);
	CHECK(parse_lsn("FFFFFFFF/FFFFFFFF") == UINT64_MAX);
	for (const char* bad :
	     {"", "/", "1/", "/1", "1", "1/2x", "x/2", "1/2/3", "100000000/0", " 1/2", "-1/2"}) {
		INFO(bad);
		CHECK_FALSE(parse_lsn(bad));
	}
}

TEST_CASE("the role answer of a primary and of a replica") {
	const auto primary = parse_role({{"f", "t", "0/3000060", "0000001A"}}, false);
	REQUIRE(primary);
	CHECK_FALSE(primary->read_only);
	CHECK(primary->lsn == 0x3000060);
	CHECK(primary->timeline == 26);
	const auto replica = parse_role({{"t", "t", "0/3000000", std::nullopt}}, false);
	REQUIRE(replica);
	CHECK(replica->read_only);
	CHECK(replica->timeline == 0);
	// A replica that has replayed nothing yet.
	CHECK(parse_role({{"t", "t", std::nullopt, std::nullopt}}, false)->lsn == 0);
}

TEST_CASE("a PolarDB node writes only when it says that it does") {
	const auto role = [](const char* type) {
		return parse_role({{type, "t", "0/1", std::nullopt}}, true)->read_only;
	};
	CHECK_FALSE(role("primary"));
	CHECK_FALSE(role("master"));
	CHECK(role("replica"));
	CHECK(role("standby"));
	CHECK(role("something new"));
	CHECK_FALSE(parse_role({{"replica", "f", "0/1", std::nullopt}}, true)->available);
}

TEST_CASE("answers of another shape are no answers") {
	CHECK_FALSE(parse_role({}, false));
	CHECK_FALSE(parse_role({{"t"}}, false));
	CHECK_FALSE(parse_role({{std::nullopt, "t", "0/1", std::nullopt}}, false));
	CHECK_FALSE(parse_role({{"maybe", "t", "0/1", std::nullopt}}, false));
	CHECK_FALSE(parse_role({{"t", "t", "0/1", "1"}, {"t", "t", "0/1", "1"}}, false));
	CHECK_FALSE(parse_role({{std::nullopt, "t", "0/1", std::nullopt}}, true));
	CHECK_FALSE(parse_lag({{"t", "0/1"}}));
	CHECK_FALSE(parse_capabilities({{"name"}}));
}

TEST_CASE("lag is zero on an idle primary, and not when the receiver is stuck") {
	const auto caught_up = parse_lag({{"t", "0/500", "3600000"}});
	REQUIRE(caught_up);
	CHECK(lag_seconds(*caught_up, 0) == 0);
	CHECK(lag_seconds(*caught_up, 0x500) == 0);
	CHECK(lag_seconds(*caught_up, 0x501) == 3600); // the primary is further
	const auto behind = parse_lag({{"f", "0/500", "2999"}});
	CHECK(lag_seconds(*behind, 0) == 2);
	// Clocks differ; nothing replayed yet.
	CHECK(lag_seconds(*parse_lag({{"f", "0/500", "-5000"}}), 0) == 0);
	CHECK(lag_seconds(*parse_lag({{"f", std::nullopt, std::nullopt}}), 0) == 0);
}

TEST_CASE("capabilities need every setting they rest on") {
	CHECK(parse_capabilities({})->capabilities == 0);
	const auto stock = parse_capabilities({{"wal_segment_size", "16777216"}});
	CHECK(stock->capabilities == 0);
	CHECK(stock->wal_segment_size == 16777216);
	// A public PolarDB kernel: its wait has no bound.
	CHECK(parse_capabilities({{"polar_xact_split_xids", ""}, {"polar_xact_split_wait_lsn", ""}})
	          ->capabilities == kCapabilityXidImport);
	CHECK(parse_capabilities({{"polar_consistency_mode", "best_effort"},
	                          {"polar_proxy_wait_timeout_ms", "0"},
	                          {"polar_xact_split_wait_lsn", ""}})
	          ->capabilities == kCapabilityBoundedWait);
	CHECK(parse_capabilities(
	          {{"polar_consistency_mode", "best_effort"}, {"polar_xact_split_wait_lsn", ""}})
	          ->capabilities == 0);
}

TEST_CASE("the SQLSTATE of a refused login is found in libpq's text") {
	CHECK(sqlstate_in_message("connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  "
	                          "28P01: password authentication failed for user \"monitor\"") ==
	      "28P01");
	CHECK(sqlstate_in_message("FATAL:  57P03: the database system is starting up") == "57P03");
	CHECK(sqlstate_in_message("schwerwiegend:  53300: zu viele Verbindungen") == "53300");
	CHECK(sqlstate_in_message("connection refused").empty());
	CHECK(sqlstate_in_message("FATAL:  short").empty());
	CHECK(sqlstate_in_message("FATAL:  ab123: lower case is none").empty());
	CHECK(sqlstate_in_message("").empty());
}
