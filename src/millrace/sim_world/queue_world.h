#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/queue/config.h"
#include "millrace/sim_world/lease_checker.h"
#include "millrace/sim_world/server_process.h"
#include "millrace/sim_world/world.h"

namespace millrace::sim {

// Servers with the real queue service, producers and workers that call it, lose patience, vanish
// and try old tokens.
class QueueWorld final : public World {
 public:
  QueueWorld(const RunOptions& options, Coverage& coverage);

 private:
  using ServerPtr = std::shared_ptr<ServerProcess>;
  // Nothing: the answer is lost, or the client gave up first.
  using Reply =
      std::function<void(bool answered, const rpc::RpcStatus&, const std::string& response)>;

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
  ServerPtr ServerOn(std::size_t host);
  ServerPtr AnyServer();
  // A call from a client to a server: network delays both ways, a time limit, and `check` at the
  // moment of the answer. `check` runs at most once, on the server; if it never runs, `lost` does.
  void Call(const ServerPtr& server, const std::string& method, std::string request,
            Duration timeout, std::function<void(const rpc::RpcStatus&, const std::string&)> check,
            Closure lost, Reply reply);
  Duration NetworkDelay() { return Some(swarm_.faults.latency_max); }
  Duration Patience();

  void Poll(std::size_t worker);
  void PollLater(std::size_t worker, Duration delay);
  void Work(std::size_t worker, Held held);
  void Settle(std::size_t worker, SettleKind kind, bool permanent, Held held);
  void Describe(int queue, const ServerPtr& server, Reply reply);
  void LookAround();

  queue::QueueConfig config_;
  LeaseChecker checker_;
  std::vector<ServerPtr> servers_;  // All lives that are not taken down yet.
  std::vector<Worker> workers_;
  bool working_ = true;
  int server_lives_ = 0;
  std::size_t calls_open_ = 0;
};

}  // namespace millrace::sim
