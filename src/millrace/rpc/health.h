#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/rpc/service.h"

namespace millrace::rpc {

// grpc.health.v1: one state for the server and all its services.
//
// Thread: any.
// Bounds: one waiting stream a Watch; streams are bounded by the server.
class HealthService {
 public:
  // Starts as not serving.
  explicit HealthService(std::vector<std::string> services);
  ~HealthService();
  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;

  void AddTo(ServiceTable* table);

  void SetServing(bool serving);
  // Ends every Watch, now and from now on, so that it does not hold up a drain.
  void EndWatches();

 private:
  struct Watcher;
  struct State;

  const std::shared_ptr<State> state_;
};

}  // namespace millrace::rpc
