// Construction, configuration and the view; the rest is in the files named after their part.
#include "pool/PgSQL_HostGroups_Manager.h"

#include "HostGroups_State.h"
#include "backend/PgSQL_Connection.h"
#include "base/Log.h"
#include "config/Hostgroup_Settings.h"

#include <algorithm>

namespace proxy {

namespace {
constexpr int64_t kUsPerMs = 1000;

Proxy_Protocol protocol_of(const Replication_Hostgroup_Row& row, const Pgsql_Config& config) {
	if (row.proxy_protocol != Proxy_Protocol::inherit) {
		return row.proxy_protocol;
	}
	// A stock server refuses a login that asks for PolarDB's extras, so a pair that is not said to
	// be PolarDB inherits nothing.
	return row.check_type == Check_Type::polardb ? config.policy.proxy_protocol
	                                             : Proxy_Protocol::off;
}

Hostgroup_Pair resolve_pair(const Replication_Hostgroup_Row& row, const Pgsql_Config& config) {
	Hostgroup_Pair pair;
	pair.writer_hostgroup = row.writer_hostgroup;
	pair.reader_hostgroup = row.reader_hostgroup;
	pair.check_type = row.check_type;
	pair.consistency = row.consistency_mode == Consistency_Mode::inherit
	                       ? config.policy.consistency_mode
	                       : row.consistency_mode;
	pair.protocol = protocol_of(row, config);
	pair.txn_split_enabled = row.txn_split_enabled;
	pair.max_lag_bytes =
	    row.max_lag_bytes < 0 ? config.polardb_max_reader_lsn_gap_bytes : row.max_lag_bytes;
	pair.lsn_wait_timeout_ms =
	    row.lsn_wait_timeout_ms < 0 ? config.polardb_lsn_wait_timeout_ms : row.lsn_wait_timeout_ms;
	return pair;
}
} // namespace

PgSQL_HostGroups_Manager::Aftermath::~Aftermath() {
	for (const std::string& text : infos) {
		log_info("{}", text);
	}
	for (const std::string& text : warnings) {
		log_warning("{}", text);
	}
	for (const Server_Ptr& server : left_online) {
		server->take_free(INT64_MAX);
		server->wake_all();
	}
	for (const Server_Ptr& server : close_free) {
		server->take_free(INT64_MAX);
	}
	for (const Server_Ptr& server : more_slots) {
		server->wake_for_slots(monotonic_us());
	}
}

PgSQL_HostGroups_Manager::PgSQL_HostGroups_Manager()
    : state_(std::make_unique<State>()), view_(std::make_shared<const Hostgroup_View>()),
      reported_parameters_(std::make_shared<const std::map<std::string, std::string>>()) {}

// A FREE connection and its server refer to each other: taken apart here, when nobody else is left.
PgSQL_HostGroups_Manager::~PgSQL_HostGroups_Manager() {
	std::vector<Server_Ptr> servers;
	{
		Lock lock(mutex_);
		for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
			for (const auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
				servers.push_back(known.server);
			}
		}
	}
	for (const Server_Ptr& server : servers) {
		server->take_free(INT64_MAX);
	}
}

void PgSQL_HostGroups_Manager::set_config(std::shared_ptr<const Pgsql_Config> config) {
	Lock lock(mutex_);
	state_->config = std::move(config);
	for (auto& [endpoint, endpoint_state] : state_->endpoints) {
		for (auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			const int64_t cap_ms = known.row.max_latency_ms > 0
			                           ? known.row.max_latency_ms
			                           : state_->config->default_max_latency_ms;
			known.server->max_latency_us.store(cap_ms * kUsPerMs, std::memory_order_relaxed);
		}
	}
	publish_locked();
}

void PgSQL_HostGroups_Manager::set_reported_parameters(
    std::map<std::string, std::string> parameters) {
	if (*reported_parameters_.get().value == parameters) {
		return;
	}
	reported_parameters_.publish(
	    std::make_shared<const std::map<std::string, std::string>>(std::move(parameters)));
}

std::shared_ptr<const Server_Ssl_Params_Row>
PgSQL_HostGroups_Manager::ssl_params(const std::string& hostname, int port,
                                     const std::string& username) const {
	Lock lock(mutex_);
	std::shared_ptr<const Server_Ssl_Params_Row> for_any_user;
	for (const auto& row : state_->ssl_params) {
		if (row->hostname != hostname || row->port != port) {
			continue;
		}
		if (row->username == username) {
			return row;
		}
		if (row->username.empty()) {
			for_any_user = row;
		}
	}
	return for_any_user;
}

