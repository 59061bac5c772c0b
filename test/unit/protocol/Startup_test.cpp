#include "Wire_Test.h"
#include "protocol/Startup.h"

using namespace proxy;

namespace {

std::string startup_message(uint16_t major, uint16_t minor,
                            const std::vector<Parameter_View>& parameters) {
	std::string out;
	append_startup_message(out, major, minor, parameters);
	return out;
}

std::string packet_of(std::string_view after_length) {
	std::string out = raw("\0\0");
	const size_t length = after_length.size() + 4;
	out.push_back(static_cast<char>(length >> 8));
	out.push_back(static_cast<char>(length & 0xff));
	return out.append(after_length);
}

Startup_Kind kind_of(std::string_view bytes) {
	return parse_startup(as_span(bytes)).kind;
}

} // namespace

TEST_CASE("a startup message is read whole, whatever follows it") {
	const std::string message =
	    startup_message(3, 0, {{"user", "ada"}, {"database", "shop"}, {"application_name", ""}});
	const std::string stream = message + "trailing";
	const Startup_Packet packet = parse_startup(as_span(stream));
	CHECK(packet.kind == Startup_Kind::startup);
	CHECK(packet.size == message.size());
	CHECK(packet.major == 3);
	CHECK(packet.minor == 0);
	REQUIRE(packet.parameters.size() == 3);
	REQUIRE(packet.find("user") != nullptr);
	CHECK(*packet.find("user") == "ada");
	REQUIRE(packet.find("application_name") != nullptr);
	CHECK(packet.find("application_name")->empty());
	CHECK(packet.find("nothing") == nullptr);
}

TEST_CASE("the last of several values counts") {
	const std::string message = startup_message(3, 0, {{"user", "a"}, {"user", "b"}});
	CHECK(*parse_startup(as_span(message)).find("user") == "b");
}

TEST_CASE("a first packet may come byte by byte") {
	const std::string startup = startup_message(3, 2, {{"user", "ada"}, {"_pq_.x", "1"}});
	std::string cancel;
	append_cancel_request(cancel, 7, "key!");
	std::string ssl;
	append_ssl_request(ssl);
	for (const std::string& message : {startup, cancel, ssl}) {
		for (size_t length = 0; length < message.size(); ++length) {
			const std::vector<uint8_t> cut(message.begin(),
			                               message.begin() + static_cast<long>(length));
			CHECK(parse_startup(cut).kind == Startup_Kind::incomplete);
		}
		CHECK(parse_startup(as_span(message)).size == message.size());
	}
}

TEST_CASE("versions: any minor of 3 is a startup, other majors are not supported") {
	CHECK(kind_of(startup_message(3, 2, {{"user", "a"}})) == Startup_Kind::startup);
	CHECK(kind_of(startup_message(3, 9999, {{"user", "a"}})) == Startup_Kind::startup);
	for (const uint16_t major : {uint16_t{0}, uint16_t{2}, uint16_t{4}, uint16_t{1234}}) {
		const std::string message = startup_message(major, 0, {});
		const Startup_Packet packet = parse_startup(as_span(message));
		CHECK(packet.kind == Startup_Kind::unsupported_version);
		CHECK(packet.major == major);
	}
	// The old fixed-layout packet of protocol 2: not even a parameter list.
	CHECK(kind_of(packet_of(raw("\0\2\0\0") + std::string(288, 'x'))) ==
	      Startup_Kind::unsupported_version);
}

TEST_CASE("encryption requests have exactly their size") {
	std::string ssl;
	append_ssl_request(ssl);
	CHECK(ssl == raw("\0\0\0\x08\x04\xd2\x16\x2f"));
	CHECK(kind_of(ssl) == Startup_Kind::ssl_request);
	CHECK(kind_of(raw("\0\0\0\x08\x04\xd2\x16\x30")) == Startup_Kind::gssenc_request);
	CHECK(kind_of(raw("\0\0\0\x09\x04\xd2\x16\x2f\0")) == Startup_Kind::malformed);
	CHECK(kind_of("\x16") == Startup_Kind::direct_tls);
	CHECK(kind_of("\x16\x03\x01") == Startup_Kind::direct_tls);
}

