#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/status.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/service.h"
#include "millrace/rpc/tls_options.h"

namespace millrace::rpc {

struct ServerOptions {
  // "127.0.0.1:7630" (port 0 = any free one), "[::1]:7630", "unix:/path". At least one.
  std::vector<std::string> listen;
  // For the TCP addresses; None = plain text. Unix sockets are always plain: the system itself
  // guards them.
  std::optional<TlsServerOptions> tls;
  // With several loops each has a listening socket of its own for a TCP address. Otherwise, and
  // where the kernel cannot do that, the first loop accepts for all.
  bool reuse_port = true;
  std::size_t receive_message_bytes_max = 4u << 20;
  // Per connection, requests that wait or are still arriving: one more is answered
  // RESOURCE_EXHAUSTED. Replies that the client does not take are bounded by the same number.
  std::size_t buffered_bytes_max = 64u << 20;
  std::uint32_t concurrent_streams_max = 1'000;  // Per connection; told to the client.
  std::size_t connections_max = 10'000;
  std::size_t header_list_bytes_max = 16u << 10;
  // Closes a connection that has had no call for this long; 0 = never.
  Duration idle_timeout = Duration::zero();
  // A connection this old, +-10 %, is told to go (GOAWAY), so that clients find new servers
  // behind a name; its calls get the grace to end. 0 = never.
  Duration connection_age_max = Duration::zero();
  Duration connection_age_grace = std::chrono::minutes(2);
  // A peer that is silent for one to two times this long is asked for a sign of life, and closed,
  // its calls cancelled, when none comes within the timeout. 0 = not asked.
  Duration keepalive_time = std::chrono::minutes(1);
  Duration keepalive_timeout = std::chrono::seconds(20);
  // Clients that ping more often than this while nothing is sent to them get GOAWAY.
  Duration ping_interval_min = std::chrono::seconds(5);
  bool ping_only_with_calls = false;  // Pings without a call in flight: one in two hours.
  Duration handshake_timeout = std::chrono::seconds(
      10);  // TLS and HTTP/2 together. Also for the rest of a begun header block.
  Duration send_stall_timeout =
      std::chrono::seconds(30);  // A peer that takes no byte for so long is closed.
};

// gRPC server: listens, spreads connections over the loops, and turns requests into ServerCalls.
//
// Thread: construction, Start and Shutdown from any one thread that is not a loop's.
// Fails: Start with kUnavailable and the system's words when an address cannot be bound;
// kInvalidArgument when the certificate files cannot be used.
class Server {
 public:
  // `loops` and everything else must outlive the server.
  static std::unique_ptr<Server> Create(std::vector<exec::EventLoop*> loops, ServerOptions options,
                                        ServiceTable services, Log& log, Metrics& metrics);
  virtual ~Server() = default;

  virtual Status Start() = 0;

  // Addresses really bound, with the port chosen, in the order of `listen`.
  [[nodiscard]] virtual std::vector<std::string> addresses() const = 0;

  // Looks at the certificate files now rather than after the interval. Thread: any.
  virtual void ReloadTls() = 0;

  // The grpc.health.v1 answer for "" and every service; starts as NOT_SERVING.
  virtual void SetServing(bool serving) = 0;

  // Stops listening, sends GOAWAY, lets calls end until `grace` has passed, then cancels the rest
  // and closes. Blocks until every connection is gone.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace millrace::rpc
