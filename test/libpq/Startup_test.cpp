#include "Harness.h"
#include "Scripted_Server.h"

// The startup packet: names, order, and when a parameter is sent at all (patch 0001).

namespace {

using namespace std::string_literals;

// The packet that stock libpq sends for user u and database d, with parameters added at its end.
std::string packet(const Options& added = {}) {
	std::string bytes = int32_bytes(196608) + "user\0u\0database\0d\0"s;
	for (const auto& [name, value] : added) {
		bytes += name + '\0' + value + '\0';
	}
	return bytes + '\0';
}

std::string startup_of(const Options& options) {
	Link_Setup setup;
	setup.options = options;
	return connect(setup).startup;
}

constexpr const char* kWait = "_pq_.polar_proxy_wait_v1";

Link_Setup with_wait(const std::string& first_message) {
	Link_Setup setup;
	setup.options = {{kWait, "true"}};
	setup.answer = first_message + greeting();
	return setup;
}

std::string unsupported(const std::vector<std::string>& names) {
	std::string body = int32_bytes(196608) + int32_bytes(static_cast<uint32_t>(names.size()));
	for (const std::string& name : names) {
		body += name + '\0';
	}
	return message('v', body);
}

} // namespace

TEST("without an option the startup packet is that of stock libpq") {
	EXPECT_EQ(startup_of({}), packet());
}

TEST("each option is sent under its own name") {
	const Options each = {{"_polar_send_lsn", "true"},
	                      {"_polar_proxy_send_lsn", "true"},
	                      {"_polar_send_xact", "true"},
	                      {"_polar_proxy_send_xact", "true"},
	                      {"_polar_origin_client_ip", "10.1.2.3"},
	                      {"_polar_origin_client_port", "4711"},
	                      {"_polar_proxy_client_host", "fd00::17"},
	                      {"_polar_proxy_client_port", "65535"},
	                      {"_polar_proxy_session_id", "10000042"},
	                      {"_polar_proxy_cancel_key", "-77"},
	                      {"_polar_proxy_use_ssl", "true"},
	                      {"_polar_proxy_ssl_version", "TLSv1.3"},
	                      {"_polar_proxy_ssl_cipher_name", "TLS_AES_256_GCM_SHA384"}};
	for (const auto& option : each) {
		EXPECT_EQ(startup_of({option}), packet({option}));
	}
	EXPECT_EQ(startup_of({{kWait, "true"}}), packet({{kWait, "1"}}));
	EXPECT_EQ(startup_of({{kWait, "1"}}), packet({{kWait, "1"}}));
}

TEST("the parameters keep their order whatever the order of the options") {
	EXPECT_EQ(startup_of({{"_polar_proxy_ssl_cipher_name", "C"},
	                      {"_polar_proxy_ssl_version", "V"},
	                      {"_polar_proxy_use_ssl", "true"},
	                      {"_polar_proxy_cancel_key", "2"},
	                      {"_polar_proxy_session_id", "1"},
	                      {"_polar_proxy_client_port", "99"},
	                      {"_polar_proxy_client_host", "127.0.0.9"},
	                      {kWait, "true"},
	                      {"_polar_proxy_send_xact", "true"},
	                      {"_polar_proxy_send_lsn", "true"}}),
	          packet({{"_polar_proxy_send_lsn", "true"},
	                  {"_polar_proxy_send_xact", "true"},
	                  {kWait, "1"},
	                  {"_polar_proxy_client_host", "127.0.0.9"},
	                  {"_polar_proxy_client_port", "99"},
	                  {"_polar_proxy_session_id", "1"},
	                  {"_polar_proxy_cancel_key", "2"},
	                  {"_polar_proxy_use_ssl", "true"},
	                  {"_polar_proxy_ssl_version", "V"},
	                  {"_polar_proxy_ssl_cipher_name", "C"}}));
}

TEST("the old spelling wins over the new one") {
	EXPECT_EQ(startup_of({{"_polar_send_lsn", "true"},
	                      {"_polar_proxy_send_lsn", "true"},
	                      {"_polar_send_xact", "true"},
	                      {"_polar_proxy_send_xact", "true"},
	                      {"_polar_origin_client_ip", "10.0.0.1"},
	                      {"_polar_proxy_client_host", "10.0.0.2"},
	                      {"_polar_origin_client_port", "1"},
	                      {"_polar_proxy_client_port", "2"}}),
	          packet({{"_polar_send_lsn", "true"},
	                  {"_polar_send_xact", "true"},
	                  {"_polar_origin_client_ip", "10.0.0.1"},
	                  {"_polar_origin_client_port", "1"}}));
}

TEST("a flag is sent for the exact word true only") {
	for (const char* value : {"", "false", "TRUE", "True", "on", "yes", "t", "true "}) {
		EXPECT_EQ(startup_of({{"_polar_send_lsn", value},
		                      {"_polar_proxy_send_lsn", value},
		                      {"_polar_send_xact", value},
		                      {"_polar_proxy_send_xact", value},
		                      {"_polar_proxy_use_ssl", value},
		                      {kWait, value}}),
		          packet());
	}
	EXPECT_EQ(startup_of({{"_polar_send_lsn", "1"}, {"_polar_proxy_use_ssl", "1"}}), packet());
}

