#include "Harness.h"
#include "Scripted_Server.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

// SCRAM with keys that the application has (patch 0007).

namespace {

using namespace std::string_literals;

constexpr uint32_t kSasl = 10;
constexpr uint32_t kSasl_continue = 11;
constexpr uint32_t kSasl_final = 12;

std::string hmac(const std::string& key, const std::string& data) {
	std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
	unsigned size = 0;
	EXPECT(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
	            reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(),
	            &size) != nullptr);
	return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string base64(const std::string& data) {
	std::string out(4 * ((data.size() + 2) / 3), '\0');
	EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
	                reinterpret_cast<const unsigned char*>(data.data()),
	                static_cast<int>(data.size()));
	return out;
}

const unsigned char* bytes(const std::string& text) {
	return reinterpret_cast<const unsigned char*>(text.data());
}

const std::string kClient_key(32, 'c');
const std::string kServer_key(32, 's');
constexpr std::string_view kSalt = "c2FsdA=="; // "salt"

// A login that the server has asked for SCRAM, up to its challenge.
struct Held_Login {
	Link link;
	std::string bare;
	std::string server_first;
};

Held_Login hold() {
	Held_Login held;
	Link_Setup setup;
	setup.answer = message('R', int32_bytes(kSasl) + "SCRAM-SHA-256\0\0"s);
	setup.before_login = [](PGconn* conn) { EXPECT_EQ(PQscramHoldForKeys(conn, 1), 1); };
	setup.dialogue = [&held](Peer& peer) {
		const std::string first = peer.read_message().second;
		held.bare = first.substr(first.find("n,,") + 3);
		held.server_first =
		    held.bare.substr(held.bare.find("r=")) + "more,s=" + std::string(kSalt) + ",i=4096";
		peer.send(message('R', int32_bytes(kSasl_continue) + held.server_first));
	};
	held.link = try_connect(setup);
	EXPECT(held.link.peer != nullptr);
	return held;
}

std::string without_proof(const Held_Login& held) {
	return "c=biws," + held.server_first.substr(0, held.server_first.find(','));
}

std::string auth_message(const Held_Login& held) {
	return held.bare + "," + held.server_first + "," + without_proof(held);
}

std::string sha256(const std::string& text) {
	std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
	unsigned size = 0;
	EXPECT(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
	return {reinterpret_cast<const char*>(digest.data()), size};
}

void finish(Held_Login& held, const std::string& signature) {
	held.link.peer->send(message('R', int32_bytes(kSasl_final) + "v=" + base64(signature)) +
	                     greeting());
	finish_connecting(held.link.conn.get());
}

} // namespace

TEST("a login by SCRAM stops at the challenge and tells it") {
	const Held_Login held = hold();
	PGconn* conn = held.link.conn.get();
	EXPECT(PQconnectPoll(conn) == PGRES_POLLING_ACTIVE);
	const char* salt = nullptr;
	int length = 0;
	int iterations = 0;
	EXPECT_EQ(PQscramChallenge(conn, &salt, &length, &iterations), 1);
	EXPECT_EQ(std::string(salt, static_cast<size_t>(length)), "salt"s);
	EXPECT_EQ(iterations, 4096);
}

TEST("keys answer the challenge as their password would, and check the server") {
	Held_Login held = hold();
	PGconn* conn = held.link.conn.get();
	EXPECT_EQ(PQscramSetKeys(conn, bytes(kClient_key), bytes(kServer_key)), 1);
	std::string proof = hmac(sha256(kClient_key), auth_message(held));
	for (size_t i = 0; i < proof.size(); ++i) {
		proof[i] = static_cast<char>(proof[i] ^ kClient_key[i]);
	}
	EXPECT_EQ(held.link.peer->read_message().second, without_proof(held) + ",p=" + base64(proof));
	finish(held, hmac(kServer_key, auth_message(held)));
	EXPECT(PQstatus(conn) == CONNECTION_OK);
}

TEST("a server that does not have the server's key is refused") {
	Held_Login held = hold();
	PGconn* conn = held.link.conn.get();
	EXPECT_EQ(PQscramSetKeys(conn, bytes(kClient_key), bytes(kServer_key)), 1);
	held.link.peer->read_message();
	finish(held, hmac(std::string(32, 'x'), auth_message(held)));
	EXPECT(PQstatus(conn) == CONNECTION_BAD);
	EXPECT(std::string(PQerrorMessage(conn)).find("incorrect server signature") !=
	       std::string::npos);
}

TEST("keys that nothing waits for are refused, and no challenge is told") {
	const Link link = connect();
	const char* salt = nullptr;
	int length = 0;
	int iterations = 0;
	EXPECT_EQ(PQscramChallenge(link.conn.get(), &salt, &length, &iterations), 0);
	EXPECT_EQ(PQscramSetKeys(link.conn.get(), bytes(kClient_key), bytes(kServer_key)), 0);
	EXPECT_EQ(PQscramSetKeys(nullptr, bytes(kClient_key), bytes(kServer_key)), 0);
}

TEST("other kinds of login are not affected by the hold") {
	Link_Setup setup;
	setup.options = {{"password", "secret"}};
	setup.before_login = [](PGconn* conn) { EXPECT_EQ(PQscramHoldForKeys(conn, 1), 1); };
	setup.answer = message('R', int32_bytes(3)) + greeting();
	const Link link = connect(setup);
	EXPECT_EQ(link.peer->read_message().second, "secret\0"s);
}
