// The checks that a String row of the .def files can name. Pure, except log_path, which looks
// whether a directory exists.
#pragma once

#include "base/Result.h"
#include "config/Config_Variables.h"

#include <string>
#include <string_view>

namespace proxy {

// The stored form, or an error that says what is wrong, worded to follow "<name>: ".
Result<std::string> check_string(String_Check check, std::string_view text);

std::string_view trimmed(std::string_view text);
// The parts between separators, trimmed; empty parts are left out.
std::vector<std::string_view> split_list(std::string_view text, char separator);

} // namespace proxy
