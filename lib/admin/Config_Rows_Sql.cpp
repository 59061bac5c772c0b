#include "admin/Config_Rows_Sql.h"

#include "admin/ProxySQL_Admin_Tables_Definitions.h"
#include "config/Config_Words.h"

#include <charconv>
#include <limits>
#include <type_traits>
#include <utility>

namespace proxy {

namespace {
// Enough to see what is wrong; a table of 50,000 bad rows must not make a message of megabytes.
constexpr size_t kMaxProblemBytes = 4000;

// --- one struct's columns in table order; `row` may be const (write) or not (read) ---
template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Pgsql_Server_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.hostgroup_id);
	visit(row.hostname);
	visit(row.port);
	visit(row.status);
	visit(row.weight);
	visit(row.compression);
	visit(row.max_connections);
	visit(row.max_replication_lag);
	visit(row.use_ssl);
	visit(row.max_latency_ms);
	visit(row.comment);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Replication_Hostgroup_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.writer_hostgroup);
	visit(row.reader_hostgroup);
	visit(row.check_type);
	visit(row.comment);
	visit(row.txn_split_enabled);
	visit(row.consistency_mode);
	visit(row.max_lag_bytes);
	visit(row.lsn_wait_timeout_ms);
	visit(row.proxy_protocol);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Hostgroup_Attributes_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.hostgroup_id);
	visit(row.max_num_online_servers);
	visit(row.autocommit);
	visit(row.free_connections_pct);
	visit(row.init_connect);
	visit(row.multiplex);
	visit(row.connection_warming);
	visit(row.throttle_connections_per_sec);
	visit(row.ignore_session_variables);
	visit(row.hostgroup_settings);
	visit(row.servers_defaults);
	visit(row.comment);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Server_Ssl_Params_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.hostname);
	visit(row.port);
	visit(row.username);
	visit(row.ssl_ca);
	visit(row.ssl_cert);
	visit(row.ssl_key);
	visit(row.ssl_crl);
	visit(row.ssl_crlpath);
	visit(row.ssl_protocol_version_range);
	visit(row.comment);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Pgsql_User_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.username);
	visit(row.password);
	visit(row.active);
	visit(row.use_ssl);
	visit(row.default_hostgroup);
	visit(row.transaction_persistent);
	visit(row.fast_forward);
	visit(row.backend);
	visit(row.frontend);
	visit(row.max_connections);
	visit(row.attributes);
	visit(row.comment);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Query_Rule_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.rule_id);
	visit(row.active);
	visit(row.username);
	visit(row.database);
	visit(row.flag_in);
	visit(row.client_addr);
	visit(row.proxy_addr);
	visit(row.proxy_port);
	visit(row.digest);
	visit(row.match_digest);
	visit(row.match_pattern);
	visit(row.negate_match_pattern);
	visit(row.re_modifiers);
	visit(row.flag_out);
	visit(row.replace_pattern);
	visit(row.destination_hostgroup);
	visit(row.cache_ttl);
	visit(row.cache_empty_result);
	visit(row.cache_timeout);
	visit(row.reconnect);
	visit(row.timeout);
	visit(row.retries);
	visit(row.delay);
	visit(row.next_query_flag_in);
	visit(row.mirror_flag_out);
	visit(row.mirror_hostgroup);
	visit(row.error_msg);
	visit(row.ok_msg);
	visit(row.sticky_conn);
	visit(row.multiplex);
	visit(row.log);
	visit(row.apply);
	visit(row.attributes);
	visit(row.comment);
	visit(row.replica_eligible);
	visit(row.rollout_pct);
}

template <typename Row, typename Visitor>
requires std::is_same_v<std::remove_const_t<Row>, Fast_Routing_Row>
void visit_columns(Row& row, Visitor& visit) {
	visit(row.username);
	visit(row.database);
	visit(row.flag_in);
	visit(row.destination_hostgroup);
	visit(row.comment);
}

// Cells -> members. SQLite's columns take any text (a CHECK compares but does not convert), so
// every number is parsed strictly and what does not parse is collected in `problems`.
class Cell_Reader {
public:
	Cell_Reader(const Table_Definition& table, const Sql_Row& row, std::string& problems)
	    : table_(table), row_(row), problems_(problems) {}

