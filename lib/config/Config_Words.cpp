#include "config/Config_Words.h"

#include <algorithm>
#include <array>

namespace proxy {

namespace {

// First row of a value: the word shown. Further rows: aliases, accepted but not listed.
enum class Use : uint8_t { word, alias, shown_only };

template <typename E> struct Word_Row {
	E value;
	std::string_view text;
	Use use = Use::word;
};

template <typename E> struct Word_Table;

template <> struct Word_Table<Server_Status> {
	static constexpr std::array rows{
	    Word_Row<Server_Status>{Server_Status::online, "ONLINE"},
	    Word_Row<Server_Status>{Server_Status::shunned, "SHUNNED"},
	    Word_Row<Server_Status>{Server_Status::offline_soft, "OFFLINE_SOFT"},
	    Word_Row<Server_Status>{Server_Status::offline_hard, "OFFLINE_HARD"},
	    Word_Row<Server_Status>{Server_Status::shunned_lag, "SHUNNED_REPLICATION_LAG",
	                            Use::shown_only},
	};
};

template <> struct Word_Table<Check_Type> {
	static constexpr std::array rows{
	    Word_Row<Check_Type>{Check_Type::read_only, "read_only"},
	    Word_Row<Check_Type>{Check_Type::polardb, "polardb"},
	};
};

// The digits are the numbers under which the modes were stored before they had names.
template <> struct Word_Table<Consistency_Mode> {
	static constexpr std::array rows{
	    Word_Row<Consistency_Mode>{Consistency_Mode::inherit, "default"},
	    Word_Row<Consistency_Mode>{Consistency_Mode::off, "off"},
	    Word_Row<Consistency_Mode>{Consistency_Mode::eventual, "eventual"},
	    Word_Row<Consistency_Mode>{Consistency_Mode::session_lsn, "session_lsn"},
	    Word_Row<Consistency_Mode>{Consistency_Mode::global_lsn, "global_lsn"},
	    Word_Row<Consistency_Mode>{Consistency_Mode::off, "0", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::session_lsn, "1", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::global_lsn, "2", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::eventual, "3", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::session_lsn, "lsn", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::session_lsn, "session", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::global_lsn, "global", Use::alias},
	    Word_Row<Consistency_Mode>{Consistency_Mode::global_lsn, "lsn_global", Use::alias},
	};
};

template <> struct Word_Table<Proxy_Protocol> {
	static constexpr std::array rows{
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::inherit, "default"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::v15_wait, "v15_wait"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::v15, "v15"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::legacy, "legacy"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::off, "off"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::automatic, "auto"},
	    Word_Row<Proxy_Protocol>{Proxy_Protocol::stock, "stock"},
	};
};

template <> struct Word_Table<Read_Target> {
	static constexpr std::array rows{
	    Word_Row<Read_Target>{Read_Target::primary, "primary"},
	    Word_Row<Read_Target>{Read_Target::replica, "replica"},
	};
};

template <> struct Word_Table<Read_Fallback_Action> {
	static constexpr std::array rows{
	    Word_Row<Read_Fallback_Action>{Read_Fallback_Action::primary, "primary"},
	    Word_Row<Read_Fallback_Action>{Read_Fallback_Action::error, "error"},
	};
};

template <> struct Word_Table<Missing_Lsn_Action> {
	static constexpr std::array rows{
	    Word_Row<Missing_Lsn_Action>{Missing_Lsn_Action::primary, "primary"},
	    Word_Row<Missing_Lsn_Action>{Missing_Lsn_Action::warning, "warning"},
	    Word_Row<Missing_Lsn_Action>{Missing_Lsn_Action::error, "error"},
	};
};

template <> struct Word_Table<Lsn_Timeout_Action> {
	static constexpr std::array rows{
	    Word_Row<Lsn_Timeout_Action>{Lsn_Timeout_Action::warning, "warning"},
	    Word_Row<Lsn_Timeout_Action>{Lsn_Timeout_Action::primary, "primary"},
	    Word_Row<Lsn_Timeout_Action>{Lsn_Timeout_Action::error, "error"},
	    Word_Row<Lsn_Timeout_Action>{Lsn_Timeout_Action::disconnect, "disconnect"},
	};
};

template <> struct Word_Table<Replica_Error_Action> {
	static constexpr std::array rows{
	    Word_Row<Replica_Error_Action>{Replica_Error_Action::primary, "primary"},
	    Word_Row<Replica_Error_Action>{Replica_Error_Action::error, "error"},
	    Word_Row<Replica_Error_Action>{Replica_Error_Action::disconnect, "disconnect"},
	};
};

template <> struct Word_Table<Replica_Loss_Action> {
	using E = Replica_Loss_Action;
	static constexpr std::array rows{
	    Word_Row<E>{E::replica_then_primary, "replica_then_primary"},
	    Word_Row<E>{E::replica_then_error, "replica_then_error"},
	    Word_Row<E>{E::primary, "primary"},
	    Word_Row<E>{E::error, "error"},
	    Word_Row<E>{E::disconnect, "disconnect"},
	};
};

template <> struct Word_Table<Proxy_Identity_Mode> {
	static constexpr std::array rows{
	    Word_Row<Proxy_Identity_Mode>{Proxy_Identity_Mode::client, "client"},
	    Word_Row<Proxy_Identity_Mode>{Proxy_Identity_Mode::proxy, "proxy"},
	};
};

char lower(char letter) {
	return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

} // namespace

std::string to_lower(std::string_view text) {
	std::string result(text);
	std::transform(result.begin(), result.end(), result.begin(), lower);
	return result;
}

bool equal_ignoring_case(std::string_view left, std::string_view right) {
	return std::equal(left.begin(), left.end(), right.begin(), right.end(),
	                  [](char a, char b) { return lower(a) == lower(b); });
}

template <typename E> std::string_view word_of(E value) {
	for (const auto& row : Word_Table<E>::rows) {
		if (row.value == value) {
			return row.text;
		}
	}
	return "";
}

template <typename E> std::optional<E> from_word(std::string_view text) {
	for (const auto& row : Word_Table<E>::rows) {
		if (row.use != Use::shown_only && equal_ignoring_case(row.text, text)) {
			return row.value;
		}
	}
	return std::nullopt;
}

template <typename E> std::string words_of() {
	std::string words;
	for (const auto& row : Word_Table<E>::rows) {
		if (row.use == Use::word) {
			words += words.empty() ? "" : ", ";
			words += row.text;
		}
	}
	return words;
}

// X-macros belong in .def files; this one only spares eleven times three lines.
#define PROXY_WORD_FUNCTIONS(E)                                                                    \
	template std::string_view word_of<E>(E);                                                       \
	template std::optional<E> from_word<E>(std::string_view);                                      \
	template std::string words_of<E>();
PROXY_WORD_FUNCTIONS(Server_Status)
PROXY_WORD_FUNCTIONS(Check_Type)
PROXY_WORD_FUNCTIONS(Consistency_Mode)
PROXY_WORD_FUNCTIONS(Proxy_Protocol)
PROXY_WORD_FUNCTIONS(Read_Target)
PROXY_WORD_FUNCTIONS(Read_Fallback_Action)
PROXY_WORD_FUNCTIONS(Missing_Lsn_Action)
PROXY_WORD_FUNCTIONS(Lsn_Timeout_Action)
PROXY_WORD_FUNCTIONS(Replica_Error_Action)
PROXY_WORD_FUNCTIONS(Replica_Loss_Action)
PROXY_WORD_FUNCTIONS(Proxy_Identity_Mode)
#undef PROXY_WORD_FUNCTIONS

} // namespace proxy
