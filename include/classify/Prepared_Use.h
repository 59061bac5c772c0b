// What a text does with prepared statements by their names (PREPARE, EXECUTE, DEALLOCATE), and what
// an EXECUTE is once the prepared statement is known. Pure data.
#pragma once

#include "classify/Statement_Class.h"

namespace proxy {

// `text` with what its part `use` (verb execute) runs: routing, pins and parameters by the body.
void add_executed(Statement_Class& text, const Prepared_Use& use, const Statement_Class& body);

// The statement may see any prepared statement: it lists them, or runs code of which nothing is
// known.
bool meets_all_names(const Statement_Class& statement);

} // namespace proxy
