#include "auth/PgSQL_Authentication.h"

#include <algorithm>

namespace proxy {

namespace {

void take_settings(User_Entry& entry, const Pgsql_User_Row& row) {
	entry.use_ssl = row.use_ssl;
	entry.default_hostgroup = row.default_hostgroup;
	entry.transaction_persistent = row.transaction_persistent;
	entry.fast_forward = row.fast_forward;
	entry.max_connections = row.max_connections;
	entry.attributes = row.attributes;
}

// A user may be one row with both roles or one row a role. The client-facing settings come from
// the frontend row when there is one.
void add_row(User_Entry& entry, const Pgsql_User_Row& row) {
	if (row.frontend || !entry.has_frontend) {
		take_settings(entry, row);
	}
	if (row.frontend) {
		entry.has_frontend = true;
		entry.frontend_secret = row.password;
	}
	if (row.backend) {
		entry.has_backend = true;
		entry.backend_secret = row.password;
	}
}

void keep_from(User_Entry& entry, const User_Entry* before) {
	const bool same_secret = before != nullptr && before->frontend_secret == entry.frontend_secret;
	entry.passed_keys = same_secret ? before->passed_keys : std::make_shared<Passed_Keys>();
}

} // namespace

void Passed_Keys::set(const Secret& client_key, const Secret& server_key) {
	Lock lock(mutex_);
	if (!(client_key_ == client_key)) {
		client_key_ = client_key;
		server_key_ = server_key;
	}
}

bool Passed_Keys::get(Secret& client_key, Secret& server_key) {
	Lock lock(mutex_);
	client_key = client_key_;
	server_key = server_key_;
	return !client_key.empty();
}

std::shared_ptr<const Users_Snapshot> Users_Snapshot::make(const std::vector<Pgsql_User_Row>& rows,
                                                           const Users_Snapshot* previous) {
	auto snapshot = std::make_shared<Users_Snapshot>();
	snapshot->rows_ = rows;
	std::unordered_map<std::string, std::shared_ptr<User_Entry>> building;
	for (const Pgsql_User_Row& row : rows) {
		if (!row.active || (!row.frontend && !row.backend)) {
			continue;
		}
		std::shared_ptr<User_Entry>& entry = building[row.username];
		if (entry == nullptr) {
			entry = std::make_shared<User_Entry>();
			entry->username = row.username;
			const User_Entry_Ptr before =
			    previous == nullptr ? nullptr : previous->find(row.username);
			entry->connections =
			    before == nullptr ? std::make_shared<std::atomic<int64_t>>(0) : before->connections;
			entry->superuser =
			    before == nullptr ? std::make_shared<std::atomic<bool>>(false) : before->superuser;
		}
		add_row(*entry, row);
	}
	for (auto& [name, entry] : building) {
		const User_Entry_Ptr before = previous == nullptr ? nullptr : previous->find(name);
		keep_from(*entry, before.get());
		snapshot->by_name_.emplace(name, std::move(entry));
	}
	return snapshot;
}

User_Entry_Ptr Users_Snapshot::find(std::string_view username) const {
	const auto found = by_name_.find(username);
	return found == by_name_.end() ? nullptr : found->second;
}

std::vector<User_Entry_Ptr> Users_Snapshot::entries() const {
	std::vector<User_Entry_Ptr> all;
	all.reserve(by_name_.size());
	for (const auto& [name, entry] : by_name_) {
		all.push_back(entry);
	}
	std::sort(all.begin(), all.end(), [](const User_Entry_Ptr& left, const User_Entry_Ptr& right) {
		return left->username < right->username;
	});
	return all;
}

} // namespace proxy
