#include "auth/Auth_Context.h"
#include "auth/Auth_Flow.h"
#include "auth/PgSQL_Authentication.h"
#include "auth/Scram_Client.h"
#include "protocol/Backend_Messages.h"
#include "protocol/Frame_Reader.h"
#include "protocol/Wire_Writer.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {

using Status = Auth_Flow::Status;

std::span<const uint8_t> as_span(std::string_view text) {
	return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The nth Authentication message in `out`.
Authentication_View auth_message(std::string_view out, size_t index = 0) {
	std::span<const uint8_t> rest = as_span(out);
	for (;;) {
		Frame frame;
		REQUIRE(next_frame(rest, 10000, frame) == Frame_Status::complete);
		REQUIRE(frame.type == 'R');
		if (index == 0) {
			Authentication_View view;
			REQUIRE(parse(frame.body, view));
			return view;
		}
		--index;
		rest = rest.subspan(frame.size);
	}
}

Auth_Code code_of(std::string_view out, size_t index = 0) {
	return static_cast<Auth_Code>(auth_message(out, index).code);
}

Auth_Request request_for(std::string_view user, std::string_view secret,
                         Auth_Method floor = Auth_Method::scram_sha_256) {
	Auth_Request request;
	request.username = user;
	request.secret = secret;
	request.has_secret = true;
	request.floor = floor;
	return request;
}

Auth_Request unknown_user(std::string_view user, Auth_Method floor = Auth_Method::scram_sha_256) {
	Auth_Request request;
	request.username = user;
	request.floor = floor;
	return request;
}

std::string initial_response(std::string_view mechanism, std::string_view data) {
	std::string body;
	append_cstring(body, mechanism);
	append_u32(body, static_cast<uint32_t>(data.size()));
	body.append(data);
	return body;
}

std::string with_nul(std::string_view text) {
	std::string body(text);
	body.push_back('\0');
	return body;
}

// Random bytes 1, 2, 3, ... so that the server's nonce is known.
bool count_up(std::span<uint8_t> out) {
	uint8_t next = 1;
	for (uint8_t& byte : out) {
		byte = next++;
	}
	return true;
}

struct Fixture {
	Auth_Context context{"process secret"};

	// A whole SCRAM login as an honest client does it; returns the last status.
	Status scram_login(const Auth_Request& request, std::string_view password,
	                   Gs2_Flag flag = Gs2_Flag::not_supported, bool plus = false,
	                   std::string_view binding_hash = {}) {
		Auth_Flow flow(context);
		std::string out;
		REQUIRE(flow.start(request, out) == Status::need_message);
		REQUIRE(code_of(out) == Auth_Code::sasl);
		Scram_Client client(password, "clientnonce", flag, binding_hash);
		out.clear();
		Status status = flow.on_password_message(
		    as_span(initial_response(plus ? "SCRAM-SHA-256-PLUS" : "SCRAM-SHA-256",
		                             client.client_first())),
		    out);
		if (status != Status::need_message) {
			error = flow.error();
			return status;
		}
		REQUIRE(code_of(out) == Auth_Code::sasl_continue);
		server_first = auth_message(out).data;
		const auto final_message = client.client_final(server_first);
		REQUIRE(final_message.has_value());
		out.clear();
		status = flow.on_password_message(as_span(*final_message), out);
		error = flow.error();
		client_key = flow.scram_client_key().reveal();
		server_key = flow.scram_server_key().reveal();
		if (status == Status::accepted) {
			CHECK(code_of(out, 0) == Auth_Code::sasl_final);
			CHECK(client.check_server_final(auth_message(out, 0).data));
			CHECK(code_of(out, 1) == Auth_Code::ok);
		} else {
			CHECK(out.empty());
			CHECK(client_key.empty());
		}
		return status;
	}

	std::string server_first;
	std::string error;
	std::string client_key;
	std::string server_key;
};

std::string field(const std::string& server_first, std::string_view name) {
	const size_t start = server_first.find(name);
	REQUIRE(start != std::string::npos);
	return server_first.substr(start, server_first.find(',', start) - start);
}

} // namespace

