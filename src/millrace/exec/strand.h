#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/mutex.h"
#include "millrace/exec/executor.h"

namespace millrace::exec {

// Runs closures one at a time in the order they were posted: the owner of a task queue's state.
// Fields guarded by a strand are touched only by closures running on it.
//
// A post from a thread that is running an executor schedules the strand there, so work runs where
// it came in; a post from any other thread schedules it on the home executor. Timers live on the
// home executor.
//
// Thread: Post and IsCurrent from any thread.
// Bounds: unbounded; posts are bounded by requests and store calls in flight. After 256 closures in
// one go the strand yields to the executor's other work. Invariants: closures posted before
// destruction still run, or are destroyed with the executor; a closure that uses an object must
// therefore hold that object's Gate.
class MR_CAPABILITY("strand") Strand {
 public:
  explicit Strand(Executor& home);
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Runs `closure` later on this strand, never inside this call.
  void Post(Closure closure);

  // True inside a closure of this strand.
  [[nodiscard]] bool IsCurrent() const;

  // Stops the process when not inside a closure of this strand.
  void AssertCurrent() const MR_ASSERT_CAPABILITY(this);

  [[nodiscard]] Executor& home() const;
  [[nodiscard]] const Clock& clock() const { return home().clock(); }

 private:
  friend class StrandTimer;
  struct State;
  static void Push(const std::shared_ptr<State>& state, Closure closure);
  static void Drain(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

// One timer on a strand. Thread: its strand, destruction included.
// Invariants: after Cancel, Arm or destruction an earlier closure never runs.
class StrandTimer {
 public:
  explicit StrandTimer(Strand& strand);
  ~StrandTimer();
  StrandTimer(const StrandTimer&) = delete;
  StrandTimer& operator=(const StrandTimer&) = delete;

  // Runs `closure` on the strand at `when` or soon after. Replaces what was armed.
  void Arm(Instant when, Closure closure);
  void Cancel();
  [[nodiscard]] bool armed() const { return cell_ != nullptr; }
  // When it will run; Instant::Max() when not armed.
  [[nodiscard]] Instant when() const { return armed() ? when_ : Instant::Max(); }

 private:
  struct Cell {
    StrandTimer* timer;  // Null once cancelled.
    Closure closure;
  };

  Strand& strand_;
  std::shared_ptr<Cell> cell_;
  TimerId id_ = 0;
  Instant when_;
};

}  // namespace millrace::exec
