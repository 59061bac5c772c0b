// The users snapshot: immutable, swapped whole by LOAD PGSQL USERS TO RUNTIME.
#pragma once

#include "base/Mutex.h"
#include "config/Config_Rows.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace proxy {

// The keys that the last SCRAM login of a user with a stored verifier has proved, for servers that
// hold the same verifier. Any thread.
class Passed_Keys {
public:
	void set(const Secret& client_key, const Secret& server_key) EXCLUDES(mutex_);
	// False: nobody has logged in with this verifier yet.
	bool get(Secret& client_key, Secret& server_key) EXCLUDES(mutex_);

private:
	Mutex mutex_{Lock_Rank::shared_maps};
	Secret client_key_ GUARDED_BY(mutex_);
	Secret server_key_ GUARDED_BY(mutex_);
};

// One user with both roles joined. Immutable, except the connection counter (any worker).
struct User_Entry {
	std::string username;
	Secret frontend_secret;
	Secret backend_secret;
	bool has_frontend = false; // active and frontend=1
	bool has_backend = false;
	bool use_ssl = false;
	int default_hostgroup = 0;
	bool transaction_persistent = true;
	bool fast_forward = false;
	int64_t max_connections = 10000;
	std::string attributes;
	// Live client connections of this user; shared by successive snapshots. Relaxed: a limit that
	// may be off by the logins in flight.
	std::shared_ptr<std::atomic<int64_t>> connections;
	// What servers said of this user at the last login there: is_superuser. Relaxed: a client that
	// was told otherwise is told again when it meets a server.
	std::shared_ptr<std::atomic<bool>> superuser;
	// Of the verifier in frontend_secret; shared by successive snapshots until that changes.
	std::shared_ptr<Passed_Keys> passed_keys;
};
using User_Entry_Ptr = std::shared_ptr<const User_Entry>;

class Users_Snapshot {
public:
	// Keeps the connection counters of `previous` (may be null) for users that stay.
	static std::shared_ptr<const Users_Snapshot> make(const std::vector<Pgsql_User_Row>& rows,
	                                                  const Users_Snapshot* previous);
	// nullptr: no such user.
	User_Entry_Ptr find(std::string_view username) const;
	const std::vector<Pgsql_User_Row>& rows() const { return rows_; }
	// All entries, for stats_pgsql_users.
	std::vector<User_Entry_Ptr> entries() const;

private:
	std::vector<Pgsql_User_Row> rows_;
	// Lets find() look up a string_view without making a string of it.
	struct Name_Hash {
		using is_transparent = void;
		size_t operator()(std::string_view name) const {
			return std::hash<std::string_view>{}(name);
		}
	};
	std::unordered_map<std::string, User_Entry_Ptr, Name_Hash, std::equal_to<>> by_name_;
};

} // namespace proxy
