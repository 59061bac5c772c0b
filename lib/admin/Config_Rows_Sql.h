// Configuration rows between SQLite text cells and the structs of Config_Rows.h. One column list a
// struct serves both directions (Config_Rows_Sql.cpp), in the order of the table definitions.
#pragma once

#include "admin/sqlite3db.h"
#include "base/Result.h"
#include "config/Config_Rows.h"

#include <string_view>
#include <vector>

namespace proxy {

// Reads whole tables of one schema ("main", "disk"). `prefix` is "" or "runtime_".
// The error names table, row, column and value of every cell that is not what it should be.
Result<Pgsql_Servers_Config> read_servers(SQLite3DB& db, std::string_view schema);
Result<std::vector<Pgsql_User_Row>> read_users(SQLite3DB& db, std::string_view schema);
Result<Query_Rules_Config> read_query_rules(SQLite3DB& db, std::string_view schema);

std::vector<Sql_Row> to_sql(const std::vector<Pgsql_Server_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Replication_Hostgroup_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Hostgroup_Attributes_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Server_Ssl_Params_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Pgsql_User_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Query_Rule_Row>& rows);
std::vector<Sql_Row> to_sql(const std::vector<Fast_Routing_Row>& rows);

// The runtime form of users: a row that is both frontend and backend becomes two, as in ProxySQL.
std::vector<Pgsql_User_Row> split_users(const std::vector<Pgsql_User_Row>& rows);

} // namespace proxy
