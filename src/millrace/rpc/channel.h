#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/client_stream.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/status.h"
#include "millrace/rpc/tls_options.h"

namespace millrace::rpc {

struct ChannelOptions {
  std::string target;  // "127.0.0.1:7630", "[::1]:7630", "host:port" or "unix:/path".
  std::optional<TlsClientOptions> tls = std::nullopt;  // None = plain text.
  int connections_max = 1;  // Calls go to the connection with the fewest of them.
  Duration connect_timeout = std::chrono::seconds(5);
  Duration backoff_min = std::chrono::milliseconds(50);  // Doubles to the max, +-20 % jitter.
  Duration backoff_max = std::chrono::seconds(5);
  std::size_t receive_message_bytes_max = 16u << 20;
  std::size_t header_list_bytes_max = 16u << 10;  // Of a response, each of its two blocks.

  // A PING when nothing was heard for so long while calls wait; 0 = never. Nothing heard for the
  // timeout after it, and the connection is lost. Many servers take offence at less than five
  // minutes; one that says so is asked half as often from then on.
  Duration keepalive_time = Duration::zero();
  Duration keepalive_timeout = std::chrono::seconds(20);
  bool keepalive_without_calls = false;
  // Closes a connection without calls after one to two times this; 0 = never.
  Duration idle_timeout = Duration::zero();
};

struct CallOptions {
  Instant deadline = Instant::Max();  // Sent as grpc-timeout and enforced here as well.
  Metadata metadata;
  // Wait for a connection until the deadline instead of failing with UNAVAILABLE when connecting
  // fails.
  bool wait_for_ready = false;
  // Compress request messages. Compressed replies are taken either way.
  bool gzip = false;
};

struct CallResult {
  RpcStatus status;
  std::string response;  // Serialized message; empty unless ok, and for streams.
  Metadata headers;
  Metadata trailers;
  bool never_sent = false;  // It failed, and surely no byte of it reached a server.
};

// Client side of one target: keeps connections, reconnects with back-off, multiplexes calls. A call
// goes to the connection with the fewest; when each has as many as its server takes, it waits.
//
// Thread: any. `done` runs on the channel's loop, exactly once for every call and never inside
// Call, also at destruction (CANCELLED). Destruction on another thread returns when the last one
// has run; on the loop's own they run soon after. Bounds: calls waiting for a connection are held
// as given; whoever makes calls bounds them. Fails: UNAVAILABLE no connection or lost before the
// reply; DEADLINE_EXCEEDED; CANCELLED by Cancel or destruction. A call that surely did not reach
// the server's handlers (refused stream, GOAWAY below its id) is sent again on another connection
// by itself; no other call ever is, and no stream that has sent more than 64 KiB.
class Channel {
 public:
  using CallId = std::uint64_t;

  static std::unique_ptr<Channel> Create(exec::EventLoop& loop, ChannelOptions options);
  virtual ~Channel() = default;

  virtual CallId Call(std::string_view method, std::string request, CallOptions options,
                      UniqueFunction<void(CallResult)> done) = 0;
  // Begins a call with many messages. `done` runs once all messages that came before the status
  // were read, or at once when this side ends the call (deadline, cancelling, dropping the stream).
  virtual std::unique_ptr<ClientStream> Stream(std::string_view method, CallOptions options,
                                               UniqueFunction<void(CallResult)> done) = 0;

  // `done` then runs with CANCELLED soon, unless the call has just ended. Unknown ids are ignored.
  virtual void Cancel(CallId call) = 0;
};

// Sends one call and blocks until it ended. Not from a loop's thread.
CallResult CallAndWait(Channel& channel, std::string_view method, std::string request,
                       CallOptions options);

}  // namespace millrace::rpc
