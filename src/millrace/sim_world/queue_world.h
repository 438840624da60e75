#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/queue/config.h"
#include "millrace/sim_world/lease_checker.h"
#include "millrace/sim_world/server_world.h"

namespace millrace::sim {

// Servers with the real queue service, producers and workers that call it, lose patience, vanish
// and try old tokens.
class QueueWorld final : public ServerWorld {
 public:
  QueueWorld(const RunOptions& options, Coverage& coverage);
  ~QueueWorld() override { DropServers(); }

 private:
  struct Worker {
    int queue = 0;
    std::size_t host = 0;
    bool paused = false;
  };
  struct Held {
    std::string token;
    int attempt = 0;
    int max_attempts = 0;
    int tries = 0;
  };

  std::unique_ptr<ServedService> Serve(std::size_t host, int life) override;
  void Enqueue() override;
  void AddSecondOwner(std::size_t host) override;
  void PauseSomething() override;
  void CalmDown() override;
  void CheckDrained() override;

  ServerPtr AnyServer();
  Duration Patience();

  void Poll(std::size_t worker);
  void PollLater(std::size_t worker, Duration delay);
  void Work(std::size_t worker, Held held);
  void Settle(std::size_t worker, SettleKind kind, bool permanent, Held held);
  void Describe(int queue, const ServerPtr& server, Reply reply);
  void LookAround();

  queue::QueueConfig config_;
  LeaseChecker checker_;
  std::vector<Worker> workers_;
};

}  // namespace millrace::sim
