// SET, RESET, set_config() and the transaction options, out of the parse tree.
#pragma once

#include "classify/Statement_Class.h"

#include <string_view>

namespace proxy {

// VariableSetStmt: fills kind, sets, isolation, access mode and sticky bits.
void classify_set(std::string_view message, Statement_Class& result);

// List of DefElem in `field_number`: transaction_isolation, transaction_read_only, ...
void read_transaction_options(std::string_view message, uint32_t field_number,
                              Statement_Class& result);

// Number of set_config() calls that are direct targets of this plain SELECT and have constant
// arguments; each is added to result.sets.
unsigned read_set_configs(std::string_view select_stmt, Statement_Class& result);

// Text of a constant Node as SET takes it; false when it is no constant. is_null: NULL.
bool constant_text(std::string_view node, std::string& text, bool& is_null);

} // namespace proxy
