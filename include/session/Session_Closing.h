// The end of a request that may have left something on its server connection, or that others are to
// hear of: what happens between the server's ReadyForQuery and the client's. Plain data.
//
//	due --> checking --> (listening --> unlistening) --> (hearing) --> the client's ReadyForQuery
#pragma once

#include "classify/Statement_Class.h"

#include <cstdint>
#include <string>

namespace proxy {

enum class Closing : uint8_t {
	none,
	due,         // the server's ReadyForQuery is there
	checking,    // a hidden query asks the server what is left
	listening,   // the listener of the database takes over the channels that were found
	unlistening, // ... and the server connection no longer listens
	hearing,     // the session's own notifications are under way to it
};

// In the set of bits to be checked: a function of which nothing is known was called.
inline constexpr uint32_t kCheckAll = 1u << 31;
// Bits that a server can be asked about.
inline constexpr uint32_t kCheckable =
    kStickyTempTable | kStickyListen | kStickyHoldCursor | kStickyAdvisoryLock | kStickySet;

struct Closing_Progress {
	Closing step = Closing::none;
	bool answered = false; // the hidden query of this step
	bool failed = false;
	uint32_t asked = 0; // bits of the check under way
	std::string rows;   // its DataRows
};

} // namespace proxy
