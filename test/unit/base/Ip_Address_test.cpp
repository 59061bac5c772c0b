#include "base/Ip_Address.h"

#include <catch2/catch.hpp>

using namespace proxy;

TEST_CASE("addresses are numeric, and have one form") {
	for (const char* bad : {"", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1.2.3.4 ", " ::1",
	                        ":::", "::1%eth0", "1.2.3.4/32", "[::1]", "/tmp/.s.PGSQL.6133"}) {
		INFO(bad);
		CHECK_FALSE(Ip_Address::parse(bad).has_value());
	}
	CHECK_FALSE(Ip_Address::parse(std::string_view("::1\0x", 5)).has_value());
	CHECK_FALSE(Ip_Address::parse(std::string(100, '1')).has_value());
	CHECK(Ip_Address::parse("10.0.0.1")->text() == "10.0.0.1");
	CHECK(Ip_Address::parse("::ffff:10.0.0.1")->text() == "10.0.0.1");
	CHECK(*Ip_Address::parse("::ffff:10.0.0.1") == *Ip_Address::parse("10.0.0.1"));
	CHECK(Ip_Address::parse("2001:DB8:0::1")->text() == "2001:db8::1");
	CHECK(Ip_Address::parse("127.0.0.1")->is_loopback());
	CHECK(Ip_Address::parse("127.9.9.9")->is_loopback());
	CHECK(Ip_Address::parse("::1")->is_loopback());
	CHECK(Ip_Address::parse("::ffff:127.0.0.1")->is_loopback());
	CHECK_FALSE(Ip_Address::parse("128.0.0.1")->is_loopback());
	CHECK_FALSE(Ip_Address::parse("::2")->is_loopback());
	CHECK_FALSE(Ip_Address::parse("::127.0.0.1")->is_loopback());
}

TEST_CASE("networks contain what their prefix says") {
	struct Case {
		const char* network;
		const char* address;
		bool inside;
	};
	for (const Case& one :
	     {Case{"10.0.0.0/8", "10.255.0.1", true}, Case{"10.0.0.0/8", "11.0.0.0", false},
	      Case{"10.1.2.3/8", "10.200.0.1", true}, Case{"10.0.0.0/9", "10.127.0.1", true},
	      Case{"10.0.0.0/9", "10.128.0.1", false}, Case{"10.0.0.1", "10.0.0.1", true},
	      Case{"10.0.0.1", "10.0.0.2", false}, Case{"0.0.0.0/0", "255.1.2.3", true},
	      Case{"0.0.0.0/0", "2001:db8::1", false}, Case{"::/0", "1.2.3.4", true},
	      Case{"2001:db8::/33", "2001:db8:7fff::1", true},
	      Case{"2001:db8::/33", "2001:db8:8000::1", false}, Case{"::1", "::1", true}}) {
		INFO(one.network << " " << one.address);
		CHECK(Ip_Network::parse(one.network)->contains(*Ip_Address::parse(one.address)) ==
		      one.inside);
	}
	for (const char* bad : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x",
	                        "::/129", "10.0.0.0/ 8", "ten/8", "10.0.0.0/99999999999"}) {
		INFO(bad);
		CHECK_FALSE(Ip_Network::parse(bad).has_value());
	}
}
