#include "protocol/PgSQL_Error_Helper.h"

#include <array>

namespace proxy {

namespace {

constexpr auto kRows = std::to_array<Sqlstate_Row>({
#define PROXY_SQLSTATE(name, code, when) {#name, code, when},
#include "protocol/Sqlstates.def"
#undef PROXY_SQLSTATE
});

} // namespace

std::span<const Sqlstate_Row> sqlstate_table() {
	return kRows;
}

const Sqlstate_Row* find_sqlstate(std::string_view code) {
	for (const Sqlstate_Row& row : kRows) {
		if (row.code == code) {
			return &row;
		}
	}
	return nullptr;
}

Error_Class classify_sqlstate(std::string_view code) {
	const std::string_view group = code.substr(0, 2);
	if (code == sqlstate::query_canceled) {
		return Error_Class::reported; // somebody asked for it
	}
	if (group == "57" || group == "58") {
		return Error_Class::connection;
	}
	if (group == "08" || group == "53" || code == "40001" || code == "40P01") {
		return Error_Class::retryable;
	}
	return Error_Class::reported;
}

} // namespace proxy
