#pragma once

#include <algorithm>
#include <cstdint>

#include "millrace/base/random.h"
#include "millrace/base/time.h"

namespace millrace::rpc {

// How long to wait before the next attempt to connect: doubles from `min` to `max`, each time
// +-20 % so that clients do not come all at once. Pure.
class ConnectBackoff {
 public:
  ConnectBackoff(Duration min, Duration max) : min_(min), max_(max), base_(min) {}

  Duration Next(Random& random) {
    const Duration base = base_;
    base_ = std::min(base * 2, max_);
    // In steps of a thousandth.
    return base * static_cast<std::int64_t>(800 + random.Below(401)) / 1000;
  }
  // A connection worked.
  void Reset() { base_ = min_; }

 private:
  const Duration min_;
  const Duration max_;
  Duration base_;
};

}  // namespace millrace::rpc
