#include "auth/PgSQL_Authentication.h"

#include <catch2/catch.hpp>

using namespace proxy;

namespace {

Pgsql_User_Row row(const std::string& name, const std::string& password, bool frontend = true,
                   bool backend = true) {
	Pgsql_User_Row user;
	user.username = name;
	user.password = Secret(password);
	user.frontend = frontend;
	user.backend = backend;
	return user;
}

} // namespace

TEST_CASE("one row with both roles") {
	Pgsql_User_Row ada = row("ada", "pw");
	ada.default_hostgroup = 7;
	ada.use_ssl = true;
	ada.fast_forward = true;
	ada.transaction_persistent = false;
	ada.max_connections = 3;
	ada.attributes = "{}";
	const auto users = Users_Snapshot::make({ada}, nullptr);
	const User_Entry_Ptr entry = users->find("ada");
	REQUIRE(entry != nullptr);
	CHECK(entry->has_frontend);
	CHECK(entry->has_backend);
	CHECK(entry->frontend_secret.reveal() == "pw");
	CHECK(entry->backend_secret.reveal() == "pw");
	CHECK(entry->default_hostgroup == 7);
	CHECK(entry->use_ssl);
	CHECK(entry->fast_forward);
	CHECK_FALSE(entry->transaction_persistent);
	CHECK(entry->max_connections == 3);
	CHECK(entry->attributes == "{}");
	CHECK(users->find("Ada") == nullptr);
	CHECK(users->find("") == nullptr);
	CHECK(users->rows().size() == 1);
}

TEST_CASE("one row a role, in either order: the frontend row decides") {
	Pgsql_User_Row front = row("ada", "front", true, false);
	front.default_hostgroup = 1;
	Pgsql_User_Row back = row("ada", "back", false, true);
	back.default_hostgroup = 2;
	for (const auto& rows : {std::vector<Pgsql_User_Row>{front, back}, {back, front}}) {
		const User_Entry_Ptr entry = Users_Snapshot::make(rows, nullptr)->find("ada");
		REQUIRE(entry != nullptr);
		CHECK(entry->default_hostgroup == 1);
		CHECK(entry->frontend_secret.reveal() == "front");
		CHECK(entry->backend_secret.reveal() == "back");
	}
}

TEST_CASE("a backend-only user may not log in; inactive rows are not there") {
	Pgsql_User_Row inactive = row("bob", "pw");
	inactive.active = false;
	const auto users = Users_Snapshot::make(
	    {row("srv", "pw", false, true), inactive, row("none", "pw", false, false)}, nullptr);
	REQUIRE(users->find("srv") != nullptr);
	CHECK_FALSE(users->find("srv")->has_frontend);
	CHECK(users->find("srv")->has_backend);
	CHECK(users->find("bob") == nullptr);
	CHECK(users->find("none") == nullptr);
	CHECK(users->entries().size() == 1);
}

TEST_CASE("connection counters outlive a reload for users that stay") {
	const auto before = Users_Snapshot::make({row("ada", "1"), row("bob", "1")}, nullptr);
	before->find("ada")->connections->fetch_add(5);
	before->find("bob")->connections->fetch_add(2);
	const auto after = Users_Snapshot::make({row("ada", "2"), row("eve", "2")}, before.get());
	CHECK(after->find("ada")->connections->load() == 5);
	CHECK(after->find("ada")->connections == before->find("ada")->connections);
	CHECK(after->find("ada")->frontend_secret.reveal() == "2");
	CHECK(before->find("ada")->frontend_secret.reveal() == "1");
	CHECK(after->find("eve")->connections->load() == 0);
	CHECK(after->find("bob") == nullptr);
	const auto again = Users_Snapshot::make({row("bob", "3")}, after.get());
	CHECK(again->find("bob")->connections->load() == 0);
}

TEST_CASE("entries come in order of their names") {
	const auto users = Users_Snapshot::make({row("c", ""), row("a", ""), row("b", "")}, nullptr);
	std::string names;
	for (const User_Entry_Ptr& entry : users->entries()) {
		names += entry->username;
	}
	CHECK(names == "abc");
}
