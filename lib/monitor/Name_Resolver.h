// Resolves host names on a thread of its own, since getaddrinfo() blocks for as long as it likes.
// The thread is detached and owns what it touches: stopping never waits for a name server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace proxy {

class Name_Resolver {
public:
	// `notify` is called on the resolver's thread when answers are ready; it must stay callable
	// after the resolver is gone.
	explicit Name_Resolver(std::function<void()> notify);
	~Name_Resolver();
	Name_Resolver(const Name_Resolver&) = delete;
	Name_Resolver& operator=(const Name_Resolver&) = delete;

	// Ignored while an earlier list is being worked on.
	void ask(std::vector<std::string> names);
	// (name, address); an empty address: not resolvable.
	std::vector<std::pair<std::string, std::string>> take_answers();

private:
	struct Shared;
	static void run(const std::shared_ptr<Shared>& shared);
	std::shared_ptr<Shared> shared_;
};

} // namespace proxy
