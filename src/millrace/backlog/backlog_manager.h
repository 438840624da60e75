#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/types.h"

namespace millrace::backlog {

// Why an owner gives a queue up.
enum class UnloadCause : std::uint8_t {
  kInitError,   // The lease could not be taken for a reason that retrying does not cure.
  kConflict,    // Another owner took the range id.
  kOtherError,  // A task could neither be started nor rewritten.
  kIdle,
  kShuttingDown,
  kForced,      // An operator or test asked.
};
std::string_view UnloadCauseName(UnloadCause cause);

// What became of accepted tasks, over the whole life of the queue. Stored with the metadata in the same atomic write
// as the rows they count, so after any crash: accepted = done + dead + dropped + rows still stored.
enum class Total : std::uint8_t { kAccepted, kDone, kDead, kDroppedExpired, kDroppedInvalid, kCount };
using Totals = std::array<std::int64_t, static_cast<std::size_t>(Total::kCount)>;

struct NewTask {
  store::Subqueue subqueue = 0;
  WallTime create_time;
  WallTime expiry_time;  // Not set = never.
  std::string payload;
};

struct WriteOutcome {
  Status status;
  // Keys of the created rows in the order given; filled in when the status is ok.
  std::vector<store::TaskKey> created;
};

// One change that must happen as a whole. Several waiting changes share a conditional write; each is told the outcome
// of that write.
struct WriteOp {
  std::vector<NewTask> creates;
  // True: `creates` are newly accepted tasks; they count as accepted, and are refused with kResourceExhausted when too
  // many rows wait already. False: they replace tasks that end in this op (a rewrite), and are never refused.
  bool accepts = true;

  // Tasks handed out by TakeLoaded or claimed in OnTaskLoaded that end with this op. Their rows are deleted in the same
  // write and their ids marked done once it is applied. Counted as `ends_as` unless this is a rewrite.
  std::vector<store::TaskKey> ends;
  Total ends_as = Total::kDone;

  std::vector<store::SideRow> side_puts;
  std::vector<std::string> side_deletes;

  // Once, on the strand, never inside the call. On kUnknownOutcome the change may or may not be in the store; `decided`
  // tells which when that is known. Any other error: surely not applied.
  UniqueFunction<void(WriteOutcome)> done;
  // After a kUnknownOutcome: runs once on the strand when a new lease has fenced the write and the store was read
  // again. Rows created by an applied write come in through the reader. Never runs if the queue is unloaded before.
  UniqueFunction<void(bool applied)> decided;
};

struct LoadedTask {
  store::TaskKey key;
  WallTime create_time;
  WallTime expiry_time;
  std::string payload;
};

struct TaskIdBlockView {
  TaskId start;  // Inclusive.
  TaskId end;    // Inclusive.
};

struct BacklogStatus {
  store::TaskLevel read_level;
  store::TaskLevel ack_level;
  std::int64_t approximate_count = 0;
  TaskIdBlockView task_id_block;
};

struct InternalSubqueueStatus {
  store::TaskLevel read_level;
  store::TaskLevel ack_level;
  TaskIdBlockView task_id_block;
  std::int64_t loaded_tasks = 0;
  TaskId max_read_level;
  std::int64_t approximate_count = 0;
};

// Counters and gauges shared by all backlogs of a process; see BacklogMetrics::Create for names.
struct BacklogMetrics;

// What a backlog tells the object that owns it. All calls on the strand, never inside a call into the manager.
class BacklogListener {
 public:
  virtual ~BacklogListener() = default;

  // The lease is held; nothing is read until BeginReading is called, so that the owner can first load side rows.
  virtual void OnLeaseHeld() = 0;

  // A row came in from the store for the first time (not one that TakeLoaded could have given out before). True = the
  // owner keeps it (its lease is remembered, say): it is not given out by TakeLoaded, and must end by Finish or a
  // WriteOp like any other.
  virtual bool OnTaskLoaded(const store::TaskRow& row) = 0;

  // TakeLoaded would return something now.
  virtual void OnTasksAvailable() = 0;

