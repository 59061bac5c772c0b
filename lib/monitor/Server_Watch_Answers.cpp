// What the answers of the checks mean.
#include "Server_Watch.h"
#include "base/Clock.h"
#include "base/Log.h"
#include "protocol/Ready_Tail.h"

#include <algorithm>
#include <array>

namespace proxy {

namespace {
constexpr int64_t kMsPerSecond = 1000;

// What a server reports at login that does not depend on who logs in.
constexpr std::array<const char*, 11> kReportedParameters = {"server_version",
                                                             "server_encoding",
                                                             "client_encoding",
                                                             "DateStyle",
                                                             "IntervalStyle",
                                                             "TimeZone",
                                                             "integer_datetimes",
                                                             "standard_conforming_strings",
                                                             "default_transaction_read_only",
                                                             "in_hot_standby",
                                                             "scram_iterations"};
} // namespace

void Server_Watch::report_parameters() {
	const Server_Role role = server_.health->role.load(std::memory_order_relaxed);
	const bool nothing_yet = context_.manager.reported_parameters().get().value->empty();
	if (main_.connection == nullptr || (role != Server_Role::primary && !nothing_yet)) {
		return;
	}
	std::map<std::string, std::string> parameters;
	for (const char* name : kReportedParameters) {
		const char* const value = main_.connection->parameter(name);
		if (value != nullptr) {
			parameters.emplace(name, value);
		}
	}
	if (role == Server_Role::replica) {
		// The first server to answer may be a replica; a client's session is one of the primary's.
		for (const char* name : {"in_hot_standby", "default_transaction_read_only"}) {
			if (parameters.contains(name)) {
				parameters[name] = "off";
			}
		}
	}
	context_.manager.set_reported_parameters(std::move(parameters));
}

void Server_Watch::on_role(int64_t now_us) {
	const Monitor_Connection& connection = *main_.connection;
	const bool polar = server_.check_type == Check_Type::polardb && !polar_functions_missing_;
	role_timeouts_ = 0;
	if (connection.query_failed()) {
		log(context_.role_log, main_, now_us, std::nullopt, connection.error());
		if (polar && connection.sqlstate() == "42883") {
			polar_functions_missing_ = true; // until the server is logged in to again
			next_role_us_ = now_us;
			log_warning("Server {}:{} is in a polardb pair but has no polar_node_type(): asking "
			            "pg_is_in_recovery()",
			            server_.hostname, server_.port);
		}
		return;
	}
	const std::optional<Role_Facts> facts = parse_role(connection.rows(), polar);
	if (!facts) {
		log(context_.role_log, main_, now_us, std::nullopt, "unexpected answer");
		return;
	}
	log(context_.role_log, main_, now_us, facts->read_only ? 1 : 0, std::nullopt);
	on_alive(now_us - main_.started_us);
	apply_role(*facts, now_us);
}

void Server_Watch::apply_role(const Role_Facts& facts, int64_t now_us) {
	PgSQL_HostGroups_Manager& manager = context_.manager;
	Server_Health& health = *server_.health;
	const Server_Role before = health.role.load(std::memory_order_relaxed);
	// The timeline first: with two servers that say they are primary it decides which one is.
	if (!facts.read_only && facts.timeline != 0) {
		manager.set_timeline(server_.hostname, server_.port, facts.timeline);
	}
	manager.set_read_only(server_.hostname, server_.port, facts.read_only);
	const Server_Role role = facts.read_only ? Server_Role::replica : Server_Role::primary;
	if (before != role) {
		probe_wanted_ = true;
		next_probe_us_ = now_us;
		report_parameters();
	}
	if (!facts.available && !was_unavailable_) {
		was_unavailable_ = true;
		manager.shun(server_.hostname, server_.port, Server_Status::shunned,
		             "says it is not available");
		health.reachable.store(false, std::memory_order_relaxed); // no recovery by time
	} else if (facts.available && was_unavailable_) {
		was_unavailable_ = false;
		health.reachable.store(true, std::memory_order_relaxed);
		manager.unshun(server_.hostname, server_.port);
	}
	if (facts.lsn == 0 || !facts.available || !context_.config->polardb_monitor_lsn_updates) {
		return;
	}
	const uint64_t lsn =
	    normalise_lsn(facts.lsn, health.wal_segment_size.load(std::memory_order_relaxed));
	health.note_lsn(lsn, now_us);
	if (role == Server_Role::primary) {
		context_.note_primary_lsn(server_.writer_hostgroup, lsn);
	}
}

void Server_Watch::on_lag() {
	const int64_t now_us = monotonic_us();
	const Monitor_Connection& connection = *main_.connection;
	if (connection.query_failed()) {
		log(context_.lag_log, main_, now_us, std::nullopt, connection.error());
		return;
	}
	const std::optional<Lag_Facts> facts = parse_lag(connection.rows());
	if (!facts) {
		log(context_.lag_log, main_, now_us, std::nullopt, "unexpected answer");
		return;
	}
	const int64_t lag_s = lag_seconds(*facts, context_.primary_lsn(server_.writer_hostgroup));
	log(context_.lag_log, main_, now_us, lag_s, std::nullopt);
	server_.health->lag_ms.store(lag_s == 0 ? 0 : facts->age_ms.value_or(lag_s * kMsPerSecond),
	                             std::memory_order_relaxed);
	context_.manager.note_replication_lag(server_.hostname, server_.port, lag_s);
}

// ---- capabilities ----

void Server_Watch::on_capability(int64_t now_us) {
	const Monitor_Connection& connection = *main_.connection;
	const std::optional<Capability_Facts> facts = parse_capabilities(connection.rows());
	if (connection.query_failed() || !facts) {
		return; // tried again at next_probe_us_
	}
	found_ = facts->capabilities;
	if (facts->wal_segment_size != 0) {
		server_.health->wal_segment_size.store(facts->wal_segment_size, std::memory_order_relaxed);
	}
	probe_wanted_ = false;
	switch (server_.protocol) {
	case Proxy_Protocol::legacy:
	case Proxy_Protocol::v15:
	case Proxy_Protocol::v15_wait:
	case Proxy_Protocol::automatic:
		probing_ = true;
		tried_ = Proxy_Protocol::off;
		next_dialect(now_us);
		break;
	case Proxy_Protocol::inherit:
	case Proxy_Protocol::off:
	case Proxy_Protocol::stock:
		publish_capabilities(); // no use in asking a plain server for PolarDB's extras
		break;
	}
	if (main_.connection != nullptr && main_.job == Check_Job::none &&
	    server_.health->system_identifier.load(std::memory_order_relaxed) == 0) {
		start_query(Check_Job::identity, kIdentityQuery, context_.config->monitor_read_only_timeout,
		            now_us);
	}
}

// A login proves nothing by itself: servers accept names they do not know. The first ReadyForQuery
// shows what was understood, so the newest spelling is tried first, then the old one.
void Server_Watch::next_dialect(int64_t now_us) {
	if (side_.connection != nullptr) { // a connect check is under way
		probing_ = false;
		probe_wanted_ = true;
		return;
	}
	switch (tried_) {
	case Proxy_Protocol::off:
		tried_ = Proxy_Protocol::v15_wait;
		break;
	case Proxy_Protocol::v15_wait:
		tried_ = Proxy_Protocol::legacy;
		break;
	case Proxy_Protocol::inherit:
	case Proxy_Protocol::legacy:
	case Proxy_Protocol::v15:
	case Proxy_Protocol::automatic:
	case Proxy_Protocol::stock:
		probing_ = false;
		publish_capabilities();
		return;
	}
	start_login(side_, Check_Job::dialect, tried_, now_us);
}

void Server_Watch::on_dialect(int64_t now_us) {
	const bool carries_lsn = side_.connection->has_lsn() && side_.connection->lsn() != 0;
	const bool inband = side_.connection->takes_inband_wait();
	close(side_);
	if (!carries_lsn) {
		next_dialect(now_us);
		return;
	}
	found_ |= kCapabilityLsnRfq;
	if (inband && tried_ == Proxy_Protocol::v15_wait) {
		found_ |= kCapabilityInbandWait;
	}
	if (tried_ == Proxy_Protocol::legacy) {
		found_ |= kCapabilityLegacyNames;
	}
	// XIDs come only inside a transaction that has written, so this cannot be seen without writing.
	// Servers that import XIDs send them.
	if ((found_ & kCapabilityXidImport) != 0) {
		found_ |= kCapabilityXidRfq;
	}
	probing_ = false;
	publish_capabilities();
}

void Server_Watch::publish_capabilities() {
	server_.health->capabilities.store(found_ | kCapabilityProbed, std::memory_order_relaxed);
	bool promised = false;
	switch (server_.protocol) {
	case Proxy_Protocol::legacy:
	case Proxy_Protocol::v15:
	case Proxy_Protocol::v15_wait:
		promised = true;
		break;
	case Proxy_Protocol::inherit:
	case Proxy_Protocol::off:
	case Proxy_Protocol::automatic:
	case Proxy_Protocol::stock:
		break;
	}
	const bool waits = (found_ & (kCapabilityBoundedWait | kCapabilityInbandWait)) != 0;
	const bool kept = waits && (found_ & kCapabilityLsnRfq) != 0;
	if (promised && !kept && !complained_) {
		complained_ = true;
		log_warning("Server {}:{} does not support the pair's proxy_protocol: {}, {}",
		            server_.hostname, server_.port,
		            (found_ & kCapabilityLsnRfq) != 0 ? "it sends positions"
		                                              : "it sends no position in ReadyForQuery",
		            waits ? "it has a bounded wait" : "it has no bounded wait");
	}
}

} // namespace proxy
