#include "backend/Startup_Probe.h"

#include "backend/Monitor_Connection.h"
#include "base/Clock.h"

#include <algorithm>
#include <array>
#include <poll.h>

namespace proxy {

namespace {
constexpr std::array<std::pair<const char*, const char*>, 6> kReported = {{
    {"client_encoding", "client_encoding"},
    {"datestyle", "DateStyle"},
    {"intervalstyle", "IntervalStyle"},
    {"timezone", "TimeZone"},
    {"standard_conforming_strings", "standard_conforming_strings"},
    {"default_transaction_read_only", "default_transaction_read_only"},
}};

// "-c name=value", with blanks and backslashes as a server wants them in `options`.
std::string options_of(const std::map<std::string, std::string>& parameters) {
	std::string options;
	for (const auto& [name, value] : parameters) {
		options += " -c ";
		for (const char c : name + "=" + value) {
			if (c == '\\' || c == ' ' || (c >= '\t' && c <= '\r')) {
				options += '\\';
			}
			options += c;
		}
	}
	return options;
}

// The server took the login and says no to what was asked for.
bool is_about_parameters(const std::string& sqlstate) {
	return sqlstate.starts_with("22") || sqlstate.starts_with("42") || sqlstate == "55P02";
}

// libpq's "...: FATAL:  22023: text HINT:  text", taken apart.
Error refusal_of(const std::string& sqlstate, const std::string& text) {
	const std::string mark = sqlstate + ": ";
	const size_t at = text.find(mark);
	std::string message = at == std::string::npos ? text : text.substr(at + mark.size());
	std::string hint;
	std::string detail;
	const auto cut = [&message](const std::string& label, std::string& into) {
		const size_t place = message.rfind(label);
		if (place != std::string::npos) {
			into = message.substr(place + label.size());
			message.resize(place);
		}
	};
	cut(" HINT:  ", hint);
	cut(" DETAIL:  ", detail);
	Error error = make_error(sqlstate, message);
	error.hint = hint;
	error.detail = detail;
	return error;
}
} // namespace

Startup_Verdict probe_startup(Connect_Request request,
                              const std::map<std::string, std::string>& parameters,
                              int64_t timeout_ms) {
	Startup_Verdict verdict;
	request.options = options_of(parameters);
	Monitor_Connection connection(request);
	const int64_t until_us = monotonic_us() + timeout_ms * 1000;
	while (connection.state() == Monitor_Connection::State::connecting) {
		const int64_t left_ms = (until_us - monotonic_us()) / 1000;
		if (left_ms <= 0) {
			return verdict;
		}
		const bool reads = connection.wants() == Monitor_Connection::Wants::read;
		pollfd wait{connection.fd(), static_cast<short>(reads ? POLLIN : POLLOUT), 0};
		if (poll(&wait, 1, static_cast<int>(left_ms)) > 0) {
			connection.step();
		}
	}
	if (connection.state() == Monitor_Connection::State::failed) {
		if (is_about_parameters(connection.sqlstate())) {
			verdict.refusal = refusal_of(connection.sqlstate(), connection.error());
		}
		return verdict;
	}
	verdict.accepted = true;
	for (const auto& [name, spelling] : kReported) {
		const char* value = connection.parameter(spelling);
		if (value != nullptr && parameters.contains(name)) {
			verdict.reported[name] = value;
		}
	}
	return verdict;
}

} // namespace proxy
