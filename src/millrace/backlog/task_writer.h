#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "millrace/backlog/config.h"
#include "millrace/backlog/ledger.h"
#include "millrace/backlog/metrics.h"
#include "millrace/backlog/queue_lease.h"
#include "millrace/backlog/types.h"
#include "millrace/base/annotations.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/core/retry_policy.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/store/async_task_store.h"

namespace millrace::backlog {

// The ops of one conditional write.
struct WriteBatch {
  std::vector<WriteOp> ops;
  // Highest id used per subqueue that got rows.
  std::vector<std::pair<store::Subqueue, TaskId>> tails;
  std::uint64_t number = 0;
  bool carries_memory = false;  // Levels and counts of memory were unsaved when it was built.
};

// Puts waiting ops into conditional writes, one write at a time, and fences writes whose outcome is
// unknown.
//
// What nobody waits for (relaxed ops and requests) rides along with the next write that somebody
// does, or is written after relaxed_write_delay.
//
//   kIdle --op or request--> kWriting --ok, or surely not applied--> kIdle
//     |  `-- block used up --> kFencing -- new block --> kIdle
//     |                         ^  |
//     |    unknown outcome -----'  `-- undecided write --> kDeciding -- read back --> kIdle
//     `-- Stop --> kStopped (as soon as nothing is in flight)
//
// Thread: its strand.
// Bounds: outstanding_appends_max rows of new tasks wait; more are refused. Batches by
// write_batch_max rows written, as many ended, and write_batch_bytes_max. Fails: each op is told
// the outcome of its write. Store errors that surely changed nothing are the ops' errors; the next
// op tries again. While a fence cannot be written, waiting ops fail with its error. Invariants: ids
// are used in order and never twice, whatever becomes of the write. Nothing is sent while a write
// is undecided.
class TaskWriter {
 public:
  // What the writer needs of the backlog it writes for. Called on the strand.
  class Host {
   public:
    virtual ~Host() = default;
    // Adds deletes, counts, metadata and the owner's side rows; sets batch.number.
    virtual void CompleteWrite(WriteBatch& batch, store::QueueWrite& write) = 0;
    // Before the ops are told. Payloads may be taken out of `write`.
    virtual void OnApplied(WriteBatch& batch, store::QueueWrite& write) = 0;
    virtual void OnRefused(WriteBatch& batch) = 0;
    virtual void OnUndecided(WriteBatch& batch) = 0;
    // The metadata was read back under a new lease.
    virtual bool WroteBatch(const WriteBatch& batch, const OwnerState& state) = 0;
    virtual void OnDecided(WriteBatch& batch, bool applied, const store::QueueMetadata& metadata,
                           const OwnerState& state) = 0;
    // An op ended without having been sent.
    virtual void OnNotSent(WriteOp& op) = 0;
    // After the ops were told.
    virtual void OnBatchEnd() = 0;
    virtual void OnLeaseLost(const Status& status) = 0;
    virtual void OnDamaged(const Status& status) = 0;
  };

  TaskWriter(const store::PhysicalQueueKey& key, const BacklogConfig& config, exec::Strand& strand,
             store::AsyncTaskStore& store, exec::Gate& gate, Random& random, QueueLease& lease,
             Host& host, BacklogMetrics& metrics);

  // The lease is held: from now on ops are written.
  void Begin();
  // `relaxed`: the op alone needs no sync.
  void Submit(WriteOp op, bool relaxed);
  void RequestWrite(bool synced);

  // Ends waiting ops, and those that come later, with `status`. A write in flight still comes back.
  // `idle` runs when none is in flight any more, not inside the call.
  void Stop(const Status& status, Closure idle);
  // Only after Stop's `idle`: one more write with nothing but metadata. `done` gets its outcome.
  void WriteFinal(store::StatusCallback done);

  // Ends waiting ops, and those that come later, with `status`. Writes nothing more.
  void Fail(const Status& status);

  // Nothing waits or is in flight.
  [[nodiscard]] bool idle() const;
  // A write is in flight or undecided: counts and levels of memory are not those of the store.
  [[nodiscard]] bool busy() const;
  [[nodiscard]] bool undecided() const;

 private:
  enum class State : std::uint8_t { kNotBegun, kIdle, kWriting, kFencing, kDeciding, kStopped };
  struct Waiting {
    WriteOp op;
    bool relaxed;
  };

  void Pump() MR_REQUIRES(strand_);
  void BuildAndSend() MR_REQUIRES(strand_);
  // How many waiting ops go into the next write; 0 with ops waiting = the block must be renewed
  // first.
  std::size_t ChooseOps() const MR_REQUIRES(strand_);
  void TakeOps(std::size_t count, WriteBatch& batch, store::QueueWrite& write) MR_REQUIRES(strand_);
  void OnCommitDone(Status status, store::QueueWrite write) MR_REQUIRES(strand_);
  void TellOps(WriteBatch& batch, const Status& status, const store::QueueWrite& write)
      MR_REQUIRES(strand_);
  void EndBatch() MR_REQUIRES(strand_);

  void StartFence() MR_REQUIRES(strand_);
  void OnAdvanced(const Status& status) MR_REQUIRES(strand_);
  void StartDecide() MR_REQUIRES(strand_);
  void OnDecideRead(Result<store::QueueMetadata> found) MR_REQUIRES(strand_);
  // Until then ops are refused with `error` at once.
  void RetryLater(State state, const Status& error) MR_REQUIRES(strand_);

  void EndWaiting(const Status& status) MR_REQUIRES(strand_);
  void EndUnsent(WriteOp op, Status status) MR_REQUIRES(strand_);
  void BecomeIdle() MR_REQUIRES(strand_);

  const store::PhysicalQueueKey& key_;
  const BacklogConfig& config_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  exec::Gate& gate_;
  QueueLease& lease_;
  Host& host_;
  BacklogMetrics& metrics_;

  State state_ MR_GUARDED_BY(strand_) = State::kNotBegun;
  bool pump_posted_ MR_GUARDED_BY(strand_) = false;
  bool write_wanted_ MR_GUARDED_BY(strand_) = false;
  bool sync_wanted_ MR_GUARDED_BY(strand_) = false;  // Somebody waits for the next write.
  bool relaxed_due_ MR_GUARDED_BY(strand_) = false;  // Nobody does, but it has waited long enough.
  // Waiting ops from next_ on; those before are spent.
  std::vector<Waiting> waiting_ MR_GUARDED_BY(strand_);
  std::size_t next_ MR_GUARDED_BY(strand_) = 0;
  std::size_t waiting_rows_ MR_GUARDED_BY(strand_) = 0;
  // In flight or undecided.
  WriteBatch batch_ MR_GUARDED_BY(strand_);
  bool undecided_ MR_GUARDED_BY(strand_) = false;
  Instant sent_at_ MR_GUARDED_BY(strand_);
  Status retry_error_ MR_GUARDED_BY(strand_);
  // Once set, every op ends with it.
  Status refusal_ MR_GUARDED_BY(strand_);
  // Stopped while the lease was being renewed: a write of the range id may still land.
  bool unsettled_ MR_GUARDED_BY(strand_) = false;
  Closure stop_idle_ MR_GUARDED_BY(strand_);
  core::RetryPolicy retry_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_ MR_GUARDED_BY(strand_);
  exec::StrandTimer relaxed_timer_ MR_GUARDED_BY(strand_);
};

}  // namespace millrace::backlog
