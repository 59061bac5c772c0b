// ReadyForQuery bodies under every combination of what was asked for. The XIDs end up inside an SQL
// literal, so nothing but digits and commas may get through.
#include "Fuzz_Check.h"
#include "protocol/Ready_Tail.h"

using namespace proxy;

namespace {

void check(std::span<const uint8_t> body, Tail_Request request) {
	const Ready_Tail tail = parse_ready_tail(body, request);
	FUZZ_CHECK(request.lsn || tail.lsn_state == Lsn_State::missing);
	FUZZ_CHECK(request.xact || tail.marker == Split_Marker::none);
	FUZZ_CHECK((tail.lsn != 0) == (tail.lsn_state == Lsn_State::positioned));
	FUZZ_CHECK(tail.marker != Split_Marker::none || tail.xids.empty());
	FUZZ_CHECK(tail.xids.find_first_not_of("0123456789,") == std::string_view::npos);
	FUZZ_CHECK(tail.xids.size() <= body.size());
	const uint64_t position = normalise_lsn(tail.lsn, 16 * 1024 * 1024);
	FUZZ_CHECK(position <= tail.lsn);
	FUZZ_CHECK(tail.lsn - position <= 40);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	for (const bool lsn : {false, true}) {
		for (const bool xact : {false, true}) {
			check({data, size}, {lsn, xact});
		}
	}
	return 0;
}
