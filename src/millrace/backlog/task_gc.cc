#include "millrace/backlog/task_gc.h"

#include <utility>

namespace millrace::backlog {

TaskGc::TaskGc(const store::PhysicalQueueKey& key, store::Subqueue subqueue,
               const BacklogConfig& config, exec::Strand& strand, store::AsyncTaskStore& store,
               exec::Gate& gate, BacklogMetrics& metrics)
    : key_(key),
      subqueue_(subqueue),
      batch_(config.gc_batch),
      strand_(strand),
      store_(store),
      gate_(gate),
      metrics_(metrics),
      policy_(static_cast<std::int64_t>(config.gc_batch), config.gc_interval) {}

void TaskGc::MaybeRun(store::TaskLevel ack_level) {
  strand_.AssertCurrent();
  if (!stopped_ && policy_.Due(ack_level, strand_.clock().Now())) Start(ack_level);
}

void TaskGc::Start(store::TaskLevel ack_level) {
  policy_.Begin(ack_level, strand_.clock().Now());
  metrics_.gc_runs.Increment();
  store_.DeleteTasksThrough(
      key_, subqueue_, ack_level, batch_, strand_,
      [this, ack_level, hold = gate_.Enter()](Result<std::optional<std::int64_t>> deleted) {
        strand_.AssertCurrent();
        OnDeleted(std::move(deleted), ack_level);
      });
}

void TaskGc::OnDeleted(Result<std::optional<std::int64_t>> deleted, store::TaskLevel ack_level) {
  if (deleted.ok()) {
    const std::int64_t rows = deleted->value_or(-1);
    policy_.EndOk(rows);
    if (rows > 0) metrics_.rows_collected.Add(static_cast<std::uint64_t>(rows));
  } else {
    policy_.EndFailed();
    metrics_.gc_failures.Increment();
  }
  if (stop_done_) return ContinueStop(!deleted.ok());
  if (!stopped_ && policy_.Due(ack_level, strand_.clock().Now())) Start(ack_level);
}

void TaskGc::Stop() {
  strand_.AssertCurrent();
  stopped_ = true;
}

void TaskGc::RunAtStop(store::TaskLevel ack_level, Instant deadline, Closure done) {
  strand_.AssertCurrent();
  stop_level_ = ack_level;
  stop_deadline_ = deadline;
  stop_done_ = std::move(done);
  if (!policy_.running()) ContinueStop(false);
}

void TaskGc::ContinueStop(bool failed) {
  const Instant now = strand_.clock().Now();
  if (!failed && now < stop_deadline_ && policy_.Due(stop_level_, now, true))
    return Start(stop_level_);
  strand_.Post(std::move(stop_done_));
  stop_done_ = nullptr;
}

}  // namespace millrace::backlog
