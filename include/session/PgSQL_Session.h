// One client's conversation, from accept to close. Owned by a worker; its thread only.
//
//	connecting_client --login--> waiting_client_data <----------------------------+
//	                                |  a statement                                |
//	                                v                                             |
//	                        (route, choose a server)                              |
//	            full |              | a new one        | pooled                   |
//	                 v              v                  v                          |
//	          waiting_server  connecting_server  processing_statement --- ReadyForQuery
//	                 |              |                  ^   replica_with_wait ------+
//	                 +--------------+------------------+        |
//	                 ^                                          | replica failed, nothing sent
//	                 +------------------------------------------+
//	any --> ended (deleted by the worker at the end of the pass)
//
// State by state:
//   connecting_client    waits for startup packets; stream_ is all there is; login deadline runs
//   waiting_client_data  waits for the client; backend_ is set exactly when a transaction is open
//                        or the session is pinned
//   waiting_server       parked at a server's queue, or waiting for any server to come online;
//                        request_ is whole in in_; acquire deadline runs
//   connecting_server    backend_ is logging in; acquire deadline runs
//   processing_statement request_ was sent to backend_; ends at its last ReadyForQuery
//   replica_with_wait    the same on a replica that first waits for a position; wait deadline runs
//
// Invariants (checked after every step in debug builds)
//   1. ended: no stream, no backend_.
//   2. processing_statement, replica_with_wait, connecting_server: backend_ is set.
//   3. waiting_client_data: no reply is outstanding, request_ is empty.
//   4. request bytes [in_begin_, request_end_) stay in in_ until the answer is complete or has
//      begun to reach the client; nothing is retried after that.
#pragma once

#include "backend/PgSQL_Connection.h"
#include "base/Deadline_Heap.h"
#include "forward/Backend_Scanner.h"
#include "net/PgSQL_Data_Stream.h"
#include "protocol/Backend_Messages.h"
#include "protocol/Frontend_Messages.h"
#include "protocol/Ready_Tail.h"
#include "protocol/Startup.h"
#include "route/Route_Plan.h"
#include "session/Front_Door.h"
#include "session/Login_Wait.h"
#include "session/Session_Request.h"
#include "session/Worker_Context.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace proxy {

enum class Session_State : uint8_t {
	connecting_client,
	waiting_client_data,
	waiting_server,
	connecting_server,
	processing_statement,
	replica_with_wait,
	ended,
};
const char* name_of(Session_State state);

// Each way a session can end; one log line names it.
enum class Session_End : uint8_t {
	client_terminated, // Terminate message
	client_vanished,   // socket closed
	login_failed,
	login_timeout,
	protocol_violation,
	cancel_request_served,
	killed,
	idle_timeout,
	notifications_unread,
	server_lost,
	shutdown,
};
const char* name_of(Session_End end);

class PgSQL_Session final : private Stream_Handler, private Backend_Handler {
public:
	struct Peer {
		std::string host; // numeric; empty: Unix socket
		int port = 0;
		std::string local_host; // where the client connected to; of a Unix socket the path
		int local_port = 0;     // 0: a Unix socket
		// On this machine. Never by what a PROXY header says.
		bool local = false;
		// A PROXY header must come before anything else.
		bool header_due = false;

		bool is_unix() const { return local_port == 0; }
		// As it is shown, and matched by rules.
		std::string_view name() const {
			return host.empty() ? std::string_view("localhost") : std::string_view(host);
		}
	};

	PgSQL_Session(Worker_Context& worker, uint32_t id, int fd, Peer peer);
	~PgSQL_Session();
	PgSQL_Session(const PgSQL_Session&) = delete;
	PgSQL_Session& operator=(const PgSQL_Session&) = delete;

	uint32_t id() const { return id_; }
	Session_State state() const { return state_; }

