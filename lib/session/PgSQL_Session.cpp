// Life of a session: creation, input, states, end.
#include "session/PgSQL_Session.h"

#include "base/Check.h"
#include "base/Log.h"
#include "protocol/PgSQL_Error_Helper.h"
#include "protocol/PgSQL_Protocol.h"
#include "session/Session_Limits.h"

#include <algorithm>
#include <array>

namespace proxy {

namespace {
struct Transition {
	Session_State from;
	Session_State to;
	const char* cause;
};
using enum Session_State;
constexpr std::array<Transition, 24> kTransitions = {{
    {connecting_client, waiting_client_data, "logged in"},
    {connecting_client, ended, "login failed, or the client left"},
    {waiting_client_data, waiting_server, "the chosen server is full, or none is online"},
    {waiting_client_data, connecting_server, "a new server connection is opened"},
    {waiting_client_data, processing_statement, "sent to a server connection"},
    {waiting_client_data, replica_with_wait, "sent to a replica behind a wait"},
    {waiting_client_data, ended, "the client left, or was ended"},
    {waiting_server, connecting_server, "a slot became free"},
    {waiting_server, processing_statement, "a connection was handed over"},
    {waiting_server, replica_with_wait, "a connection was handed over"},
    {waiting_server, waiting_client_data, "no server in time: error"},
    {waiting_server, ended, "the client left"},
    {connecting_server, waiting_server, "connect failed: another try"},
    {connecting_server, processing_statement, "connected"},
    {connecting_server, replica_with_wait, "connected"},
    {connecting_server, waiting_client_data, "connect failed: error"},
    {connecting_server, ended, "the client left"},
    {processing_statement, waiting_client_data, "the answer is complete"},
    {processing_statement, ended, "the client left, or the stream cannot go on"},
    {processing_statement, replica_with_wait, "the parameters are set: now the read and its wait"},
    {processing_statement, waiting_server, "a replica failed: run again elsewhere"},
    {replica_with_wait, waiting_client_data, "the answer is complete, or the replica failed"},
    {replica_with_wait, waiting_server, "the wait ran out, or the replica failed: elsewhere"},
    {replica_with_wait, ended, "the client left, or the stream cannot go on"},
}};

bool allowed(Session_State from, Session_State to) {
	if (from == to) {
		return true;
	}
	return std::any_of(kTransitions.begin(), kTransitions.end(), [=](const Transition& entry) {
		return entry.from == from && entry.to == to;
	});
}

// Input kept while an answer is under way; beyond it the client is not read.
constexpr size_t kMaxReadAhead = 256 * 1024;
// Memory an idle session keeps for input.
constexpr size_t kKeptInputBytes = 2 * 1024;
// A message of which this much is there gets room for all of it.
constexpr size_t kRoomFromBytes = 256 * 1024;
// Consumed input in front of the rest is moved away when it is this much.
constexpr size_t kCompactBytes = 64 * 1024;
// Bytes waiting for a slow server in a COPY or a pipeline: above this the client is not read.
constexpr size_t kCopyHighWater = 256 * 1024;
// Messages of a pipeline whose answers are outstanding: likewise.
constexpr size_t kMaxOutstanding = 64 * 1024;
// Output waiting for a slow client: above the first the server is not read, below the second it
// is read again.
constexpr size_t kHighWater = 512 * 1024;
constexpr size_t kLowWater = 128 * 1024;
} // namespace

const char* name_of(Session_State state) {
	switch (state) {
	case connecting_client:
		return "CONNECTING_CLIENT";
	case waiting_client_data:
		return "WAITING_CLIENT_DATA";
	case waiting_server:
		return "WAITING_SERVER";
	case connecting_server:
		return "CONNECTING_SERVER";
	case processing_statement:
		return "PROCESSING_STATEMENT";
	case replica_with_wait:
		return "REPLICA_WITH_WAIT";
	case ended:
		return "ENDED";
	}
	return "?";
}

const char* name_of(Session_End end) {
	switch (end) {
	case Session_End::client_terminated:
		return "client terminated";
	case Session_End::client_vanished:
		return "client vanished";
	case Session_End::login_failed:
		return "login failed";
	case Session_End::login_timeout:
		return "login timeout";
	case Session_End::protocol_violation:
		return "protocol violation";
	case Session_End::cancel_request_served:
		return "cancel request served";
	case Session_End::killed:
		return "killed";
	case Session_End::idle_timeout:
		return "idle timeout";
	case Session_End::notifications_unread:
		return "does not read its notifications";
	case Session_End::server_lost:
		return "server lost";
	case Session_End::shutdown:
		return "shutdown";
	}
	return "?";
}

PgSQL_Session::PgSQL_Session(Worker_Context& worker, uint32_t id, int fd, Peer peer)
    : worker_(worker), id_(id), peer_(std::move(peer)), stream_(worker.loop, fd, *this),
      door_(std::make_unique<Front_Door>()), started_us_(worker.now_us),
      last_activity_us_(worker.now_us) {
	door_->header_due = peer_.header_due;
	worker_.limits.logins.fetch_add(1, std::memory_order_relaxed);
	worker_.counters.add(Counter::Client_Connections_created);
	worker_.counters.add(Counter::Client_Connections_connected);
	worker_.services.wake_by(*this, next_deadline_us());
}

PgSQL_Session::~PgSQL_Session() {
	worker_.counters.subtract(Counter::Client_Connections_connected);
}

void PgSQL_Session::set_state(Session_State to) {
	if (PROXY_BUG(!allowed(state_, to))) {
		log_error("session {}: {} -> {}", id_, name_of(state_), name_of(to));
	}
	if (state_ == waiting_client_data && to != ended) {
		// Idle sessions are not looked at; whoever uses a server is (next_deadline_us()).
		worker_.services.wake_by(*this, look_again_us());
	}
	state_ = to;
}

void PgSQL_Session::check_invariants() const {
	if constexpr (kDebug) {
		switch (state_) {
		case ended:
			PROXY_DCHECK(backend_ == nullptr); // 1
			break;
		case processing_statement:
		case replica_with_wait:
		case connecting_server:
			PROXY_DCHECK(backend_ != nullptr); // 2
			break;
		case waiting_client_data:
			PROXY_DCHECK(request_.kind == Request_Kind::none); // 3
			PROXY_DCHECK(backend_ == nullptr || transaction_status_ != 'I' || pinned_ != 0);
			break;
		case connecting_client:
		case waiting_server:
			break;
		}
		PROXY_DCHECK(in_begin_ <= request_end_ || request_.kind == Request_Kind::none); // 4
		PROXY_DCHECK(request_end_ <= in_.size());
	}
}

// ---- end ----

void PgSQL_Session::end(Session_End how) {
	if (state_ == ended) {
		return;
	}
	unpark();
	stop_listening();
	leave_door();
	if (backend_ != nullptr) {
		// An answer may be outstanding or a transaction open: the server rolls back when the
		// connection closes. A running statement is cancelled, so that it does not go on for
		// nobody (pgsql-kill_backend_connection_when_disconnect).
		const bool running = state_ == processing_statement || state_ == replica_with_wait;
		if (running && worker_.config->kill_backend_connection_when_disconnect) {
			worker_.services.send_cancel(backend_->cancel_target(),
			                             std::make_shared<Cancel_Ticket>());
		}
		discard_backend();
	}
	if (counted_) {
		worker_.limits.client_connections.fetch_sub(1, std::memory_order_relaxed);
		user_->connections->fetch_sub(1, std::memory_order_relaxed);
		worker_.limits.databases.leave(database_);
		counted_ = false;
	}
	if (how != Session_End::client_terminated && how != Session_End::cancel_request_served &&
	    how != Session_End::shutdown) {
		worker_.counters.add(Counter::Client_Connections_aborted);
		if (logged_in_) {
			log_info("client {}:{} user {} session {}: {}", peer_.name(), peer_.port, username_,
			         id_, name_of(how));
		}
	}
	stream_.flush();
	worker_.counters.add(Counter::Queries_frontends_bytes_recv, stream_.bytes_received());
	worker_.counters.add(Counter::Queries_frontends_bytes_sent, stream_.bytes_sent());
	stream_.close();
	set_state(ended);
	worker_.services.session_ended(*this);
}

// An error that ends the connection: told, then closed.
void PgSQL_Session::fatal(Error error, Session_End how) {
	std::string out;
	append_error_response(out, error, Severity::fatal);
	worker_.counters.add(Counter::generated_error_packets);
	stream_.send(out);
	end(how);
}

void PgSQL_Session::kill() {
	fatal(make_error("57P01", "terminating connection due to administrator command"),
	      Session_End::killed);
}

void PgSQL_Session::shut_down() {
	shutting_down_ = true;
	if (state_ == connecting_client || (state_ == waiting_client_data && backend_ == nullptr)) {
		fatal(make_error("57P01", "terminating connection due to administrator command"),
		      Session_End::shutdown);
	}
}

// Behind every answer, the proxy's own ones too.
bool PgSQL_Session::end_for_shutdown() {
	const bool due = shutting_down_ && state_ == waiting_client_data && backend_ == nullptr;
	if (due) {
		shut_down();
	}
	return due;
}

// ---- input ----

std::span<const uint8_t> PgSQL_Session::unread() const {
	return {reinterpret_cast<const uint8_t*>(in_.data()) + in_begin_, in_.size() - in_begin_};
}

void PgSQL_Session::on_stream_broken() {
	end(Session_End::client_vanished);
}

void PgSQL_Session::on_stream_readable() {
	std::vector<char>& buffer = worker_.read_buffer;
	if (state_ == connecting_client && in_.empty() && login_ == nullptr &&
	    !(read_proxy_header() && begin_direct_tls())) {
		return;
	}
	const size_t room = std::min(buffer.size(), input_room());
	if (room == 0) {
		return; // client_must_wait() has stopped the reading
	}
	const ssize_t got = stream_.receive(buffer.data(), room);
	if (got < 0) {
		end(Session_End::client_vanished);
		return;
	}
	if (got == 0) {
		return;
	}
	last_activity_us_ = worker_.now_us;
	in_.append(buffer.data(), static_cast<size_t>(got));
	process_input();
}

// A request that ends inside of it (answered by the proxy, refused, complete) comes back here to go
// on with what the client has sent meanwhile: that is left to the call that is running already, so
// a pipeline of any length takes no stack.
void PgSQL_Session::process_input() {
	if (taking_input_) {
		more_input_ = true;
		return;
	}
	taking_input_ = true;
	do {
		more_input_ = false;
		take_input();
	} while (more_input_ && state_ != ended);
	taking_input_ = false;
	if (state_ == ended) {
		return;
	}
	if (listen_ != nullptr && may_be_notified()) {
		flush_notifications();
	}
	watch_cancel();
	drop_consumed_input();
	stream_.pause_reading(client_must_wait());
	check_invariants();
}

void PgSQL_Session::take_input() {
	while (state_ == connecting_client && process_startup()) {
	}
	while (state_ == waiting_client_data && !end_for_shutdown() && !cancel_pending() &&
	       skip_lost_copy_data() && dispatch_frame()) {
	}
	if (request_.kind == Request_Kind::none || state_ == ended) {
		return;
	}
	if (request_.copy_in || request_.copy_left > 0) {
		forward_copy_data();
	} else if (request_.open && !request_.syncing &&
	           (state_ == processing_statement || state_ == replica_with_wait)) {
		continue_extended();
	}
}

// The client has sent more than is wanted now.
bool PgSQL_Session::client_must_wait() const {
	if (state_ == connecting_client) {
		return cancel_ != nullptr || (login_ != nullptr && login_->awaited != 0) ||
		       input_room() == 0;
	}
	if (state_ == waiting_client_data) {
		return cancel_pending() && in_.size() - in_begin_ > kMaxReadAhead;
	}
	const bool copies = request_.copy_in || request_.copy_left > 0;
	const bool running =
	    (state_ == processing_statement || state_ == replica_with_wait) && !request_.syncing;
	if (copies || (request_.open && running)) {
		// What comes in is passed on at once.
		return backend_ != nullptr && (backend_->unsent_bytes() > kCopyHighWater ||
		                               request_.operations.size() > kMaxOutstanding);
	}
	return in_.size() - std::max(request_end_, in_begin_) > kMaxReadAhead;
}

void PgSQL_Session::drop_consumed_input() {
	if (in_begin_ == in_.size()) {
		in_begin_ = 0;
		request_end_ = 0;
		in_.clear();
		// While messages go through, the room of the next read is kept.
		if (in_.capacity() > (state_ == waiting_client_data ? kKeptInputBytes : kMaxReadAhead)) {
			in_.shrink_to_fit();
		}
	} else if (in_begin_ > kCompactBytes) {
		in_.erase(0, in_begin_);
		request_end_ -= std::min(request_end_, in_begin_);
		in_begin_ = 0;
	}
}

// The header of the client's message at `at`. malformed: it cannot be, or announces more than
// pgsql-max_allowed_packet, which has ended the session.
Frame_Status PgSQL_Session::check_header(size_t at, Frame_Header& header) {
	const std::string_view rest = std::string_view(in_).substr(at);
	const Frame_Status status = next_header(
	    {reinterpret_cast<const uint8_t*>(rest.data()), rest.size()}, kMaxFrameLength, header);
	if (status == Frame_Status::malformed) {
		fatal(make_error("08P01", "invalid message length"), Session_End::protocol_violation);
	} else if (status == Frame_Status::complete &&
	           header.size() > static_cast<size_t>(worker_.config->max_allowed_packet)) {
		fatal(make_error("54000", "Got a packet bigger than 'max_allowed_packet' bytes"),
		      Session_End::protocol_violation);
		return Frame_Status::malformed;
	}
	return status;
}

// The rest of a CopyData message whose server was lost in its middle: data, never to be taken for
// messages. False: more of it is to come.
bool PgSQL_Session::skip_lost_copy_data() {
	const size_t take = std::min(lost_copy_left_, in_.size() - in_begin_);
	in_begin_ += take;
	lost_copy_left_ -= take;
	return lost_copy_left_ == 0;
}

// Room for a large message that is kept whole: its size, not what doubling arrives at. Only when a
// good part of it is there: a length alone costs a client nothing.
void PgSQL_Session::make_room_for_rest(size_t at, const Frame_Header& header) {
	if (in_.size() - at > kRoomFromBytes) {
		in_.reserve(at + header.size());
	}
}

// Takes the next message of an idle client. False: more bytes are needed.
bool PgSQL_Session::dispatch_frame() {
	Frame_Header header;
	if (check_header(in_begin_, header) != Frame_Status::complete) {
		return false;
	}
	if (is_long(header)) {
		return begin_long(header);
	}
	if (in_.size() - in_begin_ < header.size()) {
		make_room_for_rest(in_begin_, header);
		return false;
	}
	Frame frame;
	next_frame(unread(), kMaxFrameLength, frame);
	if (skip_to_sync_ && frame.type != 'S' && frame.type != 'X') {
		in_begin_ += frame.size;
		return true;
	}
	switch (frame.type) {
	case 'Q':
		begin_simple(frame);
		return true;
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
	case 'H':
	case 'S':
		return begin_extended();
	case 'F':
		begin_function_call(frame);
		return true;
	case 'X':
		end(Session_End::client_terminated);
		return false;
	case 'd':
	case 'c':
	case 'f':
		// Left over from a COPY that has failed (bug bank BB-116): dropped as the server does.
		in_begin_ += frame.size;
		return true;
	default:
		fatal(make_error("08P01", "invalid frontend message type " +
		                              std::to_string(static_cast<unsigned char>(frame.type))),
		      Session_End::protocol_violation);
		return false;
	}
}

// ---- output ----

void PgSQL_Session::send_to_client(std::string_view bytes) {
	if (state_ != ended && !stream_.send(bytes)) {
		end(Session_End::client_vanished);
	}
}

// An error of the proxy's own as the answer to the current request; ends the request. When the
// Sync of an extended batch is still to come, the rest up to it is skipped, and it is answered.
void PgSQL_Session::answer_error(const Error& error) {
	worker_.counters.add(Counter::generated_error_packets);
	std::string out;
	append_error_response(out, error);
	// A batch that is closed ends here, whether the server has seen its Sync or not: the client
	// sends no other.
	const bool needs_sync = request_.kind == Request_Kind::extended && request_.open;
	in_begin_ = std::max(in_begin_, request_end_);
	lost_copy_left_ += request_.stream_left;
	const char status = poisoned_ ? 'E' : transaction_status_;
	if (needs_sync) {
		skip_to_sync_ = true;
	} else {
		append_ready_for_query(out, static_cast<Transaction_Status>(status));
	}
	request_.clear();
	if (state_ != waiting_client_data) {
		set_state(waiting_client_data);
	}
	send_to_client(out);
}

void PgSQL_Session::on_stream_drained() {
	check_backpressure();
}

void PgSQL_Session::check_backpressure() {
	if (backend_ == nullptr || backend_->state() == Connection_State::connecting) {
		return;
	}
	if (stream_.unsent_bytes() > kHighWater) {
		backend_->pause_reading(true);
	} else if (stream_.unsent_bytes() < kLowWater) {
		backend_->pause_reading(false);
	}
}

void PgSQL_Session::on_backend_drained(PgSQL_Connection&) {
	if (request_.copy_in || request_.copy_left > 0 || request_.open) {
		stream_.pause_reading(false);
		process_input();
	}
}

// ---- server connection ----

// Gives the connection back when nothing ties the session to it.
void PgSQL_Session::release_backend() {
	if (backend_ == nullptr || transaction_status_ != 'I' || pinned_ != 0) {
		return;
	}
	if (!scanner_.between_messages() || backend_->unsent_bytes() > 0) {
		backend_->tainted = true;
	}
	worker_.counters.add(backend_->tainted ? Counter::PgHGM_pgconnpoll_destroy
	                                       : Counter::PgHGM_pgconnpoll_push);
	if (cancel_pending()) {
		worker_.services.hold_until(std::move(backend_), std::move(cancel_));
		cancel_.reset();
		return;
	}
	if (cancel_ != nullptr && cancel_->get() != Cancel_State::settled) {
		backend_->tainted = true; // a late signal would hit the next client
	}
	cancel_.reset();
	backend_->last_pass = worker_.pass;
	worker_.connections.put(std::move(backend_), worker_.now_us);
}

void PgSQL_Session::discard_backend() {
	worker_.counters.add(Counter::PgHGM_pgconnpoll_destroy);
	scanner_.reset();
	cancel_.reset();
	// Out of the loop at once: an event of this very pass must not reach a session that has let go.
	// Closed at the end of the pass: this may be called from inside the connection.
	backend_->detach();
	backend_->tainted = true;
	worker_.services.hold_until(std::move(backend_), nullptr);
}

} // namespace proxy
