// What LISTEN needs: the order a session gives to the listener of its database, the notifications
// that come back, and what a session that listens keeps. Plain data.
#pragma once

#include "backend/PgSQL_Connection.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace proxy {

// Which listening connection: one for each of these, for all clients of all workers.
struct Listen_Key {
	int hostgroup = 0;
	std::string database;
	std::string encoding; // client_encoding: channels and payloads come in it

	bool operator==(const Listen_Key&) const = default;
	bool operator<(const Listen_Key& other) const {
		return std::tie(hostgroup, database, encoding) <
		       std::tie(other.hostgroup, other.database, other.encoding);
	}
	size_t hash() const {
		return std::hash<std::string>()(database) ^ std::hash<std::string>()(encoding) ^
		       static_cast<size_t>(hostgroup) * 0x9E3779B97F4A7C15ULL;
	}
};

enum class Listen_Action : uint8_t {
	listen,   // answered when the server listens to all channels
	unlisten, // not answered
	hear,     // answered behind all notifications that were sent before it was given
};

struct Listen_Order {
	Listen_Action action = Listen_Action::listen;
	Listen_Key key;
	uint32_t session = 0;
	uint32_t ticket = 0; // comes back with the answer
	std::vector<std::string> channels;
	// For listen: how the session's own user logs in to a server.
	std::shared_ptr<const Connect_Request> login;
};

// One NotificationResponse, as the server sent it, for many sessions.
struct Notification {
	Listen_Key key;
	std::string channel;
	std::string message; // the whole message
};
using Notification_Ptr = std::shared_ptr<const Notification>;

// Of a session that listens, or is about to.
struct Session_Listen {
	Listen_Key key;
	std::set<std::string, std::less<>> channels; // heard through the listener
	std::string queued;                          // NotificationResponses to be sent when idle
	std::vector<std::string> found;              // channels heard by the server connection itself
	// UNLISTEN of the open transaction: a channel each, empty: all of them.
	std::vector<std::string> unlistens;
	uint32_t ticket = 0; // of the last order that is answered
};

} // namespace proxy
