#include "millrace/core/retry_policy.h"

#include <algorithm>
#include <cstdint>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::core {

RetryPolicy::RetryPolicy(Duration min, Duration max, Duration total, Random* jitter)
    : min_(min), max_(max), total_(total), jitter_(jitter), next_(min) {
  MR_CHECK(min.count() >= 1 && min <= max);
}

std::optional<Duration> RetryPolicy::OnFailure(Instant now) {
  if (!failing_) {
    failing_ = true;
    first_failure_ = now;
  }
  Duration wait = next_;
  next_ = next_ > max_ / 2 ? max_ : next_ * 2;
  if (jitter_ != nullptr) {
    const std::int64_t half = wait.count() / 2;
    wait -=
        Duration(static_cast<std::int64_t>(jitter_->Below(static_cast<std::uint64_t>(half) + 1)));
  }
  if (total_.count() > 0 && !MR_MUTANT(retry_total_ignored) &&
      (now - first_failure_) + wait > total_)
    return std::nullopt;
  return wait;
}

void RetryPolicy::OnSuccess() {
  failing_ = false;
  next_ = min_;
}

}  // namespace millrace::core
