// The immutable picture of hostgroups that routing looks at. Built by PgSQL_HostGroups_Manager,
// swapped whole; a worker keeps one shared_ptr for a loop pass, so that one query sees one picture.
#pragma once

#include "config/Config_Rows.h"
#include "pool/Server_Health.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace proxy {

class PgSQL_SrvC;
using Server_Ptr = std::shared_ptr<PgSQL_SrvC>;

struct Hostgroup {
	int id = 0;
	Hostgroup_Attributes_Row attributes;
	int64_t default_query_timeout_ms = 0; // in attributes.hostgroup_settings; 0: not set
	std::vector<Server_Ptr> servers;      // every status; the selection looks at the status
	// Running sum of the servers' weights, for weighted draws; filled by Hostgroup_View::index().
	std::vector<int64_t> weight_sums;
};

// One writer/reader pair with its settings resolved against the global ones at publish time.
struct Hostgroup_Pair {
	int writer_hostgroup = 0;
	int reader_hostgroup = 0;
	Check_Type check_type = Check_Type::read_only;
	Consistency_Mode consistency = Consistency_Mode::off; // never inherit
	Proxy_Protocol protocol = Proxy_Protocol::off;        // never inherit
	bool txn_split_enabled = false;
	int64_t max_lag_bytes = 0;          // 0 off
	int64_t lsn_wait_timeout_ms = 1000; // 0 no bound
};

class Hostgroup_View {
public:
	// Changes with every publish.
	uint64_t version = 0;
	std::vector<Hostgroup> hostgroups;
	std::vector<Hostgroup_Pair> pairs;
	// Changes when the set of writers (address, timeline) of any pair changes: positions learnt
	// under another epoch mean nothing. By writer hostgroup.
	std::unordered_map<int, uint64_t> writer_epoch;

	const Hostgroup* hostgroup(int id) const;
	const Hostgroup_Pair* pair_of_writer(int writer_hostgroup) const;
	const Hostgroup_Pair* pair_of_reader(int reader_hostgroup) const;
	uint64_t epoch_of(int writer_hostgroup) const;
	// Highest position known of the hostgroup's primary; 0 unknown. Not the tip of its log: what
	// is known of it.
	uint64_t group_lsn(int writer_hostgroup) const;
	// Some replica of the pair can hold a read back until it has replayed a position.
	bool replicas_can_wait(const Hostgroup_Pair& pair) const;

	// Fills the look-up tables; the manager calls it once before publishing.
	void index();

private:
	std::unordered_map<int, size_t> hostgroup_index_;
	std::unordered_map<int, size_t> writer_index_;
	std::unordered_map<int, size_t> reader_index_;
};
// The dialect to speak with one server of a pair: `automatic` becomes what the monitor found there,
// or off while it has not looked.
Proxy_Protocol effective_protocol(Proxy_Protocol configured, const Server_Health& health);

using Hostgroup_View_Ptr = std::shared_ptr<const Hostgroup_View>;

} // namespace proxy
