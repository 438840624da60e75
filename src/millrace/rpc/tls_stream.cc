#include "millrace/rpc/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::rpc {
namespace {

constexpr std::uint64_t kHandshakeBytesMax = 256u << 10;
// What a peer may send beyond eight times its content: a record now and then that carries none. A
// flood of wishes for new keys, 27 bytes each, would cost us more than the peer.
constexpr std::uint64_t kContentlessBytesMax = 64u << 10;
constexpr std::uint64_t kRawPerContentMax = 8;
// OpenSSL says nothing to a peer that speaks something else than TLS. An alert, protocol_version,
// tells one that does look what it has found here.
constexpr std::array<unsigned char, 7> kNotTlsAlert = {0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46};

int Clamp(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

bool IsAddress(const std::string& name) {
  in6_addr unused;
  return inet_pton(AF_INET, name.c_str(), &unused) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &unused) == 1;
}

std::string_view WordsFor(int reason) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_WRONG_SSL_VERSION:
      return "the peer does not speak TLS";
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_CALLBACK_FAILED:  // Ours, which looks for the client's ALPN.
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      return "the peers share no application protocol: HTTP/2 (ALPN \"h2\") is a must";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "the client shows no certificate";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "the server asks for a client certificate";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "the peer does not know the CA of our certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "the peer says that our certificate has expired";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return "the peer does not accept our certificate";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return "the peer speaks no TLS version that we do (1.2 or later)";
    default:
      return {};
  }
}

}  // namespace

// The socket as OpenSSL sees it. Its own one raises SIGPIPE.
struct TlsSocketBio {
  static TlsStream& Self(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int Finish(BIO* bio, ssize_t n, int retry_flag) {
    BIO_clear_retry_flags(bio);
    if (n >= 0) return static_cast<int>(n);
    if (errno == EAGAIN || errno == EINTR) {
      BIO_set_flags(bio, retry_flag | BIO_FLAGS_SHOULD_RETRY);
    } else {
      Self(bio).socket_errno_ = errno;
    }
    return -1;
  }
  static int Read(BIO* bio, char* out, int size) {
    TlsStream& self = Self(bio);
    // Here, and not after a read that came to an end: OpenSSL reads on for as long as there is
    // something that it can deal with by itself.
    if (self.TooManyBytes()) {
      errno = EPROTO;
      return Finish(bio, -1, BIO_FLAGS_READ);
    }
    const ssize_t n = recv(self.fd_, out, static_cast<std::size_t>(size), 0);
    if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    if (n > 0) self.raw_received_ += static_cast<std::uint64_t>(n);
    return Finish(bio, n, BIO_FLAGS_READ);
  }
  static int Write(BIO* bio, const char* bytes, int size) {
    return Finish(bio, send(Self(bio).fd_, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL),
                  BIO_FLAGS_WRITE);
  }
  static long Control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static BIO_METHOD* Make() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    MR_CHECK(method != nullptr);
    BIO_meth_set_read(method, Read);
    BIO_meth_set_write(method, Write);
    BIO_meth_set_ctrl(method, Control);
    return method;
  }
  // Shared, never destroyed.
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = Make();
    return method;
  }
};

TlsStream::TlsStream(TlsContext context, int fd) : context_(std::move(context)), fd_(fd) {
  ssl_ = SSL_new(context_.get());
  BIO* bio = BIO_new(TlsSocketBio::Method());
  MR_CHECK(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

std::unique_ptr<TlsStream> TlsStream::Accept(TlsContext context, int fd) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), fd));
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

std::unique_ptr<TlsStream> TlsStream::Connect(TlsContext context, int fd,
                                              const std::string& server_name) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), fd));
  SSL* ssl = stream->ssl_;
  SSL_set_connect_state(ssl);
  if (IsAddress(server_name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name.c_str());
  } else {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    // A name that cannot be set is no name of a certificate either: the handshake must not pass.
    if (SSL_set1_host(ssl, server_name.c_str()) != 1 ||
        SSL_set_tlsext_host_name(ssl, server_name.c_str()) != 1) {
      stream->error_ = "\"" + server_name + "\" is no server name";
    }
  }
  return stream;
}

