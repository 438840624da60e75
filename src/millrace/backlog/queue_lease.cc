#include "millrace/backlog/queue_lease.h"

#include <optional>
#include <string>
#include <utility>

#include "millrace/backlog/store_errors.h"
#include "millrace/base/check.h"

namespace millrace::backlog {
namespace {

Status NoMoreIds() { return {StatusCode::kCorruption, "the stored range id leaves no task ids"}; }

}  // namespace

QueueLease::QueueLease(const store::PhysicalQueueKey& key, const BacklogConfig& config,
                       std::uint64_t nonce, exec::Strand& strand, store::AsyncTaskStore& store,
                       exec::Gate& gate, Random& random, BacklogMetrics& metrics)
    : key_(key),
      range_size_(config.range_size),
      nonce_(nonce),
      strand_(strand),
      store_(store),
      gate_(gate),
      metrics_(metrics),
      retry_(config.store_retry_min, config.store_retry_max, Duration::zero(), &random),
      timer_(strand) {}

void QueueLease::Take(TakeCallback done) {
  strand_.AssertCurrent();
  MR_CHECK(state_ == State::kNone);
  take_done_ = std::move(done);
  StartRead();
}

void QueueLease::Stop() {
  strand_.AssertCurrent();
  state_ = State::kStopped;
  timer_.Cancel();
  take_done_ = nullptr;
  advance_done_ = nullptr;
}

void QueueLease::StartRead() {
  state_ = State::kReading;
  store_.ReadMetadata(key_, strand_,
                      [this, hold = gate_.Enter()](Result<store::QueueMetadata> found) {
                        strand_.AssertCurrent();
                        if (state_ != State::kStopped) OnReadDone(std::move(found));
                      });
}

void QueueLease::OnReadDone(Result<store::QueueMetadata> found) {
  if (found.code() == StatusCode::kNotFound) return StartCreate();
  if (!found.ok()) return TakeFailed(found.status(), false);
  const Result<OwnerState> state = DecodeOwnerState(found->owner_state);
  if (!state.ok()) return FinishTake(state.status());
  // No id of it is used if the size of blocks was changed.
  const std::int64_t stored_size = state->range_size > 0 ? state->range_size : range_size_;
  const std::optional<RangeId> next = core::NextRangeId(found->range_id, stored_size, stored_size);
  if (!next) return FinishTake(NoMoreIds());
  StartWrite(found->range_id, *next);
}

void QueueLease::StartCreate() {
  const std::optional<RangeId> first = core::NextRangeId(RangeId{0}, range_size_, range_size_);
  if (!first) return FinishTake(NoMoreIds());
  state_ = State::kCreating;
  next_range_id_ = *first;
  store::QueueWrite write;
  write.queue = key_;
  write.metadata.emplace();
  write.metadata->range_id = *first;
  write.metadata->subqueues.push_back({store::TaskLevel{0, TaskId{0}}, 0});
  write.metadata->update_time = strand_.clock().WallNow();
  write.metadata->owner_state = EncodeOwnerState({nonce_, 0, range_size_, Totals{}});
  metrics_.lease_requests.Increment();
  store_.Commit(std::move(write), strand_,
                [this, hold = gate_.Enter()](Status status, store::QueueWrite sent) {
                  strand_.AssertCurrent();
                  if (state_ != State::kStopped)
                    OnMetadataWritten(status, std::move(*sent.metadata));
                });
}

void QueueLease::OnMetadataWritten(const Status& status, store::QueueMetadata written) {
  if (!status.ok()) return TakeFailed(status, true);
  Result<OwnerState> state = DecodeOwnerState(written.owner_state);
  FinishTake(TakenQueue{std::move(written), *state});
}

void QueueLease::StartWrite(RangeId from, RangeId to) {
  state_ = State::kWriting;
  next_range_id_ = to;
  CommitRangeId(from, to, [this](const Status& status) {
    strand_.AssertCurrent();
    OnWriteDone(status);
  });
}

void QueueLease::OnWriteDone(const Status& status) {
  if (!status.ok()) return TakeFailed(status, true);
  StartReadBack();
}

void QueueLease::StartReadBack() {
  state_ = State::kReadingBack;
  store_.ReadMetadata(key_, strand_,
                      [this, hold = gate_.Enter()](Result<store::QueueMetadata> found) {
                        strand_.AssertCurrent();
                        if (state_ != State::kStopped) OnReadBackDone(std::move(found));
                      });
}

void QueueLease::OnReadBackDone(Result<store::QueueMetadata> found) {
  if (!found.ok() && found.code() != StatusCode::kNotFound)
    return TakeFailed(found.status(), false);
  if (!found.ok() || found->range_id != next_range_id_) {
    return FinishTake(
        Status(StatusCode::kFenced, "another owner took the queue while it was being loaded"));
  }
  const Result<OwnerState> state = DecodeOwnerState(found->owner_state);
  if (!state.ok()) return FinishTake(state.status());
  if (state->range_size > 0 && state->range_size != range_size_)
    return StartResize(std::move(*found), *state);
  FinishTake(TakenQueue{std::move(*found), *state});
}

void QueueLease::StartResize(store::QueueMetadata metadata, const OwnerState& state) {
  const std::optional<RangeId> next =
      core::NextRangeId(metadata.range_id, state.range_size, range_size_);
  if (!next) return FinishTake(NoMoreIds());
  state_ = State::kResizing;
  store::QueueWrite write;
  write.queue = key_;
  write.expected_range_id = metadata.range_id;
  metadata.range_id = *next;
  metadata.update_time = strand_.clock().WallNow();
  metadata.owner_state = EncodeOwnerState({nonce_, state.write_seq, range_size_, state.totals});
  write.metadata = std::move(metadata);
  metrics_.lease_requests.Increment();
  store_.Commit(std::move(write), strand_,
                [this, hold = gate_.Enter()](Status status, store::QueueWrite sent) {
                  strand_.AssertCurrent();
                  if (state_ != State::kStopped)
                    OnMetadataWritten(status, std::move(*sent.metadata));
                });
}

void QueueLease::TakeFailed(const Status& status, bool writing) {
  if (writing) metrics_.lease_failures.Increment();
  if (writing && LeavesOutcomeOpen(status.code())) {
    ++open_writes_;
  } else if (writing && status.code() == StatusCode::kFenced && open_writes_ > 0) {
    // Most likely lost to an own write that landed late; if not, the next try says so.
    --open_writes_;
    return StartRead();
  } else if (!IsTransient(status.code())) {
    return FinishTake(status);
  }
  const bool reading_back = state_ == State::kReadingBack;
  state_ = State::kWaiting;
  const Duration wait = *retry_.OnFailure(strand_.clock().Now());
  timer_.Arm(strand_.clock().Now() + wait, [this, reading_back] {
    strand_.AssertCurrent();
    if (reading_back) {
      StartReadBack();
    } else {
      StartRead();
    }
  });
}

void QueueLease::FinishTake(Result<TakenQueue> result) {
  if (result.ok()) {
    range_id_ = result->metadata.range_id;
    const std::optional<core::TaskIdBlock> block = core::TaskIdBlock::Make(range_id_, range_size_);
    if (!block) {
      result = NoMoreIds();
    } else {
      block_ = *block;
    }
  }
  state_ = result.ok() ? State::kHeld : State::kStopped;
  retry_.OnSuccess();
  TakeCallback done = std::move(take_done_);
  done(std::move(result));
}

void QueueLease::CommitRangeId(RangeId from, RangeId to, AdvanceCallback done) {
  store::QueueWrite write;
  write.queue = key_;
  write.expected_range_id = from;
  write.keep_owner_state = true;
  write.metadata.emplace();
  write.metadata->range_id = to;
  write.metadata->update_time = strand_.clock().WallNow();
  metrics_.lease_requests.Increment();
  store_.Commit(std::move(write), strand_,
                [this, hold = gate_.Enter(), done = std::move(done)](Status status,
                                                                     store::QueueWrite) mutable {
                  strand_.AssertCurrent();
                  if (state_ != State::kStopped) done(std::move(status));
                });
}

void QueueLease::Advance(AdvanceCallback done) {
  strand_.AssertCurrent();
  MR_CHECK(state_ == State::kHeld);
  state_ = State::kAdvancing;
  advance_done_ = std::move(done);
  if (!advance_open_) return StartAdvanceWrite();
  store_.ReadMetadata(key_, strand_,
                      [this, hold = gate_.Enter()](Result<store::QueueMetadata> found) {
                        strand_.AssertCurrent();
                        if (state_ != State::kStopped) OnAdvanceReadDone(std::move(found));
                      });
}

void QueueLease::OnAdvanceReadDone(Result<store::QueueMetadata> found) {
  if (found.code() == StatusCode::kNotFound || (found.ok() && found->range_id != range_id_)) {
    return FinishAdvance(
        {StatusCode::kFenced, "the range id changed, and it cannot be told by whom"});
  }
  if (!found.ok() && found.code() == StatusCode::kCorruption) return FinishAdvance(found.status());
  if (!found.ok())
    return FinishAdvance({StatusCode::kUnknownOutcome, std::string(found.status().message())});
  StartAdvanceWrite();
}

void QueueLease::StartAdvanceWrite() {
  const std::optional<RangeId> next = core::NextRangeId(range_id_, range_size_, range_size_);
  if (!next) return FinishAdvance(NoMoreIds());
  next_range_id_ = *next;
  CommitRangeId(range_id_, *next, [this](const Status& status) {
    strand_.AssertCurrent();
    OnAdvanceDone(status);
  });
}

void QueueLease::OnAdvanceDone(const Status& status) {
  if (status.ok()) {
    advance_open_ = false;
    range_id_ = next_range_id_;
    block_ = *core::TaskIdBlock::Make(range_id_, range_size_);
    return FinishAdvance({});
  }
  metrics_.lease_failures.Increment();
  if (LeavesOutcomeOpen(status.code())) advance_open_ = true;
  if (advance_open_ && status.code() != StatusCode::kFenced &&
      status.code() != StatusCode::kCorruption) {
    return FinishAdvance({StatusCode::kUnknownOutcome, std::string(status.message())});
  }
  FinishAdvance(status);
}

void QueueLease::FinishAdvance(Status status) {
  state_ = State::kHeld;
  AdvanceCallback done = std::move(advance_done_);
  done(std::move(status));
}

}  // namespace millrace::backlog
