#pragma once

#include <cstdint>

#include "millrace/backlog/config.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/owner_state.h"
#include "millrace/base/annotations.h"
#include "millrace/base/function.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/core/retry_policy.h"
#include "millrace/core/task_id_block.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::backlog {

// What a new owner finds.
struct TakenQueue {
  store::QueueMetadata metadata;
  OwnerState state;
};

// The range-id lease of one queue and the task-id block that comes with it.
//
//   kNone --Take--> kReading --row--> kWriting --> kReadingBack --> kHeld --Advance--> kAdvancing
//   --> kHeld
//                     ^  `--no row--> kCreating ---------|------------^
//                     |            size of blocks changed `-> kResizing
//                     `-- kWaiting <-- transient error in any of them
//   Any state --Stop--> kStopped.
//
// A lease over an existing row replaces the range id only and reads the row back afterwards: a
// write of the earlier owner may land until the range id changes, and what it counted must not be
// overwritten. When the size of task-id blocks was changed, a second write jumps above all ids that
// may be used and stores the new size with that range id; otherwise every owner that is lost before
// it writes would multiply the range id.
//
// Thread: its strand.
// Bounds: one store call in flight.
// Fails: Take ends with kFenced (another owner was faster) or an error that retrying does not cure;
// transient ones are retried for ever. Advance tries once and leaves retrying to its caller.
// Invariants: the range id only grows. The block belongs to the range id held.
class QueueLease {
 public:
  using TakeCallback = UniqueFunction<void(Result<TakenQueue>)>;
  using AdvanceCallback = UniqueFunction<void(Status)>;

  QueueLease(const store::PhysicalQueueKey& key, const BacklogConfig& config, std::uint64_t nonce,
             exec::Strand& strand, store::AsyncTaskStore& store, exec::Gate& gate, Random& random,
             BacklogMetrics& metrics);

  // Once. The callback does not run after Stop.
  void Take(TakeCallback done);

  // Writes range id + 1. kFenced: lost, or it cannot be told. kUnknownOutcome: the range id may
  // change yet; nothing is certain until Advance ran again. kCorruption: unusable. Other errors:
  // surely nothing changed.
  void Advance(AdvanceCallback done);

  // No callback runs any more. What is in flight still comes back, and holds the gate until then.
  void Stop();

  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] bool held() const {
    strand_.AssertCurrent();
    return state_ == State::kHeld || state_ == State::kAdvancing;
  }
  [[nodiscard]] RangeId range_id() const {
    strand_.AssertCurrent();
    return range_id_;
  }
  [[nodiscard]] core::TaskIdBlock block() const {
    strand_.AssertCurrent();
    return block_;
  }
  // The next `count` ids; at most block().remaining().
  TaskId TakeIds(std::int64_t count) {
    strand_.AssertCurrent();
    return block_.Take(count);
  }

 private:
  enum class State : std::uint8_t {
    kNone,
    kReading,
    kCreating,
    kWriting,
    kReadingBack,
    kResizing,
    kWaiting,
    kHeld,
    kAdvancing,
    kStopped
  };

  void StartRead() MR_REQUIRES(strand_);
  void OnReadDone(Result<store::QueueMetadata> found) MR_REQUIRES(strand_);
  void StartCreate() MR_REQUIRES(strand_);
  // Of a write that carries the whole metadata.
  void OnMetadataWritten(const Status& status, store::QueueMetadata written) MR_REQUIRES(strand_);
  void StartWrite(RangeId from, RangeId to) MR_REQUIRES(strand_);
  void OnWriteDone(const Status& status) MR_REQUIRES(strand_);
  void StartReadBack() MR_REQUIRES(strand_);
  void OnReadBackDone(Result<store::QueueMetadata> found) MR_REQUIRES(strand_);
  void StartResize(store::QueueMetadata metadata, const OwnerState& state) MR_REQUIRES(strand_);
  void TakeFailed(const Status& status, bool taking_again) MR_REQUIRES(strand_);
  void FinishTake(Result<TakenQueue> result) MR_REQUIRES(strand_);

  void StartAdvanceWrite() MR_REQUIRES(strand_);
  void OnAdvanceDone(const Status& status) MR_REQUIRES(strand_);
  void OnAdvanceReadDone(Result<store::QueueMetadata> found) MR_REQUIRES(strand_);
  void FinishAdvance(Status status) MR_REQUIRES(strand_);

  // Sends the write that changes the range id and nothing else.
  void CommitRangeId(RangeId from, RangeId to, AdvanceCallback done) MR_REQUIRES(strand_);

  const store::PhysicalQueueKey& key_;
  const std::int64_t range_size_;
  const std::uint64_t nonce_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  exec::Gate& gate_;
  BacklogMetrics& metrics_;

  State state_ MR_GUARDED_BY(strand_) = State::kNone;
  RangeId range_id_ MR_GUARDED_BY(strand_);
  RangeId next_range_id_ MR_GUARDED_BY(strand_);
  core::TaskIdBlock block_ MR_GUARDED_BY(strand_);
  core::RetryPolicy retry_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_ MR_GUARDED_BY(strand_);
  // Take: own writes that may still land. A lost race may have been lost to one of them.
  int open_writes_ MR_GUARDED_BY(strand_) = 0;
  // Advance: the last try may still land.
  bool advance_open_ MR_GUARDED_BY(strand_) = false;
  TakeCallback take_done_ MR_GUARDED_BY(strand_);
  AdvanceCallback advance_done_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
