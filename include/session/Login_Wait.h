// How a login waits for work that must not run on a worker: key derivation, auth_query, checks that
// ask a server. The session says what to do (Login_Job) and which step comes next; the job runs on
// a service thread, and its answer comes back through the worker's mailbox.
//
//	session: wait_for_login(job, step) --> Login_Service: job(reply) ... reply(answer)
//	   ^                                                                      |
//	   +-- on_login_answer(serial, answer) <-- mailbox <----------------------+
//
// A session that has ended, or that waits for something else by now, never sees the answer.
#pragma once

#include "auth/Auth_Flow.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace proxy {

class PgSQL_Session;

// What a job found out; each kind of job has its own kind of answer.
struct Login_Answer {
	virtual ~Login_Answer() = default;
};
using Login_Answer_Ptr = std::unique_ptr<Login_Answer>;

// The worker's mailbox.
class Login_Answer_Sink {
public:
	// Any thread. Null: the work was refused (too much of it waits, or the proxy goes down).
	virtual void deliver_login(uint32_t session, uint64_t serial, Login_Answer_Ptr answer) = 0;

protected:
	~Login_Answer_Sink() = default;
};

// The way back to the waiting session. Whoever holds it calls it once, on any thread.
struct Login_Reply {
	Login_Answer_Sink* sink = nullptr;
	uint32_t session = 0;
	uint64_t serial = 0;

	void operator()(Login_Answer_Ptr answer) const {
		sink->deliver_login(session, serial, std::move(answer));
	}
};
using Login_Job = std::function<void(const Login_Reply&)>;

// Work that takes the processor must not wait behind work that waits for a server.
enum class Login_Lane : uint8_t { compute, network };

// The steps of a login behind its startup packet, in this order.
enum class Login_Step : uint8_t {
	find_user,
	authenticate,
	admit,            // limits and rules for somebody who has proved who he is
	check_parameters, // what the client asked for at startup
	finish,
};

// Goes on with the answer, null when the work was refused; the result is the step's, as if it had
// not waited: true when it is done.
using Login_Resume = bool (PgSQL_Session::*)(Login_Answer_Ptr answer);

// What a login needs until it is over; then it goes.
struct Login_State {
	Login_Step step = Login_Step::find_user;
	Auth_Flow flow;
	std::optional<Scram_Derived> keys = {}; // of a plain password
	// Of the answer waited for; 0: the login waits for the client.
	uint64_t awaited = 0;
	Login_Resume resume = nullptr; // with awaited
	// Startup parameters as the server spells them, by name in lower case.
	std::map<std::string, std::string> reported;
	// Bytes for the client that go out with the next ones.
	std::string out;
};

} // namespace proxy
