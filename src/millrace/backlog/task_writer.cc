#include "millrace/backlog/task_writer.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "millrace/backlog/store_errors.h"
#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::backlog {
namespace {

std::size_t PayloadBytes(const WriteOp& op) {
  std::size_t bytes = 0;
  for (const NewTask& task : op.creates) bytes += task.payload.size();
  return bytes;
}

void NoteTail(std::vector<std::pair<store::Subqueue, TaskId>>& tails, store::Subqueue subqueue,
              TaskId id) {
  for (auto& [known, tail] : tails) {
    if (known != subqueue) continue;
    tail = id;
    return;
  }
  tails.emplace_back(subqueue, id);
}

}  // namespace

TaskWriter::TaskWriter(const store::PhysicalQueueKey& key, const BacklogConfig& config,
                       exec::Strand& strand, store::AsyncTaskStore& store, exec::Gate& gate,
                       Random& random, QueueLease& lease, Host& host, BacklogMetrics& metrics)
    : key_(key),
      config_(config),
      strand_(strand),
      store_(store),
      gate_(gate),
      lease_(lease),
      host_(host),
      metrics_(metrics),
      retry_(config.store_retry_min, config.store_retry_max, Duration::zero(), &random),
      timer_(strand),
      relaxed_timer_(strand) {}

void TaskWriter::Begin() {
  strand_.AssertCurrent();
  if (state_ != State::kNotBegun) return;
  state_ = State::kIdle;
  Pump();
}

void TaskWriter::Submit(WriteOp op, bool relaxed) {
  strand_.AssertCurrent();
  if (!refusal_.ok()) return EndUnsent(std::move(op), refusal_);
  // The store is broken and is asked again after a while: until then the answer is known.
  if (timer_.armed()) return EndUnsent(std::move(op), retry_error_);
  const std::size_t rows = op.creates.size();
  if (rows > static_cast<std::size_t>(config_.range_size)) {
    return EndUnsent(std::move(op), {StatusCode::kInvalidArgument,
                                     "more tasks in one change than a task id block has"});
  }
  if (op.accepts && rows > 0) {
    if (waiting_rows_ > 0 && waiting_rows_ + rows > config_.outstanding_appends_max &&
        !MR_MUTANT(append_bound_ignored)) {
      metrics_.appends_refused.Increment();
      return EndUnsent(std::move(op),
                       {StatusCode::kResourceExhausted, "too many outstanding appends"});
    }
    waiting_rows_ += rows;
  }
  waiting_.push_back({std::move(op), relaxed});
  sync_wanted_ = sync_wanted_ || !relaxed;
  Pump();
}

void TaskWriter::RequestWrite(bool synced) {
  strand_.AssertCurrent();
  write_wanted_ = true;
  sync_wanted_ = sync_wanted_ || synced;
  Pump();
}

// Posted rather than done, so that everything the strand has at hand goes into one write.
void TaskWriter::Pump() {
  if (pump_posted_ || state_ != State::kIdle) return;
  if (next_ == waiting_.size() && !write_wanted_) return;
  if (!sync_wanted_ && !relaxed_due_ && config_.relaxed_write_delay > Duration::zero()) {
    // Nobody waits for it: the next write that somebody waits for takes it along.
    if (relaxed_timer_.armed()) return;
    relaxed_timer_.Arm(strand_.clock().Now() + config_.relaxed_write_delay, [this] {
      strand_.AssertCurrent();
      relaxed_due_ = true;
      Pump();
    });
    return;
  }
  pump_posted_ = true;
  strand_.Post([this, hold = gate_.Enter()] {
    strand_.AssertCurrent();
    pump_posted_ = false;
    BuildAndSend();
  });
}

std::size_t TaskWriter::ChooseOps() const {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t ends = 0;
  std::size_t bytes = 0;
  for (std::size_t i = next_; i < waiting_.size(); ++i, ++count) {
    const WriteOp& op = waiting_[i].op;
    rows += op.creates.size();
    ends += op.ends.size();
    bytes += PayloadBytes(op);
    if (static_cast<std::int64_t>(rows) > lease_.block().remaining()) break;
    if (count > 0 && (rows > config_.write_batch_max || ends > config_.write_batch_max ||
                      bytes > config_.write_batch_bytes_max)) {
      break;
    }
  }
  return count;
}

void TaskWriter::TakeOps(std::size_t count, WriteBatch& batch, store::QueueWrite& write) {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) rows += waiting_[next_ + i].op.creates.size();
  std::int64_t id = lease_.TakeIds(static_cast<std::int64_t>(rows)).value;
  write.creates.reserve(rows);
  batch.ops.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    Waiting& waiting = waiting_[next_++];
    WriteOp& op = waiting.op;
    if (!waiting.relaxed) write.durability = store::Durability::kSynced;
    if (op.accepts) waiting_rows_ -= op.creates.size();
    for (NewTask& task : op.creates) {
      NoteTail(batch.tails, task.subqueue, TaskId{id});
      write.creates.push_back({.key = {task.subqueue, {0, TaskId{id++}}},
                               .create_time = task.create_time,
                               .expiry_time = task.expiry_time,
                               .payload = std::move(task.payload)});
    }
    if (op.creates.empty() || !MR_MUTANT(old_row_kept_on_rewrite)) {
      write.deletes.insert(write.deletes.end(), op.ends.begin(), op.ends.end());
    }
    std::move(op.side_puts.begin(), op.side_puts.end(), std::back_inserter(write.side_puts));
    std::move(op.side_deletes.begin(), op.side_deletes.end(),
              std::back_inserter(write.side_deletes));
    batch.ops.push_back(std::move(op));
  }
  if (next_ == waiting_.size()) {
    std::vector<Waiting>().swap(waiting_);
    next_ = 0;
  } else if (next_ * 2 >= waiting_.size()) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
  }
}

