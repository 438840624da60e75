#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "millrace/exec/event_loop.h"
#include "millrace/rpc/client_call.h"
#include "millrace/rpc/client_keepalive.h"
#include "millrace/rpc/session_socket.h"
#include "millrace/rpc/socket_address.h"
#include "millrace/rpc/tls_context.h"

namespace millrace::rpc {

// One HTTP/2 connection of a channel, from connecting to its end.
//
//   connecting -> ready (the server's SETTINGS came) -> draining (GOAWAY came, calls end) -> closed
//
// Thread: the loop's.
// Bounds: as many calls as the server takes; headers and messages as the channel's options say.
// Invariants: every call given to Start comes back through OnAttemptEnded once, unless Forget took
// it away before. After OnConnectionClosed the owner destroys this at the end of the wake-up, not
// inside the call.
class ClientConnection final : private SessionSocket::Owner {
 public:
  class Owner {
   public:
    virtual void OnConnectionReady(ClientConnection& connection) = 0;
    // There may be room for another call.
    virtual void OnConnectionRoom() = 0;
    // No new calls from here on. `too_many_pings`: the server complains.
    virtual void OnConnectionDraining(ClientConnection& connection, bool too_many_pings) = 0;
    virtual void OnConnectionClosed(ClientConnection& connection, std::string why) = 0;
    virtual void OnAttemptEnded(ClientCall& call, AttemptOutcome outcome) = 0;

   protected:
    ~Owner() = default;
  };

  // Tries the addresses one after the other until one takes the connection or the options'
  // connect_timeout has passed. `tls`: null = plain text; `server_name`: whom the server's
  // certificate must be for. `options` live as long.
  ClientConnection(exec::EventLoop& loop, std::vector<SocketAddress> addresses,
                   std::string authority, TlsContext tls, std::string server_name,
                   const ChannelOptions& options, Duration keepalive_time, Owner& owner);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  [[nodiscard]] bool ready() const { return state_ == State::kReady; }
  [[nodiscard]] std::size_t calls_open() const { return calls_.size(); }
  // The server takes another call now. Only while ready.
  [[nodiscard]] bool has_room() const;

  // Only while ready.
  void Start(ClientCall& call);
  // Resets the call's stream; the call is the caller's again.
  void Forget(ClientCall& call);
  // Messages were added to the call's outbox, or its end was declared.
  void OnWritten(ClientCall& call);
  // A message was taken from the call's inbox.
  void OnConsumed(ClientCall& call);
  // Closes, and gives every call back. OnConnectionClosed follows.
  void Close(std::string why);

 private:
  friend struct ClientCallbacks;
  enum class State : std::uint8_t { kConnecting, kHandshake, kReady, kDraining, kClosed };

  void TryNextAddress();
  void OnConnected(int fd);
  void DropConnecting();

  void OnHeadersEnd(ClientCall& call, bool end_stream);
  void OnData(ClientCall& call, std::string_view data);
  void OnReplyEnd(ClientCall& call);
  void OnStreamClosed(std::int32_t stream_id, std::uint32_t error);
  void OnSettings();
  void OnGoAway(std::uint32_t error, std::string_view text);
  // Ends the call that has not begun.
  void EndAtOnce(ClientCall& call, RpcStatus status);
  void ArmIdleTimer();
  ssize_t ProduceData(ClientCall& call, std::uint8_t* out, std::size_t room, std::uint32_t* flags);
  void Reset(const ClientCall& call, std::uint32_t error);
  ClientCall* Find(std::int32_t stream_id);

  void OnSocketLost(std::string_view why) override;
  void OnHandshakeFailed(std::string_view why) override;
  void OnBytesRead(std::size_t) override { keepalive_.OnBytesRead(); }
  void OnFlushed() override;

  exec::EventLoop& loop_;
  const ChannelOptions& options_;
  Owner& owner_;
  const std::string authority_;
  const TlsContext tls_;
  const std::string server_name_;
  std::vector<SocketAddress> addresses_;
  std::size_t next_address_ = 0;
  std::string last_error_;

  State state_ = State::kConnecting;
  std::shared_ptr<ClientConnection*> alive_;  // For the first step, which is posted.
  int connecting_fd_ = -1;
  exec::EventLoop::WatchId connecting_watch_ = 0;
  exec::TimerId connect_timer_ = 0;
  std::unique_ptr<SessionSocket> socket_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, ClientCall*> calls_;
  ClientKeepalive keepalive_;
  exec::TimerId idle_timer_ = 0;
  std::uint64_t calls_begun_ = 0;
};

}  // namespace millrace::rpc