	// From the worker.
	void on_delivery(std::unique_ptr<PgSQL_Connection> connection);
	// From a service thread, through the worker: what the login waits for, see Login_Wait.h.
	void on_login_answer(uint64_t serial, Login_Answer_Ptr answer);
	// Looks at every deadline of the session, and asks to be called for the next one.
	void on_deadline();
	// The variables have changed: the next deadline may be another one.
	void renew_deadline();
	Deadline_Slot& deadline_slot() { return deadline_slot_; }
	// A cancel request for this session: true when `key` is ours.
	bool cancel(std::string_view key, const Cancel_Ticket_Ptr& ticket);
	void on_listen_answer(uint32_t ticket, bool listens);
	void on_notification(const Notification& notification);
	void kill();
	// The proxy goes down: an idle session ends, another one after its transaction.
	void shut_down();

	// For stats_pgsql_processlist.
	struct Info {
		uint32_t id = 0;
		std::string user;
		std::string database;
		std::string client_host;
		int client_port = 0;
		int hostgroup = -1;
		std::string server_host;
		int server_port = 0;
		int server_pid = 0;
		std::string command;
		int64_t time_ms = 0;
		std::string info;
		uint32_t pinned = 0;
		std::string route_reason;
	};
	Info info() const;
	// Counters kept on the server connection in use go to the server's shared ones.
	void flush_counters() {
		if (backend_ != nullptr) {
			Thread_Conn_Cache::flush_counters(*backend_);
		}
	}
	size_t memory_bytes() const;

private:
	std::string shown_text() const;
	// ---- PgSQL_Session.cpp: life, input, states ----
	void on_stream_readable() override;
	void on_stream_drained() override;
	void on_stream_broken() override;
	void set_state(Session_State to);
	void check_invariants() const;
	void end(Session_End how);
	bool end_for_shutdown();
	void process_input();
	void take_input();
	void drop_consumed_input();
	bool client_must_wait() const;
	Frame_Status check_header(size_t at, Frame_Header& header);
	bool skip_lost_copy_data();
	bool dispatch_frame();
	void make_room_for_rest(size_t at, const Frame_Header& header);
	std::span<const uint8_t> unread() const;
	void fatal(Error error, Session_End how);
	void send_to_client(std::string_view bytes);
	void answer_error(const Error& error);
	void release_backend();
	void discard_backend();
	void check_backpressure();

	// ---- _Transport: what comes before the startup message ----
	bool read_proxy_header();
	bool begin_direct_tls();
	size_t input_room() const;
	bool on_startup_packet(const Startup_Packet& packet);
	bool refuse_startup(const Error& error);
	bool refuse_version(const Startup_Packet& packet);
	bool on_ssl_request(const Startup_Packet& packet);
	bool on_gss_request(const Startup_Packet& packet);
	bool on_cancel_request(const Startup_Packet& packet);

	// ---- _Startup ----
	bool process_startup();
	bool begin_login(const Startup_Packet& packet);
	bool take_startup_parameter(const std::string& name, const std::string& value);
	bool take_startup_parameters(const Startup_Packet& packet);

	// ---- _Login: a step is done (true), or waits or has ended the session (false) ----
	bool continue_login();
	bool run_login_step(Login_Step step);
	void wait_for_login(Login_Lane lane, Login_Job job, Login_Resume resume);
	bool refuse_login(const Error& error);
	bool find_user();
	bool derive_keys();
	bool on_keys_derived(Login_Answer_Ptr answer);
	bool start_authentication();
	void leave_door();
	bool on_password(const Frame& frame);
	bool after_auth(Auth_Flow::Status status);
	bool admit();
	bool check_parameters();
	std::string parameter_key(const std::string& name, const std::string& value) const;
	bool on_parameters_checked(Login_Answer_Ptr answer);
	bool finish_login();

	// ---- _Simple_Query ----
	void begin_simple(const Frame& frame);
	void begin_function_call(const Frame& frame);
	bool apply_rules(std::string_view sql);
	void plan_and_start(std::string_view sql);

	// ---- _Poisoned ----
	void answer_poisoned(Statement_Kind kind);
	void answer_poisoned_batch();
	void refuse_poisoned(Statement_Kind kind);
	bool ends_poisoned(Statement_Kind kind) const;
	bool was_to_end_transaction() const;
	void end_poisoned_transaction();

