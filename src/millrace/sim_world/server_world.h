#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/sim_world/server_process.h"
#include "millrace/sim_world/world.h"

namespace millrace::sim {

// A world whose hosts run one real server each, called by clients over a slow network: lives of the
// servers, clean stops and crashes, and calls that time out or are cut off.
//
// Invariants: a host's next server starts when the old one is gone, as with a data directory that
// is locked.
class ServerWorld : public World {
 public:
  ServerWorld(const RunOptions& options, Coverage& coverage) : World(options, coverage) {}

 protected:
  using ServerPtr = std::shared_ptr<ServerProcess>;
  // Nothing: the answer is lost, or the client gave up first.
  using Reply =
      std::function<void(bool answered, const rpc::RpcStatus&, const std::string& response)>;
  // At the moment of the answer, on the server.
  using Check = std::function<void(const rpc::RpcStatus&, const std::string& response)>;

  // What a server on this host serves. `life`: the server's number.
  virtual std::unique_ptr<ServedService> Serve(std::size_t host, int life) = 0;
  // A crash cut this server off.
  virtual void OnSevered(const ServerProcess& /*server*/) {}

  void OnHostStarted(std::size_t host) final { StartServer(host); }
  void OnHostCrashing(std::size_t host) final;
  void OnHostCrashed(std::size_t host) final;
  void StopSomething() final;
  void RestartCleanly() final;
  void Supervise() final {}
  void BeginStop() final;
  [[nodiscard]] bool Stopped() const override { return servers_.empty() && calls_open_ == 0; }
  void Reap() final;

  // Null: none that takes calls.
  [[nodiscard]] ServerPtr ServerOn(std::size_t host) const;
  // A call from a client to a server: network delays both ways, a time limit, and `check` at the
  // moment of the answer. `check` runs at most once, on the server; if it never runs, `lost` does.
  void Call(const ServerPtr& server, const std::string& method, std::string request,
            Duration timeout, Check check, Closure lost, Reply reply);
  Duration NetworkDelay() { return Some(swarm_.faults.latency_max); }
  // No server is left behind that uses what a derived world is about to destroy.
  void DropServers() { servers_.clear(); }
  // False once the world winds down.
  [[nodiscard]] bool working() const { return working_; }

 private:
  void StartServer(std::size_t host);

  std::vector<ServerPtr> servers_;  // All lives that are not taken down yet.
  bool working_ = true;
  int server_lives_ = 0;
  std::size_t calls_open_ = 0;
};

}  // namespace millrace::sim
