#include "thread/Notify_Hub.h"

#include "base/Log.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/Session_Limits.h"
#include "thread/PgSQL_Thread.h"
#include "thread/Worker_Mailbox.h"

#include <algorithm>

namespace proxy {

namespace {
constexpr int64_t kRetryUs = kMicrosPerSecond;
constexpr int64_t kConnectLimitUs = 10 * kMicrosPerSecond;
constexpr int64_t kAnswerLimitUs = 10 * kMicrosPerSecond;
// A listener that nobody needs any more stays for this long: LISTEN often comes back.
constexpr int64_t kEmptyUs = 10 * kMicrosPerSecond;

uint64_t name_of(const Listener_Client& client) {
	return static_cast<uint64_t>(client.worker) << 32 | client.session;
}

// First on a new connection: it is silent for long, and that must not end it.
std::string setup_sql(const std::string& encoding) {
	std::string sql = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
	                  "WHERE name OPERATOR(pg_catalog.=) 'idle_session_timeout' "
	                  "OR name OPERATOR(pg_catalog.=) 'statement_timeout';";
	if (!encoding.empty()) {
		sql += "SELECT pg_catalog.set_config('client_encoding', " + quote_literal(encoding) +
		       ", false);";
	}
	return sql;
}
} // namespace

Notify_Listener::~Notify_Listener() {
	answer(answering_, false);
	answer(waiting_, false);
}

// ---- orders ----

void Notify_Listener::take(const Listener_Client& from, const Listen_Order& order) {
	const uint64_t client = name_of(from);
	switch (order.action) {
	case Listen_Action::unlisten:
		for (const std::string& channel : order.channels) {
			remove(client, channel);
		}
		break;
	case Listen_Action::hear:
		waiting_.push_back({from, order.ticket, {}, {}});
		if (connection_ == nullptr) {
			answer(waiting_, true); // nothing will come
		}
		break;
	case Listen_Action::listen: {
		const std::string& user = order.login->key.username;
		logins_[user] = {order.login, ++login_order_};
		for (const std::string& channel : order.channels) {
			Channel& entry = channels_[channel];
			entry.subscribers.insert(client);
			if (!entry.active) {
				changed_.push_back(channel);
			}
		}
		waiting_.push_back({from, order.ticket, user, order.channels});
		if (connection_ == nullptr) {
			connect();
		}
		break;
	}
	}
	pump();
}

void Notify_Listener::remove(uint64_t client, const std::string& channel) {
	const auto found = channels_.find(channel);
	if (found == channels_.end()) {
		return;
	}
	found->second.subscribers.erase(client);
	if (found->second.subscribers.empty()) {
		changed_.push_back(channel);
	}
}

// Tells the sessions; when the server does not listen, what they asked for is taken back.
void Notify_Listener::answer(std::vector<Waiting>& waiting, bool listens) {
	std::vector<Waiting> told = std::move(waiting);
	waiting.clear();
	for (const Waiting& entry : told) {
		if (!listens) {
			for (const std::string& channel : entry.channels) {
				remove(name_of(entry.client), channel);
			}
		}
		peers_[entry.client.worker]->post_task(
		    [session = entry.client.session, ticket = entry.ticket, listens](PgSQL_Thread& worker) {
			    worker.answer_listen(session, ticket, listens);
		    });
	}
}

// ---- the connection ----

bool Notify_Listener::server_is_right() const {
	const PgSQL_SrvC& server = connection_->server();
	const Hostgroup* hostgroup = worker_.view->hostgroup(key_.hostgroup);
	const bool listed =
	    hostgroup != nullptr &&
	    std::any_of(hostgroup->servers.begin(), hostgroup->servers.end(),
	                [&server](const Server_Ptr& entry) { return entry.get() == &server; });
	return listed && server.status.load(std::memory_order_relaxed) == Server_Status::online &&
	       connection_->created_us() >= server.kill_before_us.load(std::memory_order_relaxed);
}

void Notify_Listener::connect() {
	retry_at_us_ = worker_.now_us + kRetryUs;
	const Hostgroup* hostgroup = worker_.view->hostgroup(key_.hostgroup);
	Server_Ptr chosen;
	if (hostgroup != nullptr) {
		for (const Server_Ptr& server : hostgroup->servers) {
			const bool online =
			    server->status.load(std::memory_order_relaxed) == Server_Status::online;
			if (online &&
			    (chosen == nullptr || server->weight.load(std::memory_order_relaxed) >
			                              chosen->weight.load(std::memory_order_relaxed))) {
				chosen = server;
			}
		}
	}
	const auto login =
	    std::max_element(logins_.begin(), logins_.end(), [](const auto& a, const auto& b) {
		    return a.second.orders < b.second.orders;
	    });
	if (chosen == nullptr || login == logins_.end()) {
		lost("no server of the hostgroup is online");
		return;
	}
	Connect_Request request = *login->second.request;
	request.host = chosen->hostname;
	request.address = chosen->address();
	request.port = chosen->port;
	request.application_name = "polar-proxy listen";
	request.use_ssl = chosen->use_ssl.load(std::memory_order_relaxed) != 0;
	if (request.use_ssl) {
		request.ssl =
		    worker_.hostgroups.ssl_params(chosen->hostname, chosen->port, request.key.username);
		if (request.ssl == nullptr) {
			request.ssl = default_ssl_params(*worker_.config);
		}
	}
	connection_ = std::make_unique<PgSQL_Connection>(chosen, request, worker_.now_us);
	if (connection_->state() == Connection_State::dead) {
		lost(connection_->error());
		return;
	}
	connection_->attach(worker_.loop, *this);
}

void Notify_Listener::on_backend_connected(PgSQL_Connection& connection, Result<void> outcome) {
	if (!outcome.ok()) {
		// Perhaps another client's user is let in.
		const auto login = logins_.find(connection.key().username);
		if (login != logins_.end()) {
			login->second.orders = 0;
		}
		lost(outcome.error().message);
		return;
	}
	std::string out;
	append_query(out, setup_sql(key_.encoding));
	busy_ = true;
	busy_since_us_ = worker_.now_us;
	failed_ = false;
	asked_.clear();
	if (!connection.send(out)) {
		lost(connection.error());
	}
}

void Notify_Listener::on_backend_broken(PgSQL_Connection& connection) {
	lost(connection.error());
}

// The connection is gone, or could not be opened. Those who wait for their LISTEN are told; those
// who have had their answer stay subscribed.
void Notify_Listener::lost(const std::string& why) {
	static thread_local Log_Rate_Limit limit(5);
	if (limit.allow()) {
		log_warning("listener of database {} (hostgroup {}): {}; notifications are lost until it "
		            "listens again",
		            key_.database, key_.hostgroup, why);
	}
	was_lost_ = true;
	close();
	answer(answering_, false);
	answer(waiting_, false);
}

void Notify_Listener::close() {
	if (connection_ != nullptr) {
		// Deleted behind the pass: it may be what has called.
		connection_->detach();
		closed_ = std::move(connection_);
	}
	in_.clear();
	busy_ = false;
	asked_.clear();
	changed_.clear();
	for (auto at = channels_.begin(); at != channels_.end();) {
		at->second.active = false;
		if (at->second.subscribers.empty()) {
			at = channels_.erase(at);
			continue;
		}
		changed_.push_back(at->first);
		++at;
	}
}

bool Notify_Listener::tick() {
	closed_.reset();
	if (connection_ != nullptr && connection_->state() == Connection_State::connecting) {
		if (worker_.now_us - connection_->created_us() > kConnectLimitUs) {
			lost("connect timeout");
		}
	} else if (busy_ && worker_.now_us - busy_since_us_ > kAnswerLimitUs) {
		lost("the server does not answer");
	} else if (connection_ != nullptr && !server_is_right()) {
		lost("the server is not the writer any more");
		retry_at_us_ = 0;
	}
	if (!channels_.empty() || !waiting_.empty() || !answering_.empty()) {
		empty_since_us_ = 0;
		if (connection_ == nullptr && closed_ == nullptr && worker_.now_us >= retry_at_us_) {
			connect();
		}
		return true;
	}
	empty_since_us_ = empty_since_us_ == 0 ? worker_.now_us : empty_since_us_;
	return worker_.now_us - empty_since_us_ < kEmptyUs;
}

// ---- the conversation ----

// Brings the server in line, one query at a time.
void Notify_Listener::pump() {
	if (busy_ || connection_ == nullptr || connection_->state() == Connection_State::connecting) {
		return;
	}
	std::string sql;
	asked_.clear();
	for (const std::string& name : changed_) {
		const auto found = channels_.find(name);
		if (found == channels_.end()) {
			continue;
		}
		const bool wanted = !found->second.subscribers.empty();
		if (wanted == found->second.active) {
			if (!wanted) {
				channels_.erase(found);
			}
			continue;
		}
		sql += (wanted ? "LISTEN " : "UNLISTEN ") + quote_identifier(name) + ";";
		asked_.push_back(name);
	}
	changed_.clear();
	if (sql.empty() && waiting_.empty()) {
		return;
	}
	// An empty query too has the server say first what it has to tell.
	std::string out;
	append_query(out, sql);
	answering_ = std::move(waiting_);
	waiting_.clear();
	busy_ = true;
	busy_since_us_ = worker_.now_us;
	failed_ = false;
	if (!connection_->send(out)) {
		lost(connection_->error());
	}
}

void Notify_Listener::on_backend_readable(PgSQL_Connection& connection) {
	std::vector<char>& buffer = worker_.read_buffer;
	for (int reads = 0; reads < kMaxReadsPerEvent; ++reads) {
		const ssize_t got = connection.receive(buffer.data(), buffer.size());
		if (got <= 0) {
			deliver();
			if (got < 0) {
				lost(connection.error());
			}
			return;
		}
		in_.append(buffer.data(), static_cast<size_t>(got));
		size_t at = 0;
		Frame frame;
		while (true) {
			const std::string_view rest = std::string_view(in_).substr(at);
			const Frame_Status status =
			    next_frame({reinterpret_cast<const uint8_t*>(rest.data()), rest.size()},
			               kMaxFrameLength, frame);
			if (status == Frame_Status::malformed) {
				lost("the server broke the protocol");
				return;
			}
			if (status == Frame_Status::incomplete) {
				break;
			}
			if (!on_frame(frame.type, frame.body, rest.substr(0, frame.size))) {
				return;
			}
			at += frame.size;
		}
		in_.erase(0, at);
	}
	deliver();
}

// False: the connection is gone.
bool Notify_Listener::on_frame(char type, std::span<const uint8_t> body, std::string_view whole) {
	switch (type) {
	case 'A':
		notify(body, whole);
		return true;
	case 'E': {
		Error_Fields fields;
		parse(body, fields);
		failed_ = true;
		log_warning("listener of database {} (hostgroup {}): {}", key_.database, key_.hostgroup,
		            fields.message);
		return true;
	}
	case 'Z':
		deliver();
		if (failed_) {
			lost("the server refused to listen");
			return false;
		}
		on_answer();
		return connection_ != nullptr;
	default:
		return true;
	}
}

void Notify_Listener::on_answer() {
	busy_ = false;
	for (const std::string& name : asked_) {
		const auto found = channels_.find(name);
		if (found == channels_.end()) {
			continue;
		}
		found->second.active = !found->second.active;
		// Somebody may have come or left meanwhile.
		if (found->second.active == found->second.subscribers.empty()) {
			changed_.push_back(name);
		} else if (!found->second.active) {
			channels_.erase(found);
		}
	}
	if (was_lost_ && !asked_.empty()) {
		was_lost_ = false;
		log_info("listener of database {} (hostgroup {}) listens again on {}:{}", key_.database,
		         key_.hostgroup, connection_->server().hostname, connection_->server().port);
	}
	asked_.clear();
	answer(answering_, true);
	pump();
}

void Notify_Listener::notify(std::span<const uint8_t> body, std::string_view whole) {
	Notification_View view;
	if (!parse(body, view)) {
		return;
	}
	const auto found = channels_.find(view.channel);
	if (found == channels_.end()) {
		return;
	}
	auto notification = std::make_shared<const Notification>(
	    Notification{key_, std::string(view.channel), std::string(whole)});
	std::map<uint32_t, Outgoing*> by_worker;
	for (const uint64_t client : found->second.subscribers) {
		const auto worker = static_cast<uint32_t>(client >> 32);
		Outgoing*& outgoing = by_worker[worker];
		if (outgoing == nullptr) {
			outgoing = &outgoing_[worker].emplace_back(Outgoing{notification, {}});
		}
		outgoing->sessions.push_back(static_cast<uint32_t>(client));
	}
}

void Notify_Listener::deliver() {
	for (auto& [worker, notifications] : outgoing_) {
		peers_[worker]->post_task([batch = std::move(notifications)](PgSQL_Thread& thread) {
			for (const Outgoing& entry : batch) {
				thread.deliver_notification(entry.notification, entry.sessions);
			}
		});
	}
	outgoing_.clear();
}

// ---- all listeners of a worker ----

void Notify_Hub::take(uint32_t from_worker, const Listen_Order& order) {
	auto& listener = listeners_[order.key];
	if (listener == nullptr) {
		listener = std::make_unique<Notify_Listener>(order.key, worker_, peers_);
	}
	listener->take({from_worker, order.session}, order);
}

void Notify_Hub::tick() {
	for (auto at = listeners_.begin(); at != listeners_.end();) {
		at = at->second->tick() ? std::next(at) : listeners_.erase(at);
	}
}

} // namespace proxy
