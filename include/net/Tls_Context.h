// The TLS side of the client ports: certificate and key, shared by all workers, replaced whole by
// PROXYSQL RELOAD TLS. OpenSSL stays inside lib/net and lib/auth.
#pragma once

#include "base/Result.h"

#include <memory>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace proxy {

class Tls_Context {
public:
	// Reads proxysql-{ca,cert,key}.pem in `datadir`; makes a self-signed set when none of them is
	// there. Only some of them: an error that names the missing one.
	static Result<std::shared_ptr<const Tls_Context>> load_or_make(const std::string& datadir);
	~Tls_Context();
	Tls_Context(const Tls_Context&) = delete;
	Tls_Context& operator=(const Tls_Context&) = delete;

	// A server-side TLS object on `fd`; the caller frees it (Tls_Session does). Any thread.
	ssl_st* new_session(int fd) const;
	// RFC 5929 tls-server-end-point of our certificate, for SCRAM-SHA-256-PLUS.
	const std::string& channel_binding_hash() const { return channel_binding_hash_; }

protected:
	Tls_Context() = default;

private:
	ssl_ctx_st* context_ = nullptr;
	std::string channel_binding_hash_;
};
using Tls_Context_Ptr = std::shared_ptr<const Tls_Context>;

} // namespace proxy