TEST_CASE("the challenge follows the stored secret and the floor") {
	const std::string verifier =
	    format_scram_verifier(*make_scram_verifier("pw", "0123456789abcdef", 1));
	const std::string hash = md5_secret("ada", "pw");
	struct Case {
		std::string secret;
		Auth_Method floor;
		Auth_Code expected;
	};
	using enum Auth_Method;
	const std::vector<Case> cases = {
	    {"pw", clear_text, Auth_Code::clear_text},  {"pw", Auth_Method::md5, Auth_Code::md5},
	    {"pw", scram_sha_256, Auth_Code::sasl},     {hash, clear_text, Auth_Code::md5},
	    {hash, Auth_Method::md5, Auth_Code::md5},   {hash, scram_sha_256, Auth_Code::sasl},
	    {verifier, clear_text, Auth_Code::sasl},    {verifier, Auth_Method::md5, Auth_Code::sasl},
	    {verifier, scram_sha_256, Auth_Code::sasl}, {"", clear_text, Auth_Code::clear_text},
	    {"", Auth_Method::md5, Auth_Code::md5},     {"", scram_sha_256, Auth_Code::sasl},
	};
	Auth_Context context("secret");
	for (const Case& one : cases) {
		Auth_Flow flow(context);
		std::string out;
		CHECK(flow.start(request_for("ada", one.secret, one.floor), out) == Status::need_message);
		INFO(one.secret << " floor " << static_cast<int>(one.floor));
		CHECK(code_of(out) == one.expected);
	}
	for (const Auth_Method floor : {clear_text, Auth_Method::md5, scram_sha_256}) {
		Auth_Flow known(context);
		Auth_Flow unknown(context);
		std::string known_out;
		std::string unknown_out;
		known.start(request_for("ada", "pw", floor), known_out);
		unknown.start(unknown_user("bob", floor), unknown_out);
		CHECK(code_of(known_out) == code_of(unknown_out));
	}
}

TEST_CASE_METHOD(Fixture, "SCRAM against a plain password") {
	CHECK(scram_login(request_for("ada", "right"), "right") == Status::accepted);
	CHECK(scram_login(request_for("ada", "right"), "wrong") == Status::denied);
	CHECK(scram_login(request_for("ada", "right"), "") == Status::denied);
	CHECK(context.keys().derivations() == 1);
	CHECK(scram_login(request_for("ada", "newer"), "right") == Status::denied);
	CHECK(scram_login(request_for("ada", "newer"), "newer") == Status::accepted);
}

TEST_CASE_METHOD(Fixture, "SCRAM against a verifier, whose keys can be passed on") {
	const auto verifier = make_scram_verifier("right", "a salt of its own", 1234);
	const std::string secret = format_scram_verifier(*verifier);
	CHECK(scram_login(request_for("ada", secret), "right") == Status::accepted);
	CHECK(field(server_first, "s=") == "s=" + base64_encode("a salt of its own"));
	CHECK(field(server_first, "i=") == "i=1234");
	REQUIRE(client_key.size() == kScramKeyBytes);
	CHECK(as_text(sha256(client_key)) == as_text(verifier->stored_key));
	CHECK(server_key == as_text(verifier->server_key));
	CHECK(scram_login(request_for("ada", secret), "wrong") == Status::denied);
	// The verifier itself is not a password.
	CHECK(scram_login(request_for("ada", secret), secret) == Status::denied);
}

