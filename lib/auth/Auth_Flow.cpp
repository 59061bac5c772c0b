#include "auth/Auth_Flow.h"

#include "Scram_Server.h"
#include "auth/Auth_Context.h"
#include "base/Span_Reader.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/PgSQL_Protocol.h"

#include <array>
#include <optional>

namespace proxy {

namespace {

constexpr std::string_view kScram = "SCRAM-SHA-256";
constexpr std::string_view kScramPlus = "SCRAM-SHA-256-PLUS";
constexpr size_t kMd5SaltBytes = 4;

// Where the exchange stands: what the next 'p' message must be.
enum class Step : uint8_t {
	not_started,
	clear_password,
	md5_password,
	sasl_mechanism, // SASLInitialResponse: mechanism and, usually, client-first
	scram_first,    // client-first alone, after a mechanism without data
	scram_final,
	finished,
};

} // namespace

// Challenge by stored secret and floor. Nothing stored (an unknown user) is treated like a plain
// password: what the floor says. An MD5 hash cannot serve SCRAM, so under that floor it is refused
// the way an unknown user is.
Auth_Method auth_method_for(Secret_Type type, Auth_Method floor) {
	switch (type) {
	case Secret_Type::scram_verifier:
		return Auth_Method::scram_sha_256;
	case Secret_Type::md5_hash:
		return floor == Auth_Method::clear_text ? Auth_Method::md5 : floor;
	case Secret_Type::plain:
	case Secret_Type::none:
		return floor;
	}
	return floor;
}

struct Auth_Flow::Impl {
	explicit Impl(Auth_Context& shared) : context(shared) {}

	Status refuse(std::string_view why) {
		error = why;
		step = Step::finished;
		return Status::malformed;
	}
	Status deny() {
		step = Step::finished;
		return Status::denied;
	}
	Status accept(std::string& out) {
		append_auth_ok(out);
		step = Step::finished;
		return Status::accepted;
	}

	Status start_md5(std::string& out);
	Status start_scram(const Auth_Request& request, std::string& out);
	Status on_clear_password(std::span<const uint8_t> body, std::string& out);
	Status on_md5_password(std::span<const uint8_t> body, std::string& out);
	Status on_mechanism(std::span<const uint8_t> body, std::string& out);
	Status on_client_first(std::string_view message, std::string& out);
	Status on_client_final(std::string_view message, std::string& out);
	bool read_password(std::span<const uint8_t> body, std::string_view& password);

