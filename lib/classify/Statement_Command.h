// Which row of stats_pgsql_commands_counters a statement counts in.
#pragma once

#include "classify/Parse_Tree.h"

#include <cstdint>

namespace proxy {

uint8_t command_of(const Tree_Node& statement);

} // namespace proxy
