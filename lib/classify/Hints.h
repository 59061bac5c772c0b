// Routing hints in a statement's first comment, e.g. /* route=replica; consistency=session */.
#pragma once

#include "classify/Statement_Class.h"

#include <string_view>

namespace proxy {

Statement_Hints parse_hints(std::string_view sql);

} // namespace proxy