	Auth_Context& context;
	Step step = Step::not_started;
	std::string username;
	Secret secret;
	Secret_Type type = Secret_Type::none;
	std::string md5_salt;
	bool plus_offered = false;
	std::optional<Scram_Server> scram;
	Secret client_key;
	Secret server_key;
	std::string error;
	bool empty_password = false;
};

Auth_Flow::Status Auth_Flow::Impl::start_md5(std::string& out) {
	md5_salt.assign(kMd5SaltBytes, '\0');
	if (!context.random({reinterpret_cast<uint8_t*>(md5_salt.data()), md5_salt.size()})) {
		return refuse("no random numbers");
	}
	append_auth_md5(out, md5_salt);
	step = Step::md5_password;
	return Status::need_message;
}

Auth_Flow::Status Auth_Flow::Impl::start_scram(const Auth_Request& request, std::string& out) {
	plus_offered = request.tls && !request.channel_binding_hash.empty();
	Scram_Server::Setup setup;
	setup.username = username;
	setup.plus_offered = plus_offered;
	setup.binding_hash = request.channel_binding_hash;
	if (type == Secret_Type::scram_verifier) {
		setup.verifier = parse_scram_verifier(secret.reveal());
	} else if (type == Secret_Type::plain) {
		setup.plain_password = secret;
		if (request.derived) {
			setup.verifier = request.derived->verifier;
		}
	}
	scram.emplace(context, std::move(setup));
	const std::array<std::string_view, 2> mechanisms = {kScramPlus, kScram};
	append_auth_sasl(out, std::span(mechanisms).subspan(plus_offered ? 0 : 1));
	step = Step::sasl_mechanism;
	return Status::need_message;
}

bool Auth_Flow::Impl::read_password(std::span<const uint8_t> body, std::string_view& password) {
	Password_View view;
	if (!parse(body, view)) {
		return false;
	}
	password = view.password;
	empty_password = password.empty();
	return true;
}

Auth_Flow::Status Auth_Flow::Impl::on_clear_password(std::span<const uint8_t> body,
                                                     std::string& out) {
	std::string_view password;
	if (!read_password(body, password)) {
		return refuse("invalid password packet size");
	}
	// Digests have one length, so the comparison tells nothing about the stored password's.
	const bool matches =
	    constant_time_equal(as_text(sha256(password)), as_text(sha256(secret.reveal())));
	const bool genuine = type == Secret_Type::plain && !empty_password;
	return matches && genuine ? accept(out) : deny();
}

Auth_Flow::Status Auth_Flow::Impl::on_md5_password(std::span<const uint8_t> body,
                                                   std::string& out) {
	std::string_view response;
	if (!read_password(body, response)) {
		return refuse("invalid password packet size");
	}
	const std::string stored = type == Secret_Type::md5_hash
	                               ? std::string(secret.reveal())
	                               : md5_secret(username, secret.reveal());
	const std::string expected = md5_response(stored, md5_salt);
	const bool genuine = type == Secret_Type::md5_hash || type == Secret_Type::plain;
	const bool matches = !expected.empty() && constant_time_equal(response, expected);
	return matches && genuine ? accept(out) : deny();
}

Auth_Flow::Status Auth_Flow::Impl::on_mechanism(std::span<const uint8_t> body, std::string& out) {
	Span_Reader reader(body);
	const std::string_view mechanism = reader.cstring();
	const int32_t length = reader.i32();
	const std::string_view data = reader.rest();
	if (!reader.ok()) {
		return refuse("SASL authentication failed: malformed SASL response");
	}
	const bool plus = mechanism == kScramPlus;
	if (mechanism != kScram && !(plus && plus_offered)) {
		return refuse("client selected an invalid SASL authentication mechanism");
	}
	scram->select_plus(plus);
	if (length == -1 && data.empty()) {
		append_auth_sasl_continue(out, {});
		step = Step::scram_first;
		return Status::need_message;
	}
	if (length < 0 || static_cast<size_t>(length) != data.size()) {
		return refuse("SASL authentication failed: malformed SASL response");
	}
	return on_client_first(data, out);
}

Auth_Flow::Status Auth_Flow::Impl::on_client_first(std::string_view message, std::string& out) {
	std::string server_first;
	switch (scram->on_client_first(message, server_first)) {
	case Scram_Server::Status::ok:
		append_auth_sasl_continue(out, server_first);
		step = Step::scram_final;
		return Status::need_message;
	case Scram_Server::Status::denied:
		return deny();
	case Scram_Server::Status::malformed:
		return refuse(scram->error());
	}
	return refuse(scram->error());
}

Auth_Flow::Status Auth_Flow::Impl::on_client_final(std::string_view message, std::string& out) {
	std::string server_final;
	switch (scram->on_client_final(message, server_final)) {
	case Scram_Server::Status::ok:
		client_key = Secret(std::string(as_text(scram->client_key())));
		server_key = Secret(std::string(as_text(scram->server_key())));
		append_auth_sasl_final(out, server_final);
		return accept(out);
	case Scram_Server::Status::denied:
		return deny();
	case Scram_Server::Status::malformed:
		return refuse(scram->error());
	}
	return refuse(scram->error());
}

Auth_Flow::Auth_Flow() : Auth_Flow(process_auth_context()) {}

Auth_Flow::Auth_Flow(Auth_Context& context) : impl_(std::make_unique<Impl>(context)) {}

Auth_Flow::~Auth_Flow() = default;

Auth_Flow::Status Auth_Flow::start(const Auth_Request& request, std::string& out) {
	Impl& flow = *impl_;
	if (flow.step != Step::not_started) {
		return flow.refuse("authentication was started twice");
	}
	flow.username = request.username;
	if (request.has_secret) {
		flow.secret = Secret(std::string(request.secret));
		flow.type = classify_secret(request.secret);
	}
	const Auth_Method method = auth_method_for(flow.type, request.floor);
	switch (method) {
	case Auth_Method::clear_text:
		append_auth_clear_text(out);
		flow.step = Step::clear_password;
		return Status::need_message;
	case Auth_Method::md5:
		return flow.start_md5(out);
	case Auth_Method::scram_sha_256:
		return flow.start_scram(request, out);
	}
	return flow.refuse("unknown authentication method");
}

Auth_Flow::Status Auth_Flow::on_password_message(std::span<const uint8_t> body, std::string& out) {
	const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
	switch (impl_->step) {
	case Step::clear_password:
		return impl_->on_clear_password(body, out);
	case Step::md5_password:
		return impl_->on_md5_password(body, out);
	case Step::sasl_mechanism:
		return impl_->on_mechanism(body, out);
	case Step::scram_first:
		return impl_->on_client_first(text, out);
	case Step::scram_final:
		return impl_->on_client_final(text, out);
	case Step::not_started:
	case Step::finished:
		return impl_->refuse("unexpected password message");
	}
	return impl_->refuse("unexpected password message");
}

std::string_view Auth_Flow::error() const {
	return impl_->error;
}

bool Auth_Flow::password_was_empty() const {
	return impl_->empty_password;
}

const Secret& Auth_Flow::scram_client_key() const {
	return impl_->client_key;
}

const Secret& Auth_Flow::scram_server_key() const {
	return impl_->server_key;
}

} // namespace proxy
