// A view with one pair (writer hostgroup 10, reader hostgroup 20) and requests against it.
#pragma once

#include "pool/PgSQL_SrvC.h"
#include "route/Route_Plan.h"

#include <memory>
#include <string>

namespace proxy::route_test {

inline constexpr int kWriter = 10;
inline constexpr int kReader = 20;
inline constexpr int kPlain = 30; // a hostgroup outside any pair
inline constexpr uint64_t kEpoch = 7;

inline Statement_Class a_read() {
	Statement_Class statement;
	statement.kind = Statement_Kind::select;
	statement.veto = Read_Veto::none;
	statement.may_write = false;
	statement.statement_count = 1;
	return statement;
}

inline Statement_Class a_write() {
	Statement_Class statement;
	statement.kind = Statement_Kind::insert;
	statement.veto = Read_Veto::not_a_query;
	statement.may_write = true;
	statement.statement_count = 1;
	return statement;
}

struct Scene {
	Hostgroup_View view;
	Statement_Class statement = a_read();
	Query_Processor_Output rules;
	Route_Request request;
	Server_Ptr primary = server(kWriter, 1, Server_Role::primary);
	Server_Ptr replica = server(kReader, 2, Server_Role::replica);

	explicit Scene(Consistency_Mode consistency = Consistency_Mode::session_lsn,
	               Proxy_Protocol protocol = Proxy_Protocol::v15) {
		add_group(kWriter, {primary});
		add_group(kReader, {replica});
		add_group(kPlain, {});
		Hostgroup_Pair pair;
		pair.writer_hostgroup = kWriter;
		pair.reader_hostgroup = kReader;
		pair.consistency = consistency;
		pair.protocol = protocol;
		pair.lsn_wait_timeout_ms = 1000;
		view.pairs.push_back(pair);
		view.writer_epoch[kWriter] = kEpoch;
		view.index();
		request.default_hostgroup = kWriter;
		request.lsn_epoch = kEpoch;
	}

	Route_Plan plan() {
		request.statement = &statement;
		request.rules = &rules;
		return plan_route(request, view);
	}

private:
	static Server_Ptr server(int hostgroup, int port, Server_Role role) {
		auto made = std::make_shared<PgSQL_SrvC>(hostgroup, "10.0.0.1", port,
		                                         std::make_shared<Server_Health>());
		made->health->role.store(role);
		return made;
	}
	void add_group(int id, std::vector<Server_Ptr> servers) {
		Hostgroup group;
		group.id = id;
		group.servers = std::move(servers);
		view.hostgroups.push_back(std::move(group));
	}
};

} // namespace proxy::route_test
