#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "millrace/base/time.h"

namespace millrace::rpc {

// Counts what a client does that carries no call forward, and says when it is too much. Pure.
//
// Invariants: every answer but "" is given once; the connection then ends.
class PeerConduct {
 public:
  explicit PeerConduct(Duration ping_interval_min) : ping_interval_min_(ping_interval_min) {}

  // A frame begins, of whatever kind. Why the client must go, or "".
  std::string_view OnFrame();
  // Frames of unknown types are not reported; their bytes are seen.
  std::string_view OnBytes(std::size_t bytes);
  std::string_view OnPing(Instant now);

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
  const Duration ping_interval_min_;
  Instant last_ping_;
  int ping_strikes_ = 0;
  std::uint32_t frames_ = 0;  // Since the last useful one.
  std::size_t bytes_ = 0;
};

}  // namespace millrace::rpc
