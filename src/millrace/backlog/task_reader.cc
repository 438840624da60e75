#include "millrace/backlog/task_reader.h"

#include <optional>
#include <utility>

#include "millrace/base/mutation.h"

namespace millrace::backlog {

TaskReader::TaskReader(const store::PhysicalQueueKey& key, store::Subqueue subqueue,
                       const BacklogConfig& config, exec::Strand& strand,
                       store::AsyncTaskStore& store, exec::Gate& gate, Random& random, Host& host,
                       BacklogMetrics& metrics)
    : key_(key),
      subqueue_(subqueue),
      strand_(strand),
      store_(store),
      gate_(gate),
      host_(host),
      metrics_(metrics),
      throttled_wait_(config.throttled_read_wait),
      planner_(config.range_size, config.empty_ranges_per_turn_max),
      retry_(config.store_retry_min, config.store_retry_max, Duration::zero(), &random),
      timer_(strand) {}

void TaskReader::Begin() {
  strand_.AssertCurrent();
  if (state_ != State::kNotBegun) return;
  state_ = State::kIdle;
  Wake();
}

void TaskReader::Stop() {
  strand_.AssertCurrent();
  state_ = State::kStopped;
  timer_.Cancel();
}

void TaskReader::Wake() {
  strand_.AssertCurrent();
  if (state_ != State::kIdle) return;
  const std::optional<core::ReadRange> range =
      planner_.Next(host_.ReadLevel(), host_.ReadableThrough());
  if (!range) return;
  const Room room = host_.RoomLeft();
  if (room.rows == 0) {
    if (!full_) metrics_.buffer_throttles.Increment();
    full_ = true;
    return;
  }
  full_ = false;
  state_ = State::kReading;
  metrics_.reads.Increment();
  store_.ReadTasks(
      key_, subqueue_, range->from, range->through, room.rows, room.bytes, strand_,
      [this, hold = gate_.Enter(), through = range->through](Result<store::TaskPage> page) {
        strand_.AssertCurrent();
        if (state_ == State::kReading) OnReadDone(std::move(page), through);
      });
}

void TaskReader::OnReadDone(Result<store::TaskPage> page, store::TaskLevel through) {
  if (!page.ok()) return OnReadFailed(page.status());
  if (page->more && page->rows.empty()) {
    return OnReadFailed({StatusCode::kInternal, "the store gave an empty page and promised more"});
  }
  retry_.OnSuccess();
  state_ = State::kIdle;
  const bool empty = page->rows.empty();
  const bool partly = page->more && !MR_MUTANT(read_level_past_unread);
  const store::TaskLevel reached = partly ? page->rows.back().key.level : through;
  const bool turn_over = empty && planner_.OnEmptyRange();
  if (!empty) planner_.OnRows();
  if (turn_over) state_ = State::kYielded;
  host_.OnRowsRead(std::move(page->rows), reached);
  if (state_ != State::kYielded) return Wake();
  strand_.Post([this, hold = gate_.TryEnter()] {
    strand_.AssertCurrent();
    if (state_ != State::kYielded) return;
    state_ = State::kIdle;
    Wake();
  });
}

void TaskReader::OnReadFailed(const Status& status) {
  metrics_.read_failures.Increment();
  if (status.code() == StatusCode::kFenced) return host_.OnLeaseLost(status);
  if (status.code() == StatusCode::kCorruption) return host_.OnDamaged(status);
  const Instant now = strand_.clock().Now();
  Duration wait = throttled_wait_;
  if (status.code() == StatusCode::kResourceExhausted) {
    metrics_.read_throttles.Increment();
  } else {
    wait = *retry_.OnFailure(now);
  }
  state_ = State::kWaiting;
  if (MR_MUTANT(reader_sleeps_after_error)) return;
  timer_.Arm(now + wait, [this] {
    strand_.AssertCurrent();
    if (state_ != State::kWaiting) return;
    state_ = State::kIdle;
    Wake();
  });
}

}  // namespace millrace::backlog
