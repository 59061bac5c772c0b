// The worker that the tests turn by hand.
#include "Wire_Kit.h"
#include "thread/PgSQL_Thread.h"

#include <algorithm>
#include <sys/socket.h>
#include <unistd.h>

namespace proxy::wire {

namespace {
constexpr size_t kReadBufferBytes = 64 * 1024;
constexpr int64_t kStart_us = 1'000'000'000;

Pgsql_User_Row app_user() {
	Pgsql_User_Row user;
	user.username = "app";
	user.password = Secret("secret");
	user.default_hostgroup = Rig::kWriter;
	return user;
}

Pgsql_Server_Row server_row(int hostgroup, int port, int64_t max_connections) {
	Pgsql_Server_Row row;
	row.hostgroup_id = hostgroup;
	row.hostname = "127.0.0.1";
	row.port = port;
	row.max_connections = max_connections;
	return row;
}
} // namespace

Rig::Rig(const Rig_Setup& setup)
    : primary([this] { pump(); }), connections_(loop_), context_{.loop = loop_,
                                                                 .queries = queries_,
                                                                 .digests = digests_,
                                                                 .counters = counters_,
                                                                 .routes = routes_,
                                                                 .connections = connections_,
                                                                 .statements = statements_,
                                                                 .hostgroups = hostgroups_,
                                                                 .limits = limits_,
                                                                 .services = *this,
                                                                 .config = {},
                                                                 .view = {},
                                                                 .users = {},
                                                                 .tls = {},
                                                                 .reported_parameters = {},
                                                                 .read_buffer = {},
                                                                 .send_buffer = {},
                                                                 .random = Random_Source(1),
                                                                 .selection = {},
                                                                 .clean_calls = {},
                                                                 .known_parameters = {}} {
	loop_.set_pass_handler(this);
	for (int i = 0; i < setup.replicas; ++i) {
		replicas.push_back(std::make_unique<Scripted_Server>([this] { pump(); }));
	}
	auto config = std::make_shared<Pgsql_Config>();
	config->authentication_method = 1; // clear text: the login is not what is tested here
	setup.configure(*config);
	context_.config = config;
	context_.read_buffer.resize(kReadBufferBytes);
	context_.now_us = kStart_us;
	context_.now_s = 1'700'000'000;
	context_.users = Users_Snapshot::make({app_user()}, nullptr);
	hostgroups_.set_config(config);
	load_servers(setup);
	context_.view = hostgroups_.view().get().value;
}

void Rig::load_servers(const Rig_Setup& setup) {
	Pgsql_Servers_Config servers;
	servers.servers.push_back(server_row(kWriter, primary.port(), setup.max_connections));
	for (const auto& replica : replicas) {
		servers.servers.push_back(server_row(kReader, replica->port(), setup.max_connections));
	}
	if (setup.replicas > 0) {
		Replication_Hostgroup_Row pair;
		pair.writer_hostgroup = kWriter;
		pair.reader_hostgroup = kReader;
		pair.consistency_mode = setup.consistency;
		pair.proxy_protocol = setup.protocol;
		servers.replication_hostgroups.push_back(pair);
	}
	const Result<void> loaded = hostgroups_.commit(servers);
	INFO((loaded ? std::string() : loaded.error().message));
	REQUIRE(loaded.ok());
}

Rig::~Rig() {
	std::vector<PgSQL_Session*> all;
	for (const auto& [id, session] : sessions_) {
		all.push_back(session.get());
	}
	for (PgSQL_Session* session : all) {
		session->kill();
	}
	for (Held& held : held_) {
		held.ticket.reset();
	}
	finish_pass();
	connections_.give_back(nullptr);
	// A FREE connection and its server hold each other.
	for (const Hostgroup& hostgroup : context_.view->hostgroups) {
		for (const Server_Ptr& server : hostgroup.servers) {
			server->take_free(INT64_MAX);
		}
	}
}

// ---- passes ----

void Rig::on_pass() {
	++context_.pass;
	context_.view = hostgroups_.view().get().value;
}

void Rig::pump() {
	loop_.run_once(1);
	finish_pass();
}

void Rig::settle() {
	constexpr int kPasses = 10;
	for (int i = 0; i < kPasses; ++i) {
		loop_.run_once(0);
		finish_pass();
	}
}

void Rig::advance_ms(int64_t milliseconds) {
	context_.now_us += milliseconds * 1000;
	settle();
}

void Rig::finish_pass() {
	handle_mail();
	run_deadlines();
	connections_.close_stale();
	release_held();
	ended_.clear();
}

void Rig::handle_mail() {
	std::vector<Delivery> deliveries = std::move(mail_);
	mail_.clear();
	for (Delivery& delivery : deliveries) {
		const auto found = sessions_.find(static_cast<uint32_t>(delivery.ticket));
		if (found != sessions_.end()) {
			found->second->on_delivery(std::move(delivery.connection));
		} else if (delivery.connection != nullptr) {
			connections_.put(std::move(delivery.connection), context_.now_us);
		}
	}
	std::vector<Login> logins = std::move(login_mail_);
	login_mail_.clear();
	for (Login& login : logins) {
		const auto found = sessions_.find(login.session);
		if (found != sessions_.end()) {
			found->second->on_login_answer(login.serial, std::move(login.answer));
		}
	}
	const auto cancels_now = std::move(cancel_mail_);
	cancel_mail_.clear();
	for (const Cancel& cancel : cancels_now) {
		const auto found = sessions_.find(cancel.pid);
		if (found != sessions_.end()) {
			found->second->cancel(cancel.key, cancel.ticket);
		}
	}
}

void Rig::run_deadlines() {
	while (deadlines_.first_us() <= context_.now_us) {
		PgSQL_Session& due = *deadlines_.first();
		deadlines_.remove(due);
		due.on_deadline();
	}
}

void Rig::release_held() {
	std::vector<Held> held = std::move(held_);
	held_.clear();
	for (Held& entry : held) {
		if (entry.ticket == nullptr || entry.ticket->get() == Cancel_State::uncertain) {
			Thread_Conn_Cache::destroy(std::move(entry.connection));
		} else if (entry.ticket->get() == Cancel_State::settled) {
			connections_.put(std::move(entry.connection), context_.now_us);
		} else {
			held_.push_back(std::move(entry));
		}
	}
}

void Rig::shut_down_all() {
	std::vector<PgSQL_Session*> all;
	for (const auto& [id, session] : sessions_) {
		all.push_back(session.get());
	}
	for (PgSQL_Session* session : all) {
		session->shut_down();
	}
	settle();
}

// ---- clients ----

Client Rig::open_client(const Client_Setup& setup) {
	int ends[2] = {-1, -1};
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	Client client;
	client.peer = std::make_unique<Peer>(ends[0], [this] { pump(); });
	client.pid = ++next_id_;
	PgSQL_Session::Peer from;
	from.host = "127.0.0.1";
	from.port = 40000;
	from.local_host = "127.0.0.1";
	from.local_port = 6133;
	from.local = true;
	from.header_due = setup.header_due;
	sessions_.emplace(client.pid, std::make_unique<PgSQL_Session>(context_, client.pid, ends[1],
	                                                              std::move(from)));
	return client;
}

Client Rig::login(const Parameters& parameters, uint32_t version) {
	Client client = open_client();
	Parameters all = {{"user", "app"}, {"database", "db"}};
	all.insert(all.end(), parameters.begin(), parameters.end());
	client->send(startup_packet(all, version));
	client->expect(message('R', u32(3)));
	client->send(message('p', text("secret")));
	client->expect(message('R', u32(0)));
	while (true) {
		const std::string got = client->receive_message();
		REQUIRE(got.size() >= 5);
		if (got[0] == 'K') {
			client.key = got.substr(9);
			CHECK_BYTES(got.substr(5, 4), u32(client.pid));
		}
		if (got[0] == 'Z') {
			CHECK_BYTES(got, ready('I'));
			return client;
		}
		REQUIRE((got[0] == 'S' || got[0] == 'K'));
	}
}

PgSQL_Session* Rig::session(const Client& client) {
	const auto found = sessions_.find(client.pid);
	return found == sessions_.end() ? nullptr : found->second.get();
}

Session_State Rig::state(const Client& client) {
	settle();
	const PgSQL_Session* found = session(client);
	return found == nullptr ? Session_State::ended : found->state();
}

Server_Ptr Rig::server(int hostgroup, size_t index) const {
	const int port = hostgroup == kWriter ? primary.port() : replicas.at(index)->port();
	for (const Server_Ptr& server : context_.view->hostgroup(hostgroup)->servers) {
		if (server->port == port) {
			return server;
		}
	}
	FAIL("no such server");
	return nullptr;
}

// ---- services ----

void Rig::session_ended(PgSQL_Session& session) {
	const auto found = sessions_.find(session.id());
	REQUIRE(found != sessions_.end());
	deadlines_.remove(session);
	ended_.push_back(std::move(found->second));
	sessions_.erase(found);
}

void Rig::note_parked(PgSQL_Session&, Server_Ptr server) {
	connections_.give_back(server.get());
}

void Rig::broadcast_cancel(const Cancel_Request& request, const Cancel_Ticket_Ptr& ticket) {
	cancel_mail_.push_back({request.pid, request.key, ticket});
}

void Rig::send_cancel(PgSQL_Connection::Cancel_Target target, Cancel_Ticket_Ptr ticket) {
	cancels.push_back({std::move(target), std::move(ticket)});
}

void Rig::hold_until(std::unique_ptr<PgSQL_Connection> connection, Cancel_Ticket_Ptr ticket) {
	held_.push_back({std::move(connection), std::move(ticket)});
}

void Rig::wake_by(PgSQL_Session& session, int64_t deadline_us) {
	deadlines_.set_earlier(session, deadline_us);
}

void Rig::report_server_failure(const PgSQL_SrvC& server) {
	failures.push_back(server.port);
}

// Run at once; the answer comes with the next pass, as from another thread.
uint64_t Rig::start_login_job(PgSQL_Session& session, Login_Lane, Login_Job job) {
	const uint64_t serial = ++last_login_job_;
	job({this, session.id(), serial});
	return serial;
}

void Rig::deliver_login(uint32_t session, uint64_t serial, Login_Answer_Ptr answer) {
	login_mail_.push_back({session, serial, std::move(answer)});
}

void Rig::deliver(uint64_t ticket, std::unique_ptr<PgSQL_Connection> connection) {
	mail_.push_back({ticket, std::move(connection)});
}

} // namespace proxy::wire