TEST_CASE_METHOD(Fixture, "an unknown user looks like a known one with another password") {
	const Auth_Request unknown = unknown_user("ghost");
	CHECK(scram_login(unknown, "any") == Status::denied);
	CHECK(error.empty());
	const std::string salt = field(server_first, "s=");
	CHECK(field(server_first, "i=") == "i=4096");
	CHECK(scram_login(unknown, "other") == Status::denied);
	CHECK(field(server_first, "s=") == salt);
	CHECK(scram_login(unknown, "") == Status::denied);

	// The same name, once it exists, shows the same salt.
	CHECK(scram_login(request_for("ghost", "boo"), "other") == Status::denied);
	CHECK(field(server_first, "s=") == salt);
	CHECK(scram_login(unknown_user("spirit"), "other") == Status::denied);
	CHECK(field(server_first, "s=") != salt);
	// 16 bytes, as a salt that PostgreSQL made.
	CHECK(base64_decode(salt.substr(2), 100)->size() == 16);

	Auth_Context elsewhere("another secret");
	CHECK(elsewhere.salt_for("ghost") != context.salt_for("ghost"));
}

TEST_CASE_METHOD(Fixture, "an MD5 hash under the SCRAM floor is refused whatever is sent") {
	const std::string hash = md5_secret("ada", "right");
	CHECK(scram_login(request_for("ada", hash), "right") == Status::denied);
	CHECK(scram_login(request_for("ada", hash), hash) == Status::denied);
	CHECK(scram_login(request_for("ada", ""), "") == Status::denied);
}

TEST_CASE("a mock exchange cannot be won with the keys of nobody") {
	// Stored and server key all zero, as an attacker may guess.
	Auth_Context context("secret", count_up);
	Auth_Flow flow(context);
	std::string out;
	flow.start(unknown_user("ghost"), out);
	out.clear();
	REQUIRE(flow.on_password_message(as_span(initial_response("SCRAM-SHA-256", "n,,n=,r=abc")),
	                                 out) == Status::need_message);
	const std::string server_first(auth_message(out).data);
	const std::string without_proof = "c=biws," + field(server_first, "r=");
	const std::string all = "n=,r=abc," + server_first + "," + without_proof;
	const Scram_Key proof = scram_client_proof({}, {}, all);
	out.clear();
	CHECK(flow.on_password_message(as_span(without_proof + ",p=" + base64_encode(as_text(proof))),
	                               out) == Status::denied);
	CHECK(out.empty());
}

TEST_CASE("clear text") {
	Auth_Context context("secret");
	const auto login = [&](const Auth_Request& request, std::string_view body) {
		Auth_Flow flow(context);
		std::string out;
		REQUIRE(flow.start(request, out) == Status::need_message);
		REQUIRE(code_of(out) == Auth_Code::clear_text);
		out.clear();
		const Status status = flow.on_password_message(as_span(body), out);
		CHECK(flow.password_was_empty() == (body == std::string_view("\0", 1)));
		CHECK((status == Status::accepted) == !out.empty());
		return status;
	};
	const Auth_Request request = request_for("ada", "right", Auth_Method::clear_text);
	CHECK(login(request, with_nul("right")) == Status::accepted);
	CHECK(login(request, with_nul("wrong")) == Status::denied);
	CHECK(login(request, with_nul("")) == Status::denied);
	CHECK(login(request, "right") == Status::malformed);
	CHECK(login(request, with_nul("right") + "x") == Status::malformed);
	CHECK(login(request, "") == Status::malformed);
	const Auth_Request nobody = unknown_user("ghost", Auth_Method::clear_text);
	CHECK(login(nobody, with_nul("")) == Status::denied);
	CHECK(login(nobody, with_nul("any")) == Status::denied);
	const Auth_Request empty = request_for("ada", "", Auth_Method::clear_text);
	CHECK(login(empty, with_nul("")) == Status::denied);
}

