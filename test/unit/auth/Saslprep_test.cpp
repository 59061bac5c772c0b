#include "auth/Scram_Md5.h"
#include "auth/Unicode.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {
std::string hex(const Scram_Key& key) {
	std::string text;
	for (const uint8_t byte : key) {
		constexpr std::string_view kDigits = "0123456789abcdef";
		text.push_back(kDigits[byte >> 4]);
		text.push_back(kDigits[byte & 0xf]);
	}
	return text;
}
} // namespace

TEST_CASE("normal form KC of every character agrees with another implementation") {
	// Each in front of two marks that must be ordered, between an "a" and them: all three parts of
	// the algorithm. The sum was made by Python's unicodedata, version 14.0.0.
	std::string all;
	for (char32_t c = 0; c < 0x110000; ++c) {
		if (c < 0xd800 || c > 0xdfff) {
			all += utf8_encode(nfkc(std::u32string{U'a', c, U'\u0327', U'\u0301'}));
		}
	}
	CHECK(hex(sha256(all)) == "7c6741600c9402ae4e8de9cb8c95311571c89a8a40d728e71e9aed3581efb9b2");
}

TEST_CASE("Hangul is composed and decomposed by rule") {
	CHECK(utf8_encode(nfkc(U"\u1100\u1161\u11a8")) == "\xea\xb0\x81"); // U+AC01
	CHECK(utf8_encode(nfkc(U"\uac00\u11a8")) == "\xea\xb0\x81");
	CHECK(utf8_encode(nfkc(U"\uac01\u11a8")) == "\xea\xb0\x81\xe1\x86\xa8"); // has its trail
}

TEST_CASE("UTF-8 that could mean something else is none") {
	for (const char* text : {"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
	                         "\xf4\x90\x80\x80", "\x80", "\xc3", "\xc3(", "\xff"}) {
		CHECK_FALSE(utf8_decode(text));
	}
	CHECK(utf8_encode(*utf8_decode("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98")) ==
	      "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98");
}

TEST_CASE("passwords are prepared as PostgreSQL prepares them") {
	struct Case {
		const char* password;
		const char* prepared;
	};
	const Case cases[] = {
	    {"secret\x01", "secret\x01"},     // ASCII, whatever it is
	    {"I\xc2\xadX", "IX"},             // RFC 4013: the soft hyphen goes
	    {"a\xc2\xa0z", "a z"},            // no-break space
	    {"a\xe2\x80\x8bz", "a z"},        // zero-width space, in two tables
	    {"\xc2\xaa", "a"},                // feminine ordinal
	    {"\xe2\x85\xa8", "IX"},           // Roman numeral nine
	    {"e\xcc\x81", "\xc3\xa9"},        // combining acute
	    {"\xef\xac\x81sh", "fish"},       // ligature
	    {"\xd8\xa7\x31", "\xd8\xa7\x31"}, // right-to-left that ends otherwise: as it is
	    {"\xd8\xa7\xd8\xa8", "\xd8\xa7\xd8\xa8"},
	    {"\xc2\xad", "\xc2\xad"},                   // nothing would be left
	    {"a\xc2\x85\xc2\xa0", "a\xc2\x85\xc2\xa0"}, // a prohibited control: as it is
	    {"a\xcd\xb8\xc2\xa0", "a\xcd\xb8\xc2\xa0"}, // unassigned in Unicode 3.2: as it is
	    {"\xff\xc2\xa0", "\xff\xc2\xa0"},           // not UTF-8: as it is
	};
	for (const Case& one : cases) {
		CHECK(saslprep(one.password) == one.prepared);
	}
}