  // A conditional write is about to be sent: side rows may be added to it. Everything added must be right to repeat.
  virtual void OnBuildWrite(store::QueueWrite& write) = 0;
  // The outcome of the write of the last OnBuildWrite, once it is certain; in order.
  virtual void OnWriteEnd(bool applied) = 0;

  // Unload this queue. At most once in the manager's life; the owner answers with Stop.
  virtual void OnUnloadRequested(UnloadCause cause, const Status& status) = 0;
};

// The backlog of one physical task queue: range-id lease, task-id blocks, batched writer, reader, ack manager, garbage
// collection, fencing, unload. docs/decisions and ARCHITECTURE.md ("life of a task") tell the story.
//
// Thread: constructed anywhere; every other method, destruction included, on the strand.
// Bounds: one conditional write and one read per subqueue in flight; waiting rows and loaded rows by BacklogConfig.
// Fails: never by itself: store errors are retried or reported by OnUnloadRequested.
// Invariants: ack level <= read level <= max read level, all monotonic once known. No read or ack passes an id whose
// write has an unknown outcome until a new range id fences it. ids are never used twice.
class BacklogManager {
 public:
  BacklogManager(store::PhysicalQueueKey key, const BacklogConfig& config, exec::Strand& strand,
                 store::AsyncTaskStore& store, Random& random, BacklogMetrics& metrics, Log& log,
                 BacklogListener& listener);
  ~BacklogManager();
  BacklogManager(const BacklogManager&) = delete;
  BacklogManager& operator=(const BacklogManager&) = delete;

  // Takes the lease, creating the queue if it is not there. Once.
  void Start();

  // Runs `done` once the lease is held (ok), or with the error that made it impossible, or kShuttingDown after Stop.
  void WhenInitialized(store::StatusCallback done);

  // Starts the reader. Once, after OnLeaseHeld.
  void BeginReading();

  // Ends everything: waiting ops get kShuttingDown; unless marked "no final update", metadata is written once more and
  // finished rows are deleted, each within final_io_timeout. `done` runs on the strand when nothing is in flight any
  // more and the manager may be destroyed. Callable in any state, twice as well.
  void Stop(Closure done);

  // Hands `op` to the writer. Refused (through op.done): kResourceExhausted, kShuttingDown after Stop, kFenced after the
  // lease was lost.
  void Submit(WriteOp op);
  // Submit for a single new task: durable when `done` is ok.
  void SpoolTask(NewTask task, UniqueFunction<void(WriteOutcome)> done);
  // Makes sure that a write is built soon even when no op waits; `synced` = it must be synced.
  void RequestWrite(bool synced);

  // Takes up to `max` tasks off the head of the loaded ones, lowest subqueue first. Expired ones are dropped on the way.
  // Tasks taken count as loaded until they end.
  std::vector<LoadedTask> TakeLoaded(std::size_t max);
  [[nodiscard]] bool HasLoaded() const;
  // Gives a taken task back to the head, in level order: nobody could take it.
  void PutBack(LoadedTask task);

  // Without delete_on_finish: marks a taken task done; ack level, count and deletion follow. Unknown ids change nothing.
  void CompleteTask(const store::TaskKey& key);
  // The task could not be started: written again with a new, higher id, then the old one marked done. If that fails for
  // rewrite_retry_total: unload with kOtherError.
  void RewriteTask(LoadedTask task);

  [[nodiscard]] bool lease_held() const;
  [[nodiscard]] RangeId range_id() const;
  [[nodiscard]] const Totals& totals() const;  // As stored by the last certain write.
  [[nodiscard]] std::int64_t BacklogCountHint() const;
  [[nodiscard]] std::int64_t TotalApproximateBacklogCount() const;
  [[nodiscard]] Duration BacklogHeadAge() const;
  [[nodiscard]] BacklogStatus DescribeBacklog() const;
  [[nodiscard]] std::vector<InternalSubqueueStatus> InternalStatus() const;
  // Nothing waiting, in flight, loaded or undecided.
  [[nodiscard]] bool Idle() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::backlog
