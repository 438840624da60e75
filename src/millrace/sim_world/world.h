#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/sim/fault_plan.h"
#include "millrace/sim_world/audited_store.h"
#include "millrace/sim_world/coverage.h"
#include "millrace/sim_world/judge.h"
#include "millrace/sim_world/run_result.h"
#include "millrace/sim_world/sim_host.h"
#include "millrace/sim_world/sim_log.h"
#include "millrace/sim_world/sim_metrics.h"
#include "millrace/sim_world/swarm.h"
#include "millrace/sim_world/task_ledger.h"
#include "millrace/sim_world/traced_faults.h"

namespace millrace::sim {

// A simulated installation: hosts over one durable store, and a driver that makes their life hard,
// then leaves them alone and sees whether everything comes right. What runs on the hosts is up to
// the derived world.
//
//   safety phase (acts, faults) -> [clean restart] -> liveness phase (no faults, must drain) ->
//   wind down (must be quiet)
//
// Thread: one at a time.
class World {
 public:
  World(const RunOptions& options, Coverage& coverage);
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  RunResult Run();

 protected:
  // The process on a new host begins; and ends: in order, or cut off by a crash (the host is marked
  // crashed before).
  virtual void OnHostStarted(std::size_t host) = 0;
  virtual void OnHostCrashing(std::size_t host) = 0;  // Its word counts no more.
  virtual void OnHostCrashed(std::size_t host) = 0;   // Its store is cut off; take it down.
  virtual void Enqueue() = 0;
  virtual void StopSomething() = 0;  // A clean stop of an owner or a whole process.
  virtual void AddSecondOwner(std::size_t host) = 0;
  virtual void PauseSomething() = 0;
  virtual void RestartCleanly() = 0;
  // Starts what is missing. Called often.
  virtual void Supervise() = 0;
  virtual void CalmDown() = 0;  // The faults are off.
  virtual void BeginStop() = 0;
  [[nodiscard]] virtual bool Stopped() const = 0;
  // Checks of the drained system before it stops.
  virtual void CheckDrained() = 0;
  // Forgets what is done.
  virtual void Reap() = 0;

  void CrashHost(std::size_t host);
  [[nodiscard]] bool AllHostsUp() const;
  [[nodiscard]] std::vector<std::size_t> HostsUp() const;
  // False: `limit` passed, or a rule broke.
  bool RunSteps(UniqueFunction<bool()> until, Duration limit);
  [[nodiscard]] bool Drained() const;
  Duration Some(Duration max);
  // The settings of one life of an owner.
  backlog::BacklogConfig DrawBacklogConfig();
  // A lot: true `percent` times out of 100.
  bool Lot(int percent) { return static_cast<int>(random().Below(100)) < percent; }
  Random& random() { return scheduler_.random(); }
  static constexpr char kNamespace[] = "default";
  static std::string QueueName(int queue) { return "q" + std::to_string(queue); }
  static store::PhysicalQueueKey Key(int queue) { return {kNamespace, QueueName(queue), 0}; }

  Judge judge_;
  Coverage& coverage_;
  SeededRandom swarm_random_;
  const Swarm swarm_;
  SimScheduler scheduler_;
  SimLog log_;
  SimMetrics metrics_;
  TaskLedger ledger_;
  AuditedStore durable_;
  RandomFaults faults_;
  TracedFaults traced_faults_;
  SimClock world_clock_;
  SimExecutor network_;
  SimExecutor driver_;
  std::vector<std::shared_ptr<SimHost>> hosts_;      // Null: down.
  std::vector<std::shared_ptr<SimHost>> old_hosts_;  // Crashed, being taken down.
  bool acting_ = true;
  int tasks_made_ = 0;

 private:
  void SafetyPhase();
  void LivenessPhase();
  void WindDown();
  void Act();
  void ActLater();
  void StallHost(std::size_t host);
  void JumpClock(std::size_t host);
  void LosePower();
  void StartHost(std::size_t host);
  // Expiry goes by the latest time any host has seen; to be called before a clock goes back or
  // away.
  void NoteWallClocks();

  std::vector<Duration> wall_offsets_;  // Per host; outlives its lives.
  std::vector<int> lives_;
  WallTime wall_max_;
  int takeovers_ = 0;
  std::int64_t range_size_ = 0;  // Of the owners of late; 0 = none yet.
  int range_size_changes_ = 0;
  // Counts power failures of the store.
  const std::shared_ptr<std::uint64_t> store_incarnation_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace millrace::sim
