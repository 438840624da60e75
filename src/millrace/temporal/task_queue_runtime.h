#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/base/function.h"
#include "millrace/exec/gate.h"
#include "millrace/exec/strand.h"
#include "millrace/matching/matcher.h"
#include "millrace/rpc/status.h"
#include "millrace/temporal/history.h"
#include "millrace/temporal/matching_config.h"
#include "millrace/temporal/matching_metrics.h"
#include "millrace/temporal/partition_backlog.h"
#include "millrace/temporal/poller_history.h"
#include "millrace/temporal/task_queue_name.h"
#include "millrace/temporal/task_rate.h"

namespace millrace::temporal {

// What every task queue of a process shares. All of it outlives them.
struct TaskQueueEnvironment {
  BacklogEnvironment backlog;
  History& history;
  MatchingMetrics& metrics;
};

// What a caller and the queue both know of a waiting poll. Thread: any.
struct PollTicket {
  std::atomic<bool> gone = false;  // The caller is not there any more.
};

struct PollParams {
  std::string poller_id;  // The caller's name for this poll.
  std::string identity;
  std::string worker_key;
  std::string namespace_name;  // Whose quota at history it counts against.
  std::string poll_request;    // The public request as it came; history gets it.
  std::string about;           // What Describe tells of the worker: PollerInfo without its times.
  Instant deadline;            // Ends with an empty answer then.
  bool no_wait = false;
  std::shared_ptr<PollTicket> ticket;
};

// How a poll ended: with an error, with a response, or empty.
struct PollOutcome {
  rpc::RpcStatus status;
  std::string response;  // A serialized message; "" = no task.
};

// A task as it is stored.
struct AddedTask {
  WallTime create_time;
  WallTime expiry_time;
  std::string payload;     // TaskInfo
  bool forwarded = false;  // Another partition keeps it: it is given away or refused, never stored.
};

struct PartitionView {
  bool held = false;
  std::int64_t backlog_count_hint = 0;
  std::int64_t approximate_count = 0;
  Duration head_age{};
  backlog::BacklogStatus backlog;
  backlog::InternalSubqueueStatus internal;
};

struct TaskQueueView {
  std::vector<PollerHistory::Entry> pollers;
  std::map<std::int32_t, PartitionView> partitions;  // Those that have a backlog.
  double add_rate = 0;
  double dispatch_rate = 0;
};

// One task queue (namespace, name and type) with all its partitions in this process: what they have
// stored, and the polls that wait. Partitions only spread what is stored: a poll on any of them
// takes tasks of all, so that no task waits in a partition that nobody polls.
//
// A poll waits in the matcher until it gets a task. Then history is asked to start the task, and
// its answer says what becomes of both: the poll is answered, or it waits again; the task is done,
// dropped, or written again. A task that is added meets a waiting poll directly if it may, and is
// stored otherwise.
//
// Thread: Start, Run, Stop and the atomics from any thread; the rest on its strand, inside Run.
// Bounds: MatchingConfig. Fails: when it cannot go on it asks once, through `on_unload`, to be
// unloaded. Invariants: every poll and every add is answered exactly once, on the strand, never
// inside Poll or Add; a task that was stored ends only by an answer of history that says so, or by
// its expiry.
class TaskQueueRuntime final : public matching::TaskSource,
                               public std::enable_shared_from_this<TaskQueueRuntime>,
                               private BacklogOwner {
 public:
  using UnloadCallback = UniqueFunction<void(backlog::UnloadCause, const Status&)>;
  // Ok, or kShuttingDown: nothing was done, another instance may.
  using RunCallback = UniqueFunction<void(const Status&)>;
  using PollId = std::uint64_t;
  using PollCallback = UniqueFunction<void(PollOutcome)>;
  // `retry`: the queue is being unloaded and surely did not take the task, which is given back.
  struct AddOutcome {
    rpc::RpcStatus status;
    bool retry = false;
    AddedTask task;
  };
  using AddCallback = UniqueFunction<void(AddOutcome)>;

  // `key`: rows of partition 0, or of a queue that has no others.
  TaskQueueRuntime(store::PhysicalQueueKey key, const TaskQueueEnvironment& environment,
                   exec::Executor& home);
  ~TaskQueueRuntime() override;

  void Start(UnloadCallback on_unload);
  void Run(RunCallback op);
  // Run that does not count as use.
  void Visit(RunCallback op);
  void Stop(Closure done);
  void UnloadIfIdle(Instant before);
  // Asks to be unloaded, as an operator may.
  void ForceUnload();
  [[nodiscard]] Instant last_used() const {
    return {last_used_ns_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] const store::PhysicalQueueKey& key() const { return key_; }

  // A queue of this kind is used. A normal one has partitions to look for; a sticky one belongs to
  // one worker. To be said before anything else is asked.
  void UseAs(QueueKind kind);

  PollId Poll(PollParams params, PollCallback done);
  // Ends a waiting poll empty; one whose task is being started goes on. False: no such poll.
  bool CancelPoll(PollId poll);
  bool CancelPoller(const std::string& poller_id);
  // Ends all polls of a worker; how many.
  int CancelWorker(const std::string& worker_key);
  void ForgetPoller(const std::string& identity) { pollers_seen_.Forget(identity); }
  // Whether a worker waits, or polled within `window`.
  [[nodiscard]] bool PolledWithin(Duration window) const;

  void Add(std::int32_t partition, AddedTask task, AddCallback done);

  // Runs `done` once it is known of each partition what it has stored, or soon if that takes long.
  void WhenKnown(Closure done);
  [[nodiscard]] TaskQueueView Describe() const;

 private:
  enum class State : std::uint8_t { kNew, kOpen, kStopping, kStopped };
  // A task on its way to a poll.
  struct Match {
    std::int32_t partition = 0;  // Of a stored one.
    std::int64_t offer = 0;      // Of one that is added and was not stored; 0 = stored.
    backlog::LoadedTask task;
  };

  struct OpenPoll {
    PollParams params;
    PollCallback done;
    matching::Matcher::PollerId waiting = 0;  // 0 = its task is being started, or it rests.
    bool resting = false;
    bool ending = false;  // Cancelled while its task was being started.
    Instant rest_until;
    Duration rest{};  // The last one.
  };
  using Polls = std::map<PollId, OpenPoll>;

  struct OpenAdd {
    std::int32_t partition;
    AddedTask task;
    AddCallback done;
  };

  // --- Life (task_queue_runtime.cc).
  void RequestUnload(backlog::UnloadCause cause, const Status& status);
  void StopBacklogs();
  void OnBacklogsStopped();
  PartitionBacklog& At(std::int32_t partition);
  [[nodiscard]] store::PhysicalQueueKey RowsOf(std::int32_t partition) const;
  void FindPartitions();
  [[nodiscard]] bool AllKnown() const;
  void OnPartitionKnown(std::int32_t partition) override;
  void OnTasksAvailable() override;
  void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) override;
  void ArmLoadTimer();
  void Touch();

  // --- Polls (task_queue_polls.cc).
  void Wait(PollId id);
  void OnPolled(PollId id, matching::PollResult result);
  void Rest(PollId id);
  void OnRestTimer();
  void Answer(Polls::iterator it, PollOutcome outcome);

  // --- Starts (task_queue_starts.cc).
  void StartTask(PollId id, Match match);
  void OnStarted(PollId id, Match match, StartResult result);
  void GiveBack(Match match);
  // The task is over: done, or dropped.
  void End(const Match& match);
  // The task could not be started for now.
  void KeepForLater(Match match, const rpc::RpcStatus& why);
  void PauseDispatch();
  [[nodiscard]] bool Paused() const;
  [[nodiscard]] std::int64_t BacklogCountHint() const;

  // --- Adds (task_queue_adds.cc).
  void TryAdd(OpenAdd add);
  // Until it is known what each partition has.
  void Hold(OpenAdd add);
  [[nodiscard]] bool SyncMatchAllowed() const;
  void Offer(OpenAdd add);
  void Spool(OpenAdd add);
  void FailWaitingAdds(const rpc::RpcStatus& status, bool retry);
  void FinishAdd(OpenAdd& add, rpc::RpcStatus status, bool retry = false);

  // matching::TaskSource
  [[nodiscard]] bool HasLoaded() const override;
  std::vector<backlog::LoadedTask> TakeLoaded(std::size_t max) override;

  const store::PhysicalQueueKey key_;
  const TaskType type_;
  const TaskQueueEnvironment& env_;
  const MatchingConfig& config_;
  exec::Strand strand_;
  exec::Gate gate_;
  matching::Matcher matcher_;
  State state_ MR_GUARDED_BY(strand_) = State::kNew;
  UnloadCallback on_unload_ MR_GUARDED_BY(strand_);
  bool partitioned_ = false;
  bool sticky_ = false;
  rpc::RpcStatus polls_end_with_;  // When the queue stops.

  std::map<std::int32_t, std::unique_ptr<PartitionBacklog>> partitions_ MR_GUARDED_BY(strand_);
  std::int32_t taken_from_ = -1;  // Partition that a task was taken from last.
  std::vector<Closure> when_known_ MR_GUARDED_BY(strand_);

  PollId last_poll_ = 0;
  Polls polls_ MR_GUARDED_BY(strand_);
  std::map<std::string, PollId> by_poller_id_ MR_GUARDED_BY(strand_);
  std::set<std::pair<std::string, PollId>> by_worker_ MR_GUARDED_BY(strand_);
  std::set<std::pair<Instant, PollId>> resting_ MR_GUARDED_BY(strand_);
  exec::StrandTimer rest_timer_;
  PollerHistory pollers_seen_;
  Instant last_poll_at_;
  bool polled_ = false;

  std::int64_t last_offer_ = 0;
  std::int64_t offering_ = 0;  // While the matcher is asked to take it.
  std::map<std::int64_t, OpenAdd> offers_ MR_GUARDED_BY(strand_);  // Tasks being started.
  std::vector<OpenAdd> adds_waiting_ MR_GUARDED_BY(strand_);       // For their partition.
  exec::StrandTimer load_timer_;
  std::size_t adds_open_ = 0;

  std::size_t starts_in_flight_ = 0;
  Instant paused_until_;
  Duration pause_{};
  exec::StrandTimer pause_timer_;
  Closure stopped_ MR_GUARDED_BY(strand_);
  std::size_t backlogs_stopping_ = 0;

  TaskRate adds_rate_;
  TaskRate dispatch_rate_;
  std::atomic<std::int64_t> last_used_ns_;
};

}  // namespace millrace::temporal
