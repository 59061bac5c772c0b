#include "admin/Admin_Text.h"

#include <catch2/catch.hpp>

using namespace proxy;
using Texts = std::vector<std::string_view>;
using Names = std::vector<std::string>;

TEST_CASE("statements end at semicolons outside quotes and comments") {
	CHECK(split_statements("") == Texts{});
	CHECK(split_statements(" ; ;; -- ping\n /* x */ ;") == Texts{});
	CHECK(split_statements("SELECT 1") == Texts{"SELECT 1"});
	CHECK(split_statements("SELECT 1; SELECT 2;") == Texts{"SELECT 1", " SELECT 2"});
	CHECK(split_statements("SELECT ';', \";\", `;` /* ; */ -- ;\n; x") ==
	      Texts{"SELECT ';', \";\", `;` /* ; */ -- ;\n", " x"});
	CHECK(split_statements("SELECT 'it''s;'; b") == Texts{"SELECT 'it''s;'", " b"});
	CHECK(split_statements("SELECT 'open; b") == Texts{"SELECT 'open; b"});
	CHECK(split_statements("CREATE TEMP TRIGGER t AFTER INSERT ON x BEGIN DELETE FROM y; END") ==
	      Texts{"CREATE TEMP TRIGGER t AFTER INSERT ON x BEGIN DELETE FROM y; END"});
}

TEST_CASE("commands are matched without comments and with single blanks") {
	CHECK(collapse("  LOAD\t\n PGSQL  USERS TO RUNTIME ;; ") == "LOAD PGSQL USERS TO RUNTIME");
	CHECK(collapse("/* a */ -- b\nSHOW TABLES") == "SHOW TABLES");
	CHECK(collapse(" /* only") == "");
	CHECK(first_word(" /* c */ select 1") == "SELECT");
	CHECK(first_word("(select 1)") == "");
}

TEST_CASE("names are found outside texts and comments") {
	CHECK(names_in("SELECT a.B, \"c d\" FROM `E` -- f\n WHERE 'g' = h /* i */") ==
	      Names{"select", "a", "b", "c d", "from", "e", "where", "h"});
	CHECK(without_stats_prefix("SELECT 'stats.x' FROM stats.y, STATS.z, mystats.w") ==
	      "SELECT 'stats.x' FROM y, z, mystats.w");
}

TEST_CASE("values do not reach the log") {
	CHECK(without_literals("INSERT INTO t VALUES ('a''b', 5, \"c\")") ==
	      "INSERT INTO t VALUES (??, 5, ?)");
	CHECK(without_literals("SET admin-admin_credentials=a:b") == "SET admin-admin_credentials=?");
	CHECK(without_literals("UPDATE t SET a = 'x") == "UPDATE t SET a = ?");
}

TEST_CASE("quotes come off values") {
	CHECK(unquote("'a''b'") == "a'b");
	CHECK(unquote("\"x\"") == "x");
	CHECK(unquote("plain") == "plain");
	CHECK(unquote("'") == "'");
	CHECK(unquote("''") == "");
	CHECK(unquote("''''") == "'");
}
