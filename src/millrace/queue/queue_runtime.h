#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/matching/matcher.h"
#include "millrace/queue/config.h"
#include "millrace/queue/errors.h"
#include "millrace/queue/lease_book.h"
#include "millrace/queue/queue_gauges.h"
#include "millrace/queue/row_census.h"
#include "millrace/queue/task_record.h"
#include "millrace/store/async_task_store.h"

namespace millrace::queue {

// What every queue of a process shares. All of it outlives the queues.
struct QueueEnvironment {
  const QueueConfig& config;
  store::AsyncTaskStore& store;
  backlog::OwnerWatch& owner_watch;
  Random& random;  // Thread: any.
  backlog::BacklogMetrics& backlog_metrics;
  Log& log;
};

struct LeaseParams {
  std::size_t max_tasks = 1;
  Duration duration{};
  Instant wait_until;
  std::string worker_id;
};

// One task handed out. Views of `record` point into `payload`, so it stays where it was made.
struct GrantedTask {
  std::string token;
  std::string payload;
  TaskRecord record;
  TaskId first_id;
  WallTime enqueue_time;
};

struct QueueCountsView {
  std::int64_t accepted = 0;
  std::int64_t done = 0;
  std::int64_t waiting = 0;
  std::int64_t leased = 0;
  std::int64_t dead = 0;
  std::int64_t dropped = 0;
};

QueueCountsView CountsFrom(const backlog::Totals& totals, std::int64_t leased);

struct QueueView {
  QueueCountsView counts;
  std::optional<Duration> oldest_age;
  std::size_t pollers = 0;
  RangeId range_id;
  backlog::InternalSubqueueStatus backlog;
};

enum class PeekState : std::uint8_t { kWaitingAndLeased, kWaiting, kLeased, kDead };

struct PeekParams {
  PeekState state = PeekState::kWaitingAndLeased;
  std::size_t limit = 100;
  std::string after;  // Side key (dead) or 8-byte task id (others) of the last task seen; empty =
                      // from the head.
};

// Views of `record` point into `payload`, so it stays where it was made.
struct PeekedTask {
  PeekState state = PeekState::kWaiting;
  std::string payload;
  TaskRecord record;
  TaskId first_id;
  WallTime enqueue_time;
  WallTime expiry_time;
  Duration lease_time_left{};
  std::string worker_id;
  std::string error_message;
};

struct PeekPage {
  std::deque<PeekedTask> tasks;  // Grows without moving its elements.
  std::string next;              // Empty = no more.
};

// One loaded queue: its backlog, its waiting lease calls, its leases. A call that comes before the
// queue has its lease and its remembered leases waits for that.
//
// Thread: Start, Run, Stop and the atomics from any thread; the rest on its strand, inside Run.
// Bounds: held_calls_max calls before it is loaded; the rest by its parts.
// Fails: when it cannot go on it asks once, through `on_unload`, to be unloaded; calls then end
// with kShuttingDown.
class QueueRuntime final : public backlog::BacklogListener,
                           public matching::TaskSource,
                           public std::enable_shared_from_this<QueueRuntime> {
 public:
  using UnloadCallback = UniqueFunction<void(backlog::UnloadCause, const Status&)>;
  // True: the queue is ready. False: it cannot take calls (any more); nothing was done.
  using ReadyCallback = UniqueFunction<void(const Status&)>;

  QueueRuntime(store::PhysicalQueueKey key, const QueueEnvironment& environment,
               exec::Executor& home);
  ~QueueRuntime() override;

  // `on_unload` runs on the strand, at most once. Once.
  void Start(UnloadCallback on_unload);

  // Runs `op` on the strand once the queue is ready: with ok, or with the reason why it will not
  // be.
  void Run(ReadyCallback op);

  // Ends every call, gives the queue up cleanly. `done` runs on the strand when nothing is left in
  // flight. Once.
  void Stop(Closure done);

  // Strand only, inside an op that Run answered with ok, or later while the caller's own call is
  // open.
  using EnqueueCallback =
      UniqueFunction<void(const QueueError&, const std::vector<store::TaskKey>&)>;
  void Enqueue(std::vector<backlog::NewTask> tasks, EnqueueCallback done);
  using LeaseCallback = UniqueFunction<void(const QueueError&, std::vector<GrantedTask>)>;
  // Cancel with the id returned; ids of answered calls are ignored.
  matching::Matcher::PollerId Lease(LeaseParams params, LeaseCallback done);
  void CancelLease(matching::Matcher::PollerId poller);
  LeaseBook& leases() { return leases_; }
  void Peek(PeekParams params, UniqueFunction<void(Result<PeekPage>)> done);
  [[nodiscard]] QueueView Describe() const;
  // Counts the stored rows one by one, as of now, while the queue goes on working.
  void CountRows(UniqueFunction<void(Result<RowCounts>)> done);
  [[nodiscard]] std::uint64_t uid() const { return uid_; }

  // Any thread.
  [[nodiscard]] Instant last_used() const {
    return {last_used_ns_.load(std::memory_order_relaxed)};
  }
  // Asks for unloading with cause idle if the queue has been without calls since `before` and holds
  // no leases or pollers.
  void UnloadIfIdle(Instant before);
  [[nodiscard]] const store::PhysicalQueueKey& key() const { return key_; }
  [[nodiscard]] const QueueGauges& gauges() const { return gauges_; }

  // backlog::BacklogListener
  void OnLeaseHeld() override;
  bool OnTaskLoaded(const store::TaskRow& row) override;
  void OnTasksAvailable() override;
  void OnBuildWrite(store::QueueWrite& write) override;
  void OnWriteEnd(bool applied) override;
  void OnTasksEnded(const std::vector<store::TaskKey>& tasks) override;
  void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) override;

  // matching::TaskSource
  [[nodiscard]] bool HasLoaded() const override;
  std::vector<backlog::LoadedTask> TakeLoaded(std::size_t max) override;

 private:
  enum class State : std::uint8_t { kNew, kLoading, kReady, kStopping, kStopped };

  void LoadUid();
  void UpdateGauges();
  void OnReady();
  void FailHeld(const Status& status);
  void RequestUnload(backlog::UnloadCause cause, const Status& status);
  void OnPolled(const LeaseParams& params, matching::PollResult result, LeaseCallback& done);
  void Drop(const store::TaskKey& task);
  void PeekRows(PeekParams params, std::shared_ptr<PeekPage> page, std::size_t scanned,
                UniqueFunction<void(Result<PeekPage>)> done);
  void PeekDead(const PeekParams& params, UniqueFunction<void(Result<PeekPage>)> done);

  const store::PhysicalQueueKey key_;
  const QueueEnvironment& env_;
  exec::Strand strand_;
  exec::Gate gate_;
  backlog::BacklogManager manager_;
  matching::Matcher matcher_;
  LeaseBook leases_;
  State state_ MR_GUARDED_BY(strand_) = State::kNew;
  UnloadCallback on_unload_ MR_GUARDED_BY(strand_);
  std::vector<ReadyCallback> held_ MR_GUARDED_BY(strand_);
  std::uint64_t uid_ = 0;
  bool uid_stored_ = false;
  bool uid_writing_ = false;
  bool recovered_ = false;  // uid_ and leases_ hold what the store has.
  std::size_t calls_open_ = 0;
  exec::StrandTimer held_timer_;
  std::unique_ptr<RowCensus> census_;
  std::atomic<std::int64_t> last_used_ns_;
  QueueGauges gauges_;
};

}  // namespace millrace::queue
