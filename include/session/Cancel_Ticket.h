// One cancel on its way from a client to a server.
//
// PostgreSQL signals the process and then its process group, and closes the cancel's connection
// after that. Until then a second signal may hit whatever the server process runs next, so its
// connection gets no other statement before the ticket is settled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace proxy {

// What a client, or another proxy for one of its clients, asks for.
struct Cancel_Request {
	uint32_t pid = 0;
	std::string key;
	bool forwarded = false; // never passed on again
};

enum class Cancel_State : uint8_t {
	pending,
	settled,   // the server has closed the cancel's connection
	uncertain, // it has not within the time limit, or could not be reached
};

// Shared by the client's cancel connection, the session it is meant for and the thread that sends
// it; any thread. A holder that has nothing to do with it drops it.
struct Cancel_Ticket {
	std::atomic<Cancel_State> state{Cancel_State::pending};

	Cancel_State get() const { return state.load(std::memory_order_acquire); }
	// Release: whoever sees it settled may use the server connection again.
	void set(Cancel_State to) { state.store(to, std::memory_order_release); }
};
using Cancel_Ticket_Ptr = std::shared_ptr<Cancel_Ticket>;

} // namespace proxy
