#include "millrace/rpc/tls_test_util.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "millrace/base/check.h"
#include "millrace/rpc/socket_address.h"

namespace millrace::rpc {
namespace {

constexpr int kPatienceSeconds = 15;

template <typename Write>
std::string ToPem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  MR_CHECK(write(bio) == 1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string pem(bytes, static_cast<std::size_t>(size));
  BIO_free(bio);
  return pem;
}

std::string PemOf(X509* cert) {
  return ToPem([cert](BIO* bio) { return PEM_write_bio_X509(bio, cert); });
}

std::string PemOf(EVP_PKEY* key) {
  return ToPem([key](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

void Extend(X509* cert, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  MR_CHECK(extension != nullptr);
  MR_CHECK(X509_add_ext(cert, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* NewCert(const std::string& name, EVP_PKEY* key, X509* issuer, long serial,
              std::chrono::seconds valid_for) {
  X509* cert = X509_new();
  MR_CHECK(cert != nullptr);
  X509_set_version(cert, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), -2 * 24 * 3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), valid_for.count());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert, X509_get_subject_name(issuer == nullptr ? cert : issuer));
  X509_set_pubkey(cert, key);
  return cert;
}

}  // namespace

TestCa::TestCa(const std::string& name) : key_(EVP_EC_gen("P-256")) {
  MR_CHECK(key_ != nullptr);
  cert_ = NewCert(name, key_, nullptr, 1, std::chrono::hours(1));
  Extend(cert_, cert_, NID_basic_constraints, "critical,CA:TRUE");
  Extend(cert_, cert_, NID_key_usage, "critical,keyCertSign");
  MR_CHECK(X509_sign(cert_, key_, EVP_sha256()) > 0);
  cert_pem_ = PemOf(cert_);
}

TestCa::~TestCa() {
  X509_free(cert_);
  EVP_PKEY_free(key_);
}

TestIdentity TestCa::Issue(const std::string& name, const std::string& alternative_names,
                           std::chrono::seconds valid_for) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  MR_CHECK(key != nullptr);
  X509* cert = NewCert(name, key, cert_, ++last_serial_, valid_for);
  Extend(cert, cert_, NID_basic_constraints, "critical,CA:FALSE");
  if (!alternative_names.empty()) Extend(cert, cert_, NID_subject_alt_name, alternative_names);
  MR_CHECK(X509_sign(cert, key_, EVP_sha256()) > 0);
  TestIdentity identity{PemOf(cert), PemOf(key)};
  X509_free(cert);
  EVP_PKEY_free(key);
  return identity;
}

TestFolder::TestFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "millrace-tls-XXXXXX").string();
  MR_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestFolder::Write(const std::string& name, const std::string& text) {
  const std::string path = PathOf(name);
  {
    std::ofstream file(path + ".new", std::ios::binary);
    file << text;
    MR_CHECK(file.good());
  }
  std::filesystem::rename(path + ".new", path);
  return path;
}

struct RawTlsClient::Parts {
  int fd = -1;
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
};

RawTlsClient::RawTlsClient(const std::string& address, const Options& options)
    : parts_(std::make_unique<Parts>()) {
  const SocketAddress to = Resolve(address).value().front();
  parts_->fd = socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  MR_CHECK(parts_->fd >= 0);
  const timeval patience{kPatienceSeconds, 0};
  setsockopt(parts_->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(parts_->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  MR_CHECK(connect(parts_->fd, to.raw(), to.length) == 0);
  ERR_clear_error();
  parts_->context = SSL_CTX_new(TLS_client_method());
  if (options.max_version != 0) {
    // Old versions need a lower level of security to be offered at all.
    SSL_CTX_set_security_level(parts_->context, 0);
    SSL_CTX_set_min_proto_version(parts_->context, 0);
    SSL_CTX_set_max_proto_version(parts_->context, options.max_version);
  }
  parts_->ssl = SSL_new(parts_->context);
  std::string list;
  for (const std::string& protocol : options.alpn) {
    list += static_cast<char>(protocol.size()) + protocol;
  }
  if (!list.empty()) {
    SSL_set_alpn_protos(parts_->ssl, reinterpret_cast<const unsigned char*>(list.data()),
                        static_cast<unsigned>(list.size()));
  }
  SSL_set_fd(parts_->ssl, parts_->fd);
  connected_ = SSL_connect(parts_->ssl) == 1;
  if (!connected_) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    error_ = reason != nullptr ? reason : "closed";
  }
}

RawTlsClient::~RawTlsClient() {
  SSL_free(parts_->ssl);
  SSL_CTX_free(parts_->context);
  close(parts_->fd);
}

std::string RawTlsClient::server_name() const {
  X509* cert = SSL_get0_peer_certificate(parts_->ssl);
  if (cert == nullptr) return "";
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof(name));
  return name;
}

std::string RawTlsClient::cipher() const { return SSL_get_cipher_name(parts_->ssl); }

bool RawTlsClient::Send(const std::string& bytes) {
  ERR_clear_error();
  return SSL_write(parts_->ssl, bytes.data(), static_cast<int>(bytes.size())) > 0;
}

bool RawTlsClient::AskForNewKeys() {
  ERR_clear_error();
  return SSL_key_update(parts_->ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
         SSL_do_handshake(parts_->ssl) == 1;
}

bool RawTlsClient::ReadUntilText(const std::string& text) {
  std::string received;
  char bytes[4096];
  for (;;) {
    ERR_clear_error();
    const int n = SSL_read(parts_->ssl, bytes, sizeof(bytes));
    if (n <= 0) return false;
    received.append(bytes, static_cast<std::size_t>(n));
    if (received.find(text) != std::string::npos) return true;
  }
}

void RawTlsClient::ReadUntilClosed() {
  char bytes[4096];
  for (;;) {
    ERR_clear_error();
    const int n = SSL_read(parts_->ssl, bytes, sizeof(bytes));
    if (n > 0) continue;
    // Running out of patience is no end.
    MR_CHECK(errno != EAGAIN || SSL_get_error(parts_->ssl, n) == SSL_ERROR_ZERO_RETURN);
    return;
  }
}

}  // namespace millrace::rpc
