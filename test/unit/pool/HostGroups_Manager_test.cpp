#include "Pool_Test_Kit.h"
#include "base/Clock.h"
#include "base/Log.h"
#include "pool/PgSQL_HostGroups_Manager.h"

#include <catch2/catch.hpp>

using namespace proxy;
using namespace proxy::pool_test;

namespace {

Pgsql_Server_Row row(int hostgroup, int port, const std::string& hostname = "10.0.0.1") {
	Pgsql_Server_Row server;
	server.hostgroup_id = hostgroup;
	server.hostname = hostname;
	server.port = port;
	return server;
}

// Writer hostgroup 0 and reader hostgroup 1.
Pgsql_Servers_Config pair_config(std::vector<Pgsql_Server_Row> servers) {
	Pgsql_Servers_Config config;
	config.servers = std::move(servers);
	Replication_Hostgroup_Row pair;
	pair.writer_hostgroup = 0;
	pair.reader_hostgroup = 1;
	config.replication_hostgroups.push_back(pair);
	return config;
}

struct Kit {
	PgSQL_HostGroups_Manager manager;
	std::shared_ptr<Pgsql_Config> config = std::make_shared<Pgsql_Config>();

	Kit() { set_log_level(Log_Level::error); }
	~Kit() { set_log_level(Log_Level::info); }
	void configure() { manager.set_config(std::make_shared<Pgsql_Config>(*config)); }
	void load(const Pgsql_Servers_Config& servers) { REQUIRE(manager.commit(servers).ok()); }

	Hostgroup_View_Ptr view() const { return manager.view().get().value; }
	Server_Ptr find(int hostgroup, int port) const {
		const Hostgroup_View_Ptr now = view();
		const Hostgroup* const group = now->hostgroup(hostgroup);
		if (group != nullptr) {
			for (const Server_Ptr& server : group->servers) {
				if (server->port == port) {
					return server;
				}
			}
		}
		return nullptr;
	}
	// "hostgroup:port STATUS" of what runs.
	std::vector<std::string> runtime() const {
		std::vector<std::string> rows;
		for (const Pgsql_Server_Row& server : manager.runtime_config().servers) {
			rows.push_back(std::to_string(server.hostgroup_id) + ":" + std::to_string(server.port) +
			               " " + name_of(server.status));
		}
		return rows;
	}
};

using Rows = std::vector<std::string>;

std::unique_ptr<PgSQL_Connection> use(const Server_Ptr& server, int64_t created_us) {
	std::unique_ptr<PgSQL_Connection> connection;
	std::unique_ptr<PgSQL_Connection> evicted;
	REQUIRE(server->acquire(key_of("u"), nullptr, connection, evicted) == Acquire_Status::create);
	return open_connection(server, key_of("u"), created_us);
}

} // namespace

TEST_CASE("a bad configuration is refused whole, naming every fault") {
	Kit kit;
	kit.load(pair_config({row(0, 1)}));
	Pgsql_Servers_Config bad = pair_config({row(0, 2), row(0, 2), row(-1, 70000), row(3, 0)});
	bad.replication_hostgroups.push_back(bad.replication_hostgroups[0]);
	const Result<void> result = kit.manager.commit(bad);
	REQUIRE_FALSE(result.ok());
	const std::string& text = result.error().message;
	for (const char* part : {"listed twice", "hostgroup_id is negative", "port is not between",
	                         "directory of a socket", "in another pair already"}) {
		CHECK(text.find(part) != std::string::npos);
	}
	CHECK(kit.runtime() == Rows{"0:1 ONLINE"});
}

TEST_CASE("LOAD keeps counters and connections of servers that stay") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	const Server_Ptr before = kit.find(1, 2);
	before->counters.queries.store(7);
	before->give_back(use(before, 1));
	Pgsql_Servers_Config changed = pair_config({row(0, 1), row(1, 2)});
	changed.servers[1].weight = 5;
	changed.servers[1].max_connections = 9;
	kit.load(changed);
	const Server_Ptr after = kit.find(1, 2);
	CHECK(after == before);
	CHECK(after->counters.queries.load() == 7);
	CHECK(after->free_count() == 1);
	CHECK(after->weight.load() == 5);
	CHECK(after->max_connections.load() == 9);
}

