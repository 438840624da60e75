#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "millrace/queue/queue_service.h"
#include "millrace/rpc/service.h"
#include "millrace/sim_world/sim_call.h"
#include "millrace/sim_world/sim_host.h"

namespace millrace::sim {

// One life of a simulated server: the real QueueService on a simulated host, its handlers called
// without sockets.
//
// Thread: the driver. Invariants: Destroyable is true before it is destroyed.
class ServerProcess {
 public:
  ServerProcess(Judge& judge, std::shared_ptr<SimHost> host, int number,
                const queue::QueueConfig& config, Random& random, Log& log, Metrics& metrics);

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
  std::unique_ptr<queue::QueueService> service_;
  rpc::ServiceTable table_;
  std::list<std::shared_ptr<CallState>> calls_;
  std::size_t next_loop_ = 0;
  bool stopping_ = false;
  bool severed_ = false;
  bool stopped_ = false;
};

}  // namespace millrace::sim
