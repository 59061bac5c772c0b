#include "base/Intrusive_List.h"
#include "base/Result.h"
#include "base/Span_Reader.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {
struct Element : List_Node<Element> {
	explicit Element(int number) : value(number) {}
	int value;
};

Result<int> half(int number) {
	if (number % 2 != 0) {
		return make_error("22023", "odd");
	}
	return number / 2;
}

Result<int> quarter(int number) {
	auto first = half(number);
	PROXY_TRY(first);
	return half(first.value());
}
} // namespace

TEST_CASE("a result passes its error up") {
	CHECK(quarter(8).value() == 2);
	CHECK(quarter(6).error().sqlstate == "22023");
}

TEST_CASE("span reader refuses to read past the end and stays refused") {
	const std::string text("\x01\x00\x02"
	                       "ab\0",
	                       6);
	Span_Reader reader(text);
	CHECK(reader.u8() == 1);
	CHECK(reader.u16() == 2);
	CHECK(reader.cstring() == "ab");
	CHECK(reader.at_end());
	CHECK(reader.u32() == 0);
	CHECK_FALSE(reader.ok());
	CHECK(reader.rest().empty());
}

TEST_CASE("span reader needs the NUL of a string") {
	Span_Reader reader(std::string_view("abc", 3));
	CHECK(reader.cstring().empty());
	CHECK_FALSE(reader.ok());
}

TEST_CASE("an element leaves its list when it is destroyed") {
	Intrusive_List<Element> list;
	Element one(1);
	{
		Element two(2);
		list.push_back(one);
		list.push_front(two);
		CHECK(list.size() == 2);
		CHECK(list.front()->value == 2);
		CHECK(list.next(two)->value == 1);
	}
	CHECK(list.size() == 1);
	CHECK(list.pop_front()->value == 1);
	CHECK(list.empty());
	CHECK_FALSE(one.linked());
}