	// ---- _Local ----
	// One result of the proxy's own. No column: no row.
	struct Local_Answer {
		std::string tag = {};
		std::string column = {};
		std::string value = {};
	};
	bool is_own_statement(const Statement_Class& statement) const;
	void answer_locally(const Statement_Class& statement);
	void answer_own_batch();
	std::string_view request_bytes() const {
		return std::string_view(in_).substr(in_begin_, request_end_ - in_begin_);
	}
	int append_batch_answers(std::string& out, const Local_Answer& answer);
	void append_local_result(std::string& out, const Local_Answer& answer);
	void finish_locally(const Local_Answer& answer);
	void answer_proxy_setting(const Statement_Class& statement);
	Result<void> apply_proxy_setting(const Set_Item& item);
	void keep_own_settings(Set_Scope scope);
	Result<bool> take_proxy_setting(const std::string& name, const std::string& value);
	void answer_show(const Statement_Class& statement);

	// ---- _Extended ----
	bool begin_extended();
	bool continue_extended();
	size_t extended_batch_end(size_t from, bool& closed);
	void classify_extended(size_t from, size_t to);
	bool translate_extended(size_t from, size_t to, std::string& out);
	bool translate_frame(const Frame& frame, std::string_view raw, std::string& out);
	bool refuse_frame(const Frame& frame, std::string_view raw, std::string& out);
	bool refused_in_failed_transaction(Statement_Kind kind) const;
	bool is_described_next(const Frame& frame, std::string_view name) const;
	bool translate_parse(const Frame& frame, std::string& out);
	void translate_bind(const Bind_View& view, size_t to_come, std::string& out);
	bool translate_describe(const Frame& frame, std::string& out);
	void note_described(uint64_t statement_id);
	bool translate_execute(const Frame& frame, std::string_view raw, std::string& out);
	bool translate_close(const Frame& frame, std::string& out);
	Prepared_Statement_Ptr learn_statement(const Parse_View& view);
	Statement_Analysis_Ptr open_batch(const Statement_Analysis_Ptr& chosen) const;
	const Prepared_Statement_Ptr* find_statement(std::string_view name) const;
	std::string_view batch_text() const;
	Statement_Analysis_Ptr analyse_query(std::string_view sql);
	void translate_query(const Frame& frame, std::string_view raw, std::string& out);
	void queue_query(const Statement_Analysis_Ptr& analysis, std::string_view raw,
	                 std::string& out);
	void queue(Operation operation);
	void queue_local(Operation operation);
	void evict_statement(std::string& out);
	Prepared_Statement_Ptr ensure_statement(Prepared_Statement_Ptr& statement, std::string& out);
	std::string_view server_name(std::string_view name, Prepared_Statement_Ptr& statement,
	                             std::string& out);
	void make_room_for(const Prepared_Statement& statement, std::string& out);
	void ensure_unnamed(std::string& out);

	// ---- _Prepared: the names SQL uses ----
	Statement_Analysis_Ptr resolve_prepared(const Statement_Analysis_Ptr& text);
	const Statement_Class* body_of(const Statement_Class& text, size_t use) const;
	void align_names(const Statement_Class& statement, std::string& out);
	void align_for(const Prepared_Statement& statement, std::string& out);
	// placeholder: it is only dropped, so that any statement of that name will do.
	enum class Name_Need : uint8_t { itself, placeholder };
	void align_name(const std::string& name, Name_Need need, std::string& out);
	void append_sql_prepare(const Prepared_Statement& statement, std::string& out);
	void align_all_names(std::string& out);
	void close_name(const std::string& name, std::string& out);
	void make_room_for_names(const Statement_Class& statement, std::string& out);
	void use_prepared(Operation& operation, std::string& out);
	const Prepared_Statement_Ptr& learn_prepared(const Prepared_Use& use,
	                                             const Statement_Analysis& analysis);
	void drop_all_statements();
	void note_prepared_done(const Statement_Analysis& analysis, std::string_view tag);
	void forget_statements();
	void undo_names(Operation& operation, bool failed);
	bool note_lost_statement(const Error_Fields& fields);
	bool doubt_named(const Statement_Class& statement);

