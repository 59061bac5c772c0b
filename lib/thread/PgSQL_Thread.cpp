#include "thread/PgSQL_Thread.h"

#include "base/Clock.h"
#include "base/Ip_Address.h"
#include "base/Log.h"
#include "net/Tcp_Options.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/Session_Limits.h"

#include <optional>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace proxy {

namespace {
// One read buffer a worker: a typical result in one read, small enough for the CPU's cache.
constexpr size_t kReadBufferBytes = 64 * 1024;
constexpr int64_t kHousekeepingUs = kMicrosPerSecond;
// While a cancel is on its way its connection is looked at this often.
constexpr int64_t kHeldPollMs = 10;
constexpr int64_t kHeldLimitUs = 10 * kMicrosPerSecond;
// Idle connections go back to the shared lists after this long without use.
constexpr int64_t kLocalIdleUs = kMicrosPerSecond;
} // namespace

Runtime_Shared::Runtime_Shared(const Snapshot<Pgsql_Config>& pgsql_config,
                               PgSQL_HostGroups_Manager& manager)
    : config(pgsql_config), users(Users_Snapshot::make({}, nullptr)),
      rules(Query_Rules::compile({}, 0).take()), tls(std::make_shared<const Client_Tls>()),
      hostgroups(manager) {}

PgSQL_Thread::PgSQL_Thread(size_t index, Runtime_Shared& shared)
    : index_(index), shared_(shared), mailbox_(loop_),
      connections_(loop_), context_{.loop = loop_,
                                    .queries = queries_,
                                    .digests = digests_,
                                    .counters = counters_,
                                    .routes = routes_,
                                    .connections = connections_,
                                    .statements = shared.statements,
                                    .hostgroups = shared.hostgroups,
                                    .limits = shared.limits,
                                    .services = *this,
                                    .config = {},
                                    .view = {},
                                    .users = {},
                                    .tls = {},
                                    .reported_parameters = {},
                                    .read_buffer = std::vector<char>(kReadBufferBytes),
                                    .send_buffer = {},
                                    .random = Random_Source(static_cast<uint64_t>(unix_time_us()) +
                                                            index * 7919 + 1),
                                    .selection = {},
                                    .clean_calls = {},
                                    .known_parameters = {}},
      notify_hub_(context_, peers_) {
	loop_.set_wake_handler(this);
	loop_.set_pass_handler(this);
	refresh_variables();
}

PgSQL_Thread::~PgSQL_Thread() {
	join();
}

void PgSQL_Thread::add_listener(int fd, bool owned, const Listen_Address& address) {
	listeners_.push_back(std::make_unique<Listener>(fd, owned, address, *this));
}

void PgSQL_Thread::start() {
	thread_ = std::thread([this] { run(); });
	const std::string name = "PgSQLWorker" + std::to_string(index_);
	pthread_setname_np(thread_.native_handle(), name.c_str());
}

void PgSQL_Thread::request_stop() {
	stopping_.store(true, std::memory_order_relaxed);
	loop_.wake();
}

void PgSQL_Thread::join() {
	if (thread_.joinable()) {
		request_stop();
		thread_.join();
	}
}

void PgSQL_Thread::run() {
	// Signals are the main thread's business.
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, nullptr);
	for (const auto& listener : listeners_) {
		listener->start(loop_);
	}
	context_.now_us = monotonic_us();
	while (!stopping_.load(std::memory_order_relaxed)) {
		loop_.run_once(wait_ms());
		finish_pass();
	}
	listeners_.clear();
	drain_sessions();
	// Whoever is left is in a transaction or waits: ended hard, the server rolls back.
	for (PgSQL_Session* session : all_sessions()) {
		session->kill();
	}
	finish_pass();
	handle_mail();
	for (Held& held : held_) {
		Thread_Conn_Cache::destroy(std::move(held.connection));
	}
	held_.clear();
	notify_hub_.clear();
	connections_.give_back(nullptr);
}

// ---- the pass ----

void PgSQL_Thread::on_pass() {
	context_.now_us = monotonic_us();
	context_.now_s = unix_time_s();
	++context_.pass;
	refresh_variables();
}

void PgSQL_Thread::refresh_variables() {
	if (shared_.config.refresh(context_.config, config_version_)) {
		const Pgsql_Config& config = *context_.config;
		Digest_Options options;
		options.lowercase = config.query_digests_lowercase;
		options.replace_null = config.query_digests_replace_null;
		options.no_digits = config.query_digests_no_digits;
		options.keep_comment = config.query_digests_keep_comment;
		options.grouping_limit = static_cast<int>(config.query_digests_grouping_limit);
		options.groups_grouping_limit =
		    static_cast<int>(config.query_digests_groups_grouping_limit);
		options.max_digest_length = static_cast<int>(config.query_digests_max_digest_length);
		options.max_query_length = static_cast<int>(config.query_digests_max_query_length);
		queries_.set_options(options);
		shared_.statements.set_limit(static_cast<size_t>(config.max_stmts_cache));
		for (PgSQL_Session* session : all_sessions()) {
			session->renew_deadline();
		}
	}
	if (shared_.rules.refresh(rules_, rules_version_)) {
		queries_.set_rules(rules_);
	}
	shared_.users.refresh(context_.users, users_version_);
	if (shared_.tls.refresh(tls_, tls_version_)) {
		context_.tls = tls_->context;
	}
	shared_.hostgroups.view().refresh(context_.view, view_version_);
	shared_.hostgroups.reported_parameters().refresh(context_.reported_parameters,
	                                                 parameters_version_);
}