TEST_CASE("MD5") {
	Auth_Context context("secret", count_up);
	const std::string salt = "\x01\x02\x03\x04";
	const auto login = [&](const Auth_Request& request, std::string_view response) {
		Auth_Flow flow(context);
		std::string out;
		REQUIRE(flow.start(request, out) == Status::need_message);
		REQUIRE(code_of(out) == Auth_Code::md5);
		CHECK(auth_message(out).data == salt);
		out.clear();
		return flow.on_password_message(as_span(with_nul(response)), out);
	};
	const std::string hash = md5_secret("ada", "right");
	const std::string good = md5_response(hash, salt);
	for (const std::string& secret : {std::string("right"), hash}) {
		const Auth_Request request = request_for("ada", secret, Auth_Method::md5);
		CHECK(login(request, good) == Status::accepted);
		CHECK(login(request, md5_response(hash, "\x01\x02\x03\x05")) == Status::denied);
		CHECK(login(request, md5_response(md5_secret("ada", "wrong"), salt)) == Status::denied);
		CHECK(login(request, hash) == Status::denied);
		CHECK(login(request, "right") == Status::denied);
		CHECK(login(request, "") == Status::denied);
	}
	// An unknown user's secret is the empty one; answering for it must not help.
	const std::string for_empty = md5_response(md5_secret("ghost", ""), salt);
	CHECK(login(unknown_user("ghost", Auth_Method::md5), for_empty) == Status::denied);
	CHECK(login(request_for("ghost", "", Auth_Method::md5), for_empty) == Status::denied);
}

TEST_CASE("SCRAM-SHA-256-PLUS is offered over TLS with a certificate hash only") {
	const auto offered = [](bool tls, std::string_view hash) {
		Auth_Context context("secret");
		Auth_Flow flow(context);
		Auth_Request request = request_for("ada", "pw");
		request.tls = tls;
		request.channel_binding_hash = hash;
		std::string out;
		flow.start(request, out);
		return std::string(auth_message(out).data);
	};
	const std::string plain_only("SCRAM-SHA-256\0\0", 15);
	CHECK(offered(false, "") == plain_only);
	CHECK(offered(true, "") == plain_only);
	CHECK(offered(false, "hash") == plain_only);
	CHECK(offered(true, "hash") == std::string("SCRAM-SHA-256-PLUS\0", 19) + plain_only);
}

TEST_CASE_METHOD(Fixture, "channel binding") {
	Auth_Request tls = request_for("ada", "pw");
	tls.tls = true;
	tls.channel_binding_hash = "certificate hash";
	using enum Gs2_Flag;
	CHECK(scram_login(tls, "pw", used, true, "certificate hash") == Status::accepted);
	CHECK(scram_login(tls, "bad", used, true, "certificate hash") == Status::denied);
	// Somebody in the middle: another certificate.
	CHECK(scram_login(tls, "pw", used, true, "other hash") == Status::malformed);
	CHECK(error.find("channel binding check failed") != std::string::npos);
	// A client without channel binding.
	CHECK(scram_login(tls, "pw", not_supported, false) == Status::accepted);
	// Downgrade: the client would have bound, but was not told that we can.
	CHECK(scram_login(tls, "pw", not_offered, false) == Status::malformed);
	// Mechanism and flag that do not fit each other.
	CHECK(scram_login(tls, "pw", not_supported, true) == Status::malformed);
	CHECK(scram_login(tls, "pw", not_offered, true) == Status::malformed);
	CHECK(scram_login(tls, "pw", used, false, "certificate hash") == Status::malformed);

	// 'y' is right where we do not offer it.
	CHECK(scram_login(request_for("ada", "pw"), "pw", not_offered) == Status::accepted);
	Auth_Request no_hash = request_for("ada", "pw");
	no_hash.tls = true;
	CHECK(scram_login(no_hash, "pw", not_offered) == Status::accepted);
	// PLUS that was not offered.
	CHECK(scram_login(no_hash, "pw", used, true, "x") == Status::malformed);
	CHECK(error == "client selected an invalid SASL authentication mechanism");
}