TEST_CASE("cancel keys of 4 to 256 bytes") {
	for (const size_t size : {size_t{4}, size_t{32}, size_t{256}}) {
		std::string message;
		append_cancel_request(message, 0x80000001U, std::string(size, 'k'));
		const Startup_Packet packet = parse_startup(as_span(message));
		CHECK(packet.kind == Startup_Kind::cancel_request);
		CHECK(packet.cancel_pid == 0x80000001U);
		CHECK(packet.cancel_key == std::string(size, 'k'));
	}
	for (const size_t size : {size_t{0}, size_t{3}, size_t{257}}) {
		std::string message;
		append_cancel_request(message, 1, std::string(size, 'k'));
		CHECK(kind_of(message) == Startup_Kind::malformed);
	}
	CHECK(kind_of(raw("\0\0\0\x0a\x04\xd2\x16\x2e\0\0")) == Startup_Kind::malformed);
}

TEST_CASE("lengths that are no startup packet are refused at the fourth byte") {
	for (const std::string& start :
	     {raw("\0\0\0\0"), raw("\0\0\0\7"), raw("\xff\xff\xff\xff"), raw("\x80\0\0\0"),
	      raw("\x7f\xff\xff\xff"), raw("\0\0\x27\x15"), std::string("GET / HTTP/1.1\r\n")}) {
		const Startup_Packet packet = parse_startup(as_span(start));
		CHECK(packet.kind == Startup_Kind::malformed);
		CHECK(packet.error == "invalid length of startup packet");
	}
	CHECK(kind_of(raw("\0\0\x27\x14")) == Startup_Kind::incomplete);
}

TEST_CASE("a 9 kB startup packet is fine") {
	const std::string big(9000, 'v');
	const std::string message = startup_message(3, 0, {{"user", "a"}, {"options", big}});
	const Startup_Packet packet = parse_startup(as_span(message));
	CHECK(packet.kind == Startup_Kind::startup);
	CHECK(*packet.find("options") == big);
}

TEST_CASE("parameter lists without their terminators are refused") {
	const std::string version = raw("\0\3\0\0");
	for (const std::string& list :
	     {std::string(), std::string("user"), raw("user\0"), raw("user\0ada"), raw("user\0ada\0"),
	      raw("user\0ada\0\0x"), raw("\0\0")}) {
		const std::string message = packet_of(version + list);
		const Startup_Packet packet = parse_startup(as_span(message));
		CHECK(packet.kind == Startup_Kind::malformed);
		CHECK(packet.error.find("expected terminator") != std::string_view::npos);
		CHECK(packet.parameters.empty());
	}
	CHECK(kind_of(packet_of(version + raw("\0"))) == Startup_Kind::startup);
	CHECK(kind_of(packet_of(version + raw("user\0\0\0"))) == Startup_Kind::startup);
}

TEST_CASE("startup options in every spelling") {
	using List = std::vector<Parameter>;
	struct Case {
		std::string options;
		List expected;
	};
	const std::vector<Case> cases = {
	    {"", {}},
	    {"  \t ", {}},
	    {"-c work_mem=9MB", {{"work_mem", "9MB"}}},
	    {"-cwork_mem=9MB", {{"work_mem", "9MB"}}},
	    {"--work-mem=9MB", {{"work_mem", "9MB"}}},
	    {"-c work-mem=9MB", {{"work_mem", "9MB"}}},
	    {"  -c a=1   --b=2\t-cc=3 ", {{"a", "1"}, {"b", "2"}, {"c", "3"}}},
	    {"-c search_path=a,\\ b", {{"search_path", "a, b"}}},
	    {"-c x=back\\\\slash", {{"x", "back\\slash"}}},
	    {"-c x=", {{"x", ""}}},
	    {"-c x==", {{"x", "="}}},
	    {"--my.setting=1", {{"my.setting", "1"}}},
	    {"-c x=end\\", {{"x", "end"}}},
	    {"-c TimeZone=Europe/Paris", {{"TimeZone", "Europe/Paris"}}},
	    {"-c d=a-b", {{"d", "a-b"}}},
	};
	for (const Case& one : cases) {
		const auto parsed = parse_startup_options(one.options);
		INFO(one.options);
		REQUIRE(parsed.ok());
		CHECK(parsed.value() == one.expected);
	}
}

