#include "Variable_Rows.h"

namespace proxy {

namespace {

using enum String_Check; // the .def files name a check by its bare word

struct Common {
	std::string name;
	std::string_view unit;
	Variable_When when;
	std::string_view doc;
};

Variable_Info make_info(const Common& common, Variable_Kind kind) {
	Variable_Info info;
	info.name = common.name;
	info.kind = kind;
	info.unit = common.unit == "none" ? std::string_view() : common.unit;
	info.when = common.when;
	info.doc = common.doc;
	return info;
}

// One maker a type column: they give min and max the meaning pgsql_variables.def describes.
template <typename T>
Variable_Row<T> make_Int(const Common& common, int64_t T::*member, int64_t value, int64_t min,
                         int64_t max) {
	Variable_Info info = make_info(common, Variable_Kind::integer);
	info.default_text = std::to_string(value);
	info.min = min;
	info.max = max;
	return {info, member};
}

template <typename T>
Variable_Row<T> make_Bool(const Common& common, bool T::*member, bool value, int, int) {
	Variable_Info info = make_info(common, Variable_Kind::boolean);
	info.default_text = value ? "true" : "false";
	info.max = 1;
	return {info, member};
}

template <typename T>
Variable_Row<T> make_String(const Common& common, std::string T::*member, const char* value,
                            String_Check check, int64_t max) {
	Variable_Info info = make_info(common, Variable_Kind::text);
	info.default_text = value;
	info.check = check;
	info.max = max;
	return {info, member};
}

template <typename T>
Variable_Row<T> make_Word(const Common& common, std::string T::*member, const char* value,
                          const char* words, int) {
	Variable_Info info = make_info(common, Variable_Kind::word);
	info.default_text = value;
	info.words = words;
	return {info, member};
}

} // namespace

template <> const std::vector<Variable_Row<Pgsql_Config>>& variable_rows<Pgsql_Config>() {
	static const std::vector<Variable_Row<Pgsql_Config>> rows{
#define X(name, type, default_value, min, max, unit, when, doc)                                    \
	make_##type<Pgsql_Config>(Common{"pgsql-" #name, #unit, Variable_When::when, doc},             \
	                          &Pgsql_Config::name, default_value, min, max),
#include "config/pgsql_variables.def"
#undef X
	};
	return rows;
}

template <> const std::vector<Variable_Row<Admin_Config>>& variable_rows<Admin_Config>() {
	static const std::vector<Variable_Row<Admin_Config>> rows{
#define X(name, type, default_value, min, max, unit, when, doc)                                    \
	make_##type<Admin_Config>(Common{"admin-" #name, #unit, Variable_When::when, doc},             \
	                          &Admin_Config::name, default_value, min, max),
#include "config/admin_variables.def"
#undef X
	};
	return rows;
}

} // namespace proxy
