#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/log.h"
#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/service.h"
#include "millrace/server/config.h"
#include "millrace/server/prometheus_metrics.h"
#include "millrace/server/store_clock.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/task_store.h"

// The two parts of a server that differ between products and tests: what it serves, and where it
// keeps it.
namespace millrace::server {

// All of it outlives the application.
struct ApplicationEnvironment {
  const ServerConfig& config;
  std::vector<exec::EventLoop*> loops;  // At least one.
  store::AsyncTaskStore& store;
  StoreClock& clock;
  Random& random;
  Log& log;
  PrometheusMetrics& metrics;
};

// The loops as services take them.
inline std::vector<exec::Executor*> Executors(const std::vector<exec::EventLoop*>& loops) {
  return {loops.begin(), loops.end()};
}

// What a server serves. Thread: one that is not a loop's, each method once, in this order.
class Application {
 public:
  virtual ~Application() = default;

  // Handlers refer to the application and run until the RPC server is gone.
  virtual rpc::ServiceTable Services() = 0;

  // Calls come in from now on, at these addresses.
  virtual void OnServing(const std::vector<std::string>& /*addresses*/) {}

  // Waiting calls end soon with whatever they have; new work is refused as draining.
  virtual void BeginDrain() = 0;

  // No call is open any more: writes what is left to write. `done` runs once, on any thread.
  virtual void Stop(Closure done) = 0;
};

using ApplicationFactory =
    std::function<std::unique_ptr<Application>(const ApplicationEnvironment&)>;

struct StoreEnvironment {
  const ServerConfig& config;
  std::string data_dir;  // The one of the config, or a temporary one.
  const Clock& clock;
  Log& log;
  Metrics& metrics;
};
using StoreFactory =
    std::function<Result<std::unique_ptr<store::TaskStore>>(const StoreEnvironment&)>;

struct ServerParts {
  ApplicationFactory application;
  StoreFactory store;
};

}  // namespace millrace::server
