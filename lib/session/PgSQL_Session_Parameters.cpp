// The startup parameters of a login, checked as a server does it: by a server. What it took before
// is remembered, so that hardly any login asks.
#include "backend/Startup_Probe.h"
#include "config/Config_Words.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <atomic>
#include <utility>

namespace proxy {

namespace {
constexpr size_t kMaxRemembered = 4096;
// Logins that wait for a server at one time; a later one is checked with its first statement.
constexpr int kMaxProbes = 32;
constexpr int64_t kProbeLimitMs = 3000;

// Relaxed: a bound that may be off by a few.
std::atomic<int>& probes_under_way() {
	static std::atomic<int> count{0};
	return count;
}

struct Parameters_Checked : Login_Answer {
	Startup_Verdict verdict;
};

// Any value is right for any server.
bool needs_no_check(const std::string& name, const std::string& value) {
	return name == "application_name" ||
	       (name == "client_encoding" && normalised_value(name, value) == "utf8");
}
} // namespace

// What a server may answer differently has its own entry.
std::string PgSQL_Session::parameter_key(const std::string& name, const std::string& value) const {
	std::string key = username_;
	for (const std::string* part : {&database_, &name, &value}) {
		key.push_back('\0');
		key += *part;
	}
	return key;
}

// True: they are known to be right, or nobody can be asked now.
bool PgSQL_Session::check_parameters() {
	std::map<std::string, std::string> asked;
	for (const auto& [name, value] : startup_parameters_.values()) {
		if (needs_no_check(name, value)) {
			continue;
		}
		const auto known = worker_.known_parameters.find(parameter_key(name, value));
		if (known == worker_.known_parameters.end()) {
			asked[name] = value;
		} else if (!known->second.empty()) {
			login_->reported[name] = known->second;
		}
	}
	Server_Ptr server;
	if (const Hostgroup* group = worker_.view->hostgroup(user_->default_hostgroup)) {
		for (const Server_Ptr& entry : group->servers) {
			if (entry->status.load(std::memory_order_relaxed) == Server_Status::online) {
				server = entry;
			}
		}
	}
	if (asked.empty() || server == nullptr || !user_->has_backend ||
	    user_->backend_secret.empty() ||
	    probes_under_way().load(std::memory_order_relaxed) >= kMaxProbes) {
		return true;
	}
	Connect_Request request = connect_request_for(*server);
	request.protocol = Proxy_Protocol::off;
	request.application_name = "polar-proxy login";
	// Counted down when the job is gone, be it run or refused.
	probes_under_way().fetch_add(1, std::memory_order_relaxed);
	const std::shared_ptr<void> counted(
	    nullptr, [](void*) { probes_under_way().fetch_sub(1, std::memory_order_relaxed); });
	worker_.counters.add(Counter::Startup_parameter_checks);
	wait_for_login(
	    Login_Lane::network,
	    [request = std::move(request), asked = std::move(asked),
	     counted](const Login_Reply& reply) {
		    auto answer = std::make_unique<Parameters_Checked>();
		    answer->verdict = probe_startup(request, asked, kProbeLimitMs);
		    reply(std::move(answer));
	    },
	    &PgSQL_Session::on_parameters_checked);
	return false;
}

bool PgSQL_Session::on_parameters_checked(Login_Answer_Ptr answer) {
	auto* checked = static_cast<Parameters_Checked*>(answer.get());
	if (checked == nullptr) {
		return true; // too many wait, or the proxy goes down
	}
	if (checked->verdict.refusal) {
		return refuse_login(*checked->verdict.refusal);
	}
	if (!checked->verdict.accepted) {
		return true;
	}
	if (worker_.known_parameters.size() >= kMaxRemembered) {
		worker_.known_parameters.clear();
	}
	for (const auto& [name, value] : startup_parameters_.values()) {
		const auto reported = checked->verdict.reported.find(name);
		const bool told = reported != checked->verdict.reported.end();
		if (!needs_no_check(name, value)) {
			worker_.known_parameters.emplace(parameter_key(name, value),
			                                 told ? reported->second : std::string());
		}
		if (told) {
			login_->reported[name] = reported->second;
		}
	}
	return true;
}

// ---- what the client is told of them later ----

Message_Fate PgSQL_Session::on_parameter_status(std::span<const uint8_t> body) {
	const bool hidden = request_.hidden_cycles > 0;
	Parameter_Status_View status;
	if (!parse(body, status)) {
		return hidden ? Message_Fate::hide : Message_Fate::forward;
	}
	const std::string name(status.name);
	std::string& reported = backend_->backend_state.reported[name];
	const std::string before = std::exchange(reported, std::string(status.value));
	// What the proxy's own batch changed the client knows already.
	if (hidden) {
		return Message_Fate::hide;
	}
	if (request_.resets && tell_startup_value(name, before, reported)) {
		return Message_Fate::hide;
	}
	if (name == "standard_conforming_strings") {
		standard_conforming_strings_ = status.value == "on";
	}
	return Message_Fate::forward;
}

// A RESET leads the server to its own default, and the client to its startup value, which the next
// statement brings to the server. True: the client has been told that, or knows it.
bool PgSQL_Session::tell_startup_value(const std::string& name, const std::string& before,
                                       const std::string& now) {
	const std::string lower = to_lower(name);
	const std::string* startup = startup_parameters_.find(lower);
	const std::string* wanted = wanted_.find(lower);
	if (startup == nullptr || wanted == nullptr || *wanted != *startup ||
	    normalised_value(lower, now) == normalised_value(lower, *startup)) {
		return false;
	}
	if (normalised_value(lower, before) != normalised_value(lower, *startup)) {
		std::string out;
		append_parameter_status(out, name, *startup);
		emit_copy(out);
	}
	if (name == "standard_conforming_strings") {
		standard_conforming_strings_ = normalised_value(lower, *startup) == "on";
	}
	return true;
}

} // namespace proxy