TEST_CASE("servers that LOAD drops go OFFLINE_HARD, lose idle connections and then vanish") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	const Server_Ptr dropped = kit.find(1, 2);
	std::unique_ptr<PgSQL_Connection> in_use = use(dropped, 1);
	dropped->give_back(use(dropped, 1));
	kit.load(pair_config({row(0, 1)}));
	CHECK(dropped->status.load() == Server_Status::offline_hard);
	CHECK(dropped->free_count() == 0);
	CHECK(kit.runtime() == Rows{"0:1 ONLINE"});
	kit.manager.trim_free_connections(monotonic_us());
	CHECK(kit.find(1, 2) == dropped); // still in use
	CHECK(dropped->give_back(std::move(in_use)) != nullptr);
	kit.manager.trim_free_connections(monotonic_us());
	CHECK(kit.find(1, 2) == nullptr);
}

TEST_CASE("a row comes back under the same server object while that is in use") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	const Server_Ptr server = kit.find(1, 2);
	std::unique_ptr<PgSQL_Connection> in_use = use(server, 1);
	kit.load(pair_config({row(0, 1)}));
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	CHECK(kit.find(1, 2) == server);
	CHECK(server->status.load() == Server_Status::online);
	CHECK(server->used.load() == 1);
	server->give_back(std::move(in_use));
}

TEST_CASE("a reader that turns primary joins the writers, and a demoted one leaves them") {
	Kit kit;
	const bool also_reader = GENERATE(true, false);
	kit.config->monitor_writer_is_also_reader = also_reader;
	kit.configure();
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	kit.manager.set_read_only("10.0.0.1", 1, false);
	kit.manager.set_read_only("10.0.0.1", 2, true);
	CHECK(kit.runtime() == Rows{"0:1 ONLINE", "1:2 ONLINE"});

	kit.manager.set_read_only("10.0.0.1", 2, false);
	kit.manager.set_read_only("10.0.0.1", 1, true);
	if (also_reader) {
		CHECK(kit.runtime() == Rows{"0:2 ONLINE", "1:1 ONLINE", "1:2 ONLINE"});
		CHECK(kit.find(1, 2)->is_writer.load());
		CHECK_FALSE(kit.find(1, 1)->is_writer.load());
	} else {
		CHECK(kit.runtime() == Rows{"0:2 ONLINE", "1:1 ONLINE"});
	}
	CHECK(kit.find(0, 2)->health == kit.find(1, 2)->health);
}

TEST_CASE("a role is applied again by LOAD before anybody sees the new view") {
	Kit kit;
	kit.configure();
	const Pgsql_Servers_Config config = pair_config({row(0, 1), row(1, 2)});
	kit.load(config);
	kit.manager.set_read_only("10.0.0.1", 2, false);
	kit.manager.set_read_only("10.0.0.1", 1, true);
	kit.load(config); // still names server 1 as writer
	CHECK(kit.runtime() == Rows{"0:2 ONLINE", "1:1 ONLINE", "1:2 ONLINE"});
}

TEST_CASE("a role change closes what was opened in the other role") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	kit.manager.set_read_only("10.0.0.1", 2, true);
	const Server_Ptr server = kit.find(1, 2);
	std::unique_ptr<PgSQL_Connection> in_use = use(server, monotonic_us());
	server->give_back(use(server, monotonic_us()));
	kit.manager.set_read_only("10.0.0.1", 2, false);
	CHECK(server->free_count() == 0);
	CHECK(server->give_back(std::move(in_use)) != nullptr);
}

TEST_CASE("of two primaries the one on the newer timeline is used") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	kit.manager.set_timeline("10.0.0.1", 1, 4);
	kit.manager.set_read_only("10.0.0.1", 1, false);
	kit.manager.set_timeline("10.0.0.1", 2, 5);
	kit.manager.set_read_only("10.0.0.1", 2, false);
	CHECK(kit.find(0, 1)->health->fenced.load());
	CHECK_FALSE(kit.find(0, 2)->health->fenced.load());
	CHECK(kit.runtime() == Rows{"0:1 SHUNNED", "0:2 ONLINE", "1:2 ONLINE"});
	kit.manager.unshun("10.0.0.1", 1); // alive, but wrong
	kit.manager.recover_shunned(INT64_MAX);
	CHECK(kit.find(0, 1)->status.load() == Server_Status::shunned);
	// It comes back as a replica of the new one.
	kit.manager.set_read_only("10.0.0.1", 1, true);
	CHECK_FALSE(kit.find(1, 1)->health->fenced.load());
	CHECK(kit.runtime() == Rows{"0:2 ONLINE", "1:1 ONLINE", "1:2 ONLINE"});
}