TlsStream::Progress TlsStream::Handshake() {
  if (!error_.empty()) return Progress::kFailed;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    const unsigned char* protocol = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl_, &protocol, &size);
    if (std::string_view(reinterpret_cast<const char*>(protocol), size) != "h2") {
      error_ = WordsFor(SSL_R_NO_APPLICATION_PROTOCOL);
      return Progress::kFailed;
    }
    handshake_done_ = true;
    raw_received_ = 0;
    return Progress::kDone;
  }
  switch (const int error = SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return Progress::kWantsInput;
    case SSL_ERROR_WANT_WRITE:
      return Progress::kWantsRoom;
    default:
      error_ = Explain(error);
      if (SSL_is_server(ssl_) == 1 && error_ == WordsFor(SSL_R_WRONG_VERSION_NUMBER)) {
        const ssize_t sent = send(fd_, kNotTlsAlert.data(), kNotTlsAlert.size(), MSG_NOSIGNAL);
        static_cast<void>(sent);  // A courtesy.
      }
      return Progress::kFailed;
  }
}

std::string TlsStream::Explain(int ssl_error) {
  if (TooManyBytes()) {
    return handshake_done_ ? "too many bytes without content" : "a handshake of too many bytes";
  }
  if (ssl_error == SSL_ERROR_ZERO_RETURN) return "closed by the peer during the handshake";
  if (ssl_error == SSL_ERROR_SYSCALL) {
    if (socket_errno_ != 0) return std::strerror(socket_errno_);
    return "closed by the peer during the handshake";
  }
  const unsigned long code = ERR_peek_last_error();
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return TakeTlsError();
  ERR_clear_error();
  const int reason = ERR_GET_REASON(code);
  const long verified = SSL_get_verify_result(ssl_);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
    return std::string("the peer's certificate is not accepted: ") +
           X509_verify_cert_error_string(verified);
  }
  const std::string_view words = WordsFor(reason);
  if (!words.empty()) return std::string(words);
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "error " + std::to_string(reason);
}

bool TlsStream::TooManyBytes() const {
  return raw_received_ > (handshake_done_
                              ? content_received_ * kRawPerContentMax + kContentlessBytesMax
                              : kHandshakeBytesMax);
}

ssize_t TlsStream::Fail(int ssl_result) {
  const int error = SSL_get_error(ssl_, ssl_result);
  switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      if (socket_errno_ == 0) return 0;
      if (socket_errno_ == EPROTO) error_ = "TLS: " + Explain(error);
      errno = socket_errno_;
      return -1;
    default:
      error_ = "TLS: " + Explain(error);
      errno = EPROTO;
      return -1;
  }
}

ssize_t TlsStream::Receive(void* out, std::size_t size) {
  ERR_clear_error();
  const int n = SSL_read(ssl_, out, Clamp(size));
  receive_wants_room_ = n <= 0 && SSL_want_write(ssl_);
  if (n > 0) {
    content_received_ += static_cast<std::uint64_t>(n);
    return n;
  }
  return Fail(n);
}

ssize_t TlsStream::Send(const void* bytes, std::size_t size) {
  ERR_clear_error();
  const int n = SSL_write(ssl_, bytes, Clamp(size));
  return n > 0 ? n : Fail(n);
}

bool TlsStream::HasBuffered() const { return SSL_has_pending(ssl_) == 1; }

void TlsStream::FinishSending() {
  ERR_clear_error();
  if (handshake_done_ && error_.empty() && socket_errno_ == 0) SSL_shutdown(ssl_);
  ERR_clear_error();
}

}  // namespace millrace::rpc
