#include "Name_Resolver.h"

#include "base/Mutex.h"
#include "pool/Resolver.h"

#include <thread>

namespace proxy {

struct Name_Resolver::Shared {
	Mutex mutex{Lock_Rank::mailbox};
	Cond_Var changed;
	std::vector<std::string> names GUARDED_BY(mutex);
	std::vector<std::pair<std::string, std::string>> answers GUARDED_BY(mutex);
	bool working GUARDED_BY(mutex) = false;
	bool stopping GUARDED_BY(mutex) = false;
	std::function<void()> notify; // constant after construction
};

Name_Resolver::Name_Resolver(std::function<void()> notify) : shared_(std::make_shared<Shared>()) {
	shared_->notify = std::move(notify);
	std::thread([shared = shared_] { run(shared); }).detach();
}

Name_Resolver::~Name_Resolver() {
	Lock lock(shared_->mutex);
	shared_->stopping = true;
	shared_->changed.notify_all();
}

void Name_Resolver::run(const std::shared_ptr<Shared>& shared) {
	constexpr int64_t kLookAgainMs = 60'000; // a lost wake-up costs no more than this
	for (;;) {
		std::vector<std::string> names;
		{
			Lock lock(shared->mutex);
			while (!shared->stopping && shared->names.empty()) {
				shared->changed.wait_for(shared->mutex, kLookAgainMs);
			}
			if (shared->stopping) {
				return;
			}
			names.swap(shared->names);
			shared->working = true;
		}
		std::vector<std::pair<std::string, std::string>> answers;
		for (const std::string& name : names) {
			answers.emplace_back(name, resolve_host(name));
		}
		{
			Lock lock(shared->mutex);
			shared->answers = std::move(answers);
			shared->working = false;
		}
		shared->notify();
	}
}

void Name_Resolver::ask(std::vector<std::string> names) {
	Lock lock(shared_->mutex);
	if (shared_->working || !shared_->names.empty()) {
		return;
	}
	shared_->names = std::move(names);
	shared_->changed.notify_all();
}

std::vector<std::pair<std::string, std::string>> Name_Resolver::take_answers() {
	Lock lock(shared_->mutex);
	return std::exchange(shared_->answers, {});
}

} // namespace proxy
