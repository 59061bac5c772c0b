// The only code that calls SQLite. One SQLite3DB is one connection (a handle with its attached
// schemas); it is not thread-safe: the admin's db mutex guards every call except interrupt().
#pragma once

#include "base/Result.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace proxy {

// A cell as text; nullopt is NULL.
using Sql_Value = std::optional<std::string>;
using Sql_Row = std::vector<Sql_Value>;

struct Sql_Result {
	std::vector<std::string> columns; // empty: the statement returns no rows by its nature
	std::vector<Sql_Row> rows;
	int64_t changes = 0; // rows that INSERT, UPDATE or DELETE touched

	bool returns_rows() const { return !columns.empty(); }
};

// What a statement may cost, so that one runaway query cannot hold the admin for ever.
struct Sql_Limits {
	int64_t time_us = 0;           // 0: no bound
	int64_t contended_time_us = 0; // the bound while `waiting` is above zero
	size_t result_bytes = 0;       // 0: no bound
	// Longest single value. Between two looks at the clock one function call runs to its end; it
	// takes the longer the longer its values are. 0: no bound.
	int value_bytes = 0;
	// How many other clients wait; may be null.
	const std::atomic<int>* waiting = nullptr;
	// Raised by another thread (CancelRequest, shutdown); may be null.
	const std::atomic<bool>* cancelled = nullptr;
};

// A prepared statement for bulk writes: bind all values, run, repeat.
class Sql_Statement {
public:
	Sql_Statement(sqlite3* db, sqlite3_stmt* statement);
	~Sql_Statement();
	Sql_Statement(Sql_Statement&& other) noexcept;
	Sql_Statement& operator=(Sql_Statement&&) = delete;
	Sql_Statement(const Sql_Statement&) = delete;
	Sql_Statement& operator=(const Sql_Statement&) = delete;

	// Runs the statement with these values; rows it would return are dropped.
	Result<void> run(std::span<const Sql_Value> values);

private:
	sqlite3* db_;
	sqlite3_stmt* statement_;
};

class SQLite3DB {
public:
	// `uri`: a path or a file: URI (file:name?mode=memory&cache=shared). Creates the file if
	// missing.
	static Result<std::unique_ptr<SQLite3DB>> open(const std::string& uri);
	~SQLite3DB();
	SQLite3DB(const SQLite3DB&) = delete;
	SQLite3DB& operator=(const SQLite3DB&) = delete;

	// Runs the first statement of `sql` with positional parameters and collects its rows. SQL text
	// after the first statement is ignored, as ProxySQL's admin does.
	Result<Sql_Result> run(std::string_view sql, std::span<const Sql_Value> parameters = {},
	                       const Sql_Limits& limits = {});
	// Runs a script of our own (several statements, no parameters, no rows).
	Result<void> execute(const std::string& script);
	Result<Sql_Statement> prepare(std::string_view sql);
	// One value of one row; `otherwise` when there is no row or the value is NULL.
	std::string value(std::string_view sql, std::string_view otherwise,
	                  std::span<const Sql_Value> parameters = {});

	Result<void> attach(const std::string& uri, std::string_view schema);
	// True while a transaction is open on this connection.
	bool in_transaction() const;
	void set_read_only(bool read_only);
	// From now on, statements may not call functions that cannot be stopped and take quadratic time
	// (instr, replace).
	void refuse_slow_functions();
	// Stops the running statement; safe from any thread while the object lives.
	void interrupt();

	// Bytes that SQLite holds in this process.
	static int64_t memory_used();

	// Takes over an open handle; use open().
	explicit SQLite3DB(sqlite3* db) : db_(db) {}

private:
	class Limited;
	static int on_progress(void* self);
	// Why a statement has to stop now; empty: it has not.
	std::string_view reason_to_stop() const;

	sqlite3* db_;
	// The limits of the statement that runs now; read by the progress callback on the same thread.
	Sql_Limits limits_;
	int64_t started_us_ = 0;
	std::string_view stopped_because_; // of the last look
};

// Commits on commit(); rolls back when it goes out of scope before that.
class Sql_Transaction {
public:
	explicit Sql_Transaction(SQLite3DB& db);
	~Sql_Transaction();
	Sql_Transaction(const Sql_Transaction&) = delete;
	Sql_Transaction& operator=(const Sql_Transaction&) = delete;

	Result<void> begin();
	Result<void> commit();

private:
	SQLite3DB& db_;
	bool open_ = false;
};

// 'text' as an SQL string literal, "name" as an identifier.
std::string sql_literal(std::string_view text);
std::string sql_identifier(std::string_view name);

} // namespace proxy
