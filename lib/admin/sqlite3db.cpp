#include "admin/sqlite3db.h"

#include "base/Clock.h"

#include <sqlite3.h>

#include <utility>

namespace proxy {

namespace {
// SQLSTATE of every SQLite failure on the admin port (ProxySQL's choice).
constexpr std::string_view kSqliteState = "28000";
// Virtual machine steps between two looks at the deadline: well under a millisecond of work.
constexpr int kProgressSteps = 1000;
// Another process may hold proxysql.db for a moment (a backup tool): wait this long for it.
constexpr int kBusyTimeoutMs = 2000;

Error sqlite_error(sqlite3* db) {
	return make_error(kSqliteState, sqlite3_errmsg(db));
}

Result<void> bind_all(sqlite3* db, sqlite3_stmt* statement, std::span<const Sql_Value> values) {
	for (size_t i = 0; i < values.size(); ++i) {
		const int place = static_cast<int>(i) + 1;
		const int rc = values[i]
		                   ? sqlite3_bind_text64(statement, place, values[i]->data(),
		                                         values[i]->size(), SQLITE_TRANSIENT, SQLITE_UTF8)
		                   : sqlite3_bind_null(statement, place);
		if (rc != SQLITE_OK) {
			return sqlite_error(db);
		}
	}
	return {};
}

Sql_Row read_row(sqlite3_stmt* statement, int columns, size_t& bytes) {
	Sql_Row row(static_cast<size_t>(columns));
	for (int i = 0; i < columns; ++i) {
		const unsigned char* text = sqlite3_column_text(statement, i);
		if (text != nullptr) {
			const size_t size = static_cast<size_t>(sqlite3_column_bytes(statement, i));
			row[static_cast<size_t>(i)].emplace(reinterpret_cast<const char*>(text), size);
			bytes += size;
		}
		bytes += sizeof(Sql_Value);
	}
	return row;
}

struct Finalize {
	void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement_Ptr = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string quoted(std::string_view text, char quote) {
	std::string out(1, quote);
	for (const char c : text) {
		if (c == quote) {
			out += quote;
		}
		out += c;
	}
	out += quote;
	return out;
}
} // namespace

Sql_Statement::Sql_Statement(sqlite3* db, sqlite3_stmt* statement)
    : db_(db), statement_(statement) {}

Sql_Statement::Sql_Statement(Sql_Statement&& other) noexcept
    : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)) {}

Sql_Statement::~Sql_Statement() {
	sqlite3_finalize(statement_);
}

Result<void> Sql_Statement::run(std::span<const Sql_Value> values) {
	PROXY_TRY(bind_all(db_, statement_, values));
	int rc = SQLITE_ROW;
	while (rc == SQLITE_ROW) {
		rc = sqlite3_step(statement_);
	}
	Result<void> result;
	if (rc != SQLITE_DONE) {
		result = sqlite_error(db_);
	}
	sqlite3_reset(statement_);
	return result;
}

Result<std::unique_ptr<SQLite3DB>> SQLite3DB::open(const std::string& uri) {
	sqlite3* handle = nullptr;
	const int flags =
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX;
	const int rc = sqlite3_open_v2(uri.c_str(), &handle, flags, nullptr);
	// SQLite gives a handle even when it fails: it carries the message and wants closing.
	auto db = std::make_unique<SQLite3DB>(handle);
	if (rc != SQLITE_OK) {
		return make_error(kSqliteState, "cannot open " + uri + ": " + sqlite3_errmsg(handle));
	}
	sqlite3_busy_timeout(handle, kBusyTimeoutMs);
	sqlite3_extended_result_codes(handle, 1);
	sqlite3_progress_handler(handle, kProgressSteps, &SQLite3DB::on_progress, db.get());
	return db;
}

SQLite3DB::~SQLite3DB() {
	sqlite3_close_v2(db_);
}

// Puts one statement's limits in force; takes them away again however the statement ends.
class SQLite3DB::Limited {
public:
	Limited(SQLite3DB& db, const Sql_Limits& limits) : db_(db) {
		db_.limits_ = limits;
		db_.started_us_ = monotonic_us();
		if (limits.value_bytes != 0) {
			value_bytes_ = sqlite3_limit(db_.db_, SQLITE_LIMIT_LENGTH, limits.value_bytes);
			pattern_bytes_ =
			    sqlite3_limit(db_.db_, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, kMaxPatternBytes);
		}
	}
	~Limited() {
		if (db_.limits_.value_bytes != 0) {
			sqlite3_limit(db_.db_, SQLITE_LIMIT_LENGTH, value_bytes_);
			sqlite3_limit(db_.db_, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, pattern_bytes_);
		}
		db_.limits_ = {};
	}
	Limited(const Limited&) = delete;
	Limited& operator=(const Limited&) = delete;

private:
	static constexpr int kMaxPatternBytes = 256; // LIKE takes this many steps a byte

	SQLite3DB& db_;
	int value_bytes_ = 0;
	int pattern_bytes_ = 0;
};

