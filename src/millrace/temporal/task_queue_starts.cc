// TaskQueueRuntime: a poll has a task, and history is asked to start it.
#include <algorithm>
#include <utility>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/task_queue_runtime.h"
#include "millrace/temporal/uuid.h"

namespace millrace::temporal {
namespace {

bool Gone(const PollParams& params) {
  return params.ticket != nullptr && params.ticket->gone.load(std::memory_order_acquire);
}

}  // namespace

void TaskQueueRuntime::StartTask(PollId id, Match match) {
  strand_.AssertCurrent();
  const auto it = polls_.find(id);
  const PollParams& params = it->second.params;
  if (Gone(params)) {
    Answer(it, {});
    return GiveBack(std::move(match));
  }
  const bool offered = match.offer != 0;
  StartRequest request;
  request.type = type_;
  request.task = match.task.payload;
  request.poll_request = params.poll_request;
  request.namespace_name = params.namespace_name;
  request.request_id = NewUuid(env_.backlog.random);
  request.deadline = strand_.clock().Now() +
                     (offered ? config_.sync_start_timeout : config_.backlog_start_timeout);
  ++starts_in_flight_;
  env_.metrics.starts.Increment();
  env_.history.StartTask(
      std::move(request),
      [this, self = shared_from_this(), id, match = std::move(match)](StartResult result) mutable {
        strand_.Post([this, self = std::move(self), id, match = std::move(match),
                      result = std::move(result)]() mutable {
          OnStarted(id, std::move(match), std::move(result));
        });
      });
}

void TaskQueueRuntime::OnStarted(PollId id, Match match, StartResult result) {
  strand_.AssertCurrent();
  --starts_in_flight_;
  const StartOutcome& outcome = result.outcome;
  const auto it = polls_.find(id);
  MR_CHECK(it != polls_.end());
  switch (outcome.task) {
    case TaskFate::kStarted:
      pause_ = Duration::zero();
      End(match);
      break;
    case TaskFate::kDrop:
      env_.metrics.Dropped(outcome.drop_reason).Increment();
      End(match);
      break;
    case TaskFate::kRewrite:
      env_.metrics.starts_failed.Increment();
      // Before the task is written again: nobody may take it in the meantime.
      if (outcome.wait_before_next && outcome.poller == PollerFate::kPollOn) PauseDispatch();
      if (MR_MUTANT(failed_start_dropped)) {
        End(match);
        break;
      }
      KeepForLater(std::move(match), result.status);
      break;
  }
  switch (outcome.poller) {
    case PollerFate::kAnswer:
      if (type_ == TaskType::kWorkflow) {
        AppendBacklogHint(result.response, BacklogCountHint());
      }
      Answer(it, {{}, std::move(result.response)});
      break;
    case PollerFate::kError:
      Answer(it, {std::move(result.status), {}});
      break;
    case PollerFate::kPollOn:
      if (it->second.ending || Gone(it->second.params)) {
        Answer(it, {});
      } else if (outcome.task == TaskFate::kRewrite && !MR_MUTANT(starts_never_pause)) {
        Rest(id);
      } else {
        Wait(id);
      }
      break;
  }
  if (state_ == State::kStopping && starts_in_flight_ == 0) StopBacklogs();
}

void TaskQueueRuntime::GiveBack(Match match) {
  strand_.AssertCurrent();
  if (match.offer == 0) {
    // The matcher is at it, and asks again.
    return partitions_.at(match.partition)->manager().PutBack(std::move(match.task));
  }
  OpenAdd add = std::move(offers_.extract(match.offer).mapped());
  add.task.payload = std::move(match.task.payload);
  Offer(std::move(add));
}

void TaskQueueRuntime::End(const Match& match) {
  strand_.AssertCurrent();
  if (match.offer == 0) {
    return partitions_.at(match.partition)->manager().CompleteTask(match.task.key);
  }
  OpenAdd add = std::move(offers_.extract(match.offer).mapped());
  env_.metrics.adds_matched.Increment();
  FinishAdd(add, {});
}

void TaskQueueRuntime::KeepForLater(Match match, const rpc::RpcStatus& why) {
  strand_.AssertCurrent();
  if (match.offer == 0) {
    return partitions_.at(match.partition)->manager().RewriteTask(std::move(match.task));
  }
  OpenAdd add = std::move(offers_.extract(match.offer).mapped());
  // Who adds to a cluster that has too much to do shall hear of it.
  const bool exhausted = why.code == rpc::Code::kResourceExhausted;
  if (exhausted || add.task.forwarded) {
    env_.metrics.adds_failed.Increment();
    return FinishAdd(add, exhausted ? why : RemoteSyncMatchFailedError());
  }
  add.task.payload = std::move(match.task.payload);
  Spool(std::move(add));
}

void TaskQueueRuntime::PauseDispatch() {
  strand_.AssertCurrent();
  if (Paused()) return;  // Others failed at the same time.
  pause_ = std::clamp(pause_ * 2, config_.start_retry_min, config_.start_retry_max);
  paused_until_ = strand_.clock().Now() + pause_;
  if (state_ != State::kOpen) return;
  pause_timer_.Arm(paused_until_, [this] {
    strand_.AssertCurrent();
    if (state_ == State::kOpen) matcher_.Pump();
  });
}

bool TaskQueueRuntime::Paused() const { return strand_.clock().Now() < paused_until_; }

std::int64_t TaskQueueRuntime::BacklogCountHint() const {
  strand_.AssertCurrent();
  std::int64_t hint = 0;
  for (const auto& [number, partition] : partitions_) {
    if (partition->held()) hint += partition->manager().BacklogCountHint();
  }
  return hint;
}

}  // namespace millrace::temporal
