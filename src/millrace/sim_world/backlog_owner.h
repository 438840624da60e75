#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/sim_world/audited_store.h"
#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/judge.h"
#include "millrace/sim_world/sim_host.h"
#include "millrace/sim_world/swarm.h"
#include "millrace/sim_world/task_ledger.h"

namespace millrace::sim {

// What all owners of a simulation share.
struct OwnerContext {
  SimScheduler& scheduler;
  Judge& judge;
  Coverage& coverage;
  TaskLedger& ledger;
  AuditedStore& durable;
  const Swarm& swarm;
  backlog::BacklogMetrics& metrics;
  Log& log;
};

// What a manager says of itself, as of some moment after BacklogOwner::TakeSnapshot.
struct OwnerSnapshot {
  bool lease_held = false;
  RangeId range_id;
  std::int64_t count = 0;
  Duration head_age = Duration::zero();
  bool idle = false;
};

// One owner of one queue on one host: a real BacklogManager with simulated producers and workers
// around it. It checks what the manager promises to its owner (order of levels, answers,
// deliveries) and tells the ledger what clients see.
//
// Thread: constructed and called by the driver; its own work runs on its strand.
// Invariants: lives until the manager is stopped and its last closure has run; the driver only
// holds a reference.
class BacklogOwner final : public backlog::BacklogListener,
                           public std::enable_shared_from_this<BacklogOwner> {
 public:
  BacklogOwner(OwnerContext& context, std::shared_ptr<SimHost> host, std::size_t loop,
               store::PhysicalQueueKey queue, int queue_number,
               const backlog::BacklogConfig& config);
  ~BacklogOwner() override;

  void Start();
  // `listening`: false = the client vanishes before the answer.
  void Enqueue(std::int64_t task, WallTime expiry, std::string payload, bool listening);
  void PauseWork(bool paused);
  // Unloads in order.
  void Stop();
  // The host died: nothing said from here on counts. Followed by Stop.
  void Sever() { severed_ = true; }

  [[nodiscard]] SimHost& host() const { return *host_; }
  [[nodiscard]] int queue_number() const { return queue_number_; }
  [[nodiscard]] bool stopping() const { return stopping_; }
  // The manager is destroyed.
  [[nodiscard]] bool gone() const { return gone_; }
  void TakeSnapshot();
  [[nodiscard]] const std::optional<OwnerSnapshot>& snapshot() const { return snapshot_; }

  void OnLeaseHeld() override;
  bool OnTaskLoaded(const store::TaskRow& row) override;
  void OnTasksAvailable() override;
  void OnBuildWrite(store::QueueWrite& write) override;
  void OnWriteEnd(bool applied) override;
  void OnUnloadRequested(backlog::UnloadCause cause, const Status& status) override;

 private:
  struct Work {
    backlog::LoadedTask task;
    std::int64_t number = 0;
  };

  // Runs `closure` on the strand, now or later, and looks at the levels afterwards.
  void Post(Closure closure);
  void PostIn(Duration delay, Closure closure);
  Duration Some(Duration max);

  void Submit(std::int64_t task, backlog::NewTask row, bool listening);
  void PollSoon();
  void Poll();
  void StartWork(backlog::LoadedTask task);
  void EndWork(store::TaskKey key);
  void SubmitEnd(store::TaskKey key, bool rewrite);
  void OnEndDone(store::TaskKey key, bool rewrite, const Status& status);
  void OnEndDecided(store::TaskKey key, bool rewrite, bool applied);
  void StopOnStrand();
  // This owner holds the lease according to the store, and its host lives.
  [[nodiscard]] bool Current() const;
  void CheckLevels();

  OwnerContext& context_;
  const std::shared_ptr<SimHost> host_;
  exec::Strand strand_;
  const store::PhysicalQueueKey queue_;
  const int queue_number_;
  const backlog::BacklogConfig config_;
  backlog::OwnerWatch watch_;
  std::unique_ptr<backlog::BacklogManager> manager_;

  bool severed_ = false;
  bool stopping_ = false;
  bool gone_ = false;
  bool paused_ = false;
  bool poll_posted_ = false;
  bool lease_held_ = false;
  int unload_requests_ = 0;

  std::map<store::TaskKey, Work> works_;
  std::set<store::TaskKey> loaded_once_;  // Came through OnTaskLoaded.
  std::set<store::TaskKey> ended_;        // Must not be given out any more.
  std::vector<backlog::InternalSubqueueStatus> last_status_;
  std::optional<OwnerSnapshot> snapshot_;
  bool write_open_ = false;
  std::int64_t side_value_ = 0;
};

}  // namespace millrace::sim
