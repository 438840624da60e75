#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/base/function.h"
#include "millrace/base/mutation.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/queue/config.h"
#include "millrace/queue/errors.h"
#include "millrace/queue/lease_journal.h"
#include "millrace/queue/lease_table.h"
#include "millrace/queue/task_record.h"
#include "millrace/store/async_task_store.h"

namespace millrace::queue {

inline constexpr char kDeadTaskKind = 'D';
// Dead tasks are kept by the id users know them by.
std::string DeadTaskKey(TaskId first_id);

// Numbers of one queue since it was loaded.
struct LeaseCounts {
  std::int64_t granted = 0;
  std::int64_t expired = 0;
  std::int64_t lost_tokens = 0;  // Calls with a token that was not current.
};

// Everything about the leases of one loaded queue: granting, ending, extending, running out, and
// remembering them across a restart.
//
// A task ends by a write that deletes its row; until that write is certain the lease stays, in a
// state no call may touch. A task that fails or runs out is read back and written again under a new
// id in one write.
//
// Thread: the queue's strand.
// Bounds: leases_max, by HasRoom; rewrites_in_flight_max for leases that ran out.
// Fails: store errors go to the caller of that item; a lease that ran out is retried until its task
// is written again. Invariants: of all calls with one token at most one ends the task. A token of
// an ended lease never matches again.
class LeaseBook {
 public:
  using ItemCallback = UniqueFunction<void(std::vector<QueueError>)>;  // One per item, in order.

  struct FailItem {
    std::string token;
    std::string error_message;
    bool permanent = false;
  };

  // `on_room` runs on the strand when a lease ended; never inside a call of the manager. `gate` is
  // held by calls in flight to the store.
  LeaseBook(store::PhysicalQueueKey key, const QueueConfig& config, exec::Strand& strand,
            store::AsyncTaskStore& store, backlog::BacklogManager& manager, exec::Gate& gate,
            Closure on_room);

  // Reads the journal back. `done` runs on the strand; errors are the store's. Before anything
  // else.
  void Recover(store::StatusCallback done);
  void SetQueueUid(std::uint64_t uid) { queue_uid_ = uid; }

  [[nodiscard]] bool HasRoom() const {
    strand_.AssertCurrent();
    return table_.size() < config_.leases_max || MR_MUTANT(lease_table_unbounded);
  }
  // Leases a task just taken from the backlog; returns its token.
  std::string Grant(const store::TaskKey& task, Duration duration, const std::string& worker_id);

  void Complete(const std::vector<std::string>& tokens, ItemCallback done);
  void Fail(std::vector<FailItem> items, ItemCallback done);
  void Release(const std::vector<std::string>& tokens, ItemCallback done);
  // Takes effect at once; remembered by the next write.
  std::vector<QueueError> Extend(const std::vector<std::string>& tokens, Duration duration);

  // True when the task is leased: the reader must not hand it out.
  [[nodiscard]] bool Holds(TaskId task) const {
    strand_.AssertCurrent();
    return table_.Find(task) != nullptr;
  }
  [[nodiscard]] const Lease* Find(TaskId task) const {
    strand_.AssertCurrent();
    return table_.Find(task);
  }

  void BuildWrite(store::QueueWrite& write);
  void WriteEnded(bool applied);

  // No timer runs afterwards and nothing new is started; calls in flight still end.
  void Stop();

  [[nodiscard]] std::size_t size() const {
    strand_.AssertCurrent();
    return table_.size();
  }
  [[nodiscard]] const LeaseCounts& counts() const { return counts_; }

 private:
  // How a task goes back to the queue.
  struct Return {
    bool charge_attempt = true;
    bool permanent = false;
    std::string error_message;
  };
  using ReturnCallback = UniqueFunction<void(QueueError)>;

  // The lease of a token that a call may end or extend now; otherwise null, and why in `error`.
  Lease* Usable(std::string_view token, QueueError* error);
  // Reads the row of a lease that is already marked as ending, and writes it again or sets it
  // aside.
  void ReturnTask(const Lease& lease, Return how, ReturnCallback done);
  void OnRowRead(const store::TaskKey& task, Return how, Result<store::TaskPage> page,
                 ReturnCallback done);
  void ReturnItems(std::vector<FailItem> items, bool charge_attempt, ItemCallback done);
  // The write that ends these leases has come to an end, certain or not.
  void OnEndWrite(const std::vector<store::TaskKey>& tasks, const Status& status);
  void OnDecided(const std::vector<store::TaskKey>& tasks, bool applied);
  void EndLease(TaskId task);
  void Reactivate(Lease& lease);
  void CheckExistence(std::map<TaskId, LeaseJournal::Recovered> recovered,
                      store::StatusCallback done);
  void ReadChunks(std::string after, store::StatusCallback done);
  void ArmTimer();
  void EndExpired();
  void StartExpiring(Lease& lease);

  const store::PhysicalQueueKey key_;
  const QueueConfig& config_;
  exec::Strand& strand_;
  store::AsyncTaskStore& store_;
  backlog::BacklogManager& manager_;
  exec::Gate& gate_;
  Closure on_room_;
  LeaseTable table_ MR_GUARDED_BY(strand_);
  LeaseJournal journal_ MR_GUARDED_BY(strand_);
  exec::StrandTimer timer_;
  exec::StrandTimer retry_timer_;
  std::vector<TaskId> retry_;  // Leases that ran out and could not be written again yet.
  std::size_t expiring_ = 0;   // Of those, in flight now.
  std::uint64_t queue_uid_ = 0;
  std::uint64_t last_counter_ = 0;
  LeaseCounts counts_;
  bool stopped_ = false;
};

}  // namespace millrace::queue
