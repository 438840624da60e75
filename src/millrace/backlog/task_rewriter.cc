#include "millrace/backlog/task_rewriter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "millrace/backlog/store_errors.h"

namespace millrace::backlog {

TaskRewriter::TaskRewriter(const BacklogConfig& config, exec::Strand& strand,
                           BacklogMetrics& metrics, UniqueFunction<void(WriteOp)> submit,
                           UniqueFunction<void(const Status&)> give_up)
    : config_(config),
      strand_(strand),
      metrics_(metrics),
      submit_(std::move(submit)),
      give_up_(std::move(give_up)) {}

void TaskRewriter::Rewrite(LoadedTask task) {
  strand_.AssertCurrent();
  if (stopped_) return;
  jobs_.push_back(std::make_shared<Job>(std::move(task), config_, strand_));
  Start(jobs_.back());
}

void TaskRewriter::Stop() {
  strand_.AssertCurrent();
  stopped_ = true;
  for (const std::shared_ptr<Job>& job : jobs_) job->timer.Cancel();
  std::vector<std::shared_ptr<Job>>().swap(jobs_);
}

void TaskRewriter::Start(const std::shared_ptr<Job>& job) {
  WriteOp op;
  op.accepts = false;
  op.creates.push_back(
      {job->task.key.subqueue, job->task.create_time, job->task.expiry_time, job->task.payload});
  op.ends.push_back(job->task.key);
  op.done = [this, job](const WriteOutcome& outcome) {
    strand_.AssertCurrent();
    if (!stopped_) OnWritten(job, outcome.status);
  };
  op.decided = [this, job](bool applied) {
    strand_.AssertCurrent();
    if (stopped_) return;
    OnWritten(job, applied ? Status()
                           : Status(StatusCode::kUnavailable, "the write did not reach the store"));
  };
  submit_(std::move(op));
}

void TaskRewriter::OnWritten(const std::shared_ptr<Job>& job, const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      metrics_.rewrites.Increment();
      return Remove(job);
    case StatusCode::kUnknownOutcome:
      return;                        // `decided` will tell.
    case StatusCode::kNotFound:      // Finished meanwhile.
    case StatusCode::kShuttingDown:  // It is still there for the next owner.
    case StatusCode::kFenced:
      return Remove(job);
    default:
      return OnFailed(job, status);
  }
}

void TaskRewriter::OnFailed(const std::shared_ptr<Job>& job, const Status& status) {
  const Instant now = strand_.clock().Now();
  std::optional<Duration> wait;
  if (IsTransient(status.code())) wait = job->retry.OnFailure(now);
  if (!wait) {
    metrics_.rewrite_failures.Increment();
    Remove(job);
    return give_up_(status);
  }
  job->timer.Arm(now + *wait, [this, job] {
    strand_.AssertCurrent();
    if (!stopped_) Start(job);
  });
}

void TaskRewriter::Remove(const std::shared_ptr<Job>& job) {
  const auto it = std::find(jobs_.begin(), jobs_.end(), job);
  if (it != jobs_.end()) jobs_.erase(it);
  if (jobs_.empty()) std::vector<std::shared_ptr<Job>>().swap(jobs_);
}

}  // namespace millrace::backlog