	void operator()(int& out) {
		int64_t wide = out;
		number(wide, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
		out = static_cast<int>(wide);
	}
	void operator()(int64_t& out) {
		number(out, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
	}
	void operator()(bool& out) {
		int64_t wide = out ? 1 : 0;
		number(wide, 0, 1);
		out = wide != 0;
	}
	void operator()(std::string& out) {
		const Sql_Value& cell = next();
		out = cell.value_or("");
	}
	void operator()(Secret& out) { out = Secret(next().value_or("")); }
	template <typename T> void operator()(std::optional<T>& out) {
		if (!row_[place_]) {
			++place_;
			out.reset();
			return;
		}
		(*this)(out.emplace());
	}
	template <typename Enum>
	requires std::is_enum_v<Enum>
	void operator()(Enum& out) {
		const Sql_Value& cell = next();
		if (const std::optional<Enum> value = from_word<Enum>(cell.value_or(""))) {
			out = *value;
		} else {
			complain(cell, "is not one of " + words_of<Enum>());
		}
	}

private:
	const Sql_Value& next() { return row_[place_++]; }

	void number(int64_t& out, int64_t low, int64_t high) {
		const Sql_Value& cell = next();
		if (!cell) {
			return complain(cell, "must not be NULL");
		}
		int64_t value = 0;
		const char* end = cell->data() + cell->size();
		const auto [stop, code] = std::from_chars(cell->data(), end, value);
		if (code != std::errc() || stop != end) {
			return complain(cell, "is not a whole number");
		}
		if (value < low || value > high) {
			return complain(cell, "is out of range");
		}
		out = value;
	}

	// REQUIRES: next() was called for the cell.
	void complain(const Sql_Value& cell, std::string_view what) {
		if (problems_.size() > kMaxProblemBytes) {
			return;
		}
		if (!problems_.empty()) {
			problems_ += "; ";
		}
		problems_ += table_.name;
		problems_ += " row (";
		// The first columns are the key, except that a user's second one is the password.
		problems_ += row_[0].value_or("NULL");
		problems_ += "): ";
		problems_ += table_.columns[place_ - 1].name;
		problems_ += " '" + cell.value_or("NULL") + "' ";
		problems_ += what;
	}

	const Table_Definition& table_;
	const Sql_Row& row_;
	std::string& problems_;
	size_t place_ = 0;
};

class Cell_Writer {
public:
	explicit Cell_Writer(Sql_Row& out) : out_(out) {}

	void operator()(int value) { out_.emplace_back(std::to_string(value)); }
	void operator()(int64_t value) { out_.emplace_back(std::to_string(value)); }
	void operator()(bool value) { out_.emplace_back(value ? "1" : "0"); }
	void operator()(const std::string& value) { out_.emplace_back(value); }
	void operator()(const Secret& value) {
		if (value.empty()) {
			out_.emplace_back(std::nullopt);
		} else {
			out_.emplace_back(std::string(value.reveal()));
		}
	}
	template <typename T> void operator()(const std::optional<T>& value) {
		if (value) {
			(*this)(*value);
		} else {
			out_.emplace_back(std::nullopt);
		}
	}
	// The configuration tables show both kinds of shunning alike.
	void operator()(Server_Status value) {
		out_.emplace_back(
		    word_of(value == Server_Status::shunned_lag ? Server_Status::shunned : value));
	}
	template <typename Enum>
	requires std::is_enum_v<Enum>
	void operator()(Enum value) { out_.emplace_back(word_of(value)); }

private:
	Sql_Row& out_;
};

template <typename Row>
Result<std::vector<Row>> read_table(SQLite3DB& db, std::string_view schema, std::string_view name) {
	const Table_Definition& table = *find_table(name);
	Result<Sql_Result> cells =
	    db.run("SELECT " + column_list(table) + " FROM " + std::string(schema) + "." +
	           std::string(name) + " ORDER BY 1");
	if (!cells.ok()) {
		return cells.take_error();
	}
	std::vector<Row> rows(cells.value().rows.size());
	std::string problems;
	for (size_t i = 0; i < rows.size(); ++i) {
		Cell_Reader reader(table, cells.value().rows[i], problems);
		visit_columns(rows[i], reader);
	}
	if (!problems.empty()) {
		return make_error("P0001", problems);
	}
	return rows;
}

// Moves the rows into `out`, or gives the error.
template <typename Row>
Result<void> read_into(SQLite3DB& db, std::string_view schema, std::string_view name,
                       std::vector<Row>& out) {
	Result<std::vector<Row>> rows = read_table<Row>(db, schema, name);
	if (!rows.ok()) {
		return rows.take_error();
	}
	out = rows.take();
	return {};
}

template <typename Row> std::vector<Sql_Row> write_rows(const std::vector<Row>& rows) {
	std::vector<Sql_Row> out(rows.size());
	for (size_t i = 0; i < rows.size(); ++i) {
		Cell_Writer writer(out[i]);
		visit_columns(rows[i], writer);
	}
	return out;
}
} // namespace

Result<Pgsql_Servers_Config> read_servers(SQLite3DB& db, std::string_view schema) {
	Pgsql_Servers_Config config;
	PROXY_TRY(read_into(db, schema, "pgsql_servers", config.servers));
	PROXY_TRY(read_into(db, schema, "pgsql_replication_hostgroups", config.replication_hostgroups));
	PROXY_TRY(read_into(db, schema, "pgsql_hostgroup_attributes", config.hostgroup_attributes));
	PROXY_TRY(read_into(db, schema, "pgsql_servers_ssl_params", config.ssl_params));
	return config;
}

Result<std::vector<Pgsql_User_Row>> read_users(SQLite3DB& db, std::string_view schema) {
	return read_table<Pgsql_User_Row>(db, schema, "pgsql_users");
}

Result<Query_Rules_Config> read_query_rules(SQLite3DB& db, std::string_view schema) {
	Query_Rules_Config config;
	PROXY_TRY(read_into(db, schema, "pgsql_query_rules", config.rules));
	PROXY_TRY(read_into(db, schema, "pgsql_query_rules_fast_routing", config.fast_routing));
	return config;
}

std::vector<Sql_Row> to_sql(const std::vector<Pgsql_Server_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Replication_Hostgroup_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Hostgroup_Attributes_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Server_Ssl_Params_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Pgsql_User_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Query_Rule_Row>& rows) {
	return write_rows(rows);
}
std::vector<Sql_Row> to_sql(const std::vector<Fast_Routing_Row>& rows) {
	return write_rows(rows);
}

std::vector<Pgsql_User_Row> split_users(const std::vector<Pgsql_User_Row>& rows) {
	std::vector<Pgsql_User_Row> out;
	out.reserve(rows.size() * 2);
	for (const Pgsql_User_Row& row : rows) {
		if (!row.backend || !row.frontend) {
			out.push_back(row);
			continue;
		}
		out.push_back(row);
		out.back().backend = false;
		out.push_back(row);
		out.back().frontend = false;
	}
	return out;
}

} // namespace proxy
