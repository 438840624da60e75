#pragma once

#include <optional>

#include "millrace/base/random.h"
#include "millrace/base/time.h"

namespace millrace::core {

// Waits of one series of tries: first `min`, doubling up to `max`, until `total` has passed since
// the first failure. With a Random, each wait is drawn from its upper half, so that many who failed
// together do not come back together.
//
// Bounds: min >= 1 ns and <= max.
class RetryPolicy {
 public:
  // `total` zero or less = for ever.
  RetryPolicy(Duration min, Duration max, Duration total = Duration::zero(),
              Random* jitter = nullptr);

  // A try failed at `now`. How long to wait before the next; empty when the time is over.
  std::optional<Duration> OnFailure(Instant now);
  // A try worked: the series starts anew.
  void OnSuccess();

 private:
  const Duration min_;
  const Duration max_;
  const Duration total_;
  Random* const jitter_;
  Duration next_;
  bool failing_ = false;
  Instant first_failure_{};
};

}  // namespace millrace::core
