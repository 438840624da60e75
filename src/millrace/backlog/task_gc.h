#pragma once

#include <optional>

#include "millrace/backlog/config.h"
#include "millrace/backlog/metrics.h"
#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/core/gc_policy.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::backlog {

// Deletes finished rows of one subqueue behind its ack level, in batches, when core::GcPolicy says
// so.
//
// Thread: its strand.
// Bounds: one deletion in flight, of gc_batch rows.
// Fails: never; a failed deletion is tried again when it is due again.
class TaskGc {
 public:
  TaskGc(const store::PhysicalQueueKey& key, store::Subqueue subqueue, const BacklogConfig& config,
         exec::Strand& strand, store::AsyncTaskStore& store, exec::Gate& gate,
         BacklogMetrics& metrics);

  void MaybeRun(store::TaskLevel ack_level);
  // Nothing is started any more but by RunAtStop.
  void Stop();

  // Deletes all that is left, then runs `done` (not inside the call); gives up at the first error
  // and at `deadline`. A deletion in flight is waited for first.
  void RunAtStop(store::TaskLevel ack_level, Instant deadline, Closure done);

  // Rows through `ack_level` may be left.
  [[nodiscard]] bool Behind(store::TaskLevel ack_level) const {
    strand_.AssertCurrent();
    return policy_.cursor() < ack_level;
  }
  [[nodiscard]] bool running() const {
    strand_.AssertCurrent();
    return policy_.running();
  }

 private:
  void Start(store::TaskLevel ack_level) MR_REQUIRES(strand_);
  void OnDeleted(Result<std::optional<std::int64_t>> deleted, store::TaskLevel ack_level)
      MR_REQUIRES(strand_);
  void ContinueStop(bool failed) MR_REQUIRES(strand_);

  const store::PhysicalQueueKey& key_;
  const store::Subqueue subqueue_;
  const std::size_t batch_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  exec::Gate& gate_;
  BacklogMetrics& metrics_;
  core::GcPolicy policy_ MR_GUARDED_BY(strand_);
  bool stopped_ MR_GUARDED_BY(strand_) = false;

  store::TaskLevel stop_level_ MR_GUARDED_BY(strand_);
  Instant stop_deadline_ MR_GUARDED_BY(strand_);
  Closure stop_done_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
