// One connection of the monitor to a server: libpq without blocking, one query at a time, answers
// as text. Nothing here knows what is asked or why.
//
// Owner and thread: the monitor's. The caller waits for fd() as wants() says and calls step();
// deadlines are the caller's too.
//
//	connecting --login done--> idle --start_query()--> querying --answer--> idle
//	     +------------------------- failed <--------------+
#pragma once

#include "backend/PgSQL_Connection.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;
struct pg_result;

namespace proxy {

class Monitor_Connection {
public:
	enum class State : uint8_t { connecting, idle, querying, failed };
	enum class Wants : uint8_t { read, write };
	using Row = std::vector<std::optional<std::string>>;

	// Starts connecting. request.key holds user and database; with a protocol that has startup
	// parameters they are sent.
	explicit Monitor_Connection(const Connect_Request& request);
	~Monitor_Connection();
	Monitor_Connection(const Monitor_Connection&) = delete;
	Monitor_Connection& operator=(const Monitor_Connection&) = delete;

	State state() const { return state_; }
	int fd() const; // -1 when failed; may change while connecting
	Wants wants() const { return wants_; }
	// Goes on after fd() became ready. While idle: notices that the server has gone.
	State step();
	// REQUIRES idle. False: failed.
	bool start_query(const char* sql);

	// Of the last query. A statement that failed leaves the connection idle: query_failed().
	const std::vector<Row>& rows() const { return rows_; }
	bool query_failed() const { return query_failed_; }
	// Of the last failure; sqlstate is empty when no server sent one.
	const std::string& error() const { return error_; }
	const std::string& sqlstate() const { return sqlstate_; }

	// Whether the last ReadyForQuery carried a position, and which (0: none or zero).
	bool has_lsn() const;
	uint64_t lsn() const;
	// The server takes the in-band wait that the startup offered.
	bool takes_inband_wait() const;
	// Null when the server has not reported it.
	const char* parameter(const char* name) const;
	// Our end of the connection, for stating who we are; empty for a Unix socket.
	std::string local_address() const;
	int local_port() const;

private:
	struct Closer {
		void operator()(pg_conn* connection) const;
	};
	void fail(std::string text);
	void step_connect();
	void step_query();
	void take_result(pg_result* result);

	std::unique_ptr<pg_conn, Closer> pg_;
	Secret client_key_; // for SCRAM instead of a password
	Secret server_key_;
	State state_ = State::connecting;
	Wants wants_ = Wants::write;
	std::vector<Row> rows_;
	bool query_failed_ = false;
	std::string error_;
	std::string sqlstate_;
};

// The SQLSTATE in a connect error of libpq (verbose form: "...: FATAL:  28P01: text"); empty: none.
std::string sqlstate_in_message(std::string_view message);

} // namespace proxy