TEST("an inactive old spelling does not hide an active new one") {
	EXPECT_EQ(
	    startup_of({{"_polar_send_lsn", "false"},
	                {"_polar_proxy_send_lsn", "true"},
	                {"_polar_origin_client_ip", ""},
	                {"_polar_proxy_client_host", "10.0.0.2"}}),
	    packet({{"_polar_proxy_send_lsn", "true"}, {"_polar_proxy_client_host", "10.0.0.2"}}));
}

TEST("an empty option is not sent") {
	// In a connection string: the other way of connecting drops empty values itself.
	Link_Setup setup;
	setup.conninfo = "dbname=d _polar_origin_client_ip='' _polar_origin_client_port='' "
	                 "_polar_proxy_client_host='' _polar_proxy_client_port='' "
	                 "_polar_proxy_session_id='' _polar_proxy_cancel_key='' "
	                 "_polar_proxy_ssl_version='' _polar_proxy_ssl_cipher_name='' "
	                 "_polar_send_lsn='' _polar_proxy_use_ssl='' _pq_.polar_proxy_wait_v1=''";
	EXPECT_EQ(connect(setup).startup, packet());
}

TEST("an option in a connection string is sent") {
	Link_Setup setup;
	setup.conninfo = "dbname=d _polar_proxy_client_host=::1 _polar_proxy_send_lsn=true";
	EXPECT_EQ(connect(setup).startup,
	          packet({{"_polar_proxy_send_lsn", "true"}, {"_polar_proxy_client_host", "::1"}}));
}

TEST("the options can be given in a connection string") {
	const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(
	    PQconninfoParse("_polar_proxy_send_lsn=true _pq_.polar_proxy_wait_v1=true", nullptr),
	    PQconninfoFree);
	EXPECT(options != nullptr);
	std::string given;
	for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
		if (option->val != nullptr) {
			given += std::string(option->keyword) + "=" + option->val + " ";
		}
	}
	EXPECT_EQ(given, "_polar_proxy_send_lsn=true _pq_.polar_proxy_wait_v1=true "s);
}

TEST("the cancel key option is shown as a secret") {
	const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(PQconndefaults(),
	                                                                             PQconninfoFree);
	int polar_options = 0;
	for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
		const std::string name = option->keyword;
		if (name.find("polar") != std::string::npos) {
			++polar_options;
			EXPECT_EQ(std::string(option->dispchar),
			          name == "_polar_proxy_cancel_key" ? "*"s : "D"s);
			EXPECT(option->val == nullptr && option->envvar == nullptr);
		}
	}
	EXPECT_EQ(polar_options, 14);
}

TEST("a server that says nothing about the wait extension supports it") {
	EXPECT_EQ(PQgetPolarWaitSupport(connect(with_wait("")).conn.get()), 1);
}

TEST("without the option there is no wait support") {
	EXPECT_EQ(PQgetPolarWaitSupport(connect().conn.get()), 0);
	EXPECT_EQ(PQgetPolarWaitSupport(nullptr), 0);
}

TEST("a server that refuses the wait extension is connected to without it") {
	EXPECT_EQ(PQgetPolarWaitSupport(connect(with_wait(unsupported({kWait}))).conn.get()), 0);
	EXPECT_EQ(PQgetPolarWaitSupport(
	              connect(with_wait(unsupported({"_pq_.a", kWait, "_pq_.b"}))).conn.get()),
	          0);
}

TEST("a refusal of something else leaves the wait extension usable") {
	EXPECT_EQ(PQgetPolarWaitSupport(connect(with_wait(unsupported({"_pq_.other"}))).conn.get()), 1);
	EXPECT_EQ(PQgetPolarWaitSupport(connect(with_wait(unsupported({}))).conn.get()), 1);
}

TEST("a refusal that arrives byte by byte is understood") {
	Link_Setup setup = with_wait(unsupported({kWait}));
	setup.answer_piece = 1;
	EXPECT_EQ(PQgetPolarWaitSupport(connect(setup).conn.get()), 0);
}

TEST("a malformed negotiation message ends the connection attempt") {
	for (const std::string& bad :
	     {message('v', int32_bytes(196608)),                                 // no count
	      message('v', int32_bytes(196608) + int32_bytes(2) + kWait + '\0'), // one name missing
	      message('v', int32_bytes(196608) + int32_bytes(1) + kWait),        // no end of name
	      message('v', int32_bytes(196608) + int32_bytes(0) + "rest"),       // more than said
	      message('v', int32_bytes(196608) + int32_bytes(0x7fffffff) + '\0')}) {
		const Link link = try_connect(with_wait(bad));
		EXPECT_EQ(static_cast<int>(PQstatus(link.conn.get())), static_cast<int>(CONNECTION_BAD));
		EXPECT(std::string(PQerrorMessage(link.conn.get())).find("negotiation") !=
		       std::string::npos);
	}
}

TEST("a negotiation message that nobody asked for is refused as before") {
	Link_Setup setup;
	setup.answer = unsupported({"_pq_.other"}) + greeting();
	const Link link = try_connect(setup);
	EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
}
