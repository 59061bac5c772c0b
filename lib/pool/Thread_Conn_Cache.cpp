#include "pool/Thread_Conn_Cache.h"

#include "base/Check.h"

#include <algorithm>

namespace proxy {

namespace {
// Connections looked at for a better match before the first equal key is taken.
constexpr size_t kMaxExamined = 16;
} // namespace

Thread_Conn_Cache::~Thread_Conn_Cache() {
	close_stale();
	for (auto& [server, connections] : by_server_) {
		for (auto& connection : connections) {
			destroy(std::move(connection));
		}
	}
}

void Thread_Conn_Cache::destroy(std::unique_ptr<PgSQL_Connection> connection) {
	const Server_Ptr server = connection->server_ptr();
	flush_counters(*connection);
	connection.reset();
	server->drop_used();
}

std::unique_ptr<PgSQL_Connection> Thread_Conn_Cache::take(PgSQL_SrvC& server, const Conn_Key& key,
                                                          uint64_t parameters_hash) {
	const auto found = by_server_.find(&server);
	if (found == by_server_.end()) {
		return nullptr;
	}
	Connections& connections = found->second;
	size_t chosen = SIZE_MAX;
	size_t examined = 0;
	// Newest first: its server process has the warmest caches.
	for (size_t i = connections.size(); i > 0 && examined < kMaxExamined; --i) {
		const PgSQL_Connection& candidate = *connections[i - 1];
		if (candidate.key().hash != key.hash || !(candidate.key() == key)) {
			continue;
		}
		++examined;
		if (chosen == SIZE_MAX) {
			chosen = i - 1;
		}
		if (candidate.backend_state.parameters.hash() == parameters_hash ||
		    candidate.backend_state.equal_to_hash == parameters_hash) {
			chosen = i - 1;
			break;
		}
	}
	if (chosen == SIZE_MAX) {
		return nullptr;
	}
	std::unique_ptr<PgSQL_Connection> connection = std::move(connections[chosen]);
	connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(chosen));
	--size_;
	return connection;
}

void Thread_Conn_Cache::put(std::unique_ptr<PgSQL_Connection> connection, int64_t now_us) {
	PROXY_DCHECK(connection->state() == Connection_State::idle ||
	             connection->state() == Connection_State::busy);
	PgSQL_SrvC& server = connection->server();
	connection->set_idle(now_us);
	const bool dead_since =
	    connection->created_us() < server.kill_before_us.load(std::memory_order_relaxed);
	if (connection->tainted || dead_since) {
		destroy(std::move(connection));
		return;
	}
	if (server.waiting.load(std::memory_order_relaxed) > 0 ||
	    server.status.load(std::memory_order_relaxed) != Server_Status::online) {
		pass_on(std::move(connection));
		return;
	}
	if (connection->attached()) {
		connection->set_handler(*this);
		connection->pause_reading(false);
	} else {
		connection->attach(loop_, *this);
	}
	by_server_[&server].push_back(std::move(connection));
	++size_;
}

void Thread_Conn_Cache::flush_counters(PgSQL_Connection& connection) {
	Server_Counters& counters = connection.server().counters;
	counters.queries.fetch_add(connection.uncounted_queries, std::memory_order_relaxed);
	counters.bytes_sent.fetch_add(connection.uncounted_sent, std::memory_order_relaxed);
	counters.bytes_received.fetch_add(connection.uncounted_received, std::memory_order_relaxed);
	connection.uncounted_queries = 0;
	connection.uncounted_sent = 0;
	connection.uncounted_received = 0;
}

void Thread_Conn_Cache::flush_all_counters() {
	for (const auto& [server, connections] : by_server_) {
		for (const auto& connection : connections) {
			flush_counters(*connection);
		}
	}
}

void Thread_Conn_Cache::pass_on(std::unique_ptr<PgSQL_Connection> connection) {
	connection->detach();
	flush_counters(*connection);
	const Server_Ptr server = connection->server_ptr();
	// What comes back is to be closed; its slot is free already.
	server->give_back(std::move(connection));
}

void Thread_Conn_Cache::give_back(PgSQL_SrvC* server) {
	for (auto place = by_server_.begin(); place != by_server_.end();) {
		if (server != nullptr && place->first != server) {
			++place;
			continue;
		}
		Connections connections = std::move(place->second);
		place = by_server_.erase(place);
		size_ -= connections.size();
		for (auto& connection : connections) {
			pass_on(std::move(connection));
		}
	}
}

void Thread_Conn_Cache::give_back_idle(int64_t before_us) {
	for (auto place = by_server_.begin(); place != by_server_.end();) {
		if (place->second.empty()) {
			// take() leaves empty entries for the next put(); nothing keeps their server alive.
			place = by_server_.erase(place);
			continue;
		}
		PgSQL_SrvC& server = *place->first;
		const bool all = server.waiting.load(std::memory_order_relaxed) > 0 ||
		                 server.status.load(std::memory_order_relaxed) != Server_Status::online;
		Connections& connections = place->second;
		Connections leaving;
		for (size_t i = 0; i < connections.size();) {
			if (all || connections[i]->last_used_us < before_us) {
				leaving.push_back(std::move(connections[i]));
				connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
			} else {
				++i;
			}
		}
		// The entry goes before its last connection, which keeps the server alive.
		place = connections.empty() ? by_server_.erase(place) : std::next(place);
		size_ -= leaving.size();
		for (auto& connection : leaving) {
			pass_on(std::move(connection));
		}
	}
}

// Anything an idle server says means that this connection is not what it was: closed, about to be
// closed, or with parameters changed behind everybody's back.
void Thread_Conn_Cache::on_backend_readable(PgSQL_Connection& connection) {
	on_backend_broken(connection);
}

void Thread_Conn_Cache::on_backend_broken(PgSQL_Connection& connection) {
	const auto found = by_server_.find(&connection.server());
	if (PROXY_BUG(found == by_server_.end())) {
		return;
	}
	Connections& connections = found->second;
	const auto place =
	    std::find_if(connections.begin(), connections.end(),
	                 [&connection](const auto& entry) { return entry.get() == &connection; });
	if (PROXY_BUG(place == connections.end())) {
		return;
	}
	connection.pause_reading(true);
	// Closed later: this call comes from inside the connection.
	stale_.push_back(std::move(*place));
	connections.erase(place);
	--size_;
	if (connections.empty()) {
		by_server_.erase(found);
	}
}

void Thread_Conn_Cache::close_stale() {
	Connections stale = std::move(stale_);
	stale_.clear();
	for (auto& connection : stale) {
		destroy(std::move(connection));
	}
}

} // namespace proxy
