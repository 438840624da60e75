// TaskQueueRuntime: tasks that are added.
#include <algorithm>
#include <utility>

#include "millrace/base/mutation.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/task_queue_runtime.h"

namespace millrace::temporal {

void TaskQueueRuntime::Add(std::int32_t partition, AddedTask task, AddCallback done) {
  strand_.AssertCurrent();
  ++adds_open_;
  if (!task.forwarded) adds_rate_.Count(strand_.clock().Now());
  // Answers come later, whatever happens.
  strand_.Post([this, self = shared_from_this(),
                add = OpenAdd{partition, std::move(task), std::move(done)}]() mutable {
    strand_.AssertCurrent();
    if (state_ >= State::kStopping) return FinishAdd(add, {}, true);
    TryAdd(std::move(add));
  });
}

void TaskQueueRuntime::TryAdd(OpenAdd add) {
  strand_.AssertCurrent();
  if (!partitions_.contains(add.partition)) {
    if (partitions_.size() >= config_.partitions_max) {
      return FinishAdd(add, EngineError(Status(StatusCode::kResourceExhausted,
                                               "too many partitions of one task queue")));
    }
    At(add.partition);
  }
  // Whether it would overtake others is not known before.
  if (!AllKnown()) return Hold(std::move(add));
  if (SyncMatchAllowed()) return Offer(std::move(add));
  if (add.task.forwarded && !MR_MUTANT(forwarded_task_stored)) {
    return FinishAdd(add, RemoteSyncMatchFailedError());
  }
  Spool(std::move(add));
}

void TaskQueueRuntime::Hold(OpenAdd add) {
  strand_.AssertCurrent();
  if (state_ >= State::kStopping) return FinishAdd(add, {}, true);
  const Status health = env_.backlog.store.Health();
  if (!health.ok()) return FinishAdd(add, EngineError(health));
  if (adds_waiting_.size() >= config_.adds_waiting_max) {
    return FinishAdd(add, EngineError(Status(StatusCode::kResourceExhausted,
                                             "too many calls wait for this task queue to load")));
  }
  adds_waiting_.push_back(std::move(add));
  ArmLoadTimer();
}

bool TaskQueueRuntime::SyncMatchAllowed() const {
  strand_.AssertCurrent();
  if (matcher_.pollers() == 0 || Paused() || state_ != State::kOpen) return false;
  return std::all_of(partitions_.begin(), partitions_.end(), [&](const auto& at) {
    const PartitionBacklog& partition = *at.second;
    if (!partition.held()) return partition.known();
    const backlog::BacklogManager& manager = partition.manager();
    const Duration age = manager.BacklogHeadAge();
    if (!matching::SyncMatchAllowed(age, config_.sync_match_backlog_age_max)) return false;
    // Stored by an earlier owner, and not read yet: as old as can be.
    return manager.BacklogCountHint() > 0 || manager.TotalApproximateBacklogCount() == 0;
  });
}

void TaskQueueRuntime::Offer(OpenAdd add) {
  strand_.AssertCurrent();
  backlog::LoadedTask task;
  task.create_time = add.task.create_time;
  task.expiry_time = add.task.expiry_time;
  task.payload = std::move(add.task.payload);
  const std::int64_t id = ++last_offer_;
  offers_.emplace(id, std::move(add));
  offering_ = id;
  if (matcher_.TryMatch(task)) return;
  offering_ = 0;
  // Nobody waits after all.
  OpenAdd back = std::move(offers_.extract(id).mapped());
  back.task.payload = std::move(task.payload);
  if (back.task.forwarded) return FinishAdd(back, RemoteSyncMatchFailedError());
  Spool(std::move(back));
}

void TaskQueueRuntime::Spool(OpenAdd add) {
  strand_.AssertCurrent();
  PartitionBacklog& partition = At(add.partition);
  if (!partition.held()) {
    if (state_ == State::kOpen) partition.Load();
    return Hold(std::move(add));
  }
  backlog::NewTask task;
  task.create_time = add.task.create_time;
  task.expiry_time = add.task.expiry_time;
  task.payload = std::move(add.task.payload);
  partition.manager().SpoolTask(
      std::move(task), [this, self = shared_from_this(),
                        add = std::move(add)](const backlog::WriteOutcome& outcome) mutable {
        strand_.AssertCurrent();
        if (outcome.status.ok()) {
          env_.metrics.adds_spooled.Increment();
          return FinishAdd(add, {});
        }
        env_.metrics.adds_failed.Increment();
        FinishAdd(add, EngineError(outcome.status));
      });
}

void TaskQueueRuntime::FailWaitingAdds(const rpc::RpcStatus& status, bool retry) {
  strand_.AssertCurrent();
  for (OpenAdd& add : std::exchange(adds_waiting_, {})) FinishAdd(add, status, retry);
}

void TaskQueueRuntime::FinishAdd(OpenAdd& add, rpc::RpcStatus status, bool retry) {
  strand_.AssertCurrent();
  --adds_open_;
  Touch();
  AddOutcome outcome;
  outcome.status = std::move(status);
  outcome.retry = retry;
  if (retry) outcome.task = std::move(add.task);
  add.done(std::move(outcome));
}

}  // namespace millrace::temporal