void TaskWriter::BuildAndSend() {
  const bool has_ops = next_ < waiting_.size();
  if (state_ != State::kIdle || (!has_ops && !write_wanted_)) return;
  const std::size_t count = ChooseOps();
  if (has_ops && count == 0) return StartFence();
  store::QueueWrite write;
  write.queue = key_;
  write.expected_range_id = lease_.range_id();
  write.durability = sync_wanted_ ? store::Durability::kSynced : store::Durability::kRelaxed;
  write_wanted_ = false;
  sync_wanted_ = false;
  relaxed_due_ = false;
  relaxed_timer_.Cancel();
  batch_ = WriteBatch();
  TakeOps(count, batch_, write);
  // Ops left over are as urgent as they were.
  for (std::size_t i = next_; i < waiting_.size() && !sync_wanted_; ++i) {
    sync_wanted_ = !waiting_[i].relaxed;
  }
  host_.CompleteWrite(batch_, write);
  if (MR_MUTANT(sync_not_asked_for)) write.durability = store::Durability::kRelaxed;
  state_ = State::kWriting;
  sent_at_ = strand_.clock().Now();
  store_.Commit(std::move(write), strand_,
                [this, hold = gate_.Enter()](Status status, store::QueueWrite sent) {
                  strand_.AssertCurrent();
                  OnCommitDone(std::move(status), std::move(sent));
                });
}

void TaskWriter::OnCommitDone(Status status, store::QueueWrite write) {
  metrics_.write_seconds.Observe(
      std::chrono::duration<double>(strand_.clock().Now() - sent_at_).count());
  if (!status.ok()) metrics_.write_failures.Increment();
  if (LeavesOutcomeOpen(status.code()) && !MR_MUTANT(fence_skipped)) {
    metrics_.unknown_outcomes.Increment();
    undecided_ = true;
    host_.OnUndecided(batch_);
    TellOps(batch_, {StatusCode::kUnknownOutcome, std::string(status.message())}, write);
    if (!refusal_.ok()) return BecomeIdle();
    StartFence();
    return host_.OnBatchEnd();
  }
  WriteBatch batch = std::move(batch_);
  batch_ = WriteBatch();
  if (status.ok()) {
    metrics_.writes.Increment();
    metrics_.rows_written.Add(write.creates.size());
    host_.OnApplied(batch, write);
  } else {
    if (status.code() == StatusCode::kResourceExhausted) metrics_.write_throttles.Increment();
    host_.OnRefused(batch);
  }
  if (status.code() == StatusCode::kFenced) host_.OnLeaseLost(status);
  if (status.code() == StatusCode::kCorruption) host_.OnDamaged(status);
  TellOps(batch, status, write);
  EndBatch();
}

void TaskWriter::TellOps(WriteBatch& batch, const Status& status, const store::QueueWrite& write) {
  std::size_t row = 0;
  for (WriteOp& op : batch.ops) {
    const std::size_t first = row;
    row += op.creates.size();
    if (!op.done) continue;
    WriteOutcome outcome{status, {}};
    if (status.ok()) {
      outcome.created.reserve(op.creates.size());
      for (std::size_t i = first; i < row; ++i) outcome.created.push_back(write.creates[i].key);
    }
    UniqueFunction<void(WriteOutcome)> done = std::move(op.done);
    done(std::move(outcome));
  }
}

void TaskWriter::EndBatch() {
  if (!refusal_.ok()) {
    BecomeIdle();
  } else {
    state_ = State::kIdle;
  }
  host_.OnBatchEnd();
  Pump();
}

void TaskWriter::StartFence() {
  if (undecided_ && MR_MUTANT(fence_without_new_lease)) return StartDecide();
  state_ = State::kFencing;
  lease_.Advance([this](const Status& status) {
    strand_.AssertCurrent();
    if (state_ == State::kFencing) OnAdvanced(status);
  });
}