std::string_view SQLite3DB::reason_to_stop() const {
	// Relaxed: flags only, nothing is published with them.
	if (limits_.cancelled != nullptr && limits_.cancelled->load(std::memory_order_relaxed)) {
		return "canceling statement due to user request";
	}
	if (limits_.time_us == 0) {
		return {};
	}
	const int64_t spent_us = monotonic_us() - started_us_;
	if (spent_us > limits_.time_us) {
		return "the statement ran longer than this interface allows";
	}
	if (limits_.waiting != nullptr && spent_us > limits_.contended_time_us &&
	    limits_.waiting->load(std::memory_order_relaxed) > 0) {
		return "the statement ran longer than this interface allows while other clients wait";
	}
	return {};
}

int SQLite3DB::on_progress(void* self) {
	SQLite3DB* db = static_cast<SQLite3DB*>(self);
	db->stopped_because_ = db->reason_to_stop();
	return db->stopped_because_.empty() ? 0 : 1;
}

void SQLite3DB::refuse_slow_functions() {
	sqlite3_set_authorizer(
	    db_,
	    [](void*, int action, const char*, const char* name, const char*, const char*) {
		    const bool slow = action == SQLITE_FUNCTION && (sqlite3_stricmp(name, "instr") == 0 ||
		                                                    sqlite3_stricmp(name, "replace") == 0);
		    return slow ? SQLITE_DENY : SQLITE_OK;
	    },
	    nullptr);
}

Result<Sql_Result> SQLite3DB::run(std::string_view sql, std::span<const Sql_Value> parameters,
                                  const Sql_Limits& limits) {
	sqlite3_stmt* raw = nullptr;
	if (sql.size() > static_cast<size_t>(sqlite3_limit(db_, SQLITE_LIMIT_SQL_LENGTH, -1))) {
		return make_error("54000", "statement too long");
	}
	if (sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &raw, nullptr) !=
	    SQLITE_OK) {
		return sqlite_error(db_);
	}
	const Statement_Ptr statement(raw);
	Sql_Result result;
	if (raw == nullptr) {
		return result; // only blanks or a comment
	}
	PROXY_TRY(bind_all(db_, raw, parameters));
	const int columns = sqlite3_column_count(raw);
	for (int i = 0; i < columns; ++i) {
		const char* name = sqlite3_column_name(raw, i);
		result.columns.emplace_back(name == nullptr ? "" : name);
	}
	const Limited limited(*this, limits);
	const int64_t changes_before = sqlite3_total_changes64(db_);
	size_t bytes = 0;
	int rc = sqlite3_step(raw);
	for (; rc == SQLITE_ROW; rc = sqlite3_step(raw)) {
		result.rows.push_back(read_row(raw, columns, bytes));
		if (limits.result_bytes != 0 && bytes > limits.result_bytes) {
			return make_error("54000", "the result is larger than this interface returns at once; "
			                           "narrow the query or use LIMIT");
		}
	}
	if (rc == SQLITE_INTERRUPT) {
		return make_error("57014", std::string(stopped_because_));
	}
	if (rc != SQLITE_DONE) {
		return sqlite_error(db_);
	}
	if (sqlite3_total_changes64(db_) != changes_before) {
		result.changes = sqlite3_changes64(db_);
	}
	return result;
}

Result<void> SQLite3DB::execute(const std::string& script) {
	if (sqlite3_exec(db_, script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
		return sqlite_error(db_);
	}
	return {};
}

Result<Sql_Statement> SQLite3DB::prepare(std::string_view sql) {
	sqlite3_stmt* raw = nullptr;
	if (sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &raw, nullptr) !=
	    SQLITE_OK) {
		return sqlite_error(db_);
	}
	return Sql_Statement(db_, raw);
}

std::string SQLite3DB::value(std::string_view sql, std::string_view otherwise,
                             std::span<const Sql_Value> parameters) {
	const Result<Sql_Result> result = run(sql, parameters);
	if (!result.ok() || result.value().rows.empty() || !result.value().rows[0][0]) {
		return std::string(otherwise);
	}
	return *result.value().rows[0][0];
}

Result<void> SQLite3DB::attach(const std::string& uri, std::string_view schema) {
	return execute("ATTACH DATABASE " + sql_literal(uri) + " AS " + std::string(schema));
}

bool SQLite3DB::in_transaction() const {
	return sqlite3_get_autocommit(db_) == 0;
}

void SQLite3DB::set_read_only(bool read_only) {
	// Cannot fail: no I/O and no lock is involved.
	(void)execute(read_only ? "PRAGMA query_only=ON" : "PRAGMA query_only=OFF");
}

void SQLite3DB::interrupt() {
	sqlite3_interrupt(db_);
}

int64_t SQLite3DB::memory_used() {
	return sqlite3_memory_used();
}

Sql_Transaction::Sql_Transaction(SQLite3DB& db) : db_(db) {}

Sql_Transaction::~Sql_Transaction() {
	if (open_ && db_.in_transaction()) {
		(void)db_.execute("ROLLBACK"); // nothing better to do with a failure here
	}
}

Result<void> Sql_Transaction::begin() {
	PROXY_TRY(db_.execute("BEGIN"));
	open_ = true;
	return {};
}

Result<void> Sql_Transaction::commit() {
	PROXY_TRY(db_.execute("COMMIT"));
	open_ = false;
	return {};
}

std::string sql_literal(std::string_view text) {
	return quoted(text, '\'');
}

std::string sql_identifier(std::string_view name) {
	return quoted(name, '"');
}

} // namespace proxy
