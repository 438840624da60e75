#pragma once

#include "millrace/base/time.h"
#include "millrace/sim/sim_scheduler.h"

namespace millrace::sim {

// The clocks of one simulated host. Its monotonic clock runs with the simulation's but starts
// somewhere else, as it does on every machine; its calendar may be wrong and may jump. Thread: one
// at a time.
class SimClock final : public Clock {
 public:
  explicit SimClock(const SimScheduler& scheduler, Duration monotonic_offset = Duration::zero())
      : scheduler_(scheduler), monotonic_offset_(monotonic_offset) {}

  [[nodiscard]] Instant Now() const override { return scheduler_.now() + monotonic_offset_; }
  [[nodiscard]] WallTime WallNow() const override {
    return WallTime{kEpochNs + scheduler_.now().ns} + wall_offset_;
  }

  void JumpWall(Duration d) { wall_offset_ += d; }
  [[nodiscard]] Duration wall_offset() const { return wall_offset_; }

  // The simulation's time at this host's `when`.
  [[nodiscard]] Instant ToSimulation(Instant when) const { return when - monotonic_offset_; }

 private:
  static constexpr std::int64_t kEpochNs = 1'700'000'000'000'000'000;

  const SimScheduler& scheduler_;
  const Duration monotonic_offset_;
  Duration wall_offset_ = Duration::zero();
};

}  // namespace millrace::sim
