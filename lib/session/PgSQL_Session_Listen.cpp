// LISTEN and NOTIFY of a session that shares its server connections. The client's LISTEN runs on
// the connection of its transaction like any statement. When that has ended, the connection is
// asked which channels it hears (PgSQL_Session_Closing.cpp), the listener of the database takes
// them over, and the connection unlistens; then the client gets its ReadyForQuery.
#include "protocol/PgSQL_Protocol.h"
#include "session/PgSQL_Session.h"
#include "session/Session_Limits.h"

#include <algorithm>

namespace proxy {

Session_Listen& PgSQL_Session::listening() {
	if (listen_ == nullptr) {
		listen_ = std::make_unique<Session_Listen>();
	}
	return *listen_;
}

void PgSQL_Session::order_listen(Listen_Action action, std::vector<std::string> channels) {
	Listen_Order order;
	order.action = action;
	order.key = listen_->key;
	order.session = id_;
	order.ticket = ++listen_->ticket;
	order.channels = std::move(channels);
	if (action == Listen_Action::listen) {
		auto login = std::make_shared<Connect_Request>(connect_request_for(backend_->server()));
		login->protocol = Proxy_Protocol::off;
		order.login = std::move(login);
	}
	worker_.services.order_listen(std::move(order));
}

// REQUIRES: listen_->found, what the server connection listens to.
void PgSQL_Session::take_over_channels() {
	Session_Listen& listen = *listen_;
	if (listen.channels.empty()) {
		listen.key.hostgroup = backend_->server().hostgroup_id;
		listen.key.database = database_;
		const auto encoding = backend_->backend_state.reported.find("client_encoding");
		listen.key.encoding =
		    encoding == backend_->backend_state.reported.end() ? std::string() : encoding->second;
	}
	std::vector<std::string> wanted;
	for (const std::string& channel : listen.found) {
		if (!listen.channels.contains(channel)) {
			wanted.push_back(channel);
		}
	}
	if (wanted.empty()) {
		listen.found.clear();
		ask_in_closing(Closing::unlistening, "UNLISTEN *");
		return;
	}
	listen.found = wanted;
	request_.closing.step = Closing::listening;
	order_listen(Listen_Action::listen, std::move(wanted));
}

void PgSQL_Session::on_listen_answer(uint32_t ticket, bool listens) {
	const Closing step = request_.closing.step;
	if (listen_ == nullptr || listen_->ticket != ticket ||
	    (step != Closing::listening && step != Closing::hearing)) {
		return; // of an earlier request
	}
	if (step == Closing::hearing) {
		step_closing();
		return;
	}
	std::vector<std::string> found = std::move(listen_->found);
	listen_->found.clear();
	if (!listens) {
		step_closing(); // the session keeps the connection, which listens for it alone
		return;
	}
	listen_->channels.insert(found.begin(), found.end());
	ask_in_closing(Closing::unlistening, "UNLISTEN *");
}

// UNLISTEN holds from the end of its transaction on.
void PgSQL_Session::apply_unlistens() {
	std::vector<std::string> gone;
	for (const std::string& name : listen_->unlistens) {
		if (name.empty()) {
			gone.insert(gone.end(), listen_->channels.begin(), listen_->channels.end());
			listen_->channels.clear();
		} else if (listen_->channels.erase(name) != 0) {
			gone.push_back(name);
		}
	}
	listen_->unlistens.clear();
	if (!gone.empty()) {
		order_listen(Listen_Action::unlisten, std::move(gone));
	}
	if (listen_->channels.empty()) {
		listen_->queued.clear();
	}
}

void PgSQL_Session::stop_listening() {
	if (listen_ == nullptr) {
		return;
	}
	// What was ordered and not answered yet is taken back as well.
	listen_->channels.insert(listen_->found.begin(), listen_->found.end());
	listen_->unlistens.assign(1, std::string());
	apply_unlistens();
	listen_.reset();
}

// Hidden, in front of a statement that asks for the channels: its connection listens to them too.
void PgSQL_Session::append_own_channels(std::string& sql) {
	if (listen_ == nullptr || transaction_status_ != 'I' || !request_.statement->asks_channels) {
		return;
	}
	for (const std::string& channel : listen_->channels) {
		sql += "LISTEN " + quote_identifier(channel) + ";";
	}
	pinned_ |= kStickyListen;
	check_due_ |= kStickyListen;
}

// ---- notifications ----

// Between a client's requests, outside a transaction: there a server sends them too.
bool PgSQL_Session::may_be_notified() const {
	return state_ == Session_State::waiting_client_data && transaction_status_ == 'I' &&
	       !poisoned_ && !skip_to_sync_;
}

void PgSQL_Session::on_notification(const Notification& notification) {
	if (state_ == Session_State::ended || listen_ == nullptr ||
	    !listen_->channels.contains(notification.channel) || !(listen_->key == notification.key)) {
		return; // it has unlistened meanwhile
	}
	if (may_be_notified()) {
		send_to_client(notification.message);
	} else {
		listen_->queued += notification.message;
	}
	const auto limit = static_cast<size_t>(worker_.config->notification_queue_bytes);
	if (state_ != Session_State::ended && listen_->queued.size() + stream_.unsent_bytes() > limit) {
		Error error = make_error("54000", "too many notifications that the client has not read");
		error.detail = "It listens, and did not read, or was in a transaction, while more than "
		               "pgsql-notification_queue_bytes came.";
		fatal(error, Session_End::notifications_unread);
	}
}

// In front of a ReadyForQuery, or to an idle client.
void PgSQL_Session::flush_notifications() {
	if (listen_ == nullptr || listen_->queued.empty()) {
		return;
	}
	const std::string queued = std::move(listen_->queued);
	listen_->queued.clear();
	if (flush_pieces()) {
		stream_.send(queued);
	}
}

// A NotificationResponse of backend_ itself.
Message_Fate PgSQL_Session::on_native_notification(std::span<const uint8_t> body) {
	Notification_View view;
	if (request_.closing.step != Closing::none) {
		return Message_Fate::hide; // its connection is about to stop listening
	}
	const bool from_listener = listen_ != nullptr && parse(body, view) &&
	                           listen_->channels.find(view.channel) != listen_->channels.end();
	return from_listener ? Message_Fate::hide : Message_Fate::forward;
}

} // namespace proxy
