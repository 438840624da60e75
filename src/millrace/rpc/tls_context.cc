#include "millrace/rpc/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>
#include <string_view>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

// What HTTP/2 asks of TLS 1.2; those of 1.3 are all good.
constexpr char kCiphersOfTls12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
// A list of one protocol in the form of the extension.
constexpr std::array<unsigned char, 3> kAlpnH2 = {2, 'h', '2'};
constexpr int kVerifyDepthMax = 8;

Status Bad(const std::string& what, const std::string& file) {
  return {StatusCode::kInvalidArgument, "TLS: " + what + " " + file + ": " + TakeTlsError()};
}

// An encrypted key is an error; OpenSSL would ask the terminal for the password.
int NoPassword(char*, int, int, void*) { return 0; }

// A client that has no idea of ALPN is told so in the handshake already.
int OnClientHello(SSL* ssl, int* alert, void*) {
  const unsigned char* extension = nullptr;
  std::size_t size = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &extension,
                                &size) == 1) {
    return SSL_CLIENT_HELLO_SUCCESS;
  }
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  return SSL_CLIENT_HELLO_ERROR;
}

int SelectAlpn(SSL*, const unsigned char** out, unsigned char* out_size,
               const unsigned char* offered, unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kAlpnH2.data(), kAlpnH2.size(), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

TlsContext NewContext(const SSL_METHOD* method) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(method), SSL_CTX_free);
  MR_CHECK(context != nullptr);
  SSL_CTX* raw = context.get();
  MR_CHECK(SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION) == 1);
  MR_CHECK(SSL_CTX_set_cipher_list(raw, kCiphersOfTls12) == 1);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                               SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  // Idle connections keep no buffers; a write that was cut short goes on from another buffer.
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_verify_depth(raw, kVerifyDepthMax);
  SSL_CTX_set_default_passwd_cb(raw, NoPassword);
  return context;
}

Status UseIdentity(SSL_CTX* context, const std::string& cert_file, const std::string& key_file) {
  if (SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) != 1) {
    return Bad("cannot use certificate file", cert_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Bad("cannot use key file", key_file);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return Bad("the key does not belong to the certificate:", key_file);
  }
  return OkStatus();
}

}  // namespace

Result<TlsContext> MakeServerTlsContext(const TlsServerOptions& options) {
  using enum TlsServerOptions::ClientAuth;
  TlsContext context = NewContext(TLS_server_method());
  SSL_CTX* raw = context.get();
  SSL_CTX_set_client_hello_cb(raw, OnClientHello, nullptr);
  SSL_CTX_set_alpn_select_cb(raw, SelectAlpn, nullptr);
  MR_RETURN_IF_ERROR(UseIdentity(raw, options.cert_file, options.key_file));
  if (options.client_auth == kNone) return context;
  if (options.client_ca_file.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "TLS: clients' certificates cannot be checked without a file of their CAs");
  }
  if (SSL_CTX_load_verify_file(raw, options.client_ca_file.c_str()) != 1) {
    return Bad("cannot use client CA file", options.client_ca_file);
  }
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(options.client_ca_file.c_str());
  if (names == nullptr) return Bad("cannot use client CA file", options.client_ca_file);
  SSL_CTX_set_client_CA_list(raw, names);
  const int must = options.client_auth == kRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | must, nullptr);
  return context;
}

Result<TlsContext> MakeClientTlsContext(const TlsClientOptions& options) {
  TlsContext context = NewContext(TLS_client_method());
  SSL_CTX* raw = context.get();
  // Zero is success here, unlike everywhere else.
  MR_CHECK(SSL_CTX_set_alpn_protos(raw, kAlpnH2.data(), kAlpnH2.size()) == 0);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  if (options.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(raw) != 1) return Bad("cannot use", "the system's roots");
  } else if (SSL_CTX_load_verify_file(raw, options.ca_file.c_str()) != 1) {
    return Bad("cannot use CA file", options.ca_file);
  }
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "TLS: a certificate file and a key file go together");
  }
  if (!options.cert_file.empty()) {
    MR_RETURN_IF_ERROR(UseIdentity(raw, options.cert_file, options.key_file));
  }
  return context;
}

std::string TakeTlsError() {
  // The first one is the cause where files are concerned.
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

}  // namespace millrace::rpc
