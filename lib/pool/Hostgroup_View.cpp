#include "pool/Hostgroup_View.h"

namespace proxy {

void Hostgroup_View::index() {
	for (size_t i = 0; i < hostgroups.size(); ++i) {
		hostgroup_index_.emplace(hostgroups[i].id, i);
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

} // namespace proxy
