#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/types.h"
#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

struct BacklogMetrics;
class OwnerWatch;

// The backlog of one physical task queue: range-id lease, task-id blocks, batched writer, reader,
// ack manager, garbage collection, fencing, unload. docs/decisions and ARCHITECTURE.md ("life of a
// task") tell the story.
//
// Thread: constructed anywhere; destroyed anywhere once Stop is done (or if it was never started);
// every other method on the strand.
// Bounds: one conditional write and one read per subqueue in flight; waiting rows and loaded rows
// by BacklogConfig. Fails: never by itself: store errors are retried or reported by
// OnUnloadRequested. Invariants: ack level <= read level <= max read level, all monotonic once
// known. No read or ack passes an id whose write has an unknown outcome until a new range id fences
// it. ids are never used twice.
class BacklogManager {
 public:
  // `watch`: asked only when others may own the queues of this store.
  BacklogManager(store::PhysicalQueueKey key, const BacklogConfig& config, exec::Strand& strand,
                 store::AsyncTaskStore& store, OwnerWatch& watch, Random& random,
                 BacklogMetrics& metrics, Log& log, BacklogListener& listener);
  ~BacklogManager();
  BacklogManager(const BacklogManager&) = delete;
  BacklogManager& operator=(const BacklogManager&) = delete;

  // Takes the lease, creating the queue if it is not there. Once.
  void Start();

  // Runs `done` once the lease is held (ok), or with the error that made it impossible, or
  // kShuttingDown after Stop.
  void WhenInitialized(store::StatusCallback done);

  // Tasks whose rows are stored and which the owner holds already, since it remembers their leases:
  // they are not given out, and end by a WriteOp like any other, even before the reader has come to
  // their rows. After OnLeaseHeld and before BeginReading. Only with delete_on_finish.
  void AdoptTasks(const std::vector<store::TaskKey>& tasks);

  // Starts the reader. Once, after OnLeaseHeld.
  void BeginReading();

  // Ends everything: waiting ops get kShuttingDown; unless marked "no final update", metadata is
  // written once more and finished rows are deleted, each within final_io_timeout. `done` runs on
  // the strand when nothing is in flight any more and the manager may be destroyed. Callable in any
  // state, twice as well.
  void Stop(Closure done);

  // Hands `op` to the writer. Refused (through op.done): kResourceExhausted, kShuttingDown after
  // Stop, kFenced after the lease was lost.
  void Submit(WriteOp op);
  // Submit for a single new task: durable when `done` is ok.
  void SpoolTask(NewTask task, UniqueFunction<void(WriteOutcome)> done);
  // Makes sure that a write is built soon even when no op waits; `synced` = it must be synced.
  void RequestWrite(bool synced);

  // Takes up to `max` tasks off the head of the loaded ones, lowest subqueue first. Expired ones
  // are dropped on the way. Tasks taken count as loaded until they end.
  std::vector<LoadedTask> TakeLoaded(std::size_t max);
  [[nodiscard]] bool HasLoaded() const;
  // Gives a taken task back to its place: nobody could take it. OnTasksAvailable is not called for
  // it.
  void PutBack(LoadedTask task);

  // A taken task is done. Without delete_on_finish: ack level, count and deletion follow in memory.
  // With it: its row goes by a write that is repeated until it worked. Unknown ids, and ids that
  // ended already, change nothing.
  void CompleteTask(const store::TaskKey& key);
  // The task could not be started: written again with a new, higher id, then the old one marked
  // done. If that fails for rewrite_retry_total: unload with kOtherError.
  void RewriteTask(LoadedTask task);

  [[nodiscard]] bool lease_held() const;
  [[nodiscard]] RangeId range_id() const;
  [[nodiscard]] const Totals& totals() const;  // As stored by the last certain write.
  [[nodiscard]] std::int64_t BacklogCountHint() const;
  [[nodiscard]] std::int64_t TotalApproximateBacklogCount() const;
  [[nodiscard]] Duration BacklogHeadAge() const;
  [[nodiscard]] BacklogStatus DescribeBacklog() const;
  [[nodiscard]] std::vector<InternalSubqueueStatus> InternalStatus() const;
  // Nothing waiting, in flight, loaded, undecided or left to read.
  [[nodiscard]] bool Idle() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::backlog
