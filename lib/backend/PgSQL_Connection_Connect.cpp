// Connect, TLS, login: libpq's non-blocking connect, one step a readiness event.
#include "backend/Libpq_Raw.h"
#include "backend/PgSQL_Connection.h"
#include "base/Log.h"

#include <array>
#include <string>
#include <vector>

namespace proxy {

namespace {

// Names and values for PQconnectStartParams; the values live here while libpq copies them.
class Connect_Parameters {
public:
	void add(const char* name, std::string value) {
		names_.push_back(name);
		values_.push_back(std::move(value));
	}
	Pg_Conn_Ptr start() {
		std::vector<const char*> values;
		values.reserve(values_.size() + 1);
		for (const std::string& value : values_) {
			values.push_back(value.c_str());
		}
		values.push_back(nullptr);
		names_.push_back(nullptr);
		return Pg_Conn_Ptr(PQconnectStartParams(names_.data(), values.data(), 0));
	}

private:
	std::vector<const char*> names_;
	std::vector<std::string> values_;
};

void add_address(Connect_Parameters& parameters, const Connect_Request& request) {
	parameters.add("host", request.host);
	if (request.port == 0) {
		return; // a socket directory; libpq's default port names the socket
	}
	parameters.add("port", std::to_string(request.port));
	if (!request.address.empty()) {
		parameters.add("hostaddr", request.address);
	}
}

// "TLSv1.2" or "TLSv1.2-TLSv1.3" (pgsql_servers_ssl_params.ssl_protocol_version_range).
void add_tls_versions(Connect_Parameters& parameters, const std::string& range) {
	if (range.empty()) {
		return;
	}
	const size_t dash = range.find('-');
	parameters.add("ssl_min_protocol_version", range.substr(0, dash));
	parameters.add("ssl_max_protocol_version",
	               dash == std::string::npos ? range : range.substr(dash + 1));
}

void add_tls(Connect_Parameters& parameters, const Connect_Request& request) {
	if (!request.use_ssl) {
		parameters.add("sslmode", "disable");
		return;
	}
	parameters.add("sslmode", "require");
	const Server_Ssl_Params_Row none;
	const Server_Ssl_Params_Row& files = request.ssl == nullptr ? none : *request.ssl;
	// Unset files would be looked for in the home directory of whoever started the proxy; a path
	// that cannot exist means "none" to libpq.
	const auto file_or_none = [](const std::string& path) {
		return path.empty() ? std::string("/dev/null/none") : path;
	};
	parameters.add("sslrootcert", file_or_none(files.ssl_ca));
	parameters.add("sslcert", file_or_none(files.ssl_cert));
	parameters.add("sslkey", file_or_none(files.ssl_key));
	parameters.add("sslcrl", file_or_none(files.ssl_crl));
	if (!files.ssl_crlpath.empty()) {
		parameters.add("sslcrldir", files.ssl_crlpath);
	}
	add_tls_versions(parameters, files.ssl_protocol_version_range);
}

// The published proxy protocol's startup parameters (wire.md, section 1).
void add_polar(Connect_Parameters& parameters, const Connect_Request& request) {
	if (request.protocol == Proxy_Protocol::legacy) {
		parameters.add("_polar_origin_client_ip", request.identity_host);
		parameters.add("_polar_origin_client_port", std::to_string(request.identity_port));
		parameters.add("_polar_send_lsn", "true");
		parameters.add("_polar_send_xact", "true");
		return;
	}
	parameters.add("_polar_proxy_client_host", request.identity_host);
	parameters.add("_polar_proxy_client_port", std::to_string(request.identity_port));
	parameters.add("_polar_proxy_send_lsn", "true");
	parameters.add("_polar_proxy_send_xact", "true");
	if (request.protocol == Proxy_Protocol::v15_wait) {
		parameters.add("_pq_.polar_proxy_wait_v1", "1");
	}
}

bool asks_for_positions(Proxy_Protocol protocol) {
	return protocol == Proxy_Protocol::legacy || protocol == Proxy_Protocol::v15 ||
	       protocol == Proxy_Protocol::v15_wait;
}

// Every parameter PostgreSQL 10 to 18 reports at login.
constexpr std::array<const char*, 16> kReportedParameters = {"server_version",
                                                             "server_encoding",
                                                             "client_encoding",
                                                             "application_name",
                                                             "default_transaction_read_only",
                                                             "in_hot_standby",
                                                             "is_superuser",
                                                             "session_authorization",
                                                             "DateStyle",
                                                             "IntervalStyle",
                                                             "TimeZone",
                                                             "integer_datetimes",
                                                             "standard_conforming_strings",
                                                             "search_path",
                                                             "scram_iterations",
                                                             "polar_lsn"};

} // namespace

PgSQL_Connection::PgSQL_Connection(Server_Ptr server, const Connect_Request& request,
                                   int64_t now_us)
    : server_(std::move(server)), key_(request.key), created_us_(now_us),
      protocol_(request.protocol),
      address_(request.address.empty() ? request.host : request.address), port_(request.port) {
	Connect_Parameters parameters;
	add_address(parameters, request);
	parameters.add("user", key_.username);
	parameters.add("dbname", key_.database);
	parameters.add("password", std::string(request.password.reveal()));
	if (!request.application_name.empty()) {
		parameters.add("application_name", request.application_name);
	}
	parameters.add("gssencmode", "disable");
	parameters.add("passfile", "/dev/null");
	parameters.add("options", "");
	parameters.add("keepalives", request.tcp.keepalive ? "1" : "0");
	if (request.tcp.keepalive && request.tcp.keepalive_idle_s > 0) {
		parameters.add("keepalives_idle", std::to_string(request.tcp.keepalive_idle_s));
		parameters.add("keepalives_interval", std::to_string(Tcp_Options::kProbeIntervalS));
		parameters.add("keepalives_count", std::to_string(Tcp_Options::kProbes));
	}
	if (request.tcp.user_timeout_ms > 0) {
		parameters.add("tcp_user_timeout", std::to_string(request.tcp.user_timeout_ms));
	}
	add_tls(parameters, request);
	asked_lsn_ = asks_for_positions(protocol_);
	asked_xact_ = asked_lsn_;
	if (asked_lsn_) {
		add_polar(parameters, request);
	}
	pg_ = parameters.start().release();
	if (pg_ == nullptr || PQstatus(pg_) == CONNECTION_BAD) {
		fail("08001", pg_ == nullptr ? "out of memory" : PQerrorMessage(pg_));
		return;
	}
	const bool has_keys = !request.scram_client_key.empty();
	if (has_keys && !request.hold_for_keys) {
		login_keys_ = std::make_unique<Login_Keys>(
		    Login_Keys{request.scram_client_key, request.scram_server_key});
	}
	PQscramHoldForKeys(pg_, has_keys || request.hold_for_keys ? 1 : 0);
	// The first ReadyForQuery of the login is read by libpq and must already be understood.
	PQsetPolarSendLSN(pg_, asked_lsn_ ? 1 : 0);
	PQsetPolarSendXact(pg_, asked_xact_ ? 1 : 0);
	fd_ = PQsocket(pg_);
}

PgSQL_Connection::~PgSQL_Connection() {
	watcher_.stop();
	if (pg_ != nullptr) {
		PQfinish(pg_);
	}
}

void PgSQL_Connection::step_connect() {
	const PostgresPollingStatusType status = PQconnectPoll(pg_);
	switch (status) {
	case PGRES_POLLING_READING:
	case PGRES_POLLING_WRITING:
		connect_wants_ = status == PGRES_POLLING_READING ? kIoRead : kIoWrite;
		// libpq may have opened another socket (next address, or again without TLS).
		if (fd_ != PQsocket(pg_)) {
			fd_ = PQsocket(pg_);
			watcher_.start(*loop_, fd_, connect_wants_, *this);
		} else {
			watcher_.set_events(connect_wants_);
		}
		return;
	case PGRES_POLLING_OK:
		finish_connect();
		return;
	case PGRES_POLLING_ACTIVE:
		connect_wants_ = kIoNone;
		watcher_.set_events(kIoNone);
		if (login_keys_ != nullptr) {
			set_scram_keys(login_keys_->client, login_keys_->server);
			return;
		}
		handler_->on_backend_challenge(*this);
		return;
	case PGRES_POLLING_FAILED:
		fail_connect();
		return;
	}
}

void PgSQL_Connection::fail_connect() {
	const std::string sqlstate = PQlastSqlstate(pg_);
	fail(sqlstate.empty() ? "08001" : sqlstate, PQerrorMessage(pg_));
	handler_->on_backend_connected(*this, make_error(error_sqlstate_, error_));
}

PgSQL_Connection::Scram_Challenge PgSQL_Connection::scram_challenge() const {
	const char* salt = nullptr;
	int length = 0;
	int iterations = 0;
	if (PQscramChallenge(pg_, &salt, &length, &iterations) == 0) {
		return {};
	}
	return {std::string(salt, static_cast<size_t>(length)), static_cast<uint32_t>(iterations)};
}

void PgSQL_Connection::set_scram_keys(const Secret& client_key, const Secret& server_key) {
	if (!give_scram_keys(pg_, client_key, server_key)) {
		fail_connect();
		return;
	}
	step_connect();
}

void PgSQL_Connection::finish_connect() {
	PQsetnonblocking(pg_, 1);
	login_keys_.reset();
	for (const char* name : kReportedParameters) {
		const char* value = PQparameterStatus(pg_, name);
		if (value != nullptr) {
			backend_state.reported.emplace(name, value);
		}
	}
	const char* superuser = PQparameterStatus(pg_, "is_superuser");
	superuser_ = superuser != nullptr && std::string_view(superuser) == "on";
	sends_lsn_ = asked_lsn_ && PQhasLSN(pg_) != 0;
	if (sends_lsn_) {
		login_lsn_ = PQgetLSN(pg_);
	}
	state_ = Connection_State::idle;
	transaction_status_ = 'I';
	fd_ = PQsocket(pg_);
	update_watch();
	handler_->on_backend_connected(*this, {});
}

} // namespace proxy
