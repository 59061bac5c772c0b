#include "stats/Worker_Counters.h"

namespace proxy {

namespace {
constexpr const char* kNames[] = {
#define X(name, doc) #name,
#include "stats/counters.def"
#undef X
};
constexpr const char* kDocs[] = {
#define X(name, doc) doc,
#include "stats/counters.def"
#undef X
};
} // namespace

const char* name_of(Counter counter) {
	return kNames[static_cast<size_t>(counter)];
}

const char* doc_of(Counter counter) {
	return kDocs[static_cast<size_t>(counter)];
}

} // namespace proxy
