// Knowledge about functions: built-ins, catalog entries, an administrator's rules.
#include "classify/Function_Safety.h"

#include <catch2/catch.hpp>
#include <string>

using namespace proxy;

TEST_CASE("built-in functions have their class") {
	const auto built_in = Function_Safety::built_in();
	const auto of = [&](std::string_view name) { return built_in->classify("", name); };
	CHECK(of("lower") == Function_Class::safe);
	CHECK(of("abs") == Function_Class::safe); // first names of the catalog
	CHECK(of("abbrev") == Function_Class::safe);
	CHECK(of("xpath_exists") == Function_Class::safe);
	CHECK(of("width_bucket") == Function_Class::safe);
	CHECK(of("count") == Function_Class::safe);
	CHECK(of("rank") == Function_Class::safe);
	CHECK(of("nextval") == Function_Class::sequence);
	CHECK(of("now") == Function_Class::transaction_time);
	CHECK(of("random") == Function_Class::safe);
	CHECK(of("pg_notify") == Function_Class::writes);
	CHECK(of("pg_stat_get_anything_new") == Function_Class::server_state);
	CHECK(of("no_such_function") == Function_Class::unknown);
	CHECK(of("") == Function_Class::unknown);
	CHECK(of("Lower") == Function_Class::unknown);
	CHECK(of("lowe") == Function_Class::unknown);
	CHECK(of("lowerx") == Function_Class::unknown);
	CHECK(built_in->classify("pg_catalog", "lower") == Function_Class::safe);
	CHECK(built_in->classify("public", "lower") == Function_Class::unknown);
	CHECK(built_in->classify("pg_catalog", "no_such_function") == Function_Class::unknown);
}

TEST_CASE("entries add knowledge and never hide a danger") {
	const auto safety = Function_Safety::with_entries({
	    {"app", "price", Function_Class::safe},
	    {"app", "book", Function_Class::writes},
	    {"app", "mixed", Function_Class::safe},
	    {"app", "mixed", Function_Class::writes}, // an overload
	    {"old", "price", Function_Class::safe},
	    {"tools", "abs", Function_Class::writes}, // shares its name with a built-in
	    {"tools", "shared", Function_Class::safe},
	    {"other", "shared", Function_Class::writes},
	    {"", "pg_notify", Function_Class::safe}, // an administrator's word
	    {"", "book_all", Function_Class::safe},
	});
	CHECK(safety->classify("app", "price") == Function_Class::safe);
	CHECK(safety->classify("", "price") == Function_Class::safe);
	CHECK(safety->classify("app", "book") == Function_Class::writes);
	CHECK(safety->classify("app", "mixed") == Function_Class::writes);
	CHECK(safety->classify("", "mixed") == Function_Class::writes);
	CHECK(safety->classify("pg_catalog", "abs") == Function_Class::safe);
	CHECK(safety->classify("", "abs") == Function_Class::writes);
	CHECK(safety->classify("tools", "shared") == Function_Class::safe);
	CHECK(safety->classify("", "shared") == Function_Class::writes);
	CHECK(safety->classify("public", "price") == Function_Class::unknown);
	CHECK(safety->classify("", "pg_notify") == Function_Class::safe);
	CHECK(safety->classify("pg_catalog", "pg_notify") == Function_Class::safe);
	CHECK(safety->classify("any", "book_all") == Function_Class::safe);
	CHECK(safety->classify("", "lower") == Function_Class::safe);
}