int64_t PgSQL_Thread::wait_ms() const {
	const int64_t next_us = std::min(next_housekeeping_us_, deadlines_.first_us());
	const int64_t wait_us = std::max<int64_t>(0, next_us - context_.now_us);
	int64_t wait = std::max<int64_t>(1, wait_us / kMicrosPerMilli);
	return held_.empty() ? wait : std::min(wait, kHeldPollMs);
}

void PgSQL_Thread::finish_pass() {
	run_deadlines();
	connections_.close_stale();
	if (!held_.empty()) {
		release_held();
	}
	if (!notify_hub_.empty()) {
		notify_hub_.tick();
	}
	if (context_.now_us >= next_housekeeping_us_) {
		housekeeping();
	}
	ended_.clear();
}

void PgSQL_Thread::run_deadlines() {
	while (deadlines_.first_us() <= context_.now_us) {
		PgSQL_Session& due = *deadlines_.first();
		deadlines_.remove(due);
		due.on_deadline();
	}
}

void PgSQL_Thread::housekeeping() {
	next_housekeeping_us_ = context_.now_us + kHousekeepingUs;
	connections_.give_back_idle(context_.now_us - kLocalIdleUs);
}

void PgSQL_Thread::release_held() {
	std::vector<Held> waiting;
	std::vector<Held> held = std::move(held_);
	held_.clear();
	for (Held& entry : held) {
		const Cancel_State state =
		    entry.ticket == nullptr ? Cancel_State::uncertain : entry.ticket->get();
		const bool late = context_.now_us - entry.since_us > kHeldLimitUs;
		if (state == Cancel_State::pending && !late) {
			waiting.push_back(std::move(entry));
		} else if (state == Cancel_State::settled && !entry.connection->tainted &&
		           !entry.connection->is_stale()) {
			connections_.put(std::move(entry.connection), context_.now_us);
		} else {
			Thread_Conn_Cache::destroy(std::move(entry.connection));
		}
	}
	for (Held& entry : waiting) {
		held_.push_back(std::move(entry));
	}
}

// ---- mail ----

void PgSQL_Thread::on_wake() {
	handle_mail();
}

void PgSQL_Thread::handle_mail() {
	Worker_Mailbox::Contents mail = mailbox_.take();
	for (Worker_Mailbox::Delivery& delivery : mail.deliveries) {
		PgSQL_Session* session = find(delivery.ticket);
		if (session != nullptr) {
			session->on_delivery(std::move(delivery.connection));
		} else if (delivery.connection != nullptr) {
			connections_.put(std::move(delivery.connection), context_.now_us);
		}
	}
	for (Worker_Mailbox::Login& login : mail.logins) {
		if (PgSQL_Session* session = find(login.session)) {
			session->on_login_answer(login.serial, std::move(login.answer));
		}
	}
	for (const Worker_Mailbox::Cancel& cancel : mail.cancels) {
		if (PgSQL_Session* session = find(cancel.pid)) {
			session->cancel(cancel.key, cancel.ticket);
		}
	}
	for (const Server_Ptr& server : mail.reclaims) {
		connections_.give_back(server.get());
	}
	for (const Worker_Mailbox::Task& task : mail.tasks) {
		task(*this);
	}
}

PgSQL_Session* PgSQL_Thread::find(uint64_t id) {
	const auto found = sessions_.find(static_cast<uint32_t>(id));
	return found == sessions_.end() ? nullptr : found->second.get();
}

// ---- services ----

void PgSQL_Thread::session_ended(PgSQL_Session& session) {
	const auto found = sessions_.find(session.id());
	if (found == sessions_.end()) {
		return;
	}
	deadlines_.remove(session);
	// Deleted after the pass: callers up the stack still look at it.
	ended_.push_back(std::move(found->second));
	shared_.limits.session_ids.give_back(found->first);
	sessions_.erase(found);
}

void PgSQL_Thread::note_parked(PgSQL_Session& session, Server_Ptr server) {
	parked_[session.id()] = server;
	connections_.give_back(server.get());
	for (Worker_Mailbox* peer : peers_) {
		if (peer != &mailbox_) {
			peer->post_reclaim(server);
		}
	}
}

void PgSQL_Thread::forget_parked(PgSQL_Session& session) {
	parked_.erase(session.id());
}

void PgSQL_Thread::broadcast_cancel(const Cancel_Request& request,
                                    const Cancel_Ticket_Ptr& ticket) {
	for (Worker_Mailbox* peer : peers_) {
		peer->post_cancel({request.pid, request.key, ticket});
	}
}