TEST_CASE("the epoch changes with the writer and its timeline, and with nothing else") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	const uint64_t first = kit.view()->epoch_of(0);
	CHECK(first != 0);
	kit.manager.set_read_only("10.0.0.1", 1, false);
	kit.manager.set_timeline("10.0.0.1", 1, 3); // becomes known
	kit.manager.set_read_only("10.0.0.1", 2, true);
	kit.load(pair_config({row(0, 1), row(1, 2), row(1, 3)}));
	CHECK(kit.view()->epoch_of(0) == first);
	kit.find(1, 2)->health->note_lsn(100, 1);

	kit.manager.set_read_only("10.0.0.1", 1, true); // no writer for a moment
	CHECK(kit.view()->epoch_of(0) == first);
	kit.manager.set_read_only("10.0.0.1", 1, false); // the same again
	CHECK(kit.view()->epoch_of(0) == first);
	CHECK(kit.find(1, 2)->health->lsn() == 100);

	kit.manager.set_timeline("10.0.0.1", 1, 4);
	const uint64_t second = kit.view()->epoch_of(0);
	CHECK(second > first);
	CHECK(kit.find(1, 2)->health->lsn() == 0); // learnt under the old one

	kit.manager.set_read_only("10.0.0.1", 1, true);
	kit.manager.set_timeline("10.0.0.1", 2, 5);
	kit.manager.set_read_only("10.0.0.1", 2, false);
	CHECK(kit.view()->epoch_of(0) > second);
	CHECK(kit.view()->epoch_of(99) == 0);
}

TEST_CASE("connect errors shun a server, but never the last candidate") {
	Kit kit;
	kit.config->shun_on_failures = 3;
	kit.configure();
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1), row(5, 2)};
	kit.load(config);
	const Server_Ptr one = kit.find(5, 1);
	const Server_Ptr two = kit.find(5, 2);
	for (int i = 0; i < 2; ++i) {
		kit.manager.note_connect_error(*one, 1'000'000);
	}
	CHECK(one->status.load() == Server_Status::online);
	kit.manager.note_connect_error(*one, 1'000'000);
	CHECK(one->status.load() == Server_Status::shunned);
	for (int i = 0; i < 10; ++i) {
		kit.manager.note_connect_error(*two, 1'000'000);
	}
	CHECK(two->status.load() == Server_Status::online);
}

TEST_CASE("the last reader of a pair may be shunned while the writer is there") {
	Kit kit;
	kit.configure();
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	kit.manager.shun("10.0.0.1", 2, Server_Status::shunned, "does not answer");
	CHECK(kit.find(1, 2)->status.load() == Server_Status::shunned);
	kit.manager.shun("10.0.0.1", 1, Server_Status::shunned, "does not answer");
	CHECK(kit.find(0, 1)->status.load() == Server_Status::online);
}

TEST_CASE("shunning closes connections and sends waiters elsewhere") {
	Kit kit;
	kit.configure();
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1), row(5, 2)};
	config.servers[0].max_connections = 2;
	kit.load(config);
	const Server_Ptr server = kit.find(5, 1);
	std::unique_ptr<PgSQL_Connection> in_use = use(server, 1);
	std::unique_ptr<PgSQL_Connection> also = use(server, 1);
	Recording_Sink sink;
	const Pool_Waiter waiter{key_of("u"), &sink, 3};
	std::unique_ptr<PgSQL_Connection> none;
	CHECK(server->acquire(key_of("u"), &waiter, none, none) == Acquire_Status::busy);
	kit.manager.shun("10.0.0.1", 1, Server_Status::shunned, "does not answer");
	REQUIRE(sink.deliveries.size() == 1);
	CHECK(sink.deliveries[0].connection == nullptr);
	CHECK(server->acquire(key_of("u"), &waiter, none, none) == Acquire_Status::unavailable);
	kit.manager.unshun("10.0.0.1", 1);
	CHECK(server->give_back(std::move(in_use)) != nullptr); // opened before it died
	CHECK(server->give_back(std::move(also)) != nullptr);
}

TEST_CASE(
    "a shunned server comes back by time, unless it is known to be away or was configured so") {
	Kit kit;
	kit.config->shun_recovery_time_sec = 4;
	kit.config->unshun_algorithm = 1;
	kit.configure();
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1), row(5, 2), row(6, 1), row(6, 2), row(5, 3)};
	config.servers[4].status = Server_Status::shunned;
	kit.load(config);
	kit.manager.shun("10.0.0.1", 1, Server_Status::shunned, "does not answer");
	const int64_t error_us = kit.find(5, 1)->last_error_us.load();
	kit.manager.recover_shunned(error_us + 3'900'000);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::shunned);
	kit.find(5, 1)->health->reachable.store(false);
	kit.manager.recover_shunned(error_us + 4'100'000);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::shunned);
	kit.find(5, 1)->health->reachable.store(true);
	kit.manager.recover_shunned(error_us + 4'100'000);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::online);
	CHECK(kit.find(6, 1)->status.load() == Server_Status::online);
	CHECK(kit.find(5, 3)->status.load() == Server_Status::shunned);
}

