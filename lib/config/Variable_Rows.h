// The rows of the .def files tied to the members of their struct; private to lib/config.
#pragma once

#include "config/Config_Variables.h"

#include <string>
#include <variant>
#include <vector>

namespace proxy {

template <typename T> struct Variable_Row {
	Variable_Info info;
	std::variant<int64_t T::*, bool T::*, std::string T::*> member;
};

// T: Pgsql_Config or Admin_Config. In the order of the .def file.
template <typename T> const std::vector<Variable_Row<T>>& variable_rows();
template <> const std::vector<Variable_Row<Pgsql_Config>>& variable_rows<Pgsql_Config>();
template <> const std::vector<Variable_Row<Admin_Config>>& variable_rows<Admin_Config>();

// SHOW form of one member.
template <typename T> std::string text_of(const Variable_Row<T>& row, const T& config) {
	if (const auto* integer = std::get_if<int64_t T::*>(&row.member)) {
		return std::to_string(config.*(*integer));
	}
	if (const auto* boolean = std::get_if<bool T::*>(&row.member)) {
		return config.*(*boolean) ? "true" : "false";
	}
	return config.*std::get<std::string T::*>(row.member);
}

// REQUIRES: `text` is what check_variable() returned for this row.
template <typename T>
void set_member(const Variable_Row<T>& row, T& config, const std::string& text) {
	if (const auto* integer = std::get_if<int64_t T::*>(&row.member)) {
		config.*(*integer) = std::stoll(text);
	} else if (const auto* boolean = std::get_if<bool T::*>(&row.member)) {
		config.*(*boolean) = text == "true";
	} else {
		config.*std::get<std::string T::*>(row.member) = text;
	}
}

} // namespace proxy