TEST_CASE("malformed SASL messages are told from wrong passwords") {
	Auth_Context context("secret", count_up);
	const auto first_status = [&](std::string_view body) {
		Auth_Flow flow(context);
		std::string out;
		flow.start(request_for("ada", "pw"), out);
		out.clear();
		const Status status = flow.on_password_message(as_span(body), out);
		CHECK((status == Status::malformed) == !flow.error().empty());
		CHECK((status == Status::need_message) == !out.empty());
		return status;
	};
	const auto first = [&](std::string_view data) {
		return first_status(initial_response("SCRAM-SHA-256", data));
	};
	CHECK(first("n,,n=,r=abc") == Status::need_message);
	CHECK(first("n,,n=ada,r=abc,x=ext") == Status::need_message);
	for (const std::string_view bad :
	     {"", "n", "n,", "n,,", "n,,n=", "n,,n=,", "n,,n=,r=", "n,,r=abc", "n,,n=,r=a b",
	      "n,a=ada,n=,r=abc", "n,x,n=,r=abc", "z,,n=,r=abc", "n,,m=ext,n=,r=abc", "p,,n=,r=abc",
	      "p=tls-unique,,n=,r=abc", "n,,n=,r=abc,??", "n,,n=,r=\x80", ",,n=,r=abc"}) {
		INFO(bad);
		CHECK(first(bad) == Status::malformed);
	}
	CHECK(first("n,,n=,r=" + std::string(512, 'a')) == Status::need_message);
	CHECK(first("n,,n=,r=" + std::string(513, 'a')) == Status::malformed);
	CHECK(first("n,,n=" + std::string(5000, 'a') + ",r=abc") == Status::malformed);
	CHECK(first(std::string_view("n,,n=,r=abc\0", 12)) == Status::malformed);

	CHECK(first_status(initial_response("SCRAM-SHA-1", "n,,n=,r=abc")) == Status::malformed);
	CHECK(first_status(initial_response("", "n,,n=,r=abc")) == Status::malformed);
	CHECK(first_status("") == Status::malformed);
	CHECK(first_status("SCRAM-SHA-256") == Status::malformed);
	CHECK(first_status(with_nul("SCRAM-SHA-256")) == Status::malformed);
	const std::string body = initial_response("SCRAM-SHA-256", "n,,n=,r=abc");
	CHECK(first_status(body + "x") == Status::malformed);
	CHECK(first_status(body.substr(0, body.size() - 1)) == Status::malformed);
	std::string negative = with_nul("SCRAM-SHA-256");
	append_u32(negative, 0xfffffffeU);
	CHECK(first_status(negative) == Status::malformed);
}

TEST_CASE("a final message must fit what came before") {
	Auth_Context context("secret", count_up);
	const std::string proof = base64_encode(std::string(32, 'x'));
	const auto final_status = [&](auto make_message) {
		Auth_Flow flow(context);
		std::string out;
		flow.start(request_for("ada", "pw"), out);
		out.clear();
		flow.on_password_message(as_span(initial_response("SCRAM-SHA-256", "n,,n=,r=abc")), out);
		const std::string nonce = field(std::string(auth_message(out).data), "r=");
		out.clear();
		const std::string message = make_message(nonce);
		const Status status = flow.on_password_message(as_span(message), out);
		CHECK(out.empty());
		// Over is over.
		CHECK(flow.on_password_message(as_span(message), out) == Status::malformed);
		return status;
	};
	using Text = const std::string&;
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p=" + proof; }) == Status::denied);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",x=1,p=" + proof; }) ==
	      Status::denied);
	CHECK(final_status([&](Text r) { return "c=eSws," + r + ",p=" + proof; }) == Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + "A,p=" + proof; }) ==
	      Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p=" + proof + ","; }) ==
	      Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p=" + proof + ",x=1"; }) ==
	      Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p=AAAA"; }) == Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p=" + proof + "AAAA"; }) ==
	      Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r + ",p="; }) == Status::malformed);
	CHECK(final_status([&](Text r) { return "c=biws," + r; }) == Status::malformed);
	CHECK(final_status([&](Text r) { return r + ",c=biws,p=" + proof; }) == Status::malformed);
	CHECK(final_status([&](Text) { return "c=biws,r=abc,p=" + proof; }) == Status::malformed);
	CHECK(final_status([&](Text) { return std::string(); }) == Status::malformed);
	CHECK(final_status([&](Text r) {
		      return "c=biws," + r + ",x=" + std::string(5000, 'y') + ",p=" + proof;
	      }) == Status::malformed);
}

