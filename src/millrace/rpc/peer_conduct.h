#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "millrace/base/time.h"

namespace millrace::rpc {

// How often a client may ask for a sign of life while nothing is sent to it.
struct PingPolicy {
  Duration interval_min{};
  bool only_with_calls =
      false;  // Without a call in flight: one in two hours, as gRPC's servers do.
};

// Counts what a client does that carries no call forward, and says when it is too much. Pure.
//
// Invariants: every answer but "" is given once; the connection then ends.
class PeerConduct {
 public:
  explicit PeerConduct(PingPolicy pings) : pings_(pings) {}

  // A frame begins, of whatever kind. Why the client must go, or "".
  std::string_view OnFrame();
  // Frames of unknown types are not reported; their bytes are seen.
  std::string_view OnBytes(std::size_t bytes);
  std::string_view OnPing(Instant now, bool calls_in_flight);

  // A frame that carried a call forward.
  void OnUseful() {
    frames_ = 0;
    bytes_ = 0;
  }
  // Something of a call was sent: a client may ask how a connection is doing whenever it hears from
  // it.
  void OnSent() {
    ping_strikes_ = 0;
    last_ping_ = Instant{};
    OnUseful();
  }

 private:
  const PingPolicy pings_;
  Instant last_ping_;
  int ping_strikes_ = 0;
  std::uint32_t frames_ = 0;  // Since the last useful one.
  std::size_t bytes_ = 0;
};

}  // namespace millrace::rpc
