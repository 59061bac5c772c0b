// The first packet of a client, and its options string.
#include "Fuzz_Check.h"
#include "protocol/Startup.h"

#include <string>
#include <vector>

using namespace proxy;

namespace {

void check_first_packet(std::span<const uint8_t> input) {
	const Startup_Packet packet = parse_startup(input);
	FUZZ_CHECK(packet.size <= input.size());
	FUZZ_CHECK((packet.kind == Startup_Kind::malformed) == !packet.error.empty());
	if (packet.kind == Startup_Kind::cancel_request) {
		std::string written;
		if (packet.forwarded) {
			append_forwarded_cancel(written, packet.cancel_pid, packet.cancel_key);
		} else {
			append_cancel_request(written, packet.cancel_pid, packet.cancel_key);
		}
		FUZZ_CHECK(written ==
		           std::string(reinterpret_cast<const char*>(input.data()), packet.size));
	}
	if (packet.kind != Startup_Kind::startup) {
		return;
	}
	// Cut short by a byte it is not complete; written again it means the same.
	FUZZ_CHECK(parse_startup(input.first(packet.size - 1)).kind == Startup_Kind::incomplete);
	std::string copy;
	append_startup_message(copy, packet.major, packet.minor, packet.parameters);
	const Startup_Packet again =
	    parse_startup({reinterpret_cast<const uint8_t*>(copy.data()), copy.size()});
	FUZZ_CHECK(again.kind == Startup_Kind::startup);
	FUZZ_CHECK(again.parameters == packet.parameters);
	(void)client_requests_lsn(packet);
}

void check_options(std::string_view text) {
	const Result<std::vector<Parameter>> parsed = parse_startup_options(text);
	if (!parsed.ok()) {
		FUZZ_CHECK(!parsed.error().message.empty());
		return;
	}
	std::string written;
	for (const auto& [name, value] : parsed.value()) {
		append_startup_option(written, name, value);
	}
	const Result<std::vector<Parameter>> again = parse_startup_options(written);
	FUZZ_CHECK(again.ok());
	FUZZ_CHECK(again.value() == parsed.value());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	check_first_packet({data, size});
	check_options({reinterpret_cast<const char*>(data), size});
	return 0;
}
