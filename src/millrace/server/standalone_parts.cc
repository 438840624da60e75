#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/check.h"
#include "millrace/base/mutex.h"
#include "millrace/cluster/node_service.h"
#include "millrace/queue/queue_service.h"
#include "millrace/server/cluster_node.h"
#include "millrace/server/run_server.h"
#include "millrace/server/temporal_part.h"
#include "millrace/store/memory/memory_task_store.h"
#include "millrace/store/postgres/postgres_task_store.h"
#include "millrace/store/postgres/temporal_layout.h"
#include "millrace/store/rocksdb/rocks_task_store.h"
#include "millrace/store/split_task_store.h"

namespace millrace::server {
namespace {

// Queues with a label of their own in metrics; the rest share one.
constexpr std::size_t kQueueLabelsMax = 100;

// The queue service, and a Temporal cluster's matching service if that is wanted, as an
// application. With a store of its own it drains and stops in one go: from BeginDrain on queues are
// given up, and Stop waits for the last of them. As one of several nodes it gives those of the
// queue service to the others first, and passes calls on until there are none.
class QueueApplication final : public Application {
 public:
  explicit QueueApplication(const ApplicationEnvironment& environment)
      : clock_(environment.clock),
        started_(clock_.WallNow()),
        service_(environment.config.queue, Executors(environment.loops), environment.store,
                 environment.random, environment.log, environment.metrics),
        nodes_([this] { return Look(); }) {
    if (environment.config.store.kind == StoreKind::kPostgres) {
      node_ = std::make_unique<ClusterNode>(environment, service_);
    } else {
      alone_ = environment.config.node.id.empty() ? DefaultNodeId(environment.random)
                                                  : environment.config.node.id;
    }
    if (environment.config.temporal.enabled) {
      temporal_ = std::make_unique<TemporalPart>(environment);
    }
    loaded_queues_ = environment.metrics.AddCollector([this](SampleSink& sink) {
      sink.Gauge("millrace_loaded_queues", "Queues held in memory.", {},
                 static_cast<double>(service_.loaded_queues()));
      // Loaded queues only: the numbers of one that was unloaded go away with it.
      for (const queue::QueueService::QueueNumbers& numbers : service_.Numbers(kQueueLabelsMax)) {
        const std::string name = numbers.queue.empty() ? "(other)" : numbers.queue;
        const auto tasks = [&](const char* state, std::int64_t count) {
          sink.Gauge("millrace_queue_tasks", "Tasks of a loaded queue by state.",
                     {{"queue", name}, {"state", state}}, static_cast<double>(count));
        };
        tasks("waiting", numbers.waiting);
        tasks("leased", numbers.leased);
        tasks("dead", numbers.dead);
        sink.Gauge("millrace_queue_oldest_age_seconds", "Age of the oldest waiting task.",
                   {{"queue", name}}, std::chrono::duration<double>(numbers.head_age).count());
        sink.Gauge("millrace_queue_ack_lag", "Ids between ack level and max read level.",
                   {{"queue", name}}, static_cast<double>(numbers.ack_lag));
      }
    });
  }

  rpc::ServiceTable Services() override {
    rpc::ServiceTable table;
    service_.Register(table);
    if (node_ != nullptr) node_->Wrap(table);
    nodes_.Register(table);
    if (temporal_ != nullptr) temporal_->Register(table);
    return table;
  }

  void OnServing(const std::vector<std::string>& addresses) override {
    address_ = addresses.front();
    if (node_ != nullptr) node_->Start(addresses);
  }

  void BeginDrain() override {
    if (node_ != nullptr) {
      node_->BeginDrain();
    } else {
      service_.Stop([this] { OnPartStopped(); });
    }
    if (temporal_ != nullptr) {
      temporal_->Stop([this] { OnPartStopped(); });
    } else {
      OnPartStopped();
    }
  }

  void Stop(Closure done) override {
    {
      MutexLock lock(mutex_);
      MR_CHECK(!done_);
      if (parts_running_ > 0) done_ = std::move(done);
    }
    if (done) return done();
    if (node_ != nullptr) service_.Stop([this] { node_->Stop([this] { OnPartStopped(); }); });
  }

 private:
  void OnPartStopped() {
    Closure done;
    {
      MutexLock lock(mutex_);
      if (--parts_running_ > 0) return;
      done = std::move(done_);
    }
    if (done) done();
  }

  // Who is there, where no other can be.
  cluster::NodeService::Answer Look() {
    if (node_ != nullptr) return node_->Look();
    store::NodeRow self;
    self.id = alone_;
    self.address = address_;
    self.started = started_;
    self.queues = static_cast<std::int64_t>(service_.loaded_queues());
    return {.nodes = {self}, .self = alone_, .settled = true};
  }

  const StoreClock& clock_;
  const WallTime started_;
  queue::QueueService service_;
  std::unique_ptr<ClusterNode> node_;  // Null = the only one.
  std::string alone_;                  // Its id then.
  std::string address_;
  cluster::NodeService nodes_;
  std::unique_ptr<TemporalPart> temporal_;  // Null = not wanted.
  PrometheusMetrics::Registration loaded_queues_;
  Mutex mutex_;
  int parts_running_ MR_GUARDED_BY(mutex_) = 2;
  Closure done_ MR_GUARDED_BY(mutex_);
};

Result<std::unique_ptr<store::TaskStore>> OpenRocks(const StoreEnvironment& environment) {
  const std::filesystem::path folder(environment.data_dir);
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  if (error) {
    return Status(
        StatusCode::kUnavailable,
        "data_dir: cannot make " + folder.parent_path().string() + ": " + error.message());
  }
  store::RocksTaskStoreConfig config;
  config.path = environment.data_dir;
  config.sync = environment.config.store.sync == SyncMode::kAlways;
  config.block_cache_bytes = environment.config.store.block_cache_bytes;
  auto opened = store::RocksTaskStore::Open(config, environment.log);
  if (!opened.ok()) return opened.status();
  return std::unique_ptr<store::TaskStore>(std::move(opened).value());
}

Result<std::unique_ptr<store::TaskStore>> OpenPostgres(const StoreEnvironment& environment) {
  auto opened = store::PostgresTaskStore::Open(
      environment.config.postgres, store::StandaloneLayout(), environment.metrics, environment.log);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<store::TaskStore> queues = std::move(opened).value();
  if (!environment.config.temporal.enabled) return queues;
  // Temporal's queues lie in Temporal's own tables, row for row as its matching service writes
  // them.
  static const std::unique_ptr<store::RowLayout> layout =
      store::MakeTemporalLayout(store::TemporalTables::kClassic, {});
  auto temporal = store::PostgresTaskStore::Open(environment.config.postgres, *layout,
                                                 environment.metrics, environment.log);
  if (!temporal.ok()) return temporal.status();
  return std::unique_ptr<store::TaskStore>(
      std::make_unique<store::SplitTaskStore>(std::move(queues), std::move(temporal).value()));
}

}  // namespace

ServerParts StandaloneParts() {
  ServerParts parts;
  parts.application = [](const ApplicationEnvironment& environment) {
    return std::make_unique<QueueApplication>(environment);
  };
  parts.store =
      [](const StoreEnvironment& environment) -> Result<std::unique_ptr<store::TaskStore>> {
    if (environment.config.store.kind == StoreKind::kMemory) {
      return std::unique_ptr<store::TaskStore>(std::make_unique<store::MemoryTaskStore>());
    }
    if (environment.config.store.kind == StoreKind::kPostgres) return OpenPostgres(environment);
    return OpenRocks(environment);
  };
  return parts;
}

}  // namespace millrace::server
