#include "backend/Monitor_Connection.h"

#include "backend/Libpq_Raw.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <sys/socket.h>

namespace proxy {

namespace {

using Parameters = std::vector<std::pair<const char*, std::string>>;

void add_tls(Parameters& parameters, const Connect_Request& request) {
	parameters.emplace_back("sslmode", request.use_ssl ? "require" : "disable");
	if (!request.use_ssl) {
		return;
	}
	const Server_Ssl_Params_Row none;
	const Server_Ssl_Params_Row& files = request.ssl == nullptr ? none : *request.ssl;
	// An unset file would be looked for in the home directory of whoever started the proxy.
	const auto file = [&](const char* name, const std::string& path) {
		parameters.emplace_back(name, path.empty() ? "/dev/null/none" : path);
	};
	file("sslrootcert", files.ssl_ca);
	file("sslcert", files.ssl_cert);
	file("sslkey", files.ssl_key);
	file("sslcrl", files.ssl_crl);
	if (!files.ssl_crlpath.empty()) {
		parameters.emplace_back("sslcrldir", files.ssl_crlpath);
	}
	const std::string& versions = files.ssl_protocol_version_range;
	if (!versions.empty()) {
		const size_t dash = versions.find('-');
		parameters.emplace_back("ssl_min_protocol_version", versions.substr(0, dash));
		parameters.emplace_back("ssl_max_protocol_version",
		                        dash == std::string::npos ? versions : versions.substr(dash + 1));
	}
}

void add_dialect(Parameters& parameters, const Connect_Request& request) {
	const std::string port = std::to_string(request.identity_port);
	switch (request.protocol) {
	case Proxy_Protocol::inherit:
	case Proxy_Protocol::off:
	case Proxy_Protocol::automatic:
	case Proxy_Protocol::stock:
		return;
	case Proxy_Protocol::legacy:
		parameters.emplace_back("_polar_origin_client_ip", request.identity_host);
		parameters.emplace_back("_polar_origin_client_port", port);
		parameters.emplace_back("_polar_send_lsn", "true");
		parameters.emplace_back("_polar_send_xact", "true");
		return;
	case Proxy_Protocol::v15_wait:
		parameters.emplace_back("_pq_.polar_proxy_wait_v1", "1");
		break;
	case Proxy_Protocol::v15:
		break;
	}
	parameters.emplace_back("_polar_proxy_client_host", request.identity_host);
	parameters.emplace_back("_polar_proxy_client_port", port);
	parameters.emplace_back("_polar_proxy_send_lsn", "true");
	parameters.emplace_back("_polar_proxy_send_xact", "true");
}

Parameters parameters_of(const Connect_Request& request) {
	Parameters parameters;
	parameters.emplace_back("host", request.host);
	if (request.port != 0) {
		parameters.emplace_back("port", std::to_string(request.port));
		if (!request.address.empty()) {
			parameters.emplace_back("hostaddr", request.address);
		}
	}
	parameters.emplace_back("user", request.key.username);
	parameters.emplace_back("dbname", request.key.database);
	parameters.emplace_back("password", std::string(request.password.reveal()));
	parameters.emplace_back("application_name", request.application_name);
	parameters.emplace_back("gssencmode", "disable");
	parameters.emplace_back("passfile", "/dev/null");
	parameters.emplace_back("options", request.options);
	add_tls(parameters, request);
	add_dialect(parameters, request);
	return parameters;
}

void wipe_password(Parameters& parameters) {
	for (auto& [name, value] : parameters) {
		if (std::string_view(name) == "password") {
			const Secret gone(std::move(value));
		}
	}
}

// One line, without the trailing newline and the LOCATION that the verbose form adds.
std::string one_line(const char* message) {
	std::string text = message == nullptr ? "" : message;
	const size_t location = text.find("\nLOCATION:");
	if (location != std::string::npos) {
		text.resize(location);
	}
	std::replace(text.begin(), text.end(), '\n', ' ');
	std::erase(text, '\t'); // libpq indents its second line
	while (!text.empty() && text.back() == ' ') {
		text.pop_back();
	}
	return text;
}

} // namespace

std::string sqlstate_in_message(std::string_view message) {
	constexpr size_t kStateLength = 5;
	for (size_t at = message.find(":  "); at != std::string_view::npos;
	     at = message.find(":  ", at + 1)) {
		const std::string_view rest = message.substr(at + 3);
		if (rest.size() > kStateLength && rest[kStateLength] == ':' &&
		    std::all_of(rest.begin(), rest.begin() + kStateLength, [](unsigned char c) {
			    return std::isdigit(c) != 0 || std::isupper(c) != 0;
		    })) {
			return std::string(rest.substr(0, kStateLength));
		}
	}
	return {};
}

void Monitor_Connection::Closer::operator()(pg_conn* connection) const {
	PQfinish(connection);
}

Monitor_Connection::Monitor_Connection(const Connect_Request& request) {
	Parameters parameters = parameters_of(request);
	std::vector<const char*> names;
	std::vector<const char*> values;
	for (const auto& [name, value] : parameters) {
		names.push_back(name);
		values.push_back(value.c_str());
	}
	names.push_back(nullptr);
	values.push_back(nullptr);
	pg_.reset(PQconnectStartParams(names.data(), values.data(), 0));
	wipe_password(parameters);
	if (!pg_ || PQstatus(pg_.get()) == CONNECTION_BAD) {
		fail(pg_ ? one_line(PQerrorMessage(pg_.get())) : "out of memory");
		return;
	}
	if (!request.scram_client_key.empty()) {
		client_key_ = request.scram_client_key;
		server_key_ = request.scram_server_key;
		PQscramHoldForKeys(pg_.get(), 1);
	}
	// libpq has no accessor for the SQLSTATE of a refused login; its verbose text contains it.
	PQsetErrorVerbosity(pg_.get(), PQERRORS_VERBOSE);
	const bool asks = request.protocol == Proxy_Protocol::legacy ||
	                  request.protocol == Proxy_Protocol::v15 ||
	                  request.protocol == Proxy_Protocol::v15_wait;
	PQsetPolarSendLSN(pg_.get(), asks ? 1 : 0);
	PQsetPolarSendXact(pg_.get(), asks ? 1 : 0);
}

Monitor_Connection::~Monitor_Connection() = default;

int Monitor_Connection::fd() const {
	return pg_ ? PQsocket(pg_.get()) : -1;
}

void Monitor_Connection::fail(std::string text) {
	state_ = State::failed;
	sqlstate_ = sqlstate_in_message(text);
	error_ = std::move(text);
	pg_.reset();
}

void Monitor_Connection::step_connect() {
	switch (PQconnectPoll(pg_.get())) {
	case PGRES_POLLING_READING:
		wants_ = Wants::read;
		return;
	case PGRES_POLLING_WRITING:
		wants_ = Wants::write;
		return;
	case PGRES_POLLING_OK:
		PQsetnonblocking(pg_.get(), 1);
		state_ = State::idle;
		wants_ = Wants::read;
		return;
	case PGRES_POLLING_ACTIVE:
		if (give_scram_keys(pg_.get(), client_key_, server_key_)) {
			wants_ = Wants::read;
			return;
		}
		break;
	case PGRES_POLLING_FAILED:
		break;
	}
	fail(one_line(PQerrorMessage(pg_.get())));
}

void Monitor_Connection::take_result(pg_result* result) {
	switch (PQresultStatus(result)) {
	case PGRES_TUPLES_OK:
		rows_.clear();
		for (int row = 0; row < PQntuples(result); ++row) {
			Row& values = rows_.emplace_back();
			for (int column = 0; column < PQnfields(result); ++column) {
				values.push_back(PQgetisnull(result, row, column) != 0
				                     ? std::nullopt
				                     : std::optional<std::string>(PQgetvalue(result, row, column)));
			}
		}
		return;
	case PGRES_EMPTY_QUERY:
	case PGRES_COMMAND_OK:
		return;
	case PGRES_COPY_OUT:
	case PGRES_COPY_IN:
	case PGRES_BAD_RESPONSE:
	case PGRES_NONFATAL_ERROR:
	case PGRES_FATAL_ERROR:
	case PGRES_COPY_BOTH:
	case PGRES_SINGLE_TUPLE:
	case PGRES_PIPELINE_SYNC:
	case PGRES_PIPELINE_ABORTED:
		break;
	}
	query_failed_ = true;
	error_ = one_line(PQresultErrorMessage(result));
	const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	sqlstate_ = state == nullptr ? "" : state;
}

void Monitor_Connection::step_query() {
	const int left = PQflush(pg_.get());
	if (left < 0 || PQconsumeInput(pg_.get()) == 0) {
		fail(one_line(PQerrorMessage(pg_.get())));
		return;
	}
	wants_ = left > 0 ? Wants::write : Wants::read;
	while (PQisBusy(pg_.get()) == 0) {
		const std::unique_ptr<pg_result, decltype(&PQclear)> result(PQgetResult(pg_.get()),
		                                                            &PQclear);
		if (!result) {
			if (PQstatus(pg_.get()) == CONNECTION_BAD) {
				fail(error_.empty() ? one_line(PQerrorMessage(pg_.get())) : error_);
				return;
			}
			state_ = State::idle;
			return;
		}
		take_result(result.get());
	}
}

Monitor_Connection::State Monitor_Connection::step() {
	switch (state_) {
	case State::connecting:
		step_connect();
		break;
	case State::querying:
		step_query();
		break;
	case State::idle:
		// Nothing was asked, so this is the end of the connection, or a notice.
		if (PQconsumeInput(pg_.get()) == 0 || PQstatus(pg_.get()) == CONNECTION_BAD) {
			fail(one_line(PQerrorMessage(pg_.get())));
		}
		break;
	case State::failed:
		break;
	}
	return state_;
}

bool Monitor_Connection::start_query(const char* sql) {
	rows_.clear();
	query_failed_ = false;
	error_.clear();
	sqlstate_.clear();
	if (PQsendQuery(pg_.get(), sql) == 0) {
		fail(one_line(PQerrorMessage(pg_.get())));
		return false;
	}
	state_ = State::querying;
	step_query();
	return state_ != State::failed;
}

bool Monitor_Connection::has_lsn() const {
	return pg_ && PQhasLSN(pg_.get()) != 0;
}

uint64_t Monitor_Connection::lsn() const {
	return pg_ ? PQgetLSN(pg_.get()) : 0;
}

bool Monitor_Connection::takes_inband_wait() const {
	return pg_ && PQgetPolarWaitSupport(pg_.get()) != 0;
}

const char* Monitor_Connection::parameter(const char* name) const {
	return pg_ ? PQparameterStatus(pg_.get(), name) : nullptr;
}

namespace {
bool local_end(int fd, sockaddr_storage& address) {
	socklen_t length = sizeof(address);
	return fd >= 0 && getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
}
} // namespace

std::string Monitor_Connection::local_address() const {
	sockaddr_storage address = {};
	char text[INET6_ADDRSTRLEN] = "";
	if (!local_end(fd(), address)) {
		return {};
	}
	if (address.ss_family == AF_INET) {
		inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text,
		          sizeof(text));
	} else if (address.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
		          sizeof(text));
	}
	return text;
}

int Monitor_Connection::local_port() const {
	sockaddr_storage address = {};
	if (!local_end(fd(), address)) {
		return 0;
	}
	if (address.ss_family == AF_INET) {
		return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
	}
	if (address.ss_family == AF_INET6) {
		return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
	}
	return 0;
}

} // namespace proxy