	// ---- _Connecting ----
	void start_request();
	bool acquire_backend();
	enum class Pick : uint8_t { ready, waiting, next_try };
	Pick try_server(PgSQL_SrvC& server);
	void begin_connect(PgSQL_SrvC& server);
	void park(PgSQL_SrvC* server);
	void unpark();
	bool fall_back_to_writer(Route_Reason reason);
	// Client address stated to PolarDB servers (wire.md, section 1.2).
	struct Identity {
		std::string host;
		int port = 0;
	};
	const Identity& identity() const;
	Conn_Key key_for(const PgSQL_SrvC& server) const;
	Connect_Request connect_request_for(const PgSQL_SrvC& server) const;
	Proxy_Protocol protocol_for(const PgSQL_SrvC& server) const;
	void take_backend(std::unique_ptr<PgSQL_Connection> connection);
	void on_backend_connected(PgSQL_Connection& connection, Result<void> outcome) override;
	void on_backend_drained(PgSQL_Connection& connection) override;
	enum class No_Server : uint8_t { busy, down };
	void no_server(No_Server why);

	// ---- _Credentials: what logs in to a server ----
	void refresh_user();
	void on_backend_challenge(PgSQL_Connection& connection) override;
	void on_server_keys(Login_Answer_Ptr answer);
	void derive_server_keys(std::string salt, uint32_t iterations);
	void use_passed_keys(const std::string& salt, uint32_t iterations);
	void refuse_challenge(const std::string& why);

	// ---- _Executing ----
	void dispatch();
	void tell_superuser();
	bool append_parameter_sync(std::string& out);
	void send_request(std::string& out);
	void append_wait_simple(std::string& prefix) const;
	std::string wait_mode_word() const;
	bool needs_wait() const;
	void count_query();
	void append_wait_extended(std::string& out);
	void on_backend_readable(PgSQL_Connection& connection) override;
	void on_backend_broken(PgSQL_Connection& connection) override;
	void forward_copy_data();
	void complete_request();
	bool takes_back_parameters();
	void account_statement(const Statement_Analysis& analysis, uint64_t rows_sent,
	                       uint64_t rows_affected);

	// ---- _Replies: what the scanner shows ----
	friend class Backend_Scanner;
	Message_Fate on_message(char type, std::span<const uint8_t> body);
	Message_Fate on_row(char type);
	bool emit(const char* bytes, size_t length);
	bool emit_copy(std::string_view bytes);
	bool flush_pieces();
	void emit_pending_local();
	bool retriable_on_writer(std::string_view sqlstate) const;
	Message_Fate on_parameter_status(std::span<const uint8_t> body);
	bool tell_startup_value(const std::string& name, const std::string& before,
	                        const std::string& now);
	Message_Fate on_hidden_cycle(char type, std::span<const uint8_t> body);
	Message_Fate on_operation_reply(char type, std::span<const uint8_t> body);
	Message_Fate on_command_complete(std::span<const uint8_t> body);
	Message_Fate on_error(std::span<const uint8_t> body);
	Message_Fate on_notice(std::span<const uint8_t> body);
	std::string error_with_client_name(std::span<const uint8_t> body) const;
	Message_Fate on_ready(std::span<const uint8_t> body);
	Message_Fate on_copy_in();
	void on_parse_complete(Operation& operation);
	void forget_skipped();
	void pop_operation();

	// ---- _State: transactions, parameters, positions ----
	void note_statement_done(const Statement_Analysis& analysis, std::string_view tag);
	void note_parameters(const Statement_Class& statement);
	void note_execution(const Statement_Class& statement);
	void note_batch(const Statement_Analysis& analysis, std::string_view tag);
	void note_one_done(const Statement_Class& statement, std::string_view tag);
	bool runs_alone(const Statement_Class& statement) const;
	void end_of_transaction(bool committed);
	std::string datestyle_now() const;
	void note_transaction_status(char status);
	void learn_position(std::span<const uint8_t> ready_body);
	void reset_session_state();
	void rollback_parameters(const Parameter_Set& to);
	void note_savepoint(const Statement_Class& statement);