void PgSQL_Thread::send_cancel(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) {
	shared_.cancels.send(std::move(target), std::move(ticket));
}

void PgSQL_Thread::hold_until(std::unique_ptr<PgSQL_Connection> connection,
                              Cancel_Ticket_Ptr ticket) {
	held_.push_back({std::move(connection), std::move(ticket), context_.now_us});
}

uint64_t PgSQL_Thread::start_login_job(PgSQL_Session& session, Login_Lane lane, Login_Job job) {
	const uint64_t serial = ++last_login_job_;
	shared_.logins.run(lane, std::move(job), {&mailbox_, session.id(), serial});
	return serial;
}

void PgSQL_Thread::wake_by(PgSQL_Session& session, int64_t deadline_us) {
	deadlines_.set_earlier(session, deadline_us);
}

// A key has one listener, on one worker.
void PgSQL_Thread::order_listen(Listen_Order order) {
	if (peers_.empty()) {
		return;
	}
	Worker_Mailbox* owner = peers_[order.key.hash() % peers_.size()];
	owner->post_task([from = static_cast<uint32_t>(index_), order = std::move(order)](
	                     PgSQL_Thread& worker) { worker.take_listen_order(from, order); });
}

void PgSQL_Thread::answer_listen(uint32_t session, uint32_t ticket, bool listens) {
	if (PgSQL_Session* found = find(session)) {
		found->on_listen_answer(ticket, listens);
	}
}

void PgSQL_Thread::deliver_notification(const Notification_Ptr& notification,
                                        const std::vector<uint32_t>& sessions) {
	for (const uint32_t id : sessions) {
		if (PgSQL_Session* session = find(id)) {
			session->on_notification(*notification);
		}
	}
}

void PgSQL_Thread::report_server_failure(const PgSQL_SrvC& server) {
	if (shared_.on_server_failure) {
		shared_.on_server_failure(server.hostname, server.port);
	}
}

// ---- clients ----

void PgSQL_Thread::on_accept(int fd, std::string peer_host, int peer_port,
                             const Listen_Address& at) {
	const Pgsql_Config& config = *context_.config;
	if (shared_.limits.logins.load(std::memory_order_relaxed) >= config.max_connections) {
		refuse(fd);
		return;
	}
	PgSQL_Session::Peer peer;
	peer.host = std::move(peer_host);
	peer.port = peer_port;
	if (at.is_unix()) {
		peer.local_host = at.path;
		peer.local = true;
	} else {
		peer.local_host = local_address(fd, peer.local_port);
		const std::optional<Ip_Address> address = Ip_Address::parse(peer.host);
		peer.header_due = config.proxy_networks.contains(peer.host);
		peer.local = !peer.header_due && address && address->is_loopback();
		set_tcp_options(fd, {.keepalive = config.use_tcp_keepalive,
		                     .keepalive_idle_s = config.tcp_keepalive_time,
		                     .user_timeout_ms = config.tcp_user_timeout_client});
	}
	const uint32_t id = shared_.limits.session_ids.take();
	auto session = std::make_unique<PgSQL_Session>(context_, id, fd, std::move(peer));
	sessions_.emplace(id, std::move(session));
}

// As many connections as there may be clients have not logged in: told at once and closed, so that
// those who never log in cost a bounded amount of memory.
void PgSQL_Thread::refuse(int fd) {
	counters_.add(Counter::Access_Denied_Max_Connections);
	std::string out;
	append_error_response(out, make_error("53300", "Too many connections"), Severity::fatal);
	[[maybe_unused]] const ssize_t sent =
	    ::send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

void PgSQL_Thread::pause_listeners(bool paused) {
	for (const auto& listener : listeners_) {
		if (paused) {
			listener->stop();
		} else {
			listener->start(loop_);
		}
	}
}

// A list of its own, since sessions leave sessions_ while they are visited; those that end stay
// alive until the end of the pass.
std::vector<PgSQL_Session*> PgSQL_Thread::all_sessions() const {
	std::vector<PgSQL_Session*> all;
	all.reserve(sessions_.size());
	for (const auto& [id, session] : sessions_) {
		all.push_back(session.get());
	}
	return all;
}

void PgSQL_Thread::drain_sessions() {
	for (PgSQL_Session* session : all_sessions()) {
		session->shut_down();
	}
}

bool PgSQL_Thread::kill_session(uint32_t id) {
	PgSQL_Session* session = find(id);
	if (session == nullptr) {
		return false;
	}
	session->kill();
	return true;
}

std::vector<PgSQL_Session::Info> PgSQL_Thread::session_infos() const {
	std::vector<PgSQL_Session::Info> infos;
	infos.reserve(sessions_.size());
	for (const auto& [id, session] : sessions_) {
		infos.push_back(session->info());
	}
	return infos;
}

void PgSQL_Thread::flush_counters() {
	connections_.flush_all_counters();
	for (const auto& [id, session] : sessions_) {
		session->flush_counters();
	}
}

} // namespace proxy
