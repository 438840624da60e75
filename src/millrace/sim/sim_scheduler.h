#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/random.h"
#include "millrace/base/time.h"
#include "millrace/exec/executor.h"
#include "millrace/sim/sim_trace.h"

namespace millrace::sim {

class SimExecutor;

struct SimOptions {
  // Each step moves time forward by 0 to this, as running code does. Zero: time moves only to the
  // next timer.
  Duration step_cost_max = Duration::zero();
};

// Time, order and chance of one simulation. It owns no thread: Step runs one closure of one of its
// executors. Which one, among the executors that have something ready, is drawn from the seed;
// within an executor closures run in the order they were posted. When nothing is ready time jumps
// to the next timer.
//
// Thread: one at a time.
// Bounds: none; whoever drives it counts steps.
// Invariants: with the same seed, options and program everything happens in the same order
// (trace().hash() says so).
class SimScheduler {
 public:
  explicit SimScheduler(std::uint64_t seed, SimOptions options = {});
  // Every executor must be gone.
  ~SimScheduler();
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  [[nodiscard]] Instant now() const { return now_; }
  // For everything that draws lots in this simulation.
  [[nodiscard]] Random& random() { return random_; }
  [[nodiscard]] SimTrace& trace() { return trace_; }
  void Trace(std::string_view kind, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0) {
    trace_.Event(now_, kind, a, b, c);
  }

  // Runs one closure, after moving time if nothing is ready. False: neither closures nor timers are
  // left.
  bool Step();
  // Runs what is ready now, and what that makes ready, without waiting for a timer. Returns the
  // steps.
  std::uint64_t RunReady();
  // Runs everything due until `when`; time is `when` afterwards.
  void RunUntil(Instant when);
  void RunFor(Duration d) { RunUntil(now_ + d); }
  // Runs until `condition` holds (looked at after each step) and returns true; false when nothing
  // is left to run or `limit` has passed.
  bool RunWhileNot(UniqueFunction<bool()> condition, Duration limit);
  // Runs until neither closures nor timers are left; false when `limit` passed first.
  bool RunUntilQuiet(Duration limit);

  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  // Closures ready and timers pending, over all executors.
  [[nodiscard]] std::size_t pending() const;

 private:
  friend class SimExecutor;

  // Timers order by time, then by lot.
  using TimerKey = std::pair<std::pair<Instant, std::uint64_t>, exec::TimerId>;
  struct Timer {
    SimExecutor* owner;  // Null: the scheduler's own.
    Closure closure;
  };

  void Register(SimExecutor& executor);
  void DropTimers(SimExecutor& executor);
  void Unregister(SimExecutor& executor);
  void MakeRunnable(SimExecutor& executor);
  void MakeIdle(SimExecutor& executor);
  exec::TimerId AddTimer(SimExecutor* owner, Instant when, Closure closure);
  bool CancelTimer(exec::TimerId timer);
  // Hands timers due by now to their executors.
  void FireDueTimers();

  const SimOptions options_;
  SeededRandom random_;
  SimTrace trace_;
  Instant now_{1'000'000'000};
  std::uint64_t steps_ = 0;
  exec::TimerId last_timer_ = 0;
  std::int64_t last_executor_ = 0;
  std::map<TimerKey, Timer> timers_;
  std::unordered_map<exec::TimerId, TimerKey> timer_keys_;
  std::vector<SimExecutor*> executors_;
  std::vector<SimExecutor*> runnable_;
};

}  // namespace millrace::sim
