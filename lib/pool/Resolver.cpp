#include "pool/Resolver.h"

#include <arpa/inet.h>
#include <memory>
#include <netdb.h>

namespace proxy {

bool is_numeric_address(const std::string& hostname) {
	unsigned char address[sizeof(in6_addr)];
	return inet_pton(AF_INET, hostname.c_str(), address) == 1 ||
	       inet_pton(AF_INET6, hostname.c_str(), address) == 1;
}

bool needs_resolving(const std::string& hostname) {
	return !hostname.empty() && hostname.front() != '/' && !is_numeric_address(hostname);
}

std::string resolve_host(const std::string& hostname) {
	addrinfo wanted = {};
	wanted.ai_family = AF_UNSPEC;
	wanted.ai_socktype = SOCK_STREAM;
	addrinfo* found = nullptr;
	if (getaddrinfo(hostname.c_str(), nullptr, &wanted, &found) != 0) {
		return {};
	}
	const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, &freeaddrinfo);
	char text[NI_MAXHOST] = "";
	if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0,
	                NI_NUMERICHOST) != 0) {
		return {};
	}
	return text;
}

} // namespace proxy