TEST_CASE("LOAD leaves automatic shunning alone, unless its row asks for something new") {
	Kit kit;
	kit.configure();
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1), row(5, 2)};
	kit.load(config);
	kit.manager.shun("10.0.0.1", 1, Server_Status::shunned, "does not answer");
	kit.load(config);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::shunned);
	// Runtime saved to memory and loaded again: still automatic, so it recovers.
	kit.load(kit.manager.runtime_config());
	CHECK(kit.find(5, 1)->shunned_automatically.load());
	kit.manager.unshun("10.0.0.1", 1);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::online);
	config.servers[0].status = Server_Status::offline_soft;
	kit.load(config);
	CHECK(kit.find(5, 1)->status.load() == Server_Status::offline_soft);
	kit.manager.shun("10.0.0.1", 1, Server_Status::shunned, "does not answer");
	CHECK(kit.find(5, 1)->status.load() == Server_Status::offline_soft);
}

TEST_CASE("replication lag shuns after enough samples and ends by itself") {
	Kit kit;
	kit.config->monitor_replication_lag_count = 2;
	kit.configure();
	Pgsql_Servers_Config config = pair_config({row(0, 1), row(1, 2), row(1, 3)});
	config.servers[1].max_replication_lag = 10;
	kit.load(config);
	kit.manager.note_replication_lag("10.0.0.1", 2, 11);
	CHECK(kit.find(1, 2)->status.load() == Server_Status::online);
	kit.manager.note_replication_lag("10.0.0.1", 2, 11);
	CHECK(kit.find(1, 2)->status.load() == Server_Status::shunned_lag);
	CHECK(kit.manager.runtime_config().servers[1].status == Server_Status::shunned_lag);
	kit.manager.note_replication_lag("10.0.0.1", 2, 10);
	CHECK(kit.find(1, 2)->status.load() == Server_Status::online);
	kit.manager.note_replication_lag("10.0.0.1", 3, 1000); // has no limit
	CHECK(kit.find(1, 3)->status.load() == Server_Status::online);
}

TEST_CASE("pairs inherit what they leave open") {
	Kit kit;
	kit.config->polardb_lsn_wait_timeout_ms = 77;
	kit.config->polardb_max_reader_lsn_gap_bytes = 5;
	kit.config->policy.consistency_mode = Consistency_Mode::eventual;
	kit.config->policy.proxy_protocol = Proxy_Protocol::v15;
	kit.configure();
	Pgsql_Servers_Config config = pair_config({row(0, 1)});
	kit.load(config);
	Hostgroup_Pair pair = *kit.view()->pair_of_writer(0);
	CHECK(pair.consistency == Consistency_Mode::eventual);
	CHECK(pair.protocol == Proxy_Protocol::off); // not said to be PolarDB
	CHECK(pair.lsn_wait_timeout_ms == 77);
	CHECK(pair.max_lag_bytes == 5);
	config.replication_hostgroups[0].check_type = Check_Type::polardb;
	config.replication_hostgroups[0].consistency_mode = Consistency_Mode::global_lsn;
	config.replication_hostgroups[0].lsn_wait_timeout_ms = 0;
	config.replication_hostgroups[0].max_lag_bytes = 0;
	kit.load(config);
	pair = *kit.view()->pair_of_reader(1);
	CHECK(pair.consistency == Consistency_Mode::global_lsn);
	CHECK(pair.protocol == Proxy_Protocol::v15);
	CHECK(pair.lsn_wait_timeout_ms == 0);
	CHECK(pair.max_lag_bytes == 0);
}

TEST_CASE("a name that cannot be resolved keeps its row, out of service until it can") {
	Kit kit;
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1), row(5, 2, "no-such-host.invalid"), row(5, 3, "localhost")};
	kit.load(config);
	CHECK(kit.find(5, 2)->status.load() == Server_Status::shunned);
	CHECK(kit.find(5, 2)->address().empty());
	CHECK_FALSE(kit.find(5, 3)->address().empty());
	CHECK(kit.find(5, 1)->address().empty()); // is one already
	kit.manager.set_address("no-such-host.invalid", "10.9.9.9");
	CHECK(kit.find(5, 2)->status.load() == Server_Status::online);
	CHECK(kit.find(5, 2)->address() == "10.9.9.9");
	CHECK(kit.manager.host_names() == Rows{"localhost", "no-such-host.invalid"});
}