// Groups the servers that are not OFFLINE_HARD, or still have connections in use, by hostgroup.
void PgSQL_HostGroups_Manager::publish_locked() {
	auto view = std::make_shared<Hostgroup_View>();
	view->version = ++state_->version;
	std::map<int, Hostgroup> groups;
	for (const auto& [id, attributes] : state_->attributes) {
		groups[id].attributes = attributes;
		if (const auto settings = parse_hostgroup_settings(attributes.hostgroup_settings);
		    settings.ok()) {
			groups[id].default_query_timeout_ms = settings.value().default_query_timeout_ms;
		}
	}
	for (const Replication_Hostgroup_Row& row : state_->pairs) {
		groups[row.writer_hostgroup];
		groups[row.reader_hostgroup];
		view->pairs.push_back(resolve_pair(row, *state_->config));
	}
	for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
		for (const auto& [hostgroup, known] : endpoint_state.by_hostgroup) {
			groups[hostgroup].servers.push_back(known.server);
			known.server->is_writer.store(false, std::memory_order_relaxed);
		}
	}
	for (const Hostgroup_Pair& pair : view->pairs) {
		for (const Server_Ptr& server : groups[pair.reader_hostgroup].servers) {
			const Known_Server* writer =
			    state_->find(pair.writer_hostgroup, server->hostname, server->port);
			if (writer != nullptr && status_of(*writer->server) != Server_Status::offline_hard) {
				server->is_writer.store(true, std::memory_order_relaxed);
			}
		}
	}
	view->hostgroups.reserve(groups.size());
	for (auto& [id, group] : groups) {
		group.id = id;
		group.attributes.hostgroup_id = id;
		view->hostgroups.push_back(std::move(group));
	}
	publish_epochs_locked(*view);
	view->index();
	view_.publish(std::move(view));
}

// A new epoch when other servers write, or one of them on another timeline. A moment without any
// writer is no change by itself: the same one may come back. A timeline that becomes known is no
// change either.
void PgSQL_HostGroups_Manager::publish_epochs_locked(Hostgroup_View& view) {
	for (const Hostgroup_Pair& pair : view.pairs) {
		std::map<State::Endpoint, uint32_t> timelines;
		for (const auto& [endpoint, endpoint_state] : state_->endpoints) {
			const auto known = endpoint_state.by_hostgroup.find(pair.writer_hostgroup);
			if (known != endpoint_state.by_hostgroup.end() &&
			    status_of(*known->second.server) != Server_Status::offline_hard &&
			    !endpoint_state.health->fenced.load(std::memory_order_relaxed)) {
				timelines[endpoint] =
				    endpoint_state.health->timeline.load(std::memory_order_relaxed);
			}
		}
		State::Writer_Epoch& epoch = state_->epochs[pair.writer_hostgroup];
		const bool same = timelines.size() == epoch.timelines.size() &&
		                  std::equal(timelines.begin(), timelines.end(), epoch.timelines.begin(),
		                             [](const auto& now, const auto& before) {
			                             return now.first == before.first &&
			                                    (now.second == before.second ||
			                                     before.second == 0 || now.second == 0);
		                             });
		if (epoch.number == 0 || (!timelines.empty() && !same)) {
			const bool first = epoch.timelines.empty();
			epoch.number = ++state_->last_epoch;
			epoch.timelines = timelines;
			// What was learnt from any member under the old writer means nothing now.
			for (auto& [endpoint, endpoint_state] : state_->endpoints) {
				if (!first && (endpoint_state.by_hostgroup.contains(pair.writer_hostgroup) ||
				               endpoint_state.by_hostgroup.contains(pair.reader_hostgroup))) {
					endpoint_state.health->forget_lsn();
				}
			}
		} else if (!timelines.empty()) {
			for (auto& [endpoint, timeline] : timelines) {
				if (timeline != 0) {
					epoch.timelines[endpoint] = timeline;
				}
			}
		}
		view.writer_epoch[pair.writer_hostgroup] = epoch.number;
	}
}

} // namespace proxy
