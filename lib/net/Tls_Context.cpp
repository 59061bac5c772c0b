#include "net/Tls_Context.h"

#include "base/Log.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace proxy {

namespace {

template <typename T, void (*Free)(T*)> struct Openssl_Deleter {
	void operator()(T* object) const { Free(object); }
};
using Key_Ptr = std::unique_ptr<EVP_PKEY, Openssl_Deleter<EVP_PKEY, EVP_PKEY_free>>;
using Certificate_Ptr = std::unique_ptr<X509, Openssl_Deleter<X509, X509_free>>;
struct File_Closer {
	void operator()(FILE* file) const { std::fclose(file); }
};
using File_Ptr = std::unique_ptr<FILE, File_Closer>;

constexpr unsigned kKeyBits = 2048;
constexpr long kValidSeconds = 10L * 365 * 24 * 3600;
constexpr mode_t kPublicMode = 0644;
constexpr mode_t kPrivateMode = 0600;

std::string openssl_error() {
	std::array<char, 256> text{};
	ERR_error_string_n(ERR_get_error(), text.data(), text.size());
	return text.data();
}

bool exists(const std::string& path) {
	struct stat status {};
	return stat(path.c_str(), &status) == 0;
}

void add_name(X509_NAME* name, const char* field, const char* value) {
	X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC,
	                           reinterpret_cast<const unsigned char*>(value), -1, -1, 0);
}

// A version 3 certificate for `subject_key` in the name `common_name`, signed by `issuer`
// (self-signed when issuer is null).
Certificate_Ptr make_certificate(EVP_PKEY* subject_key, const char* common_name, X509* issuer,
                                 EVP_PKEY* issuer_key, long serial) {
	Certificate_Ptr certificate(X509_new());
	X509_set_version(certificate.get(), 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
	X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds);
	X509_set_pubkey(certificate.get(), subject_key);
	X509_NAME* name = X509_get_subject_name(certificate.get());
	add_name(name, "CN", common_name);
	X509_set_issuer_name(certificate.get(),
	                     issuer == nullptr ? name : X509_get_subject_name(issuer));
	if (X509_sign(certificate.get(), issuer_key, EVP_sha256()) == 0) {
		return nullptr;
	}
	return certificate;
}

File_Ptr create_file(const std::string& path, mode_t mode) {
	const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	return File_Ptr(fd < 0 ? nullptr : fdopen(fd, "w"));
}

Result<void> make_certificates(const std::string& ca_path, const std::string& cert_path,
                               const std::string& key_path) {
	Key_Ptr ca_key(EVP_RSA_gen(kKeyBits));
	Key_Ptr key(EVP_RSA_gen(kKeyBits));
	if (ca_key == nullptr || key == nullptr) {
		return make_error("XX000", "cannot make a TLS key: " + openssl_error());
	}
	const Certificate_Ptr ca =
	    make_certificate(ca_key.get(), "Polar_Proxy_Auto_Generated_CA", nullptr, ca_key.get(), 1);
	const Certificate_Ptr certificate =
	    make_certificate(key.get(), "Polar_Proxy_Auto_Generated_Server", ca.get(), ca_key.get(), 2);
	if (ca == nullptr || certificate == nullptr) {
		return make_error("XX000", "cannot sign a TLS certificate: " + openssl_error());
	}
	const File_Ptr ca_file = create_file(ca_path, kPublicMode);
	const File_Ptr cert_file = create_file(cert_path, kPublicMode);
	const File_Ptr key_file = create_file(key_path, kPrivateMode);
	if (ca_file == nullptr || cert_file == nullptr || key_file == nullptr ||
	    PEM_write_X509(ca_file.get(), ca.get()) == 0 ||
	    PEM_write_X509(cert_file.get(), certificate.get()) == 0 ||
	    PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) ==
	        0) {
		return make_error("58030", "cannot write the TLS certificates beside " + ca_path + ": " +
		                               std::strerror(errno));
	}
	return {};
}

// Hash of the certificate by its own signature's digest, SHA-256 where that is MD5 or SHA-1.
std::string end_point_hash(SSL_CTX* context) {
	X509* certificate = SSL_CTX_get0_certificate(context);
	int digest_nid = NID_undef;
	if (certificate == nullptr ||
	    OBJ_find_sigid_algs(X509_get_signature_nid(certificate), &digest_nid, nullptr) == 0) {
		return {};
	}
	const EVP_MD* digest = digest_nid == NID_md5 || digest_nid == NID_sha1
	                           ? EVP_sha256()
	                           : EVP_get_digestbynid(digest_nid);
	std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
	unsigned length = 0;
	if (digest == nullptr || X509_digest(certificate, digest, hash.data(), &length) == 0) {
		return {};
	}
	return {reinterpret_cast<const char*>(hash.data()), length};
}

constexpr unsigned char kAlpn[] = "\x0apostgresql";

// Clients that offer ALPN (direct TLS must) get "postgresql" or a refusal.
int select_alpn(SSL*, const unsigned char** out, unsigned char* out_length,
                const unsigned char* offered, unsigned offered_length, void*) {
	unsigned char* chosen = nullptr;
	if (SSL_select_next_proto(&chosen, out_length, kAlpn, sizeof(kAlpn) - 1, offered,
	                          offered_length) != OPENSSL_NPN_NEGOTIATED) {
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	}
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

} // namespace

Result<std::shared_ptr<const Tls_Context>> Tls_Context::load_or_make(const std::string& datadir) {
	const std::string ca = datadir + "/proxysql-ca.pem";
	const std::string cert = datadir + "/proxysql-cert.pem";
	const std::string key = datadir + "/proxysql-key.pem";
	const int present = int{exists(ca)} + int{exists(cert)} + int{exists(key)};
	if (present == 0) {
		PROXY_TRY(make_certificates(ca, cert, key));
		log_info("no TLS certificates in {}: a self-signed set was made", datadir);
	} else if (present != 3) {
		const std::string& missing = !exists(ca) ? ca : !exists(cert) ? cert : key;
		return make_error("58P01", "TLS: " + missing +
		                               " is missing while the others are there; "
		                               "put it back, or remove all three to have a new set made");
	}
	struct Access : Tls_Context {};
	std::shared_ptr<Tls_Context> result = std::make_shared<Access>();
	result->context_ = SSL_CTX_new(TLS_server_method());
	SSL_CTX* context = result->context_;
	if (context == nullptr || SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1) {
		return make_error("F0000", "TLS: cannot use certificate " + cert + ": " + openssl_error());
	}
	if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1) {
		return make_error("F0000", "TLS: cannot use key " + key + ": " + openssl_error());
	}
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                              SSL_MODE_RELEASE_BUFFERS);
	// A record is read with one call instead of two (its header first).
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_alpn_select_cb(context, select_alpn, nullptr);
	result->channel_binding_hash_ = end_point_hash(context);
	return std::shared_ptr<const Tls_Context>(std::move(result));
}

Tls_Context::~Tls_Context() {
	SSL_CTX_free(context_);
}

ssl_st* Tls_Context::new_session(int fd) const {
	SSL* session = SSL_new(context_);
	if (session == nullptr || SSL_set_fd(session, fd) != 1) {
		SSL_free(session);
		return nullptr;
	}
	SSL_set_accept_state(session);
	return session;
}

} // namespace proxy
