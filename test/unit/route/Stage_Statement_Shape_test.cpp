#include "Route_Test_Kit.h"

#include <catch2/catch.hpp>
#include <utility>

using namespace proxy;
using namespace proxy::route_test;

TEST_CASE("each veto keeps the statement on the writer and says why") {
	const std::pair<Read_Veto, Route_Reason> cases[] = {
	    {Read_Veto::not_a_query, Route_Reason::write},
	    {Read_Veto::unparsed, Route_Reason::unparsed},
	    {Read_Veto::row_lock, Route_Reason::row_lock},
	    {Read_Veto::modifying_cte, Route_Reason::write},
	    {Read_Veto::select_into, Route_Reason::write},
	    {Read_Veto::volatile_function, Route_Reason::volatile_function},
	    {Read_Veto::unknown_function, Route_Reason::unknown_function},
	    {Read_Veto::session_function, Route_Reason::session_function},
	    {Read_Veto::explain_of_write, Route_Reason::write},
	    {Read_Veto::server_state, Route_Reason::server_state},
	    {Read_Veto::multi_statement, Route_Reason::multi_statement},
	    {Read_Veto::temp_object, Route_Reason::temp_object},
	};
	for (const auto& [veto, reason] : cases) {
		INFO(static_cast<int>(veto));
		Scene scene(GENERATE(Consistency_Mode::eventual, Consistency_Mode::session_lsn,
		                     Consistency_Mode::global_lsn));
		scene.statement.veto = veto;
		scene.statement.may_write = true;
		const Route_Plan plan = scene.plan();
		CHECK(plan.hostgroup == kWriter);
		CHECK_FALSE(plan.to_reader);
		CHECK(plan.reason == reason);
	}
}

TEST_CASE("BEGIN and the like are no reads, and no writes either") {
	Scene scene;
	scene.statement.veto = Read_Veto::not_a_query;
	scene.statement.may_write = false;
	CHECK(scene.plan().reason == Route_Reason::not_a_read);
}

TEST_CASE("a statement that is called a read but may write goes to the writer") {
	Scene scene(Consistency_Mode::eventual);
	scene.statement.may_write = true;
	CHECK(scene.plan().hostgroup == kWriter);
	CHECK(scene.plan().reason == Route_Reason::write);
}

TEST_CASE("a statement nobody classified goes to the writer") {
	Scene scene(Consistency_Mode::eventual);
	Route_Request request = scene.request;
	CHECK(plan_route(request, scene.view).reason == Route_Reason::unparsed);
	CHECK(plan_route(request, scene.view).hostgroup == kWriter);
}
