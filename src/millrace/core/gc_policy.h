#pragma once

#include <cstdint>

#include "millrace/base/mutation.h"
#include "millrace/base/time.h"
#include "millrace/core/task_level.h"

namespace millrace::core {

// Decides when finished tasks of a subqueue are deleted, and how far deletion got.
//
// Invariants: one deletion at a time; the cursor never goes back.
class GcPolicy {
 public:
  GcPolicy(std::int64_t batch, Duration interval) : batch_(batch), interval_(interval) {}

  // True when a deletion through `ack` should start now. `at_stop`: whenever there is something.
  [[nodiscard]] bool Due(TaskLevel ack, Instant now, bool at_stop = false) const {
    if (running_ || ack <= cursor_) return false;
    if (at_stop) return true;
    if (ack.pass == cursor_.pass && ack.id.value - cursor_.id.value >= batch_ && !failed_)
      return true;
    return !tried_ || now - last_try_ > interval_;
  }

  void Begin(TaskLevel ack, Instant now) {
    running_ = true;
    tried_ = true;
    target_ = ack;
    last_try_ = now;
  }

  // `deleted` < 0: the store cannot tell the number.
  void EndOk(std::int64_t deleted) {
    running_ = false;
    failed_ = false;
    if (deleted < batch_ || MR_MUTANT(gc_cursor_skips_rows)) cursor_ = target_;
  }
  // A failing store is tried once an interval, however much waits.
  void EndFailed() {
    running_ = false;
    failed_ = true;
  }

  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] TaskLevel cursor() const { return cursor_; }

 private:
  const std::int64_t batch_;
  const Duration interval_;
  // Starts below everything: an earlier owner may have left rows behind.
  TaskLevel cursor_{0, TaskId{0}};
  TaskLevel target_{};
  Instant last_try_{};
  bool running_ = false;
  bool tried_ = false;
  bool failed_ = false;
};

}  // namespace millrace::core
