// Several statements in one text: one class for all of them, worst case.
#pragma once

#include "classify/Statement_Class.h"

namespace proxy {

// What a batch must say of its parts' kinds, which it does not keep.
void note_kind(Statement_Class& batch, Statement_Kind kind);
// Adds the next statement of a batch: flags add up, the worst case counts.
void merge_into(Statement_Class& batch, Statement_Class&& part);
// The answers to this statement of a batch tell something about the session.
bool matters_by_itself(const Statement_Class& part);

} // namespace proxy
