#pragma once

#include <atomic>

#include "millrace/base/time.h"

namespace millrace::server {

// The machine's clocks, with calendar time put right by the clock of a store that several machines
// share: what one of them stores is read by the next, and their own clocks may differ by hours.
//
// Thread: any.
class StoreClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override { return machine_.Now(); }
  [[nodiscard]] WallTime WallNow() const override {
    return machine_.WallNow() + Duration(ahead_ns_.load(std::memory_order_relaxed));
  }

  // The store's clock is ahead of this one by `ahead`, as far as anybody can tell. What lies within
  // the error of such a look changes nothing, so that time goes steadily.
  void Correct(Duration ahead) {
    if (ahead < kTolerance && ahead > -kTolerance) return;
    ahead_ns_.fetch_add(ahead.count(), std::memory_order_relaxed);
  }
  [[nodiscard]] Duration correction() const {
    return Duration(ahead_ns_.load(std::memory_order_relaxed));
  }

 private:
  static constexpr Duration kTolerance = std::chrono::milliseconds(200);

  SystemClock machine_;
  std::atomic<std::int64_t> ahead_ns_ = 0;
};

}  // namespace millrace::server
