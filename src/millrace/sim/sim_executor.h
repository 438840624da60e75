#pragma once

#include <cstdint>
#include <deque>

#include "millrace/exec/executor.h"
#include "millrace/sim/sim_clock.h"
#include "millrace/sim/sim_scheduler.h"

namespace millrace::sim {

struct SimExecutorOptions {
  // Timers run up to this much late, as on a busy machine.
  Duration timer_delay_max = Duration::zero();
};

// One event loop of a simulated host. Several hosts, or several loops of one host, share a
// scheduler.
//
// Thread: one at a time.
// Invariants: what executor.h promises; closures and timers left at destruction are destroyed
// unrun.
class SimExecutor final : public exec::Executor {
 public:
  SimExecutor(SimScheduler& scheduler, const SimClock& clock, SimExecutorOptions options = {});
  ~SimExecutor() override;
  SimExecutor(const SimExecutor&) = delete;
  SimExecutor& operator=(const SimExecutor&) = delete;

  void Post(Closure closure) override;
  exec::TimerId PostAt(Instant when, Closure closure) override;
  bool CancelTimer(exec::TimerId timer) override;
  [[nodiscard]] const Clock& clock() const override { return clock_; }

  // Runs nothing until the simulation's time is `when`, like a paused process: its timers then come
  // due all at once.
  void StallUntil(Instant when);
  [[nodiscard]] bool stalled() const { return stalled_; }

  [[nodiscard]] std::size_t pending_closures() const { return ready_.size(); }

 private:
  friend class SimScheduler;

  // Runs the first ready closure.
  void RunOne();
  void Resume();

  static constexpr std::size_t kNotRunnable = static_cast<std::size_t>(-1);

  SimScheduler& scheduler_;
  const SimClock& clock_;
  const SimExecutorOptions options_;
  std::deque<Closure> ready_;
  bool stalled_ = false;
  exec::TimerId resume_timer_ = 0;
  std::int64_t id_ = 0;  // Given by the scheduler, in order of construction.
  std::size_t runnable_index_ =
      kNotRunnable;  // Place in the scheduler's list of runnable executors.
};

}  // namespace millrace::sim
