#include "thread/Login_Service.h"

#include <pthread.h>
#include <utility>

namespace proxy {

namespace {
// Two of a kind, so that one slow piece of work does not hold up all logins.
constexpr size_t kThreadsPerLane = 2;
constexpr int kIdleWaitMs = 1000;

size_t index_of(Login_Lane lane) {
	switch (lane) {
	case Login_Lane::compute:
		return 0;
	case Login_Lane::network:
		return 1;
	}
	return 0;
}
} // namespace

Login_Service::~Login_Service() {
	stop();
}

void Login_Service::start() {
	{
		Lock lock(mutex_);
		if (running_) {
			return;
		}
		running_ = true;
	}
	for (size_t i = 0; i < kLanes * kThreadsPerLane; ++i) {
		threads_.emplace_back([this, i] { work(i % kLanes); });
		pthread_setname_np(threads_.back().native_handle(), "Login");
	}
}

void Login_Service::stop() {
	std::vector<Task> refused;
	{
		Lock lock(mutex_);
		running_ = false;
		for (std::deque<Task>& lane : tasks_) {
			for (Task& task : lane) {
				refused.push_back(std::move(task));
			}
			lane.clear();
		}
	}
	for (Cond_Var& wake : wake_) {
		wake.notify_all();
	}
	for (std::thread& thread : threads_) {
		thread.join();
	}
	threads_.clear();
	for (const Task& task : refused) {
		task.reply(nullptr);
	}
}

void Login_Service::run(Login_Lane lane, Login_Job job, Login_Reply reply) {
	const size_t index = index_of(lane);
	{
		Lock lock(mutex_);
		if (running_ && tasks_[index].size() < kMaxQueued) {
			tasks_[index].push_back({std::move(job), reply});
			wake_[index].notify_all();
			return;
		}
	}
	reply(nullptr);
}

void Login_Service::work(size_t lane) {
	while (true) {
		Task task;
		{
			Lock lock(mutex_);
			while (tasks_[lane].empty() && running_) {
				wake_[lane].wait_for(mutex_, kIdleWaitMs);
			}
			if (!running_) {
				return;
			}
			task = std::move(tasks_[lane].front());
			tasks_[lane].pop_front();
		}
		task.job(task.reply);
	}
}

} // namespace proxy
