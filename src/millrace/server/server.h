#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/exec/event_loop.h"
#include "millrace/rpc/server.h"
#include "millrace/server/admin_http.h"
#include "millrace/server/application.h"
#include "millrace/server/config.h"
#include "millrace/server/periodic_task.h"
#include "millrace/server/prometheus_metrics.h"
#include "millrace/server/readiness.h"
#include "millrace/server/ready_file.h"
#include "millrace/server/stderr_log.h"
#include "millrace/server/store_clock.h"
#include "millrace/server/temp_dir.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/task_store.h"

namespace millrace::server {

// A whole server in one object: opens the store, starts the loops, the application, the gRPC and
// the admin service, and takes them down in the opposite order.
//
//   Start: admin (alive, not ready) -> store -> loops -> application -> gRPC -> ready
//   Stop:  not ready -> application drains -> gRPC ends calls within the grace -> application's
//   last writes -> store
//
// While the store refuses writes the server is not ready and its gRPC health is NOT_SERVING; both
// come back by themselves.
//
// Thread: one that is not a loop's.
// Fails: Start with the first part's error, in words for the person who started it; nothing stays
// running then.
class Server {
 public:
  // `log` must outlive the server.
  Server(ServerConfig config, ServerParts parts, StderrLog& log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Once.
  Status Start();
  // Nothing happens when it is not running.
  void Stop();

  // Looks at the certificate files now. Between Start and Stop.
  void ReloadTls();

  // Good between Start and Stop. The admin address is empty when it is turned off.
  [[nodiscard]] const std::vector<std::string>& grpc_addresses() const { return grpc_addresses_; }
  [[nodiscard]] std::string admin_address() const;
  [[nodiscard]] const std::string& data_dir() const { return data_dir_; }
  [[nodiscard]] const ServerConfig& config() const { return config_; }
  [[nodiscard]] PrometheusMetrics& metrics() { return metrics_; }

 private:
  Status StartParts();
  Status StartAdmin();
  Status OpenStore();
  Status StartLoops();
  Status StartRpc();
  void PollHealth();
  void StopApplication();

  const ServerConfig config_;
  const ServerParts parts_;
  StderrLog& log_;
  StoreClock clock_;
  SystemRandom random_;
  PrometheusMetrics metrics_;
  PrometheusMetrics::Registration process_metrics_;
  Readiness readiness_;
  TempDir temp_dir_;
  ReadyFile ready_file_;
  std::string data_dir_;
  std::vector<std::string> grpc_addresses_;
  std::unique_ptr<AdminHttp> admin_;
  std::unique_ptr<store::TaskStore> store_;
  std::vector<std::unique_ptr<exec::EventLoop>> loops_;
  std::unique_ptr<store::AsyncTaskStore> async_store_;
  std::unique_ptr<Application> application_;
  std::unique_ptr<rpc::Server> rpc_;
  bool serving_ = false;  // What gRPC health says.
  std::unique_ptr<PeriodicTask> health_;
};

}  // namespace millrace::server
