#include "auth/Scram_Client.h"
#include "auth/Scram_Key_Cache.h"
#include "auth/Scram_Md5.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace proxy;

namespace {
// Computed with another implementation.
const std::string kPencilVerifier =
    "SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$nQpbZ77WudtqufPw"
    "ikHXGRt6g2QJ4zns8bZLw273DRM=:jn2amWP1q1h+jgjy0YTO14S6/F02SV7taipOeB7ef20=";
} // namespace

TEST_CASE("the exchange of RFC 7677") {
	const std::string bare = "n=user,r=rOprNGfwEbeRWgbNEkqO";
	const std::string nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
	const std::string server_first = "r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
	const std::string without_proof = "c=biws,r=" + nonce;
	const std::string auth_message = bare + "," + server_first + "," + without_proof;

	const auto salt = base64_decode("W22ZaJ0SNY7soEsUEjb6gQ==", 100);
	REQUIRE(salt.has_value());
	const auto salted = scram_salted_password("pencil", *salt, 4096);
	REQUIRE(salted.has_value());
	const Scram_Key client_key = scram_client_key(*salted);
	const Scram_Key stored_key = scram_stored_key(client_key);
	const Scram_Key proof = scram_client_proof(client_key, stored_key, auth_message);
	CHECK(base64_encode(as_text(proof)) == "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
	CHECK(base64_encode(as_text(scram_server_signature(scram_server_key(*salted), auth_message))) ==
	      "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
	// The proof gives the client's key back to who has the stored key.
	CHECK(scram_client_proof(proof, stored_key, auth_message) == client_key);
}

TEST_CASE("verifiers equal those of another implementation") {
	struct Case {
		std::string password;
		std::string salt;
		uint32_t iterations;
		std::string text;
	};
	std::string counting;
	for (char c = 0; c < 16; ++c) {
		counting.push_back(c);
	}
	const std::vector<Case> cases = {
	    {"pencil", "0123456789abcdef", 4096, kPencilVerifier},
	    {"correct horse", counting, 1,
	     "SCRAM-SHA-256$1:AAECAwQFBgcICQoLDA0ODw==$RRnwtPWsje5OXJGhB+8"
	     "qaBpLXu2/dwXJSMwaI9+ikf0=:R+NlZ/uNS5AS0v7ei4BxNr6Jep7hXTdZFmknZb4Cm9s="},
	    {"p\xc3\xa4ss", "saltsaltsaltsal!", 10000,
	     "SCRAM-SHA-256$10000:c2FsdHNhbHRzYWx0c2FsIQ==$ZjuJFlJUsxgK7mo"
	     "IbQtEzYqBHsZRljfGfUsCtttTcXE=:M6WpoMH2O9QL/M0wm8vCfrEftKF5dwg2AJffyxc71p4="},
	};
	for (const Case& one : cases) {
		const auto made = make_scram_verifier(one.password, one.salt, one.iterations);
		REQUIRE(made.has_value());
		CHECK(format_scram_verifier(*made) == one.text);
		const auto read = parse_scram_verifier(one.text);
		REQUIRE(read.has_value());
		CHECK(read->iterations == one.iterations);
		CHECK(read->salt == one.salt);
		CHECK(read->stored_key == made->stored_key);
		CHECK(read->server_key == made->server_key);
	}
}

TEST_CASE("no rounds, or a salt beyond reason, make no verifier") {
	CHECK_FALSE(make_scram_verifier("x", "salt", 0).has_value());
	CHECK_FALSE(make_scram_verifier("x", "salt", 0x80000000U).has_value());
	CHECK_FALSE(make_scram_verifier("x", std::string(kScramMaxSaltBytes + 1, 's')).has_value());
}

TEST_CASE("MD5 secrets and responses") {
	CHECK(md5_secret("ada", "secret") == "md52953f29bc314bd0a7ea7ddf6ccc1555f");
	CHECK(md5_response(md5_secret("ada", "secret"), "\x01\x02\x03\x04") ==
	      "md5164dbcd37c01a78e869e72965960a754");
}

TEST_CASE("stored secrets are told apart as PostgreSQL does") {
	CHECK(classify_secret("") == Secret_Type::none);
	CHECK(classify_secret("hello") == Secret_Type::plain);
	CHECK(classify_secret("md50123456789abcdef0123456789abcdef") == Secret_Type::md5_hash);
	CHECK(classify_secret("md50123456789abcdef0123456789abcdeF") == Secret_Type::plain);
	CHECK(classify_secret("md50123456789abcdef0123456789abcde") == Secret_Type::plain);
	CHECK(classify_secret("md50123456789abcdef0123456789abcdef0") == Secret_Type::plain);
	CHECK(classify_secret(kPencilVerifier) == Secret_Type::scram_verifier);
}

TEST_CASE("what is not a whole verifier is a plain password") {
	const std::string good = kPencilVerifier;
	REQUIRE(parse_scram_verifier(good).has_value());
	for (size_t length = 0; length < good.size(); ++length) {
		INFO(length);
		CHECK_FALSE(parse_scram_verifier(good.substr(0, length)).has_value());
	}
	CHECK_FALSE(parse_scram_verifier(good + "=").has_value());
	CHECK_FALSE(parse_scram_verifier(good + "A").has_value());
	const auto with_iterations = [&](const std::string& count) {
		std::string text = good;
		text.replace(text.find("4096"), 4, count);
		return parse_scram_verifier(text).has_value();
	};
	CHECK(with_iterations("1"));
	CHECK(with_iterations("2147483647"));
	CHECK_FALSE(with_iterations("0"));
	CHECK_FALSE(with_iterations("-1"));
	CHECK_FALSE(with_iterations("2147483648"));
	CHECK_FALSE(with_iterations("99999999999999999999"));
	CHECK_FALSE(with_iterations(" 1"));
	CHECK_FALSE(with_iterations(""));
	const std::string salt = "MDEyMzQ1Njc4OWFiY2RlZg==";
	const auto with_salt = [&](const std::string& other) {
		std::string text = good;
		text.replace(text.find(salt), salt.size(), other);
		return parse_scram_verifier(text).has_value();
	};
	CHECK(with_salt("")); // odd, but PostgreSQL takes it
	CHECK(with_salt(base64_encode(std::string(kScramMaxSaltBytes, 's'))));
	CHECK_FALSE(with_salt(base64_encode(std::string(kScramMaxSaltBytes + 1, 's'))));
	CHECK_FALSE(with_salt("MDEy!zQ1"));
}

TEST_CASE("base64 both ways, and only one text for the same bytes") {
	const std::vector<std::pair<std::string, std::string>> pairs = {
	    {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
	    {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="},
	};
	for (const auto& [plain, coded] : pairs) {
		CHECK(base64_encode(plain) == coded);
		CHECK(base64_decode(coded, 100) == plain);
	}
	for (const std::string_view bad : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====",
	                                   "=", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm-_", "Z\xc3\xa4=="}) {
		INFO(bad);
		CHECK_FALSE(base64_decode(bad, 100).has_value());
	}
	CHECK(base64_decode("Zm9v", 3).has_value());
	CHECK_FALSE(base64_decode("Zm9v", 2).has_value());
}

TEST_CASE("constant-time comparison") {
	CHECK(constant_time_equal("", ""));
	CHECK(constant_time_equal("abc", "abc"));
	CHECK_FALSE(constant_time_equal("abc", "abd"));
	CHECK_FALSE(constant_time_equal("abc", "abcd"));
	CHECK_FALSE(constant_time_equal("", "a"));
}

TEST_CASE("a password is derived once") {
	Scram_Key_Cache cache("key", 3);
	const auto first = cache.get("ada", "secret", "salt");
	const auto second = cache.get("ada", "secret", "salt");
	REQUIRE(first.has_value());
	REQUIRE(second.has_value());
	CHECK(cache.derivations() == 1);
	CHECK(first->verifier.stored_key == second->verifier.stored_key);
	CHECK(format_scram_verifier(first->verifier) ==
	      format_scram_verifier(*make_scram_verifier("secret", "salt")));
	CHECK(cache.contains("ada", "secret", "salt"));
	CHECK_FALSE(cache.contains("ada", "other", "salt"));
	CHECK_FALSE(cache.contains("adas", "ecret", "salt"));
	cache.clear();
	CHECK(cache.size() == 0);
	CHECK_FALSE(cache.contains("ada", "secret", "salt"));
}

TEST_CASE("the key cache is bounded and forgets what was not used for longest") {
	Scram_Key_Cache cache("key", 2);
	cache.get("a", "pw", "salt");
	cache.get("b", "pw", "salt");
	cache.get("a", "pw", "salt");
	cache.get("c", "pw", "salt");
	CHECK(cache.size() == 2);
	CHECK(cache.contains("a", "pw", "salt"));
	CHECK_FALSE(cache.contains("b", "pw", "salt"));
	CHECK(cache.contains("c", "pw", "salt"));
}

TEST_CASE("the key cache serves several threads") {
	Scram_Key_Cache cache("key", 4);
	std::vector<std::thread> threads;
	for (int number = 0; number < 4; ++number) {
		threads.emplace_back([&cache, number] {
			for (int i = 0; i < 50; ++i) {
				const std::string user(1, static_cast<char>('a' + (i + number) % 6));
				cache.get(user, "pw", "salt");
			}
		});
	}
	for (std::thread& thread : threads) {
		thread.join();
	}
	CHECK(cache.size() == 4);
}

TEST_CASE("the client refuses servers that are not in order") {
	const auto answers = [](std::string_view server_first) {
		Scram_Client client("pw", "abc");
		return client.client_final(server_first).has_value();
	};
	CHECK(answers("r=abcdef,s=c2FsdA==,i=1"));
	CHECK_FALSE(answers("r=abc,s=c2FsdA==,i=1"));    // adds no nonce of its own
	CHECK_FALSE(answers("r=xyzdef,s=c2FsdA==,i=1")); // not our nonce
	CHECK_FALSE(answers("r=abcdef,s=c2FsdA=,i=1"));  // salt is not base64
	CHECK_FALSE(answers("r=abcdef,s=,i=1"));         // no salt
	CHECK_FALSE(answers("r=abcdef,s=c2FsdA==,i=0"));
	CHECK_FALSE(answers("r=abcdef,s=c2FsdA==,i=4294967295"));
	CHECK_FALSE(answers("r=abcdef,s=c2FsdA==,i=1x"));
	CHECK_FALSE(answers("r=abcdef,s=c2FsdA=="));
	CHECK_FALSE(answers("e=other-error"));
	CHECK_FALSE(answers(""));
	CHECK_FALSE(Scram_Client("pw", "abc").check_server_final("v="));
}

TEST_CASE("keys that many ask for at once are derived once, and find() never derives") {
	Scram_Key_Cache cache("key");
	CHECK_FALSE(cache.find("ada", "secret", "salt"));
	CHECK(cache.derivations() == 0);
	constexpr size_t kThreads = 8;
	std::vector<std::optional<Scram_Derived>> found(kThreads);
	std::vector<std::thread> threads;
	for (size_t i = 0; i < kThreads; ++i) {
		threads.emplace_back(
		    [&cache, &found, i] { found[i] = cache.get("ada", "secret", "salt"); });
	}
	for (std::thread& thread : threads) {
		thread.join();
	}
	CHECK(cache.derivations() == 1);
	for (const auto& verifier : found) {
		REQUIRE(verifier);
		CHECK(verifier->verifier.stored_key == found[0]->verifier.stored_key);
	}
	CHECK(cache.find("ada", "secret", "salt")->login.server_key == found[0]->login.server_key);
	CHECK_FALSE(cache.find("ada", "secret", "salt", 4097));
	CHECK_FALSE(cache.get("ada", "secret", "salt", kScramMaxIterations + 1));
}
