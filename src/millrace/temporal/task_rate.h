#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "millrace/base/time.h"

namespace millrace::temporal {

// Events per second over the last half minute, in steps of three seconds.
//
// Thread: one at a time.
class TaskRate {
 public:
  explicit TaskRate(Instant now) : began_(now), step_(StepOf(now)) {}

  void Count(Instant now) {
    MoveTo(now);
    ++counts_[Slot(step_)];
  }

  [[nodiscard]] double PerSecond(Instant now) const {
    const std::int64_t at = StepOf(now);
    std::int64_t sum = 0;
    for (std::int64_t step = at - kSteps + 1; step <= at; ++step) {
      if (step > step_ - kSteps && step <= step_) sum += counts_[Slot(step)];
    }
    // The steps before now, and what has passed of this one.
    const Duration whole = kStep * (kSteps - 1) + Duration(now.ns % kStep.count());
    const Duration span = std::max(kStep, std::min<Duration>(whole, now - began_));
    return static_cast<double>(sum) / std::chrono::duration<double>(span).count();
  }

 private:
  static constexpr Duration kStep = std::chrono::seconds(3);
  static constexpr std::int64_t kSteps = 10;

  static std::int64_t StepOf(Instant now) { return now.ns / kStep.count(); }
  static std::size_t Slot(std::int64_t step) {
    return static_cast<std::size_t>((step % kSteps + kSteps) % kSteps);
  }
  void MoveTo(Instant now) {
    const std::int64_t to = StepOf(now);
    if (to <= step_) return;
    for (std::int64_t step = std::max(step_ + 1, to - kSteps + 1); step <= to; ++step) {
      counts_[Slot(step)] = 0;
    }
    step_ = to;
  }

  Instant began_;
  std::int64_t step_;
  std::array<std::int64_t, kSteps> counts_{};
};

}  // namespace millrace::temporal
