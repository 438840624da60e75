#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/sim_world/server_world.h"
#include "millrace/sim_world/sim_history.h"
#include "millrace/temporal/matching_config.h"

namespace millrace::sim {

// Matching hosts of a simulated Temporal cluster: a history service that adds workflow tasks until
// it is told that they are safe, and workers that poll, lose patience and vanish.
class MatchingWorld final : public ServerWorld {
 public:
  MatchingWorld(const RunOptions& options, Coverage& coverage);
  ~MatchingWorld() override { DropServers(); }

 private:
  struct Worker {
    int queue = 0;
    bool paused = false;
  };
  // One workflow task on its way into matching.
  struct Adding {
    std::int64_t task = 0;
    int queue = 0;
    Duration life{};
  };

  std::unique_ptr<ServedService> Serve(std::size_t host, int life) override;
  void OnSevered(const ServerProcess& server) override { history_.Forget(server.number()); }
  void Enqueue() override;
  void AddSecondOwner(std::size_t host) override;
  void PauseSomething() override;
  void CalmDown() override;
  [[nodiscard]] bool Stopped() const override { return ServerWorld::Stopped() && adds_open_ == 0; }
  void CheckDrained() override;

  // Of the queue's owner, as callers are routed; now and then, in the safety phase, any.
  ServerPtr ServerFor(int queue);
  [[nodiscard]] bool Impatient();
  std::string PartitionName(int queue);

  void Add(const Adding& adding);
  void Poll(std::size_t worker);
  void PollLater(std::size_t worker, Duration delay);
  void CancelSomePoll(int queue);
  void Describe(int queue, const Reply& reply);

  temporal::MatchingConfig config_;
  SimHistory history_;
  HistoryTroubles troubles_;
  std::vector<Worker> workers_;
  std::vector<std::size_t> owners_;  // Host that callers believe to own each queue.
  std::size_t adds_open_ = 0;        // Tasks that history still has to get into matching.
  std::uint64_t polls_made_ = 0;
};

}  // namespace millrace::sim
