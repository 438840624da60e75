#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/ended_stream_watch.h"
#include "millrace/rpc/keep_alive.h"
#include "millrace/rpc/method_table.h"
#include "millrace/rpc/peer_conduct.h"
#include "millrace/rpc/request_head.h"
#include "millrace/rpc/server.h"
#include "millrace/rpc/server_call.h"
#include "millrace/rpc/session_socket.h"
#include "millrace/rpc/tls_context.h"

namespace millrace::rpc {

// One client's HTTP/2 connection: reads requests, calls handlers, writes replies, all on one loop.
//
//   handshake -> open -> draining (GOAWAY sent) -> lingering (nothing more to say) -> closed
//
// Thread: its loop's, construction and destruction included.
// Bounds: concurrent_streams_max calls; buffered_bytes_max of requests and as much of replies; what
// SessionSocket holds; nothing is kept for a connection without calls but nghttp2's own state.
// Fails: whatever a peer sends ends a call or the connection, never more.
// Invariants: `on_closed` runs once, at the end of a wake-up after the last use of this object, and
// destroys it.
class ServerConnection final : private CallSink, private SessionSocket::Owner {
 public:
  struct Accepted {
    int fd;
    std::string peer;
    TlsContext tls;    // Null = plain text.
    Duration age_max;  // Of this one; 0 = any.
  };
  ServerConnection(const ServerOptions& options, MethodTable& methods, Log& log,
                   exec::EventLoop& loop, Accepted accepted, Closure on_closed);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  // Says GOAWAY; calls running end as they would, and then the connection closes.
  void Drain();
  // Ends every call with UNAVAILABLE and closes after one try to send that.
  void Abort(std::string_view why);

 private:
  friend struct ServerCallbacks;

  // CallSink
  void OnFinished(CallState& call, RpcStatus status, std::string response,
                  HandlerMetadata* metadata) override;
  void OnWritten(CallState& call) override;
  void OnConsumed(CallState& call) override;

  // What nghttp2 reports.
  void OnRequestHeaders(CallState& call);
  void OnRequestData(CallState& call, std::string_view data);
  void OnRequestEnd(CallState& call);
  void OnSettings();
  void OnPing(bool ack);
  void OnStreamClosed(CallState& call);
  // Ends the connection when there is something to say against the client.
  void Judge(std::string_view fault);

  void OpenCall(std::int32_t stream_id);
  void OnRequestMessage(CallState& call);
  [[nodiscard]] bool Charge(CallState& call, std::size_t bytes);
  void OnDeadline(CallState& call);
  // Decides the status, and sends it once the messages before it are out.
  void Reply(CallState& call, RpcStatus status);

  // SessionSocket::Owner
  void OnSocketLost(std::string_view why) override;
  bool OnBytes(std::string_view bytes) override;
  void OnHandshakeFailed(std::string_view why) override;
  void OnBytesRead(std::size_t bytes) override;
  void OnFlushed() override;

  void Close();
  void GoAway(std::uint32_t error, std::string_view why);
  void ArmProgressTimer();
  void ArmIdleTimer();
  void ArmKeepAliveTimer();
  void OnOldAge();
  void FinishDrain();

  const ServerOptions& options_;
  MethodTable& methods_;
  Log& log_;
  exec::EventLoop& loop_;
  const std::shared_ptr<const std::string> peer_;
  Closure on_closed_;

  SessionSocket socket_;
  nghttp2_session* session_ = nullptr;
  CallState* calls_ = nullptr;  // List of open streams.
  std::size_t calls_open_ = 0;
  std::uint64_t calls_begun_ = 0;

  std::size_t buffered_request_bytes_ = 0;
  std::size_t buffered_reply_bytes_ = 0;

  exec::TimerId progress_timer_ = 0;  // Handshake, then unfinished header blocks.
  exec::TimerId idle_timer_ = 0;
  exec::TimerId keep_alive_timer_ = 0;
  exec::TimerId age_timer_ = 0;    // Old age, then the end of its grace.
  exec::TimerId drain_timer_ = 0;  // A client that does not confirm the first GOAWAY.
  std::uint64_t calls_begun_at_idle_check_ = 0;

  EndedStreamWatch ended_streams_;
  std::int32_t header_block_stream_ = 0;  // Of a header block begun and not ended; 0 = none.
  RequestHead head_;
  PeerConduct conduct_;
  KeepAlive keep_alive_;

  bool handshake_done_ = false;
  bool draining_ = false;
  bool final_goaway_ = false;
  bool closed_ = false;
};

}  // namespace millrace::rpc
