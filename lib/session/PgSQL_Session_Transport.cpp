// What may come before the startup message: a PROXY header, TLS, a cancel request.
#include "base/Log.h"
#include "protocol/PgSQL_Protocol.h"
#include "protocol/Proxy_Header.h"
#include "session/PgSQL_Session.h"

#include <array>

namespace proxy {

namespace {
constexpr uint8_t kTlsHandshakeByte = 0x16;
// The type and length of a message, or the length of a startup packet.
constexpr size_t kHeaderRoom = 5;

Error unencrypted_data(const char* request) {
	Error error =
	    make_error("08P01", std::string("received unencrypted data after ") + request + " request");
	error.detail = "This could be either a client-software bug or evidence of an attempted "
	               "man-in-the-middle attack.";
	return error;
}
} // namespace

// True: what follows the header is next. False: more of it is to come, or the session has ended.
bool PgSQL_Session::read_proxy_header() {
	if (!door_->header_due) {
		return true;
	}
	// Only the header is taken off the socket: what follows may be for OpenSSL to read.
	std::string& header = door_->header;
	std::array<char, kMaxProxyHeaderBytes> bytes{};
	header.copy(bytes.data(), header.size());
	char* const fresh = bytes.data() + header.size();
	const ssize_t peeked = stream_.peek(fresh, bytes.size() - header.size());
	if (peeked < 0) {
		end(Session_End::client_vanished);
		return false;
	}
	const size_t known = header.size() + static_cast<size_t>(peeked);
	const Proxy_Header parsed =
	    parse_proxy_header({reinterpret_cast<const uint8_t*>(bytes.data()), known});
	switch (parsed.status) {
	case Proxy_Header_Status::incomplete:
		// All of it belongs to the header: taken, so that the loop is not woken for it again.
		header.append(fresh, static_cast<size_t>(peeked));
		stream_.receive(fresh, static_cast<size_t>(peeked));
		return false;
	case Proxy_Header_Status::malformed: {
		static thread_local Log_Rate_Limit limit(5);
		if (limit.allow()) {
			log_warning("client {}:{} closed: {} (pgsql-proxy_protocol_networks asks for a "
			            "PROXY header from it)",
			            peer_.name(), peer_.port, parsed.error);
		}
		end(Session_End::protocol_violation);
		return false;
	}
	case Proxy_Header_Status::complete:
		break;
	}
	stream_.receive(fresh, parsed.size - header.size());
	if (parsed.has_address) {
		peer_.host = parsed.host;
		peer_.port = parsed.port;
	}
	door_->header_due = false;
	std::string().swap(header);
	return true;
}

// A TLS ClientHello in place of the first packet is left for OpenSSL to read.
bool PgSQL_Session::begin_direct_tls() {
	if (stream_.is_tls() || door_->tls_was_asked || door_->gss_was_asked ||
	    stream_.peek_byte() != kTlsHandshakeByte) {
		return true;
	}
	if (worker_.tls == nullptr || peer_.is_unix() || !stream_.start_tls(worker_.tls)) {
		end(Session_End::login_failed);
		return false;
	}
	return true;
}

// Bytes that may be taken from the client now: little before it has proved who it is.
size_t PgSQL_Session::input_room() const {
	if (state_ != Session_State::connecting_client) {
		return SIZE_MAX;
	}
	const size_t most = kHeaderRoom + (login_ == nullptr ? kMaxStartupBytes : kMaxPasswordBytes);
	const size_t kept = in_.size() - in_begin_;
	return most > kept ? most - kept : 0;
}

bool PgSQL_Session::on_startup_packet(const Startup_Packet& packet) {
	if (stream_.is_tls() && !door_->tls_was_asked && !stream_.has_alpn()) {
		return refuse_startup(
		    make_error("08P01", "direct TLS needs the ALPN protocol \"postgresql\""));
	}
	switch (packet.kind) {
	case Startup_Kind::incomplete:
		return false;
	case Startup_Kind::malformed:
	case Startup_Kind::direct_tls: // its first byte was looked at before it was read
		return refuse_startup(make_error(
		    "08P01", packet.error.empty() ? "invalid startup packet" : std::string(packet.error)));
	case Startup_Kind::unsupported_version:
		return refuse_version(packet);
	case Startup_Kind::ssl_request:
		return on_ssl_request(packet);
	case Startup_Kind::gssenc_request:
		return on_gss_request(packet);
	case Startup_Kind::cancel_request:
		return on_cancel_request(packet);
	case Startup_Kind::startup:
		return begin_login(packet);
	}
	return false;
}

bool PgSQL_Session::refuse_startup(const Error& error) {
	fatal(error, Session_End::protocol_violation);
	return false;
}

bool PgSQL_Session::refuse_version(const Startup_Packet& packet) {
	std::string out;
	append_version_error(out, packet.major, packet.minor);
	worker_.counters.add(Counter::generated_error_packets);
	stream_.send(out);
	end(Session_End::protocol_violation);
	return false;
}

bool PgSQL_Session::on_ssl_request(const Startup_Packet& packet) {
	if (door_->tls_was_asked || stream_.is_tls()) {
		return refuse_version(packet); // to the server, a second one is an odd version
	}
	in_begin_ += packet.size;
	if (in_begin_ != in_.size()) {
		// Bytes that came before the encryption must not be taken for encrypted ones.
		return refuse_startup(unencrypted_data("SSL"));
	}
	door_->tls_was_asked = true;
	if (worker_.tls == nullptr || peer_.is_unix()) {
		send_to_client("N");
		return true;
	}
	drop_consumed_input();
	send_to_client("S");
	if (state_ != Session_State::ended && !stream_.start_tls(worker_.tls)) {
		end(Session_End::login_failed);
	}
	return false;
}

bool PgSQL_Session::on_gss_request(const Startup_Packet& packet) {
	if (door_->gss_was_asked || stream_.is_tls()) {
		return refuse_version(packet);
	}
	in_begin_ += packet.size;
	if (in_begin_ != in_.size()) {
		return refuse_startup(unencrypted_data("GSSAPI encryption"));
	}
	door_->gss_was_asked = true;
	send_to_client("N");
	return true;
}

bool PgSQL_Session::on_cancel_request(const Startup_Packet& packet) {
	worker_.counters.add(Counter::Cancel_requests);
	cancel_ = std::make_shared<Cancel_Ticket>();
	worker_.services.broadcast_cancel(
	    {packet.cancel_pid, std::string(packet.cancel_key), packet.forwarded}, cancel_);
	cancel_since_us_ = worker_.now_us;
	in_begin_ += packet.size;
	end_cancel_request();
	return false;
}

} // namespace proxy
