// The admin- variables as one plain struct, a member a row of admin_variables.def.
// Immutable once published, as Pgsql_Config.
#pragma once

#include "base/Version.def"
#include "config/Pgsql_Config.h"

namespace proxy {

struct Admin_Config {
#define X(name, type, default_value, min, max, unit, when, doc)                                    \
	Variable_##type name = default_value;
#include "config/admin_variables.def"
#undef X
};

} // namespace proxy