TEST_CASE("idle connections above the wanted share are closed, after a while") {
	Kit kit;
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1)};
	config.servers[0].max_connections = 20;
	kit.load(config);
	const Server_Ptr server = kit.find(5, 1);
	std::vector<std::unique_ptr<PgSQL_Connection>> held;
	for (int i = 0; i < 6; ++i) {
		held.push_back(use(server, 1'000'000));
	}
	for (auto& connection : held) {
		server->give_back(std::move(connection));
	}
	kit.manager.trim_free_connections(2'000'000);
	CHECK(server->free_count() == 6);
	kit.manager.trim_free_connections(60'000'000);
	CHECK(server->free_count() == 2); // 10 % of 20
	kit.config->connection_max_age_ms = 100'000;
	kit.configure();
	kit.manager.trim_free_connections(2'000'000);
	CHECK(server->free_count() == 2);
	kit.manager.trim_free_connections(200'000'000);
	CHECK(server->free_count() == 0);
}

TEST_CASE("pool rows carry the counters and reset them when asked") {
	Kit kit;
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1)};
	kit.load(config);
	kit.find(5, 1)->counters.queries.store(4);
	CHECK(kit.manager.pool_rows(true).at(0).queries == 4);
	CHECK(kit.manager.pool_rows(false).at(0).queries == 0);
}

TEST_CASE("TLS settings are looked up for the user, then for anybody") {
	Kit kit;
	Pgsql_Servers_Config config;
	Server_Ssl_Params_Row any;
	any.hostname = "10.0.0.1";
	any.port = 1;
	any.ssl_ca = "any";
	Server_Ssl_Params_Row own = any;
	own.username = "alice";
	own.ssl_ca = "own";
	config.ssl_params = {any, own};
	kit.load(config);
	CHECK(kit.manager.ssl_params("10.0.0.1", 1, "alice")->ssl_ca == "own");
	CHECK(kit.manager.ssl_params("10.0.0.1", 1, "bob")->ssl_ca == "any");
	CHECK(kit.manager.ssl_params("10.0.0.1", 2, "alice") == nullptr);
}

TEST_CASE("connect errors of traffic reach the listener") {
	struct Listener final : Connect_Error_Listener {
		void on_connect_error(const std::string& hostname, int port) override {
			heard = hostname + ":" + std::to_string(port);
		}
		std::string heard;
	};
	Kit kit;
	Pgsql_Servers_Config config;
	config.servers = {row(5, 1)};
	kit.load(config);
	Listener listener;
	kit.manager.set_connect_error_listener(&listener);
	kit.manager.note_connect_error(*kit.find(5, 1), 1);
	CHECK(listener.heard == "10.0.0.1:1");
}

TEST_CASE("a dead writer is assumed to be a replica only when another can write") {
	Kit kit;
	kit.load(pair_config({row(0, 1), row(1, 2)}));
	kit.manager.set_read_only("10.0.0.1", 1, false);
	CHECK_FALSE(kit.manager.assume_read_only("10.0.0.1", 1));
	CHECK(kit.find(0, 1)->status.load() == Server_Status::online);
	kit.manager.set_read_only("10.0.0.1", 2, false);
	CHECK(kit.manager.assume_read_only("10.0.0.1", 1));
	CHECK(kit.runtime() == Rows{"0:2 ONLINE", "1:1 ONLINE", "1:2 ONLINE"});
}

TEST_CASE("the dialect of a server is what it showed") {
	Server_Health health;
	CHECK(effective_protocol(Proxy_Protocol::v15, health) == Proxy_Protocol::v15);
	CHECK(effective_protocol(Proxy_Protocol::automatic, health) == Proxy_Protocol::off);
	health.capabilities.store(kCapabilityProbed);
	CHECK(effective_protocol(Proxy_Protocol::automatic, health) == Proxy_Protocol::stock);
	health.capabilities.store(kCapabilityProbed | kCapabilityBoundedWait);
	CHECK(effective_protocol(Proxy_Protocol::automatic, health) == Proxy_Protocol::v15);
	health.capabilities.store(kCapabilityProbed | kCapabilityBoundedWait | kCapabilityLegacyNames);
	CHECK(effective_protocol(Proxy_Protocol::automatic, health) == Proxy_Protocol::legacy);
	health.capabilities.store(kCapabilityProbed | kCapabilityInbandWait);
	CHECK(effective_protocol(Proxy_Protocol::automatic, health) == Proxy_Protocol::v15_wait);
}
