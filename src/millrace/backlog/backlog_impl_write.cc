// What the writer asks of the backlog: counts, levels and rows around each conditional write.

#include <algorithm>
#include <utility>

#include "millrace/backlog/backlog_impl.h"
#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::backlog {

void BacklogManager::Impl::CountOp(const WriteOp& op) {
  for (const NewTask& task : op.creates) ledger_.AddCreated(task.subqueue, 1);
  for (const store::TaskKey& key : op.ends) ledger_.AddDeleted(key.subqueue, 1);
  const auto created = static_cast<std::int64_t>(op.creates.size());
  const auto ended = static_cast<std::int64_t>(op.ends.size());
  // A rewritten task is neither accepted again nor ended.
  const bool fresh = op.accepts || MR_MUTANT(rewrite_counted_as_accepted);
  const std::int64_t rewritten = fresh ? 0 : std::min(created, ended);
  ledger_.AddTotal(Total::kAccepted, created - rewritten);
  ledger_.AddTotal(op.ends_as, ended - rewritten);
}

void BacklogManager::Impl::CompleteWrite(WriteBatch& batch, store::QueueWrite& write) {
  strand_.AssertCurrent();
  if (!write.creates.empty()) {
    store::Subqueue last = 0;
    for (const auto& [subqueue, tail] : batch.tails) last = std::max(last, subqueue);
    // A subqueue that is new has nothing below the first id of this write.
    EnsureSubqueues(static_cast<std::size_t>(last) + 1,
                    {0, TaskId{write.creates.front().key.level.id.value - 1}});
  }
  ledger_.BeginWrite();
  for (const WriteOp& op : batch.ops) CountOp(op);
  write.metadata.emplace();
  write.metadata->range_id = lease_.range_id();
  write.metadata->update_time = strand_.clock().WallNow();
  write.metadata->carried = carried_;
  write.metadata->subqueues.reserve(subqueues_.size());
  for (const auto& subqueue : subqueues_)
    write.metadata->subqueues.push_back({subqueue->acks().ack_level(), 0});
  batch.number = ledger_.FinishWrite(*write.metadata);
  batch.carries_memory = dirty_;
  dirty_ = false;
  listener_.OnBuildWrite(write);
}

void BacklogManager::Impl::FinishEnds(const std::vector<WriteOp>& ops) {
  for (const WriteOp& op : ops) {
    for (const store::TaskKey& key : op.ends) At(key.subqueue).FinishStored(key.level);
    if (config_.delete_on_finish && !op.ends.empty()) listener_.OnTasksEnded(op.ends);
  }
}

void BacklogManager::Impl::CancelEnds(const std::vector<WriteOp>& ops) {
  for (const WriteOp& op : ops) {
    for (const store::TaskKey& key : op.ends) At(key.subqueue).CancelEnd(key.level);
  }
}

void BacklogManager::Impl::OnApplied(WriteBatch& batch, store::QueueWrite& write) {
  strand_.AssertCurrent();
  ledger_.Applied();
  FinishEnds(batch.ops);
  listener_.OnWriteEnd(true);
  for (const auto& [subqueue, tail] : batch.tails) At(subqueue).OnWritten(tail, write.creates);
}

void BacklogManager::Impl::OnRefused(WriteBatch& batch) {
  strand_.AssertCurrent();
  ledger_.Refused();
  if (batch.carries_memory && !MR_MUTANT(metadata_update_forgotten)) MarkDirty();
  if (!MR_MUTANT(ends_not_cancelled)) CancelEnds(batch.ops);
  listener_.OnWriteEnd(false);
  for (const auto& [subqueue, tail] : batch.tails) At(subqueue).OnNotWritten(tail);
}

void BacklogManager::Impl::OnUndecided(WriteBatch& batch) {
  strand_.AssertCurrent();
  log_.Write(LogLevel::kWarn, "backlog", "outcome of a write is unknown; fencing it",
             {{"queue", key_.persistence_name}, {"range_id", lease_.range_id().value}});
  for (const auto& [subqueue, tail] : batch.tails) At(subqueue).OnUndecided(tail);
}

bool BacklogManager::Impl::WroteBatch(const WriteBatch&, const OwnerState& state) {
  strand_.AssertCurrent();
  if (MR_MUTANT(outcome_guessed_refused)) return false;
  return ledger_.WroteSent(state) || MR_MUTANT(outcome_guessed_applied);
}

void BacklogManager::Impl::OnDecided(WriteBatch& batch, bool applied,
                                     const store::QueueMetadata& metadata,
                                     const OwnerState& state) {
  strand_.AssertCurrent();
  ledger_.Decided(applied, metadata, state);
  if (applied) {
    FinishEnds(batch.ops);
  } else {
    if (batch.carries_memory) MarkDirty();
    CancelEnds(batch.ops);
  }
  listener_.OnWriteEnd(applied);
  for (const auto& [subqueue, tail] : batch.tails) At(subqueue).OnDecided();
}

void BacklogManager::Impl::OnNotSent(WriteOp& op) {
  strand_.AssertCurrent();
  for (const store::TaskKey& key : op.ends) At(key.subqueue).CancelEnd(key.level);
}

void BacklogManager::Impl::OnBatchEnd() {
  strand_.AssertCurrent();
  if (watched_ != nullptr) watched_->SetRangeId(lease_.range_id());
  if (!writer_.busy()) SettleCounts();
  OnRowsLoaded(0);
}

}  // namespace millrace::backlog
