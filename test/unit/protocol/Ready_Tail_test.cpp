#include "Wire_Test.h"
#include "protocol/Ready_Tail.h"

using namespace proxy;

namespace {

struct Case {
	std::string name;
	std::string body;
	Tail_Request request;
	Lsn_State lsn_state;
	uint64_t lsn;
	Split_Marker marker;
	std::string xids;
};

constexpr Tail_Request kNothing{false, false};
constexpr Tail_Request kLsn{true, false};
constexpr Tail_Request kXact{false, true};
constexpr Tail_Request kBoth{true, true};
constexpr uint64_t kPosition = 0x40acd690;
const std::string kLsnBytes = raw("\0\0\0\0\x40\xac\xd6\x90");

std::vector<Case> cases() {
	using enum Lsn_State;
	using enum Split_Marker;
	return {
	    {"plain", "I", kBoth, missing, 0, none, ""},
	    {"plain, nothing asked", "T", kNothing, missing, 0, none, ""},
	    {"LSN", "I" + kLsnBytes, kBoth, positioned, kPosition, none, ""},
	    {"LSN of zero", "I" + std::string(8, '\0'), kBoth, zero, 0, none, ""},
	    {"LSN that was not asked for", "I" + kLsnBytes, kNothing, missing, 0, none, ""},
	    {"LSN cut short", "I" + kLsnBytes.substr(0, 7), kLsn, missing, 0, none, ""},
	    {"x", "T" + raw("x1,1278\0"), kXact, missing, 0, splittable, "1,1278"},
	    {"w", "T" + raw("w0,7,8\0"), kXact, missing, 0, wal_pending, "0,7,8"},
	    {"LSN and x", "T" + kLsnBytes + raw("x4,737,738\0"), kBoth, positioned, kPosition,
	     splittable, "4,737,738"},
	    {"LSN and w", "T" + kLsnBytes + raw("w4,737\0"), kBoth, positioned, kPosition, wal_pending,
	     "4,737"},
	    {"failed transaction with a tail", "E" + kLsnBytes + raw("x1,744\0"), kBoth, positioned,
	     kPosition, splittable, "1,744"},
	    {"empty list, x", "T" + kLsnBytes + raw("x\0"), kBoth, positioned, kPosition, splittable,
	     ""},
	    {"empty list, w", "T" + raw("w\0"), kXact, missing, 0, wal_pending, ""},
	    {"missing NUL", "T" + kLsnBytes + "x1,2", kBoth, positioned, kPosition, none, ""},
	    {"marker alone", "T" + kLsnBytes + "x", kBoth, positioned, kPosition, none, ""},
	    {"other marker", "T" + kLsnBytes + raw("y1,2\0"), kBoth, positioned, kPosition, none, ""},
	    {"unknown trailer", "T" + kLsnBytes + raw("x1,2\0futurebits"), kBoth, positioned, kPosition,
	     splittable, "1,2"},
	    {"trailer after the LSN", "I" + kLsnBytes + "12345678", kLsn, positioned, kPosition, none,
	     ""},
	    {"tail not asked for", "T" + kLsnBytes + raw("x1,2\0"), kLsn, positioned, kPosition, none,
	     ""},
	    // No tag tells them apart: what was asked for decides.
	    {"a tail read as LSN", "T" + raw("x1,1278\0"), kBoth, positioned, 0x78312c3132373800ULL,
	     none, ""},
	    {"short tail, LSN asked too", "T" + raw("x1,2\0"), kBoth, missing, 0, splittable, "1,2"},
	};
}

} // namespace

TEST_CASE("ReadyForQuery tails are read by what was asked for") {
	for (const Case& one : cases()) {
		// A copy of exactly that size, so that a sanitizer sees any read beyond it.
		const std::vector<uint8_t> body(one.body.begin(), one.body.end());
		const Ready_Tail tail = parse_ready_tail(body, one.request);
		INFO(one.name);
		CHECK(tail.lsn_state == one.lsn_state);
		CHECK(tail.lsn == one.lsn);
		CHECK(tail.marker == one.marker);
		CHECK(tail.xids == one.xids);
	}
}

TEST_CASE("an XID list that is not one is no evidence") {
	for (const std::string_view list :
	     {"1,", ",1", "1,,2", "1;2", "1 2", "'", "1,2');--", "-1", "a"}) {
		const std::string body = "Tx" + std::string(list) + raw("\0");
		INFO(list);
		CHECK(parse_ready_tail(as_span(body), kXact).marker == Split_Marker::none);
		CHECK(parse_ready_tail(as_span(body), kXact).xids.empty());
	}
}

TEST_CASE("an empty body has no tail") {
	const Ready_Tail tail = parse_ready_tail({}, kBoth);
	CHECK(tail.lsn_state == Lsn_State::missing);
	CHECK(tail.marker == Split_Marker::none);
}

TEST_CASE("LSNs just behind a page header are brought back to the page's start") {
	constexpr uint64_t kSegment = 16 * 1024 * 1024;
	CHECK(normalise_lsn(0x3000000 + 40, kSegment) == 0x3000000);
	CHECK(normalise_lsn(0x3002000 + 24, kSegment) == 0x3002000);
	CHECK(normalise_lsn(0x3002000 + 40, kSegment) == 0x3002000 + 40);
	CHECK(normalise_lsn(0x3002000 + 32, kSegment) == 0x3002000 + 32);
	CHECK(normalise_lsn(0x3002000, kSegment) == 0x3002000);
	CHECK(normalise_lsn(0, kSegment) == 0);
	CHECK(normalise_lsn(0x3000000 + 40, 0) == 0x3000000 + 40);
	CHECK(normalise_lsn(0x3002000 + 24, 0) == 0x3002000);
	// One more time changes nothing.
	for (uint64_t lsn = 0x3000000; lsn < 0x3000000 + 3 * 8192; ++lsn) {
		const uint64_t once = normalise_lsn(lsn, kSegment);
		REQUIRE(normalise_lsn(once, kSegment) == once);
		REQUIRE(once <= lsn);
	}
}
