#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "millrace/rpc/service.h"
#include "millrace/sim_world/sim_call.h"
#include "millrace/sim_world/sim_host.h"

namespace millrace::sim {

// What a simulated server serves, and all that lives and dies with it. Destroyed after Stop is
// done.
class ServedService {
 public:
  virtual ~ServedService() = default;
  // Full name of the service, before the method's in a path.
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void Register(rpc::ServiceTable& table) = 0;
  virtual void Stop(Closure done) = 0;
};

// One life of a simulated server: a real service on a simulated host, its handlers called without
// sockets.
//
// Thread: the driver. Invariants: Destroyable is true before it is destroyed.
class ServerProcess {
 public:
  ServerProcess(Judge& judge, std::shared_ptr<SimHost> host, int number,
                std::unique_ptr<ServedService> service);

  // Hands a call to the server's event loop. `on_finish` as CallState says.
  std::shared_ptr<CallState> Call(
      const std::string& method, std::string request, Duration timeout,
      std::function<void(const rpc::RpcStatus&, const std::string&)> on_finish);

  // Cuts the server off: none of its answers counts from here on. Then Stop.
  void Sever();
  void Stop();

  [[nodiscard]] SimHost& host() const { return *host_; }
  // Unique among all servers of a simulation.
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool stopping() const { return stopping_; }
  [[nodiscard]] bool severed() const { return severed_; }
  [[nodiscard]] bool Destroyable();
  // Calls that were handed to the server and not answered by it.
  [[nodiscard]] std::size_t OpenCalls();

 private:
  Judge& judge_;
  const std::shared_ptr<SimHost> host_;
  const int number_;
  const std::unique_ptr<ServedService> service_;
  rpc::ServiceTable table_;
  std::list<std::shared_ptr<CallState>> calls_;
  std::size_t next_loop_ = 0;
  bool stopping_ = false;
  bool severed_ = false;
  bool stopped_ = false;
};

// The event loops of a host, as services take them.
inline std::vector<exec::Executor*> LoopsOf(const SimHost& host) {
  std::vector<exec::Executor*> loops;
  for (const auto& loop : host.loops) loops.push_back(loop.get());
  return loops;
}

}  // namespace millrace::sim
