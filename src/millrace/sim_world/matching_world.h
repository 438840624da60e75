#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/sim_world/server_process.h"
#include "millrace/sim_world/sim_history.h"
#include "millrace/sim_world/world.h"
#include "millrace/temporal/matching_config.h"

namespace millrace::sim {

// Matching hosts of a simulated Temporal cluster: a history service that adds workflow tasks until
// it is told that they are safe, and workers that poll, lose patience and vanish.
class MatchingWorld final : public World {
 public:
  MatchingWorld(const RunOptions& options, Coverage& coverage);

 private:
  using ServerPtr = std::shared_ptr<ServerProcess>;
  // Nothing: the answer is lost, or the client gave up first.
  using Reply =
      std::function<void(bool answered, const rpc::RpcStatus&, const std::string& response)>;
  // At the moment of the answer, on the server.
  using Check = std::function<void(const rpc::RpcStatus&, const std::string& response)>;

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

  void OnHostStarted(std::size_t host) override;
  void OnHostCrashing(std::size_t host) override;
  void OnHostCrashed(std::size_t host) override;
  void Enqueue() override;
  void StopSomething() override;
  void AddSecondOwner(std::size_t host) override;
  void PauseSomething() override;
  void RestartCleanly() override;
  void Supervise() override {}
  void CalmDown() override;
  void BeginStop() override;
  [[nodiscard]] bool Stopped() const override;
  void CheckDrained() override;
  void Reap() override;

  void StartServer(std::size_t host);
  [[nodiscard]] ServerPtr ServerOn(std::size_t host) const;
  // Of the queue's owner, as callers are routed; now and then, in the safety phase, any.
  ServerPtr ServerFor(int queue);
  void Call(const ServerPtr& server, const std::string& method, std::string request,
            Duration timeout, Check check, Reply reply);
  Duration NetworkDelay() { return Some(swarm_.faults.latency_max); }
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
  std::vector<ServerPtr> servers_;  // All lives that are not taken down yet.
  std::vector<Worker> workers_;
  std::vector<std::size_t> owners_;  // Host that callers believe to own each queue.
  bool working_ = true;
  int server_lives_ = 0;
  std::size_t calls_open_ = 0;
  std::size_t adds_open_ = 0;  // Tasks that history still has to get into matching.
  std::uint64_t polls_made_ = 0;
};

}  // namespace millrace::sim
