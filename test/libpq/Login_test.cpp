#include "Harness.h"
#include "Scripted_Server.h"

#include <openssl/evp.h>

#include <array>

// The outcome of a login, and passwords that are known as MD5 hash only (patch 0006).

namespace {

using namespace std::string_literals;

std::string md5_hex(const std::string& text) {
	std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
	unsigned size = 0;
	EXPECT(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_md5(), nullptr) == 1);
	std::string hex;
	for (unsigned i = 0; i < size; ++i) {
		constexpr std::string_view kDigits = "0123456789abcdef";
		hex += kDigits[digest[i] >> 4];
		hex += kDigits[digest[i] & 0xf];
	}
	return hex;
}

const std::string kSalt = "\x01\xff\0\x7f"s;

// What the client answers to a challenge of this kind, when this is its password.
std::string answer_to(uint32_t challenge, const std::string& password) {
	Link_Setup setup;
	setup.options = {{"password", password}};
	setup.answer =
	    message('R', int32_bytes(challenge) + (challenge == 5 ? kSalt : ""s)) + greeting();
	const Link link = connect(setup);
	const auto [type, body] = link.peer->read_message();
	EXPECT_EQ(type, 'p');
	return body;
}

// The manual's formula for user "u".
std::string hashed(const std::string& password) {
	return "md5" + md5_hex(md5_hex(password + "u") + kSalt) + '\0';
}

constexpr uint32_t kClear_text = 3;
constexpr uint32_t kMd5 = 5;

std::string error_message(const std::string& severity, const std::string& sqlstate) {
	return "S" + severity + '\0' + "V" + severity + '\0' + "C" + sqlstate + '\0' + "Mtext\0\0"s;
}

} // namespace

TEST("a plain password answers an MD5 challenge") {
	EXPECT_EQ(answer_to(kMd5, "secret"), hashed("secret"));
}

TEST("a stored MD5 secret answers an MD5 challenge as its password does") {
	EXPECT_EQ(answer_to(kMd5, "md5" + md5_hex("secretu")), hashed("secret"));
}

TEST("only the exact stored form is taken for one") {
	const std::string stored = "md5" + md5_hex("secretu");
	std::string upper = stored;
	for (size_t i = 3; i < upper.size(); ++i) {
		upper[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(upper[i])));
	}
	std::string no_digit = stored;
	no_digit.back() = 'g';
	for (const std::string& password : {stored.substr(0, 34), stored + "0", upper, no_digit,
	                                    "MD5" + stored.substr(3), "xmd5" + stored.substr(4)}) {
		EXPECT_EQ(answer_to(kMd5, password), hashed(password));
	}
}

TEST("a stored secret is sent as it is where the server wants clear text") {
	const std::string stored = "md5" + md5_hex("secretu");
	EXPECT_EQ(answer_to(kClear_text, stored), stored + '\0');
}

TEST("the code of a refused login can be asked for") {
	for (const char* sqlstate : {"28P01", "3D000", "53300", "57P03"}) {
		Link_Setup setup;
		setup.answer = message('E', error_message("FATAL", sqlstate));
		const Link link = try_connect(setup);
		EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
		EXPECT_EQ(std::string(PQlastSqlstate(link.conn.get())), std::string(sqlstate));
	}
}

TEST("a login that fails without the server's word has no code") {
	Link_Setup setup;
	setup.answer = message('R', int32_bytes(99)); // an authentication nobody knows
	const Link link = try_connect(setup);
	EXPECT(PQstatus(link.conn.get()) == CONNECTION_BAD);
	EXPECT_EQ(std::string(PQlastSqlstate(link.conn.get())), ""s);
}

TEST("no connection and one without errors have no code") {
	EXPECT_EQ(std::string(PQlastSqlstate(nullptr)), ""s);
	EXPECT_EQ(std::string(PQlastSqlstate(connect().conn.get())), ""s);
}

TEST("the last error of a query is the one that counts") {
	const Link link = connect();
	for (const char* sqlstate : {"42P01", "22012"}) {
		EXPECT_EQ(PQsendQuery(link.conn.get(), "q"), 1);
		link.peer->read_message();
		link.peer->send(message('E', error_message("ERROR", sqlstate)) + message('Z', "I"));
		while (PGresult* result = PQgetResult(link.conn.get())) {
			PQclear(result);
		}
		EXPECT_EQ(std::string(PQlastSqlstate(link.conn.get())), std::string(sqlstate));
	}
}
