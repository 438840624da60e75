#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "millrace/rpc/tls_context.h"

struct ssl_st;

namespace millrace::rpc {

// The TLS layer of one connected, non-blocking socket, which it uses and does not own.
//
// Thread: one at a time.
// Bounds: one record in each direction, and no buffer while nothing is under way. A peer that sends
// far more TLS than content is an error.
class TlsStream {
 public:
  enum class Progress : std::uint8_t { kDone, kWantsInput, kWantsRoom, kFailed };

  static std::unique_ptr<TlsStream> Accept(TlsContext context, int fd);
  // `server_name`: host name or address that the server's certificate must be for.
  static std::unique_ptr<TlsStream> Connect(TlsContext context, int fd,
                                            const std::string& server_name);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // To be called again when the socket has what it wants. After kFailed error() says why, and an
  // alert for the peer is on its way.
  Progress Handshake();

  // Like recv and send, once the handshake is done: -1 with EAGAIN when the socket has to get ready
  // first, with EPROTO when TLS failed and error() says why, else with the socket's error. After an
  // EAGAIN of Send the same bytes have to come again, at any address, more may follow them.
  ssize_t Receive(void* out, std::size_t size);
  ssize_t Send(const void* bytes, std::size_t size);
  // Receive waits for room in the socket, not for input. Rare: the peer wants new keys.
  [[nodiscard]] bool receive_wants_room() const { return receive_wants_room_; }
  // There may be more to receive without news from the socket.
  [[nodiscard]] bool HasBuffered() const;
  // Tells the peer that nothing more will come, if the socket takes that now.
  void FinishSending();

  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  friend struct TlsSocketBio;
  TlsStream(TlsContext context, int fd);
  ssize_t Fail(int ssl_result);
  [[nodiscard]] bool TooManyBytes() const;
  std::string Explain(int ssl_error);

  const TlsContext context_;
  const int fd_;
  ssl_st* ssl_ = nullptr;
  std::string error_;
  int socket_errno_ = 0;
  std::uint64_t raw_received_ = 0;  // In the handshake, then after it.
  std::uint64_t content_received_ = 0;
  bool handshake_done_ = false;
  bool receive_wants_room_ = false;
};

}  // namespace millrace::rpc