TEST_CASE("startup options that cannot be read say why") {
	struct Case {
		std::string options;
		std::string part;
	};
	const std::vector<Case> cases = {
	    {"-c search_path=a, b", "unescaped space"},
	    {"-c a", "missing '='"},
	    {"--a", "missing '='"},
	    {"-c", "missing '='"},
	    {"-c a = b", "missing '='"},
	    {"a=b", "token must start with"},
	    {"-d 5", "token must start with"},
	    {"-c =v", "empty key"},
	    {"--=v", "empty key"},
	    {"-c a=1 -B 5", "token must start with"},
	};
	for (const Case& one : cases) {
		const auto parsed = parse_startup_options(one.options);
		INFO(one.options);
		REQUIRE_FALSE(parsed.ok());
		CHECK(parsed.error().sqlstate == "42601");
		CHECK(parsed.error().message.find(one.part) != std::string::npos);
	}
	CHECK(parse_startup_options("a=b").error().message.find("unescaped") == std::string::npos);
}

TEST_CASE("options written for a server read back as they were") {
	const std::vector<Parameter> values = {
	    {"search_path", "a, \"b c\""}, {"x", ""}, {"y", "\\ \t\\\\"}, {"z", "-c w=1"}};
	std::string text;
	for (const auto& [name, value] : values) {
		append_startup_option(text, name, value);
	}
	CHECK(text.substr(0, 3) == "-c ");
	CHECK(text.back() != ' ');
	CHECK(parse_startup_options(text).value() == values);
}

TEST_CASE("names that are never forwarded") {
	CHECK(is_polar_parameter("_polar_proxy_client_host"));
	CHECK(is_polar_parameter("_polar_send_lsn"));
	CHECK_FALSE(is_polar_parameter("polar_send_lsn"));
	CHECK(is_protocol_extension("_pq_.polar_proxy_wait_v1"));
	CHECK_FALSE(is_protocol_extension("_pq_"));
	const auto asks = [](const std::vector<Parameter_View>& parameters) {
		const std::string message = startup_message(3, 0, parameters);
		return client_requests_lsn(parse_startup(as_span(message)));
	};
	CHECK(asks({{"_polar_send_lsn", "true"}}));
	CHECK(asks({{"_polar_proxy_send_lsn", "true"}}));
	CHECK_FALSE(asks({{"_polar_proxy_send_lsn", "on"}}));
	CHECK_FALSE(asks({{"_polar_send_xact", "true"}}));
}

TEST_CASE("the version spoken is the client's, or the newest that is served") {
	CHECK(negotiated_version(0) == 196608);
	CHECK(negotiated_version(2) == 196610);
	CHECK(negotiated_version(3) == 196610);
	CHECK(negotiated_version(9999) == 196610);
	CHECK(cancel_key_bytes(0) == 4);
	CHECK(cancel_key_bytes(1) == 4);
	CHECK(cancel_key_bytes(2) == 32);
	CHECK(cancel_key_bytes(9999) == 32);
}

TEST_CASE("clients of another major version can read why they are refused") {
	std::string out;
	append_version_error(out, 2, 0);
	CHECK(out == raw("EFATAL:  unsupported frontend protocol 2.0: server supports 3.0 to 3.2\n\0"));
	out.clear();
	append_version_error(out, 4, 0);
	const std::span<const uint8_t> body = body_of(out, 'E');
	const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
	CHECK(text.find(raw("C0A000\0")) != std::string_view::npos);
	CHECK(text.find("unsupported frontend protocol 4.0: server supports 3.0 to 3.2") !=
	      std::string_view::npos);
}

TEST_CASE("a cancel passed on by a proxy is told from a client's") {
	std::string mine;
	std::string passed_on;
	append_cancel_request(mine, 7, "key!");
	append_forwarded_cancel(passed_on, 7, "key!");
	CHECK_FALSE(parse_startup(as_span(mine)).forwarded);
	const Startup_Packet packet = parse_startup(as_span(passed_on));
	CHECK(packet.kind == Startup_Kind::cancel_request);
	CHECK(packet.forwarded);
	CHECK(packet.cancel_pid == 7);
	CHECK(packet.cancel_key == "key!");
}
