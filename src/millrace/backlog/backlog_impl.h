#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/config.h"
#include "millrace/backlog/ledger.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/owed_ends.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/backlog/queue_lease.h"
#include "millrace/backlog/subqueue_backlog.h"
#include "millrace/backlog/task_rewriter.h"
#include "millrace/backlog/task_writer.h"
#include "millrace/base/annotations.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"

namespace millrace::backlog {

// Puts the parts of a backlog together: routes what one of them found out to the others, and ends
// them in order.
//
//   kNew --Start--> kTaking --> kOwned --lease lost, damage--> kHalted
//                      `--error--------------------------------^
//   Any state --Stop--> kStopping --> kDrained.
//
//   Stopping: kWriterEnding --> kFinalWrite --> kFinalDelete --> kWaiting (for calls in flight) -->
//   drained. Unless the levels are known and nothing speaks against a final update, straight to
//   kWaiting. Each step has a time limit.
class BacklogManager::Impl final : private TaskWriter::Host, private SubqueueBacklog::Owner {
 public:
  Impl(store::PhysicalQueueKey key, const BacklogConfig& config, exec::Strand& strand,
       store::AsyncTaskStore& store, OwnerWatch& watch, Random& random, BacklogMetrics& metrics,
       Log& log, BacklogListener& listener);
  ~Impl() override;

  void Start();
  void WhenInitialized(store::StatusCallback done);
  void AdoptTasks(const std::vector<store::TaskKey>& tasks);
  void BeginReading();
  void Stop(Closure done);

  void Submit(WriteOp op, bool relaxed);
  void RequestWrite(bool synced);
  std::vector<LoadedTask> TakeLoaded(std::size_t max);
  [[nodiscard]] bool HasLoaded();
  void PutBack(LoadedTask task);
  void CompleteTask(const store::TaskKey& key);
  void RewriteTask(LoadedTask task);

  [[nodiscard]] bool lease_held() const;
  [[nodiscard]] RangeId range_id() const { return lease_.range_id(); }
  [[nodiscard]] const Totals& totals() const;
  [[nodiscard]] std::int64_t BacklogCountHint() const;
  [[nodiscard]] std::int64_t TotalApproximateBacklogCount() const;
  [[nodiscard]] Duration BacklogHeadAge() const;
  [[nodiscard]] BacklogStatus DescribeBacklog() const;
  [[nodiscard]] std::vector<InternalSubqueueStatus> InternalStatus() const;
  [[nodiscard]] bool Idle() const;

 private:
  enum class State : std::uint8_t { kNew, kTaking, kOwned, kHalted, kStopping, kDrained };
  enum class StopStep : std::uint8_t { kNone, kWriterEnding, kFinalWrite, kFinalDelete, kWaiting };

  // TaskWriter::Host (backlog_impl_write.cc).
  void CompleteWrite(WriteBatch& batch, store::QueueWrite& write) override;
  void OnApplied(WriteBatch& batch, store::QueueWrite& write) override;
  void OnRefused(WriteBatch& batch) override;
  void OnUndecided(WriteBatch& batch) override;
  bool WroteBatch(const WriteBatch& batch, const OwnerState& state) override;
  void OnDecided(WriteBatch& batch, bool applied, const store::QueueMetadata& metadata,
                 const OwnerState& state) override;
  void OnNotSent(WriteOp& op) override;
  void OnBatchEnd() override;
  void OnLeaseLost(const Status& status) override;
  void OnDamaged(const Status& status) override;

  // SubqueueBacklog::Owner.
  bool KeepRow(const store::TaskRow& row) override;
  void DeleteExpired(const store::TaskKey& key) override;
  void OnAckMoved(store::Subqueue subqueue, const core::Acked& acked, bool stored) override;
  void OnRowsLoaded(store::Subqueue subqueue) override;
  void OnReadFenced(const Status& status) override { OnLeaseLost(status); }
  void OnReadDamaged(const Status& status) override { OnDamaged(status); }

