// The admin port over real sockets: login, answers, bad bytes, limits, a clean stop.
#include "Fake_Runtime.h"
#include "admin/Admin_Session.h"
#include "auth/Scram_Client.h"
#include "base/Clock.h"
#include "protocol/Backend_Messages.h"
#include "protocol/Frame_Reader.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/Startup.h"
#include "protocol/Wire_Writer.h"

#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace proxy;
using namespace proxy::test;
using Catch::Matchers::Contains;

namespace {
std::span<const uint8_t> bytes_of(const std::string& text) {
	return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The answer to one message: what tests look at.
struct Reply {
	std::string types; // message types in order, "TDCZ"
	std::vector<std::vector<std::string>> rows;
	std::vector<std::string> tags;
	std::string sqlstate;
	std::string message;
	std::string notice;
	bool closed = false;
};

// -1: refused.
int connect_to(int port) {
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<uint16_t>(port));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

class Client {
public:
	explicit Client(int port) : fd_(connect_to(port)) { REQUIRE(fd_ >= 0); }
	~Client() { close(fd_); }
	Client(const Client&) = delete;
	Client& operator=(const Client&) = delete;

	void send_bytes(const std::string& bytes) const {
		REQUIRE(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
		        static_cast<ssize_t>(bytes.size()));
	}
	bool has_answer() const {
		pollfd polled{fd_, POLLIN, 0};
		return poll(&polled, 1, 0) == 1;
	}
	// One byte without framing (the answer to SSLRequest).
	char read_byte() {
		fill();
		REQUIRE_FALSE(input_.empty());
		const char byte = input_[0];
		input_.erase(0, 1);
		return byte;
	}
	// Messages up to ReadyForQuery, the end of the connection, or an authentication request.
	Reply read_reply() {
		Reply reply;
		for (;;) {
			Frame frame;
			if (next_frame(bytes_of(input_), kMaxFrameLength, frame) != Frame_Status::complete) {
				if (!fill()) {
					reply.closed = true;
					return reply;
				}
				continue;
			}
			const bool last = take(frame, reply);
			input_.erase(0, frame.size);
			if (last) {
				return reply;
			}
		}
	}
	bool at_end() { return input_.empty() && !fill(); }

	Reply startup(const std::string& user, uint16_t minor = 0) {
		const Parameter_View parameters[] = {{"user", user}, {"application_name", "test"}};
		std::string out;
		append_startup_message(out, 3, minor, parameters);
		send_bytes(out);
		return read_reply();
	}
	Reply login(const std::string& user, const std::string& password) {
		Reply reply = startup(user);
		if (!reply.sqlstate.empty()) {
			return reply;
		}
		Scram_Client scram(password, "0123456789abcdef");
		std::string out;
		{
			Message_Writer message(out, 'p');
			append_cstring(out, "SCRAM-SHA-256");
			const std::string first = scram.client_first();
			append_u32(out, static_cast<uint32_t>(first.size()));
			out += first;
		}
		send_bytes(out);
		reply = read_reply();
		const auto final_message = scram.client_final(auth_data_);
		REQUIRE(final_message.has_value());
		out.clear();
		{
			Message_Writer message(out, 'p');
			out += *final_message;
		}
		send_bytes(out);
		return read_reply();
	}
	Reply query(const std::string& sql) {
		std::string out;
		append_query(out, sql);
		send_bytes(out);
		return read_reply();
	}
	Backend_Key_View key() {
		Backend_Key_View view;
		REQUIRE(parse(bytes_of(key_), view));
		return view;
	}

private:
	bool fill() {
		pollfd polled{fd_, POLLIN, 0};
		REQUIRE(poll(&polled, 1, 10000) == 1);
		char buffer[65536];
		const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
		if (got <= 0) {
			return false;
		}
		input_.append(buffer, static_cast<size_t>(got));
		return true;
	}
	bool take(const Frame& frame, Reply& reply) {
		reply.types += frame.type;
		Error_Fields error;
		Command_Tag tag;
		Authentication_View auth;
		switch (frame.type) {
		case 'D': {
			Data_Row_Reader reader(frame.body);
			std::optional<std::string_view> cell;
			reply.rows.emplace_back();
			while (reader.next(cell)) {
				reply.rows.back().emplace_back(cell.value_or("NULL"));
			}
			REQUIRE(reader.ok());
			return false;
		}
		case 'E':
			REQUIRE(parse(frame.body, error));
			reply.sqlstate = error.sqlstate;
			reply.message = error.message;
			return false;
		case 'N':
			REQUIRE(parse(frame.body, error));
			reply.notice = error.message;
			return false;
		case 'C':
			REQUIRE(parse(frame.body, tag));
			reply.tags.emplace_back(tag.tag);
			return false;
		case 'K':
			key_.assign(frame.body.begin(), frame.body.end());
			return false;
		case 'R':
			REQUIRE(parse(frame.body, auth));
			auth_data_ = auth.data;
			return auth.code == static_cast<uint32_t>(Auth_Code::sasl) ||
			       auth.code == static_cast<uint32_t>(Auth_Code::sasl_continue);
		case 'Z':
			return true;
		default:
			return false;
		}
	}

	int fd_ = -1;
	std::string input_;
	std::string auth_data_;
	std::string key_;
};

class Server_Fixture {
public:
	explicit Server_Fixture(const std::string& variables = "")
	    : admin(std::make_unique<ProxySQL_Admin>(
	          runtime, admin_options(directory.path, "admin_variables = { "
	                                                 "pgsql_ifaces=\"127.0.0.1:0\" " +
	                                                     variables + " }\n" +
	                                                     "pgsql_variables = { "
	                                                     "connect_timeout_client=700 }\n"))) {
		Result<void> up = admin->open();
		INFO((up.ok() ? "" : up.error().message));
		REQUIRE(up.ok());
		REQUIRE(admin->load_all_to_runtime().ok());
		REQUIRE(admin->start_listening().ok());
		const std::string address = admin->listening().at(0);
		port = std::stoi(address.substr(address.rfind(':') + 1));
	}
	Temporary_Directory directory;
	Fake_Runtime runtime;
	std::unique_ptr<ProxySQL_Admin> admin;
	int port = 0;
};
} // namespace

TEST_CASE_METHOD(Server_Fixture, "login, a query, and what psql expects around it") {
	Client client(port);
	const Reply hello = client.login("admin", "admin");
	CHECK(hello.types == "RRSSSSSSSSSSSKZ");
	const Reply one = client.query("SELECT 1 AS a, NULL, 'x'");
	CHECK(one.types == "TDCZ");
	CHECK(one.rows == std::vector<std::vector<std::string>>{{"1", "NULL", "x"}});
	CHECK(one.tags == std::vector<std::string>{"SELECT 1"});
	CHECK(client.query("").types == "IZ");
	CHECK(client.query("-- ping").types == "IZ");
	CHECK(client.query(";").types == "IZ");
	CHECK(client.query("INSERT INTO pgsql_servers (hostname) VALUES ('a'),('b')").tags.at(0) ==
	      "INSERT 0 2");
	CHECK(client.query("UPDATE pgsql_servers SET weight=5").tags.at(0) == "UPDATE 2");
	CHECK(client.query("DELETE FROM pgsql_servers WHERE hostname='a'").tags.at(0) == "DELETE 1");
	CHECK(client.query("LOAD PGSQL SERVERS TO RUNTIME").tags.at(0) == "LOAD");
	CHECK(client.query("SET pgsql-threads=5").tags.at(0) == "UPDATE 1");
	CHECK(client.query("PROXYSQL PAUSE").tags.at(0) == "PROXYSQL");
	CHECK_THAT(client.query("SET pgsql-nothing=5").notice, Contains("Unknown global variable"));
	CHECK(runtime.servers.servers.size() == 1);
}

TEST_CASE_METHOD(Server_Fixture, "several statements in one message, up to the first error") {
	Client client(port);
	client.login("admin", "admin");
	const Reply all = client.query("SELECT 1; SELECT 2 UNION ALL SELECT 3; BEGIN;");
	CHECK(all.types == "TDCTDDCCZ");
	CHECK(all.tags == std::vector<std::string>{"SELECT 1", "SELECT 2", "BEGIN"});
	const Reply stops = client.query("SELECT 1; SELECT absent; SELECT 3");
	CHECK(stops.types == "TDCEZ");
	CHECK(stops.sqlstate == "28000");
	CHECK(stops.message == "ProxySQL Admin Error: no such column: absent");
	CHECK(client.query("LOAD PGSQL USERS FROM CONFIGS").sqlstate == "28000");
	CHECK(client.query("KILL CONNECTION 1").sqlstate == "P0001");
}

TEST_CASE_METHOD(Server_Fixture, "wrong passwords and unknown users look alike") {
	Client wrong(port);
	const Reply denied = wrong.login("admin", "wrong");
	CHECK(denied.sqlstate == "28P01");
	CHECK(denied.message == "ProxySQL Error: Access denied for user 'admin'@'127.0.0.1' (using "
	                        "password: YES)");
	CHECK(denied.types == "E");
	CHECK(wrong.at_end());
	Client unknown(port);
	CHECK(unknown.login("nobody", "x").sqlstate == "28P01");
	Client stats(port);
	stats.login("stats", "stats");
	CHECK_THAT(stats.query("SELECT * FROM pgsql_users").message, Contains("no such table"));
	CHECK(stats.query("SHOW TABLES").types.back() == 'Z');
}

TEST_CASE_METHOD(Server_Fixture, "encryption requests are declined, versions negotiated") {
	Client client(port);
	std::string out;
	append_ssl_request(out);
	client.send_bytes(out);
	CHECK(client.read_byte() == 'N');
	CHECK(client.startup("admin", 2).types == "vR");
	Client old(port);
	const Parameter_View parameters[] = {{"user", "admin"}};
	out.clear();
	append_startup_message(out, 2, 0, parameters);
	old.send_bytes(out);
	CHECK(old.read_reply().sqlstate == "0A000");
	Client nobody(port);
	out.clear();
	append_startup_message(out, 3, 0, {});
	nobody.send_bytes(out);
	CHECK(nobody.read_reply().sqlstate == "28000");
}

TEST_CASE_METHOD(Server_Fixture, "extended protocol: one error, then silence until Sync") {
	Client client(port);
	client.login("admin", "admin");
	std::string out;
	append_parse(out, "", "SELECT 1");
	append_bind_empty(out, "", "");
	append_describe(out, Target_Kind::portal, "");
	append_execute(out, "");
	append_sync(out);
	client.send_bytes(out);
	const Reply reply = client.read_reply();
	CHECK(reply.types == "EZ");
	CHECK(reply.sqlstate == "0A000");
	CHECK(client.query("SELECT 1").types == "TDCZ");
}

TEST_CASE_METHOD(Server_Fixture, "bytes that are no protocol end one client, not the others") {
	Client good(port);
	good.login("admin", "admin");
	const std::string bad[] = {
	    std::string("\xff\xff\xff\xff", 4),
	    std::string("\0\0\0\0\0\0\0\0", 8),
	    std::string("\x7f\xff\xff\xff\0\3\0\0", 8),
	    std::string("GET / HTTP/1.1\r\n\r\n"),
	};
	for (const std::string& bytes : bad) {
		Client client(port);
		client.send_bytes(bytes);
		CHECK(client.read_reply().closed);
	}
	{
		Client client(port); // a message longer than the limit
		client.login("admin", "admin");
		client.send_bytes(std::string("Q\x7f\xff\xff\xff", 5));
		CHECK(client.read_reply().sqlstate == "08P01");
		CHECK(client.at_end());
	}
	{
		Client client(port); // no terminating zero
		client.login("admin", "admin");
		client.send_bytes(std::string("Q\0\0\0\x05x", 6));
		CHECK(client.read_reply().sqlstate == "08P01");
	}
	{
		Client client(port); // a query before the login
		client.startup("admin");
		CHECK(client.query("SELECT 1").sqlstate == "08P01");
	}
	CHECK(good.query("SELECT 1").types == "TDCZ");
}

TEST_CASE_METHOD(Server_Fixture, "half-open logins are closed after the login timeout") {
	Client silent(port);
	Client half(port);
	half.send_bytes(std::string("\0\0\0\x20", 4));
	Client challenged(port);
	challenged.startup("admin");
	CHECK(silent.at_end());
	CHECK(half.at_end());
	CHECK(challenged.at_end());
}

TEST_CASE_METHOD(Server_Fixture, "silent connections do not lock administrators out") {
	std::vector<std::unique_ptr<Client>> silent;
	for (int i = 0; i < 300; ++i) {
		silent.push_back(std::make_unique<Client>(port));
	}
	Client client(port);
	client.login("admin", "admin");
	CHECK(client.query("SELECT 1").types == "TDCZ");
}

TEST_CASE_METHOD(Server_Fixture, "a cancel request stops the statement that runs") {
	Client client(port);
	client.login("admin", "admin");
	std::string out;
	append_query(out, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT "
	                  "COUNT(*) FROM n");
	client.send_bytes(out);
	std::string packet;
	append_cancel_request(packet, client.key().pid, client.key().key);
	// The statement may not have begun when the first request comes: ask until it ends. (Catch
	// counts assertions in one thread only: none here.)
	std::atomic<bool> ended{false};
	std::thread canceller([&] {
		while (!ended.load()) {
			const int fd = connect_to(port);
			[[maybe_unused]] const ssize_t sent =
			    send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
			char byte = 0;
			[[maybe_unused]] const ssize_t got = recv(fd, &byte, 1, 0); // closed by the server
			close(fd);
		}
	});
	const Reply reply = client.read_reply();
	ended.store(true);
	canceller.join();
	CHECK(reply.sqlstate == "57014");
}

TEST_CASE_METHOD(Server_Fixture, "nobody waits for long behind a runaway statement") {
	std::string runaway;
	append_query(runaway, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT "
	                      "COUNT(*) FROM n");
	Client admin_user(port);
	admin_user.login("admin", "admin");
	for (const char* user : {"stats", "admin"}) {
		Client first(port);
		Client second(port);
		first.login(user, user);
		second.login(user, user);
		first.send_bytes(runaway);
		second.send_bytes(runaway);
		// In whichever order they run: each ends once somebody waits for it.
		int64_t longest_us = 0;
		while (!first.has_answer() || !second.has_answer()) {
			const int64_t before_us = monotonic_us();
			CHECK(admin_user.query("SELECT 1").types == "TDCZ");
			longest_us = std::max(longest_us, monotonic_us() - before_us);
		}
		CHECK(longest_us < 2'500'000); // behind two of one's equals
		for (Client* client : {&first, &second}) {
			const Reply stopped = client->read_reply();
			CHECK(stopped.sqlstate == "57014");
			CHECK_THAT(stopped.message, Contains("while other clients wait"));
		}
	}
}

TEST_CASE_METHOD(Server_Fixture, "no function call of a stats user runs for seconds") {
	Client stats(port);
	stats.login("stats", "stats");
	const std::string run = "printf('%.*c', 2000000, 'a')";
	CHECK_THAT(stats.query("SELECT instr(" + run + ", " + run + "||'b')").message,
	           Contains("not authorized to use function: instr"));
	CHECK_THAT(stats.query("SELECT Replace(" + run + ", 'a', 'b')").message,
	           Contains("not authorized to use function"));
	CHECK(stats.query("SELECT " + run + " LIKE '%" + std::string(300, 'a') + "b'").message != "");
	CHECK(stats.query("SELECT hex(zeroblob(60000000))").message != "");
	CHECK(stats.query("SELECT 'abc' LIKE '%b%'").types == "TDCZ");
}

TEST_CASE_METHOD(Server_Fixture, "the answers to one message are bounded together") {
	Client client(port);
	client.login("admin", "admin");
	std::string sql;
	for (int i = 0; i < 6; ++i) {
		sql += "SELECT hex(zeroblob(20000000));"; // 40 MB each
	}
	const Reply reply = client.query(sql);
	CHECK(reply.types == "TDCTDCTDCEZ");
	CHECK(reply.sqlstate == "54000");
	CHECK(client.query("SELECT hex(zeroblob(20000000))").types == "TDCZ");
}

TEST_CASE_METHOD(Server_Fixture, "stop ends clients within a second, also busy ones") {
	Client idle(port);
	idle.login("admin", "admin");
	Client silent(port);
	Client busy(port);
	busy.login("admin", "admin");
	std::string out;
	append_query(out, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT "
	                  "COUNT(*) FROM n");
	busy.send_bytes(out);
	const int64_t before = monotonic_us();
	admin->stop();
	CHECK(monotonic_us() - before < 1'000'000);
	CHECK(idle.at_end());
}

TEST_CASE_METHOD(Server_Fixture, "interfaces move at LOAD ADMIN VARIABLES, credentials change") {
	const std::string socket_path = directory.path + "/admin.sock";
	Client client(port);
	client.login("admin", "admin");
	CHECK(client.query("SET admin-pgsql_ifaces='127.0.0.1:0;" + socket_path + "'").sqlstate == "");
	CHECK(client.query("SET admin-admin_credentials='boss:secret'").sqlstate == "");
	CHECK(client.query("LOAD ADMIN VARIABLES TO RUNTIME").sqlstate == "");
	CHECK(admin->listening().size() == 2);
	CHECK(access(socket_path.c_str(), F_OK) == 0);
	Client boss(port);
	boss.login("boss", "secret");
	CHECK(boss.query("SELECT current_user").rows.at(0).at(0) == "admin");
	Client old(port);
	CHECK(old.login("admin", "admin").sqlstate == "28P01");
	boss.query("SET admin-pgsql_ifaces='127.0.0.1:0;/no/such/directory/x'");
	const Reply failed = boss.query("LOAD ADMIN VARIABLES TO RUNTIME");
	CHECK_THAT(failed.message, Contains("/no/such/directory/x"));
	CHECK(admin->listening().size() == 2);
	admin->stop();
	CHECK(access(socket_path.c_str(), F_OK) != 0);
}

namespace {
class Accepting_Host final : public Admin_Host {
public:
	Login find_login(std::string_view username) override {
		Login login;
		login.known = true;
		login.secret = Secret("secret");
		login.role = username == "stats" ? Admin_Role::stats : Admin_Role::admin;
		login.floor = Auth_Method::clear_text;
		return login;
	}
	Result<Admin_Answer> execute(const Admin_Client&, std::string_view) override {
		return Admin_Answer();
	}
	void cancel(uint32_t, std::string_view) override {}
};
} // namespace

TEST_CASE("the well-known accounts log in from this machine only") {
	const auto sqlstate_for = [](const std::string& user, bool local) {
		Accepting_Host host;
		Admin_Peer peer;
		peer.address = "192.0.2.1";
		peer.local = local;
		peer.key = "1234";
		Admin_Session session(host, peer);
		const Parameter_View parameters[] = {{"user", user}};
		std::string in;
		append_startup_message(in, 3, 0, parameters);
		append_password(in, "secret");
		std::string out;
		// A byte at a time: where the network cuts must not matter.
		for (const char byte : in) {
			const auto value = static_cast<uint8_t>(byte);
			session.feed({&value, 1}, out);
		}
		Frame frame;
		std::string rest = out;
		while (next_frame(bytes_of(rest), kMaxFrameLength, frame) == Frame_Status::complete) {
			Error_Fields error;
			if (frame.type == 'E' && parse(frame.body, error)) {
				return std::string(error.sqlstate);
			}
			rest.erase(0, frame.size);
		}
		return std::string(session.logged_in() ? "ok" : "open");
	};
	CHECK(sqlstate_for("admin", true) == "ok");
	CHECK(sqlstate_for("admin", false) == "08004");
	CHECK(sqlstate_for("stats", false) == "08004");
	CHECK(sqlstate_for("other", false) == "ok");
}
