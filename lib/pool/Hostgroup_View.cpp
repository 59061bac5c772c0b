#include "pool/Hostgroup_View.h"

#include "pool/PgSQL_SrvC.h"

#include <algorithm>

namespace proxy {

void Hostgroup_View::index() {
	for (size_t i = 0; i < hostgroups.size(); ++i) {
		Hostgroup& group = hostgroups[i];
		hostgroup_index_.emplace(group.id, i);
		int64_t sum = 0;
		group.weight_sums.clear();
		for (const Server_Ptr& server : group.servers) {
			sum += std::max<int64_t>(0, server->weight.load(std::memory_order_relaxed));
			group.weight_sums.push_back(sum);
		}
	}
	for (size_t i = 0; i < pairs.size(); ++i) {
		writer_index_.emplace(pairs[i].writer_hostgroup, i);
		reader_index_.emplace(pairs[i].reader_hostgroup, i);
	}
}

const Hostgroup* Hostgroup_View::hostgroup(int id) const {
	const auto found = hostgroup_index_.find(id);
	return found == hostgroup_index_.end() ? nullptr : &hostgroups[found->second];
}

const Hostgroup_Pair* Hostgroup_View::pair_of_writer(int writer_hostgroup) const {
	const auto found = writer_index_.find(writer_hostgroup);
	return found == writer_index_.end() ? nullptr : &pairs[found->second];
}

const Hostgroup_Pair* Hostgroup_View::pair_of_reader(int reader_hostgroup) const {
	const auto found = reader_index_.find(reader_hostgroup);
	return found == reader_index_.end() ? nullptr : &pairs[found->second];
}

uint64_t Hostgroup_View::epoch_of(int writer_hostgroup) const {
	const auto found = writer_epoch.find(writer_hostgroup);
	return found == writer_epoch.end() ? 0 : found->second;
}

uint64_t Hostgroup_View::group_lsn(int writer_hostgroup) const {
	const Hostgroup* const group = hostgroup(writer_hostgroup);
	uint64_t highest = 0;
	if (group == nullptr) {
		return 0;
	}
	for (const Server_Ptr& server : group->servers) {
		const Server_Health& health = *server->health;
		if (server->status.load(std::memory_order_relaxed) != Server_Status::offline_hard &&
		    health.role.load(std::memory_order_relaxed) == Server_Role::primary &&
		    !health.fenced.load(std::memory_order_relaxed)) {
			highest = std::max(highest, health.lsn());
		}
	}
	return highest;
}

bool Hostgroup_View::replicas_can_wait(const Hostgroup_Pair& pair) const {
	switch (pair.protocol) {
	case Proxy_Protocol::legacy:
	case Proxy_Protocol::v15:
	case Proxy_Protocol::v15_wait:
		return true; // said by the administrator; single servers are passed over by capability
	case Proxy_Protocol::inherit:
	case Proxy_Protocol::off:
	case Proxy_Protocol::stock:
		return false;
	case Proxy_Protocol::automatic:
		break;
	}
	const Hostgroup* const group = hostgroup(pair.reader_hostgroup);
	return group != nullptr &&
	       std::any_of(group->servers.begin(), group->servers.end(), [&](const Server_Ptr& server) {
		       switch (effective_protocol(pair.protocol, *server->health)) {
		       case Proxy_Protocol::legacy:
		       case Proxy_Protocol::v15:
		       case Proxy_Protocol::v15_wait:
			       return true;
		       case Proxy_Protocol::inherit:
		       case Proxy_Protocol::off:
		       case Proxy_Protocol::stock:
		       case Proxy_Protocol::automatic:
			       return false;
		       }
		       return false;
	       });
}

Proxy_Protocol effective_protocol(Proxy_Protocol configured, const Server_Health& health) {
	if (configured != Proxy_Protocol::automatic) {
		return configured;
	}
	const uint32_t found = health.capabilities.load(std::memory_order_relaxed);
	if ((found & kCapabilityProbed) == 0) {
		return Proxy_Protocol::off;
	}
	if ((found & kCapabilityInbandWait) != 0) {
		return Proxy_Protocol::v15_wait;
	}
	if ((found & kCapabilityBoundedWait) != 0) {
		return (found & kCapabilityLegacyNames) != 0 ? Proxy_Protocol::legacy : Proxy_Protocol::v15;
	}
	return Proxy_Protocol::stock;
}

} // namespace proxy
