#pragma once

#include <algorithm>
#include <optional>

#include "millrace/base/random.h"
#include "millrace/base/time.h"

namespace millrace::cli {

// Waits between tries: doubling from 100 ms to 5 s, each shortened by up to half at random, so that
// many clients of a restarted server do not come back together. The server's own wish is a lower
// bound.
class Backoff {
 public:
  explicit Backoff(Random& random) : random_(random) {}

  Duration Next(std::optional<Duration> server_wish) {
    const Duration full = next_;
    next_ = std::min<Duration>(next_ * 2, kMax);
    const auto half = static_cast<std::uint64_t>(full.count() / 2);
    const Duration wait = full - Duration(static_cast<std::int64_t>(random_.Below(half + 1)));
    return std::max(wait, std::min<Duration>(server_wish.value_or(Duration::zero()), kMax));
  }
  void Reset() { next_ = kMin; }

 private:
  static constexpr Duration kMin = std::chrono::milliseconds(100);
  static constexpr Duration kMax = std::chrono::seconds(5);
  Random& random_;
  Duration next_ = kMin;
};

}  // namespace millrace::cli