TEST_CASE("a client may name its mechanism first and send the rest when asked") {
	Auth_Context context("secret");
	Auth_Flow flow(context);
	std::string out;
	flow.start(request_for("ada", "pw"), out);
	std::string body = with_nul("SCRAM-SHA-256");
	append_u32(body, 0xffffffffU);
	out.clear();
	REQUIRE(flow.on_password_message(as_span(body), out) == Status::need_message);
	CHECK(auth_message(out).data.empty());
	Scram_Client client("pw", "abc");
	out.clear();
	REQUIRE(flow.on_password_message(as_span(client.client_first()), out) == Status::need_message);
	const auto last = client.client_final(auth_message(out).data);
	REQUIRE(last.has_value());
	CHECK(flow.on_password_message(as_span(*last), out) == Status::accepted);
}

TEST_CASE("without random numbers nobody gets in") {
	Auth_Context context("secret", [](std::span<uint8_t>) { return false; });
	Auth_Flow with_md5(context);
	std::string out;
	CHECK(with_md5.start(request_for("ada", "pw", Auth_Method::md5), out) == Status::malformed);
	Auth_Flow with_scram(context);
	with_scram.start(request_for("ada", "pw"), out);
	CHECK(with_scram.on_password_message(as_span(initial_response("SCRAM-SHA-256", "n,,n=,r=abc")),
	                                     out) == Status::malformed);
}

TEST_CASE("nonces of the process differ from login to login") {
	const auto server_nonce = [] {
		Auth_Flow flow;
		std::string out;
		flow.start(request_for("ada", "pw"), out);
		out.clear();
		flow.on_password_message(as_span(initial_response("SCRAM-SHA-256", "n,,n=,r=abc")), out);
		return field(std::string(auth_message(out).data), "r=");
	};
	const std::string one = server_nonce();
	CHECK(one.size() == std::string("r=abc").size() + 24);
	CHECK(one != server_nonce());
}

TEST_CASE("a flow is used in order") {
	Auth_Context context("secret");
	Auth_Flow early(context);
	std::string out;
	CHECK(early.on_password_message(as_span(with_nul("pw")), out) == Status::malformed);
	Auth_Flow twice(context);
	twice.start(request_for("ada", "pw"), out);
	CHECK(twice.start(request_for("ada", "pw"), out) == Status::malformed);
}

TEST_CASE("warming derives each plain password once") {
	std::vector<Pgsql_User_Row> rows(4);
	rows[0].username = "ada";
	rows[0].password = Secret("pw1");
	rows[1].username = "bob";
	rows[1].password = Secret("pw2");
	rows[2].username = "hashed";
	rows[2].password = Secret(md5_secret("hashed", "x"));
	rows[3].username = "gone";
	rows[3].password = Secret("pw3");
	rows[3].active = false;
	const auto users = Users_Snapshot::make(rows, nullptr);
	Auth_Context context("secret");
	CHECK(context.warm(*users, 1) == 1);
	CHECK(context.warm(*users, 100) == 1);
	CHECK(context.warm(*users, 100) == 0);
	CHECK(context.keys().derivations() == 2);
	CHECK(context.keys().contains("bob", "pw2", context.salt_for("bob")));
}
