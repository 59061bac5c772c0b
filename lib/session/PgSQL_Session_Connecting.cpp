// From a routed request to a server connection: choose the server, take or open a connection to
// it, wait in its queue, and give up in time.
#include "base/Log.h"
#include "protocol/PgSQL_Error_Helper.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <xxhash.h>

#include <algorithm>
#include <arpa/inet.h>

namespace proxy {

namespace {
// Servers tried within one step before the session waits for the next pass.
constexpr int kMaxTriesPerStep = 8;

// A login the server refused for what was asked, not for its own state (classes 08 connection,
// 53 resources, 57 operator intervention, 55000 not accepting).
bool refused_by_server(std::string_view sqlstate) {
	const std::string_view sql_class = sqlstate.substr(0, 2);
	return sql_class == "28" || sql_class == "3D" || sql_class == "42" || sql_class == "22" ||
	       sql_class == "0A";
}
} // namespace

// Routes request_ and gets it going; called for a new request and for a retry.
void PgSQL_Session::start_request() {
	if (cached_key_version_ != worker_.users) {
		refresh_user();
	}
	Route_Request route;
	route.statement = request_.statement;
	route.rules = &request_.rules;
	route.hints = request_.hints;
	route.default_hostgroup = user_->default_hostgroup;
	route.extended = request_.kind == Request_Kind::extended;
	route.in_transaction = transaction_status_ == 'T';
	route.failed_transaction = transaction_status_ == 'E';
	route.transaction_persistent = user_->transaction_persistent;
	route.transaction_hostgroup = backend_ == nullptr ? -1 : backend_->server().hostgroup_id;
	route.pinned = pinned_;
	route.mode = own_.route_mode;
	route.session_consistency = own_.consistency;
	const int wanted_hostgroup = request_.rules.destination_hostgroup >= 0
	                                 ? request_.rules.destination_hostgroup
	                                 : user_->default_hostgroup;
	if (const Positions* known = find_positions(wanted_hostgroup)) {
		route.write_lsn = known->write_lsn;
		route.observed_lsn = known->observed_lsn;
		route.write_unknown = known->write_unknown;
		route.observed_unknown = known->observed_unknown;
		route.lsn_epoch = known->epoch;
	}
	route.read_target_primary = worker_.config->policy.read_target == Read_Target::primary;
	request_.plan = plan_route(route, *worker_.view);
	set_query_deadline();
	last_connect_error_.clear();
	request_.acquire_deadline_us =
	    worker_.now_us + worker_.config->connect_timeout_server_max * kMicrosPerMilli;
	restart_request();
}

// Gets a connection for request_.plan and sends; also the way back after a wait or a failure.
void PgSQL_Session::restart_request() {
	if (backend_ != nullptr &&
	    (request_.plan.keep_connection || transaction_status_ != 'I' || pinned_ != 0)) {
		dispatch();
		return;
	}
	if (acquire_backend()) {
		dispatch();
	}
}

bool PgSQL_Session::fall_back_to_writer(Route_Reason reason) {
	if (!request_.plan.to_reader || request_.plan.fallback_hostgroup < 0) {
		return false;
	}
	request_.plan.hostgroup = request_.plan.fallback_hostgroup;
	request_.plan.to_reader = false;
	request_.plan.wait = Wait_Kind::none;
	request_.plan.reason = reason;
	request_.excluded = nullptr;
	return true;
}

// True: backend_ is ready for the request. False: the session waits, or has answered an error.
bool PgSQL_Session::acquire_backend() {
	worker_.counters.add(Counter::PgHGM_pgconnpoll_get);
	for (int tries = 0; tries < kMaxTriesPerStep; ++tries) {
		const Hostgroup* hostgroup = worker_.view->hostgroup(request_.plan.hostgroup);
		Reader_Choice choice;
		if (hostgroup != nullptr) {
			Reader_Request wanted;
			wanted.target_lsn =
			    request_.plan.wait == Wait_Kind::target ? request_.plan.target_lsn : 0;
			wanted.excluded = static_cast<const PgSQL_SrvC*>(request_.excluded);
			wanted.replicas_only = request_.plan.to_reader;
			const Hostgroup_Pair* pair =
			    request_.plan.to_reader ? worker_.view->pair_of_reader(hostgroup->id) : nullptr;
			if (pair != nullptr && pair->max_lag_bytes > 0) {
				wanted.max_lag_bytes = static_cast<uint64_t>(pair->max_lag_bytes);
				wanted.group_lsn = worker_.view->group_lsn(pair->writer_hostgroup);
			}
			wanted.now_us = worker_.now_us;
			choice =
			    choose_server(*hostgroup, wanted, worker_.selection[hostgroup->id], worker_.random);
		}
		if (choice.server == nullptr &&
		    fall_back_to_writer(choice.why == Reader_Choice::Why::all_lagging
		                            ? Route_Reason::replica_lag
		                            : Route_Reason::no_replica)) {
			continue;
		}
		if (choice.server == nullptr) {
			park(nullptr);
			return false;
		}
		switch (try_server(*choice.server)) {
		case Pick::ready:
			return true;
		case Pick::waiting:
			return false;
		case Pick::next_try:
			break;
		}
	}
	park(nullptr);
	return false;
}

PgSQL_Session::Pick PgSQL_Session::try_server(PgSQL_SrvC& server) {
	const Conn_Key key = key_for(server);
	std::unique_ptr<PgSQL_Connection> connection =
	    worker_.connections.take(server, key, wanted_.hash());
	// A connection used in this very pass needs no look: the loop would have told.
	if (connection != nullptr && connection->last_pass + 1 < worker_.pass &&
	    connection->is_stale()) {
		Thread_Conn_Cache::destroy(std::move(connection));
		return Pick::next_try;
	}
	if (connection == nullptr) {
		Pool_Waiter waiter;
		waiter.key = key;
		waiter.sink = &worker_.services.waiter_sink();
		waiter.ticket = id_;
		std::unique_ptr<PgSQL_Connection> evicted;
		const Acquire_Status status = server.acquire(key, &waiter, connection, evicted);
		evicted.reset();
		switch (status) {
		case Acquire_Status::connection:
			if (connection->is_stale()) {
				Thread_Conn_Cache::destroy(std::move(connection));
				return Pick::next_try;
			}
			break;
		case Acquire_Status::create:
			begin_connect(server);
			return Pick::waiting;
		case Acquire_Status::busy:
			park(&server);
			return Pick::waiting;
		case Acquire_Status::unavailable:
			request_.excluded = &server;
			return Pick::next_try;
		}
	}
	worker_.counters.add(Counter::PgHGM_pgconnpoll_get_ok);
	take_backend(std::move(connection));
	return Pick::ready;
}

void PgSQL_Session::take_backend(std::unique_ptr<PgSQL_Connection> connection) {
	backend_ = std::move(connection);
	scanner_.reset();
	if (backend_->attached()) {
		backend_->set_handler(*this);
	} else {
		backend_->attach(worker_.loop, *this);
	}
}

// ---- opening ----

// The dialect to speak with `server`: what its pair says, or what the monitor found there.
Proxy_Protocol PgSQL_Session::protocol_for(const PgSQL_SrvC& server) const {
	const Hostgroup_Pair* pair = worker_.view->pair_of_writer(server.hostgroup_id);
	if (pair == nullptr) {
		pair = worker_.view->pair_of_reader(server.hostgroup_id);
	}
	if (pair == nullptr) {
		return Proxy_Protocol::off;
	}
	const Proxy_Protocol protocol = effective_protocol(pair->protocol, *server.health);
	return protocol == Proxy_Protocol::stock ? Proxy_Protocol::off : protocol;
}

const PgSQL_Session::Identity& PgSQL_Session::identity() const {
	if (identity_.host.empty()) {
		const bool as_client = worker_.config->policy.identity_mode == Proxy_Identity_Mode::client;
		if (as_client && !peer_.host.empty()) {
			identity_ = {peer_.host, peer_.port};
		} else if (!as_client && !peer_.is_unix()) {
			identity_ = {peer_.local_host, peer_.local_port};
		} else if (!worker_.config->polardb_proxy_identity_host.empty()) {
			identity_ = {worker_.config->polardb_proxy_identity_host,
			             static_cast<int>(worker_.config->polardb_proxy_identity_port)};
		} else {
			identity_ = {"127.0.0.1", 1}; // a Unix socket client of a proxy without an address
		}
	}
	return identity_;
}

Conn_Key PgSQL_Session::key_for(const PgSQL_SrvC& server) const {
	const Proxy_Protocol protocol = protocol_for(server);
	if (cached_key_.hash != 0 && cached_key_protocol_ == protocol &&
	    cached_key_version_ == worker_.users) {
		return cached_key_;
	}
	Conn_Key key;
	key.username = username_;
	key.database = database_;
	const std::string_view secret = user_->backend_secret.reveal();
	key.credential = XXH3_64bits(secret.data(), secret.size());
	key.generation = static_cast<uint32_t>(protocol) << 24;
	if (protocol != Proxy_Protocol::off) {
		const std::string who = identity().host + ":" + std::to_string(identity().port);
		key.generation |= static_cast<uint32_t>(XXH3_64bits(who.data(), who.size())) & 0xffffffU;
	}
	key.seal();
	cached_key_ = key;
	cached_key_protocol_ = protocol;
	cached_key_version_ = worker_.users;
	return key;
}

Connect_Request PgSQL_Session::connect_request_for(const PgSQL_SrvC& server) const {
	Connect_Request request;
	request.host = server.hostname;
	request.address = server.address();
	request.port = server.port;
	request.key = key_for(server);
	// A verifier is no password: sent as one it would be refused in confusing words.
	if (classify_secret(user_->backend_secret.reveal()) != Secret_Type::scram_verifier) {
		request.password = user_->backend_secret;
	} else if (user_->backend_secret == user_->frontend_secret) {
		user_->passed_keys->get(request.scram_client_key, request.scram_server_key);
	}
	request.use_ssl = server.use_ssl.load(std::memory_order_relaxed) != 0;
	if (request.use_ssl) {
		request.ssl = worker_.hostgroups.ssl_params(server.hostname, server.port, username_);
		if (request.ssl == nullptr) {
			request.ssl = default_ssl_params(*worker_.config);
		}
	}
	request.protocol = protocol_for(server);
	request.identity_host = identity().host;
	request.identity_port = identity().port;
	request.tcp = {.keepalive = worker_.config->use_tcp_keepalive,
	               .keepalive_idle_s = worker_.config->tcp_keepalive_time,
	               .user_timeout_ms = worker_.config->tcp_user_timeout_server};
	return request;
}

// A slot of `server` is reserved: opens a connection in it.
void PgSQL_Session::begin_connect(PgSQL_SrvC& server) {
	Server_Ptr owner;
	for (const Server_Ptr& candidate : worker_.view->hostgroup(server.hostgroup_id)->servers) {
		if (candidate.get() == &server) {
			owner = candidate;
		}
	}
	if (!user_->has_backend) {
		server.drop_used();
		Error error = make_error("28000", "user \"" + username_ + "\" may not use servers");
		error.detail = "Its row in pgsql_users has backend = 0.";
		answer_error(error);
		process_input();
		return;
	}
	++request_.connect_attempts;
	Connect_Request request = connect_request_for(server);
	request.hold_for_keys = true;
	backend_ = std::make_unique<PgSQL_Connection>(std::move(owner), request, worker_.now_us);
	scanner_.reset();
	set_state(Session_State::connecting_server);
	worker_.services.wake_by(*this, worker_.now_us +
	                                    worker_.config->connect_timeout_server * kMicrosPerMilli);
	if (backend_->state() == Connection_State::dead) {
		on_backend_connected(*backend_, make_error(backend_->error_sqlstate(), backend_->error()));
		return;
	}
	backend_->attach(worker_.loop, *this);
}

void PgSQL_Session::on_backend_connected(PgSQL_Connection& connection, Result<void> outcome) {
	PgSQL_SrvC& server = connection.server();
	if (outcome.ok()) {
		server.counters.connect_ok.fetch_add(1, std::memory_order_relaxed);
		worker_.counters.add(Counter::Server_Connections_created);
		if (connection.sends_lsn()) {
			server.health->note_lsn(
			    normalise_lsn(connection.login_lsn(),
			                  server.health->wal_segment_size.load(std::memory_order_relaxed)),
			    worker_.now_us);
		}
		dispatch();
		return;
	}
	request_.keys_job = 0;
	server.counters.connect_err.fetch_add(1, std::memory_order_relaxed);
	worker_.counters.add(Counter::Server_Connections_aborted);
	static thread_local Log_Rate_Limit limit(5);
	if (limit.allow()) {
		log_error("connection to {}:{} (hostgroup {}) as {} failed: {}", server.hostname,
		          server.port, server.hostgroup_id, username_, outcome.error().message);
	}
	// libpq itself gives up where it has no password; the server's word would be the same.
	const bool no_password =
	    outcome.error().message.find("no password supplied") != std::string::npos;
	if (no_password || refused_by_server(outcome.error().sqlstate)) {
		// The server is well and says no: no database, no such role, a wrong password. Another try
		// would hear the same, and the server is not to blame.
		Error error = outcome.error();
		error.sqlstate = no_password ? "28P01" : error.sqlstate;
		const size_t fatal = error.message.find("FATAL:  ");
		if (fatal != std::string::npos) {
			error.message.erase(0, fatal + std::string_view("FATAL:  ").size());
		}
		if (error.message.find("no password supplied") != std::string::npos) {
			error.message = user_->backend_secret.empty()
			                    ? "no password is known for user \"" + username_ + "\""
			                    : "the server wants the password of user \"" + username_ +
			                          "\" itself, and only its SCRAM verifier is known";
		}
		error.detail = "server " + server.hostname + ":" + std::to_string(server.port) +
		               " refused the login of user \"" + username_ + "\"";
		discard_backend();
		answer_error(error);
		process_input();
		return;
	}
	worker_.hostgroups.note_connect_error(server, worker_.now_us);
	worker_.services.report_server_failure(server);
	const std::string reason = outcome.error().message;
	request_.excluded = &server;
	discard_backend();
	if (request_.connect_attempts > worker_.config->connect_retries_on_failure &&
	    fall_back_to_writer(Route_Reason::no_replica)) {
		request_.connect_attempts = 0;
	}
	set_state(Session_State::waiting_server);
	last_connect_error_ = reason;
	// Until the acquire deadline, so that a short outage costs a wait and not an error; not at
	// once, since a server that refuses connections would be asked in a tight loop.
	const bool first_tries =
	    request_.connect_attempts <= worker_.config->connect_retries_on_failure;
	request_.retry_at_us =
	    worker_.now_us +
	    (first_tries ? std::max<int64_t>(1, worker_.config->connect_retries_delay) * kMicrosPerMilli
	                 : kNoServerRetryUs);
	worker_.services.wake_by(*this, request_.retry_at_us);
}

// ---- waiting ----

// Waits at `server`'s queue (already queued there), or, without one, for any server to be usable.
void PgSQL_Session::park(PgSQL_SrvC* server) {
	if (state_ != Session_State::waiting_server) {
		set_state(Session_State::waiting_server);
		worker_.counters.add(Counter::Server_Connections_delayed);
	}
	if (server == nullptr) {
		request_.excluded = nullptr;
		request_.retry_at_us = worker_.now_us + kNoServerRetryUs;
		worker_.services.wake_by(*this, request_.retry_at_us);
		return;
	}
	request_.retry_at_us = 0;
	for (const Server_Ptr& candidate : worker_.view->hostgroup(server->hostgroup_id)->servers) {
		if (candidate.get() == server) {
			parked_at_ = candidate;
		}
	}
	worker_.services.note_parked(*this, parked_at_);
	worker_.services.wake_by(*this, request_.acquire_deadline_us);
}

void PgSQL_Session::unpark() {
	if (parked_at_ == nullptr) {
		return;
	}
	parked_at_->cancel_wait(&worker_.services.waiter_sink(), id_);
	parked_at_.reset();
	worker_.services.forget_parked(*this);
}

// From another worker or from this one: a connection, or news that a slot may be free.
void PgSQL_Session::on_delivery(std::unique_ptr<PgSQL_Connection> connection) {
	const bool waiting = state_ == Session_State::waiting_server && parked_at_ != nullptr;
	if (connection == nullptr) {
		if (waiting) {
			unpark();
			restart_request();
		}
		return;
	}
	if (!waiting || parked_at_.get() != &connection->server()) {
		// For a wait that is over: this request may not even be allowed on that server.
		worker_.connections.put(std::move(connection), worker_.now_us);
		return;
	}
	parked_at_.reset();
	worker_.services.forget_parked(*this);
	if (connection->is_stale()) {
		Thread_Conn_Cache::destroy(std::move(connection));
		restart_request();
		return;
	}
	take_backend(std::move(connection));
	dispatch();
}

// No server connection: the answer names whether the servers are down or only busy.
void PgSQL_Session::no_server(No_Server why) {
	unpark();
	Error error = make_error(
	    why == No_Server::busy ? "53300" : "08001",
	    "Max connect timeout reached while reaching hostgroup " +
	        std::to_string(request_.plan.hostgroup) + " after " +
	        std::to_string((worker_.now_us - request_.started_us) / kMicrosPerMilli) + "ms");
	if (why == No_Server::busy) {
		error.detail = "All connections that max_connections of the hostgroup's servers allows are "
		               "in use.";
	} else {
		error.detail = last_connect_error_.empty() ? "No server of the hostgroup is online."
		                                           : last_connect_error_;
	}
	worker_.counters.add(Counter::max_connect_timeouts);
	answer_error(error);
	process_input();
}

} // namespace proxy
