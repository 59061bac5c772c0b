// One libev loop and its watchers; the only place that calls ev_*.
//
// Thread: everything here belongs to the thread that runs the loop, except wake().
#pragma once

#include <ev.h>

#include <cstdint>

namespace proxy {

enum Io_Events : int { kIoNone = 0, kIoRead = 1, kIoWrite = 2 };

// Gets a descriptor's readiness. Not owned by the watcher; must outlive it.
class Io_Handler {
public:
	virtual void on_io(int events) = 0;

protected:
	~Io_Handler() = default;
};

class Wake_Handler {
public:
	virtual void on_wake() = 0;

protected:
	~Wake_Handler() = default;
};

// Told once a pass, after the wait and before any ready handler.
class Pass_Handler {
public:
	virtual void on_pass() = 0;

protected:
	~Pass_Handler() = default;
};

class Event_Loop {
public:
	Event_Loop();
	~Event_Loop();
	Event_Loop(const Event_Loop&) = delete;
	Event_Loop& operator=(const Event_Loop&) = delete;

	// One pass: waits for at most `timeout_ms` (0: polls), then runs the ready handlers.
	void run_once(int64_t timeout_ms);
	// on_wake() runs on the loop's thread after wake() was called; calls are coalesced.
	void set_wake_handler(Wake_Handler* handler) { wake_handler_ = handler; }
	void set_pass_handler(Pass_Handler* handler) { pass_handler_ = handler; }
	// Any thread.
	void wake();

	struct ev_loop* raw() {
		return loop_;
	}

private:
	static void on_async(struct ev_loop* loop, ev_async* watcher, int events);
	static void on_check(struct ev_loop* loop, ev_check* watcher, int events);
	static void on_timer(struct ev_loop* loop, ev_timer* watcher, int events);

	struct ev_loop* loop_;
	ev_async async_;
	ev_timer timer_;
	ev_check check_;
	Wake_Handler* wake_handler_ = nullptr;
	Pass_Handler* pass_handler_ = nullptr;
};

// One descriptor in one loop. Stops itself when destroyed.
class Io_Watcher {
public:
	Io_Watcher();
	~Io_Watcher() { stop(); }
	Io_Watcher(const Io_Watcher&) = delete;
	Io_Watcher& operator=(const Io_Watcher&) = delete;

	void start(Event_Loop& loop, int fd, int events, Io_Handler& handler);
	// Changes the interest; costs nothing when it stays the same.
	void set_events(int events);
	void stop();
	bool active() const { return loop_ != nullptr; }
	int events() const { return events_; }

private:
	static void on_ready(struct ev_loop* loop, ev_io* watcher, int events);

	ev_io io_;
	Event_Loop* loop_ = nullptr;
	int events_ = kIoNone;
};

} // namespace proxy
