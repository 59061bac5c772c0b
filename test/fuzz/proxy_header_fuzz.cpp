// The PROXY protocol's header: bytes before everything else, from whoever connects.
#include "Fuzz_Check.h"
#include "base/Ip_Address.h"
#include "protocol/Proxy_Header.h"

using namespace proxy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	const std::span<const uint8_t> input(data, size);
	const Proxy_Header header = parse_proxy_header(input);
	FUZZ_CHECK((header.status == Proxy_Header_Status::malformed) == !header.error.empty());
	if (header.status == Proxy_Header_Status::incomplete) {
		FUZZ_CHECK(size < kMaxProxyHeaderBytes);
		return 0;
	}
	if (header.status == Proxy_Header_Status::malformed) {
		FUZZ_CHECK(!header.has_address && size > 0);
		return 0;
	}
	FUZZ_CHECK(header.size > 0 && header.size <= size && header.size <= kMaxProxyHeaderBytes);
	// Cut short by a byte it is not complete, and what follows it does not matter.
	FUZZ_CHECK(parse_proxy_header(input.first(header.size - 1)).status ==
	           Proxy_Header_Status::incomplete);
	const Proxy_Header alone = parse_proxy_header(input.first(header.size));
	FUZZ_CHECK(alone.status == Proxy_Header_Status::complete && alone.size == header.size);
	FUZZ_CHECK(alone.host == header.host && alone.port == header.port);
	if (header.has_address) {
		const auto address = Ip_Address::parse(header.host);
		FUZZ_CHECK(address && address->text() == header.host);
		FUZZ_CHECK(header.port >= 0 && header.port <= 65535);
	}
	return 0;
}
