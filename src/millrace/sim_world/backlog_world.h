#pragma once

#include <memory>
#include <vector>

#include "millrace/backlog/metrics.h"
#include "millrace/sim_world/backlog_owner.h"
#include "millrace/sim_world/world.h"

namespace millrace::sim {

// Hosts whose owners drive BacklogManagers directly: every entry of the engine, two owners of a
// queue at once.
class BacklogWorld final : public World {
 public:
  BacklogWorld(const RunOptions& options, Coverage& coverage);

 private:
  using OwnerPtr = std::shared_ptr<BacklogOwner>;

  void OnHostStarted(std::size_t host) override;
  void OnHostCrashing(std::size_t host) override;
  void OnHostCrashed(std::size_t host) override;
  void Enqueue() override;
  void StopSomething() override;
  void AddSecondOwner(std::size_t host) override;
  void PauseSomething() override;
  void RestartCleanly() override;
  void Supervise() override;
  void CalmDown() override;
  void BeginStop() override;
  [[nodiscard]] bool Stopped() const override { return owners_.empty(); }
  void CheckDrained() override;
  void Reap() override;

  void StartOwner(int queue, std::size_t host);
  [[nodiscard]] bool HasOwner(int queue) const;
  OwnerPtr PickOwner();
  void LookAtOwners();

  backlog::BacklogMetrics backlog_metrics_;
  OwnerContext context_;
  std::vector<OwnerPtr> owners_;
};

}  // namespace millrace::sim