	// ---- _Closing: what a request has left on the connection ----
	void note_to_check(const Statement_Class& statement);
	bool closing_is_due();
	void step_closing();
	void ask_in_closing(Closing step, const std::string& sql);
	Message_Fate on_closing_reply(char type);
	void finish_closing();
	void finish_lost_closing();
	void take_check();
	bool adopt_settings(const std::map<std::string, std::string>& settings);
	void note_clean_calls(bool clean);
	void keep(std::string_view bytes) { request_.closing.rows += bytes; }

	// ---- _Listen ----
	Session_Listen& listening();
	void order_listen(Listen_Action action, std::vector<std::string> channels);
	void take_over_channels();
	void apply_unlistens();
	void stop_listening();
	void append_own_channels(std::string& sql);
	bool may_be_notified() const;
	void flush_notifications();
	Message_Fate on_native_notification(std::span<const uint8_t> body);

	// ---- _Cancel ----
	void cancel_statement(const Cancel_Ticket_Ptr& ticket);
	Error canceled_error() const;
	bool cancel_pending() const;
	void watch_cancel();
	void end_cancel_request();

	// ---- _Long ----
	bool is_long(const Frame_Header& header) const;
	bool long_front_is_here(size_t at, const Frame_Header& header, std::string_view& statement);
	void take_long_front(size_t at, const Frame_Header& header);
	bool begin_long(const Frame_Header& header);
	bool translate_long(size_t from, std::string& out);
	void stream_rest();
	bool continue_long(const Frame_Header& header);

	// ---- _Deadlines ----
	int64_t next_deadline_us() const;
	int64_t look_again_us() const;
	bool in_open_transaction() const;
	bool waits_for_client() const;
	void check_login_deadline();
	void check_idle_deadline();
	void check_waiting_deadline();
	void tell_of_waiting();
	void check_running_deadline();
	bool check_transaction_deadline();
	bool check_stalled_client();
	void set_query_deadline();
	void end_by_limit(Error error);

	// ---- _Retry ----
	bool may_retry() const;
	void rewind_request();
	void retry_elsewhere(Route_Reason reason);
	void on_backend_lost(std::string_view what);
	void end_by_server(std::string_view error_body);
	void on_idle_backend_lost();
	void finish_hidden_sync();
	void restart_request();

	Worker_Context& worker_;
	const uint32_t id_;
	Peer peer_;
	Session_State state_ = Session_State::connecting_client;
	PgSQL_Data_Stream stream_;

	// Input: bytes not yet done with are [in_begin_, in_.size()).
	std::string in_;
	size_t in_begin_ = 0;
	size_t request_end_ = 0;
	size_t lost_copy_left_ = 0; // bytes still to come of a message that nobody takes any more

	// Login.
	std::unique_ptr<Login_State> login_; // from the startup packet to the end of the login
	User_Entry_Ptr user_;
	std::string username_;
	std::string database_;
	std::string cancel_key_;
	bool counted_ = false; // in the connection limits
	bool logged_in_ = false;
	std::unique_ptr<Front_Door> door_; // null once logged in
	int64_t started_us_ = 0;
	int64_t last_activity_us_ = 0;
	Deadline_Slot deadline_slot_;
	int64_t transaction_since_us_ = 0; // when the open transaction began
	// Since when the client alone has kept a server connection waiting, and its progress() then.
	int64_t client_quiet_since_us_ = 0;
	uint64_t client_quiet_at_ = 0;