void TaskWriter::OnAdvanced(const Status& status) {
  if (status.ok()) {
    retry_.OnSuccess();
    if (undecided_) {
      metrics_.fences.Increment();
      return StartDecide();
    }
    state_ = State::kIdle;
    return Pump();
  }
  if (status.code() == StatusCode::kFenced) return host_.OnLeaseLost(status);
  if (status.code() == StatusCode::kCorruption) return host_.OnDamaged(status);
  const bool open = status.code() == StatusCode::kUnknownOutcome;
  // None of them was sent, so a store that is broken for long answers each of them with what is
  // wrong.
  const Status error = open ? Status(StatusCode::kUnavailable, "the lease could not be renewed: " +
                                                                   std::string(status.message()))
                            : status;
  EndWaiting(error);
  if (undecided_ || open) return RetryLater(State::kFencing, error);
  state_ = State::kIdle;
  Pump();
}

void TaskWriter::RetryLater(State state, const Status& error) {
  state_ = state;
  retry_error_ = error;
  const Instant now = strand_.clock().Now();
  timer_.Arm(now + *retry_.OnFailure(now), [this, state] {
    strand_.AssertCurrent();
    if (state_ != state) return;
    if (state == State::kFencing) {
      StartFence();
    } else {
      StartDecide();
    }
  });
}

void TaskWriter::StartDecide() {
  state_ = State::kDeciding;
  store_.ReadMetadata(key_, strand_,
                      [this, hold = gate_.Enter()](Result<store::QueueMetadata> found) {
                        strand_.AssertCurrent();
                        if (state_ == State::kDeciding) OnDecideRead(std::move(found));
                      });
}

void TaskWriter::OnDecideRead(Result<store::QueueMetadata> found) {
  if (found.code() == StatusCode::kNotFound ||
      (found.ok() && found->range_id != lease_.range_id())) {
    return host_.OnLeaseLost({StatusCode::kFenced, "another owner took the queue"});
  }
  if (!found.ok() && found.code() != StatusCode::kCorruption) {
    const Status error(StatusCode::kUnavailable, std::string(found.status().message()));
    EndWaiting(error);
    return RetryLater(State::kDeciding, error);
  }
  if (!found.ok()) return host_.OnDamaged(found.status());
  const Result<OwnerState> state = DecodeOwnerState(found->owner_state);
  if (!state.ok()) return host_.OnDamaged(state.status());
  retry_.OnSuccess();
  undecided_ = false;
  WriteBatch batch = std::move(batch_);
  batch_ = WriteBatch();
  const bool applied = host_.WroteBatch(batch, *state);
  host_.OnDecided(batch, applied, *found, *state);
  for (WriteOp& op : batch.ops) {
    if (op.decided) op.decided(applied);
  }
  EndBatch();
}

void TaskWriter::EndUnsent(WriteOp op, Status status) {
  host_.OnNotSent(op);
  if (!op.done) return;
  strand_.Post([done = std::move(op.done), status = std::move(status),
                hold = gate_.TryEnter()]() mutable { done(WriteOutcome{std::move(status), {}}); });
}

void TaskWriter::EndWaiting(const Status& status) {
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  const std::size_t first = next_;
  next_ = 0;
  waiting_rows_ = 0;
  for (std::size_t i = first; i < waiting.size(); ++i) EndUnsent(std::move(waiting[i].op), status);
}

void TaskWriter::BecomeIdle() {
  state_ = State::kStopped;
  if (!stop_idle_) return;
  strand_.Post(std::move(stop_idle_));
  stop_idle_ = nullptr;
}

void TaskWriter::Fail(const Status& status) {
  strand_.AssertCurrent();
  if (refusal_.ok()) refusal_ = status;
  timer_.Cancel();
  relaxed_timer_.Cancel();
  EndWaiting(refusal_);
  if (state_ != State::kWriting) state_ = State::kStopped;
}

void TaskWriter::Stop(const Status& status, Closure idle) {
  strand_.AssertCurrent();
  stop_idle_ = std::move(idle);
  const bool unsettled = state_ == State::kFencing || state_ == State::kDeciding;
  Fail(status);
  unsettled_ = unsettled_ || unsettled;
  if (state_ == State::kStopped) BecomeIdle();
}

void TaskWriter::WriteFinal(store::StatusCallback done) {
  strand_.AssertCurrent();
  MR_CHECK(state_ == State::kStopped && !undecided());
  store::QueueWrite write;
  write.queue = key_;
  write.expected_range_id = lease_.range_id();
  batch_ = WriteBatch();
  host_.CompleteWrite(batch_, write);
  store_.Commit(std::move(write), strand_,
                [this, hold = gate_.Enter(), done = std::move(done)](
                    Status status, store::QueueWrite sent) mutable {
                  strand_.AssertCurrent();
                  if (status.ok()) {
                    host_.OnApplied(batch_, sent);
                  } else {
                    host_.OnRefused(batch_);
                  }
                  done(std::move(status));
                });
}

bool TaskWriter::idle() const {
  strand_.AssertCurrent();
  return next_ == waiting_.size() && !write_wanted_ &&
         (state_ == State::kIdle || state_ == State::kStopped || state_ == State::kNotBegun) &&
         !undecided_;
}

bool TaskWriter::busy() const {
  strand_.AssertCurrent();
  return state_ == State::kWriting || undecided_;
}

bool TaskWriter::undecided() const {
  strand_.AssertCurrent();
  return undecided_ || unsettled_;
}

}  // namespace millrace::backlog
