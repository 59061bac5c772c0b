#include "net/Event_Loop.h"

#include "base/Check.h"

namespace proxy {

namespace {
constexpr double kMillisPerSecond = 1000.0;
// epoll, and no tuning through LIBEV_FLAGS in the environment.
constexpr unsigned kLoopFlags =
    static_cast<unsigned>(EVBACKEND_EPOLL) | static_cast<unsigned>(EVFLAG_NOENV);

int to_ev(int events) {
	return ((events & kIoRead) != 0 ? EV_READ : 0) | ((events & kIoWrite) != 0 ? EV_WRITE : 0);
}
} // namespace

Event_Loop::Event_Loop() : loop_(ev_loop_new(kLoopFlags)) {
	PROXY_CHECK(loop_ != nullptr);
	// libev's *_init macros cast in C style; the fields are set by hand instead.
	async_ = ev_async{};
	async_.cb = &Event_Loop::on_async;
	async_.data = this;
	ev_async_start(loop_, &async_);
	timer_ = ev_timer{};
	timer_.cb = &Event_Loop::on_timer;
	check_ = ev_check{};
	check_.cb = &Event_Loop::on_check;
	check_.data = this;
	check_.priority = EV_MAXPRI; // before the descriptors of the pass
	ev_check_start(loop_, &check_);
}

Event_Loop::~Event_Loop() {
	ev_timer_stop(loop_, &timer_);
	ev_check_stop(loop_, &check_);
	ev_async_stop(loop_, &async_);
	ev_loop_destroy(loop_);
}

void Event_Loop::run_once(int64_t timeout_ms) {
	if (timeout_ms <= 0) {
		ev_run(loop_, EVRUN_NOWAIT);
		return;
	}
	// The timer bounds the wait. It is re-armed only when it has fired or is shorter than wanted,
	// so a busy loop does not touch the timer heap.
	const double seconds = static_cast<double>(timeout_ms) / kMillisPerSecond;
	if (!ev_is_active(&timer_) || ev_timer_remaining(loop_, &timer_) > seconds) {
		ev_timer_stop(loop_, &timer_);
		timer_.at = seconds;
		timer_.repeat = 0;
		ev_timer_start(loop_, &timer_);
	}
	ev_run(loop_, EVRUN_ONCE);
}

void Event_Loop::wake() {
	ev_async_send(loop_, &async_);
}

void Event_Loop::on_async(struct ev_loop*, ev_async* watcher, int) {
	auto* self = static_cast<Event_Loop*>(watcher->data);
	if (self->wake_handler_ != nullptr) {
		self->wake_handler_->on_wake();
	}
}

void Event_Loop::on_check(struct ev_loop*, ev_check* watcher, int) {
	auto* self = static_cast<Event_Loop*>(watcher->data);
	if (self->pass_handler_ != nullptr) {
		self->pass_handler_->on_pass();
	}
}

void Event_Loop::on_timer(struct ev_loop*, ev_timer*, int) {
	// Only there to end the wait.
}

Io_Watcher::Io_Watcher() : io_{} {
	io_.cb = &Io_Watcher::on_ready;
	io_.fd = -1;
}

void Io_Watcher::start(Event_Loop& loop, int fd, int events, Io_Handler& handler) {
	stop();
	loop_ = &loop;
	events_ = events;
	io_.fd = fd;
	// EV__IOFDSET tells libev that the descriptor may be a new one under an old number.
	io_.events = to_ev(events) | EV__IOFDSET;
	io_.data = &handler;
	if (events != kIoNone) {
		ev_io_start(loop.raw(), &io_);
	}
}

void Io_Watcher::set_events(int events) {
	if (loop_ == nullptr || events == events_) {
		return;
	}
	ev_io_stop(loop_->raw(), &io_);
	events_ = events;
	io_.events = to_ev(events);
	if (events != kIoNone) {
		ev_io_start(loop_->raw(), &io_);
	}
}

void Io_Watcher::stop() {
	if (loop_ == nullptr) {
		return;
	}
	ev_io_stop(loop_->raw(), &io_);
	loop_ = nullptr;
	events_ = kIoNone;
}

void Io_Watcher::on_ready(struct ev_loop*, ev_io* watcher, int events) {
	auto* handler = static_cast<Io_Handler*>(watcher->data);
	handler->on_io(((events & EV_READ) != 0 ? kIoRead : 0) |
	               ((events & EV_WRITE) != 0 ? kIoWrite : 0));
}

} // namespace proxy