	// Parameters: what the client asked for at startup and what it wants now.
	Parameter_Set startup_parameters_;
	Parameter_Set wanted_;
	Parameter_Set committed_; // wanted_ as of the last commit; meaningful inside a transaction
	bool sets_in_transaction_ = false;
	bool standard_conforming_strings_ = true;
	bool told_superuser_ = false; // the is_superuser that the login told, or the last correction
	// Settings of the proxy's own: what holds now, what holds behind COMMIT (SET LOCAL differs) and
	// what behind ROLLBACK.
	struct Own_Settings {
		Route_Mode route_mode = Route_Mode::automatic;
		Consistency_Mode consistency = Consistency_Mode::inherit;
	};
	Own_Settings own_;
	Own_Settings own_kept_;
	Own_Settings own_before_;

	Statement_Names statements_;
	Statement_Names portals_;
	Prepared_Statement_Ptr unnamed_; // sql, types and analysis of the last unnamed Parse
	uint64_t unnamed_id_ = 0;        // 0: none
	Prepared_Statement_Ptr unnamed_portal_;
	// Of a session that has used SQL's PREPARE.
	struct Sql_Prepared {
		// The last EXECUTE resolved: most sessions repeat themselves.
		Statement_Analysis_Ptr text;
		std::weak_ptr<const Prepared_Statement> body;
		Statement_Analysis_Ptr result;
	};
	std::unique_ptr<Sql_Prepared> sql_prepared_;
	// Statements whose columns the client has asked for; null: none.
	std::unique_ptr<std::unordered_set<uint64_t>> described_;

	// The statement under way.
	Session_Request request_;
	Backend_Scanner scanner_;
	Output_Pieces pieces_;
	bool skip_to_sync_ = false;
	bool taking_input_ = false; // process_input() is running
	bool more_input_ = false;   // and is to look again
	// Extended: the batch's last statement, parsed in it or known before.
	std::string batch_sql_;
	Prepared_Statement_Ptr batch_statement_;
	Statement_Analysis_Ptr own_statement_;       // of the batch, for the proxy itself
	std::vector<std::string_view> parsed_names_; // scratch of classify_extended(): views of in_
	int64_t next_query_flag_in_ = 0;

	// Server side.
	std::unique_ptr<PgSQL_Connection> backend_;
	Cancel_Ticket_Ptr cancel_; // of the last cancel that was sent to backend_, or of this request
	int64_t cancel_since_us_ = 0;
	Server_Ptr parked_at_;
	std::string last_connect_error_;
	mutable Identity identity_;
	// key_for() is asked once a statement; it changes only with users and protocol.
	mutable Conn_Key cached_key_;
	mutable Proxy_Protocol cached_key_protocol_ = Proxy_Protocol::off;
	mutable std::shared_ptr<const Users_Snapshot> cached_key_version_;
	char transaction_status_ = 'I';
	bool poisoned_ = false;    // the server of an open transaction was lost
	bool poison_told_ = false; // ... and the client has had an error about it
	uint32_t pinned_ = 0;      // Sticky_Bit set
	uint32_t check_due_ = 0;   // of them, those to be asked about at the end of the transaction
	bool notified_ = false;    // the transaction sends notifications
	uint64_t check_calls_ = 0; // the functions that made a check due; 1: several
	std::unique_ptr<Session_Listen> listen_;

	// Positions learnt from each pair's servers (routing.md, section 4); nearly always one entry.
	// All of them are monotonic, and dropped when the pair's writer changes (epoch).
	struct Positions {
		int writer_hostgroup = 0;
		uint64_t epoch = 0;
		uint64_t write_lsn = 0;
		uint64_t observed_lsn = 0;
		bool write_unknown = false;
		bool observed_unknown = false;
	};
	std::vector<Positions> positions_;
	Positions* positions_of(const Hostgroup_Pair& pair);
	const Positions* find_positions(int hostgroup);

	// What ROLLBACK TO goes back to.
	struct Savepoint {
		std::string name;
		Parameter_Set parameters;
		size_t unlistens = 0;
		Own_Settings own = {};
		Own_Settings own_kept = {};
	};
	std::vector<Savepoint> savepoints_;

	Route_Reason last_reason_ = Route_Reason::write;
	std::string last_server_;
	int last_server_port_ = 0;
	int last_hostgroup_ = -1;
	bool shutting_down_ = false;
};

} // namespace proxy