  void OnTaken(Result<TakenQueue> taken) MR_REQUIRES(strand_);
  Status Adopt(const TakenQueue& taken) MR_REQUIRES(strand_);
  void TellInitialized(const Status& status) MR_REQUIRES(strand_);
  void EnsureSubqueues(std::size_t count, store::TaskLevel level) MR_REQUIRES(strand_);
  SubqueueBacklog& At(store::Subqueue subqueue) MR_REQUIRES(strand_);
  [[nodiscard]] SubqueueBacklog* Find(store::Subqueue subqueue) MR_REQUIRES(strand_);
  bool BeginEnds(const WriteOp& op) MR_REQUIRES(strand_);
  void CancelEnds(const std::vector<WriteOp>& ops) MR_REQUIRES(strand_);
  void FinishEnds(const std::vector<WriteOp>& ops) MR_REQUIRES(strand_);
  void CountOp(const WriteOp& op) MR_REQUIRES(strand_);
  static Status ValidateOp(const WriteOp& op);
  [[nodiscard]] bool HasLive(WallTime now) const MR_REQUIRES(strand_);
  // Clears counts of subqueues that are known to be empty.
  void SettleCounts() MR_REQUIRES(strand_);

  // Memory differs from what is stored: write it within update_interval.
  void MarkDirty() MR_REQUIRES(strand_);
  void ArmUpdateTimer() MR_REQUIRES(strand_);
  void OnUpdateTimer() MR_REQUIRES(strand_);
  void StartWatch() MR_REQUIRES(strand_);
  void OnOtherRangeId(RangeId asked) MR_REQUIRES(strand_);

  void Halt(const Status& status) MR_REQUIRES(strand_);
  void RequestUnload(UnloadCause cause, const Status& status) MR_REQUIRES(strand_);

  void EnterStopStep(StopStep step) MR_REQUIRES(strand_);
  void OnWriterEnded() MR_REQUIRES(strand_);
  void StartFinalDelete() MR_REQUIRES(strand_);
  void WaitForCalls() MR_REQUIRES(strand_);

  const store::PhysicalQueueKey key_;
  const BacklogConfig config_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  OwnerWatch& watch_;
  Random& random_;
  BacklogMetrics& metrics_;
  Log& log_;
  BacklogListener& listener_;

  exec::Gate gate_;
  QueueLease lease_;
  Ledger ledger_ MR_GUARDED_BY(strand_);
  std::string carried_ MR_GUARDED_BY(strand_);  // QueueMetadata::carried.
  TaskWriter writer_;
  TaskRewriter rewriter_;
  OwedEnds expired_;
  OwedEnds finished_;  // By CompleteTask with delete_on_finish.
  std::vector<std::unique_ptr<SubqueueBacklog>> subqueues_ MR_GUARDED_BY(strand_);

  State state_ MR_GUARDED_BY(strand_) = State::kNew;
  StopStep stop_step_ MR_GUARDED_BY(strand_) = StopStep::kNone;
  bool reading_ MR_GUARDED_BY(strand_) = false;
  bool levels_known_ MR_GUARDED_BY(strand_) = false;
  bool no_final_update_ MR_GUARDED_BY(strand_) = false;
  bool unload_requested_ MR_GUARDED_BY(strand_) = false;
  bool dirty_ MR_GUARDED_BY(strand_) = false;
  bool rows_loaded_ MR_GUARDED_BY(strand_) = false;
  std::size_t deletions_left_ MR_GUARDED_BY(strand_) = 0;
  Status init_error_ MR_GUARDED_BY(strand_);
  std::vector<store::StatusCallback> init_waiters_ MR_GUARDED_BY(strand_);
  std::vector<Closure> stop_waiters_ MR_GUARDED_BY(strand_);
  std::unique_ptr<OwnerWatch::Watched> watched_ MR_GUARDED_BY(strand_);  // Null: nobody else owns.
  exec::StrandTimer update_timer_ MR_GUARDED_BY(strand_);
  exec::StrandTimer stop_timer_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
