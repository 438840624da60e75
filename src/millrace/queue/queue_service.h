#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/backlog_manager.h"
#include "millrace/backlog/owner_watch.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/random.h"
#include "millrace/exec/executor.h"
#include "millrace/exec/strand.h"
#include "millrace/matching/registry.h"
#include "millrace/queue/config.h"
#include "millrace/queue/queue_runtime.h"
#include "millrace/queue/service_metrics.h"
#include "millrace/rpc/service.h"
#include "millrace/store/async_task_store.h"

namespace millrace::queue {

inline constexpr char kQueueServiceName[] = "millrace.v1.QueueService";

// What a caller is told when a queue's metadata could not be read.
QueueError QueueLookupError(const store::PhysicalQueueKey& key, const Status& status);

// millrace.v1.QueueService: checks requests, finds or loads the queue, and turns outcomes into
// replies.
//
// Thread: handlers from any executor thread; Stop from any thread. `executors` (at least one) run
// the queues, spread by name. Everything handed in outlives the service; the service is destroyed
// after Stop is done. Bounds: QueueConfig.
class QueueService {
 public:
  QueueService(const QueueConfig& config, std::vector<exec::Executor*> executors,
               store::AsyncTaskStore& store, Random& random, Log& log, Metrics& metrics);
  ~QueueService();
  QueueService(const QueueService&) = delete;
  QueueService& operator=(const QueueService&) = delete;

  // Adds the methods to `table`. The service must outlive the table's use.
  void Register(rpc::ServiceTable& table);

  // A queue is loaded only if `may_load` allows it; otherwise its calls get UNAVAILABLE, reason
  // DRAINING. It waits for nothing and is called by any thread. Before the first call.
  using MayLoad = std::function<bool(const std::string& queue)>;
  void SetLoadGate(MayLoad may_load) { may_load_ = std::move(may_load); }

  // Gives up the loaded queues for which `gone` holds, each with a final write; calls that wait on
  // them get UNAVAILABLE, reason DRAINING. The load gate must refuse them already. `done` runs
  // once, when they are gone, on an executor thread or here.
  void Unload(const std::function<bool(const std::string& queue)>& gone, Closure done);

  // From here calls get UNAVAILABLE, reason DRAINING; waiting lease calls end. Queues are given up
  // cleanly, each with a final write. `done` runs once, on an executor thread or here. Once.
  void Stop(Closure done);

  // For metrics at scrape time: what is in memory, no store reads. Thread: any; waits for nothing.
  [[nodiscard]] std::size_t loaded_queues();
  struct QueueNumbers {
    std::string queue;
    std::int64_t waiting = 0;
    std::int64_t leased = 0;
    std::int64_t dead = 0;
    std::int64_t ack_lag = 0;
    Duration head_age{};
  };
  // Of up to `max` loaded queues, in order of their names, and of the rest together under an empty
  // name (with the highest lag and age among them).
  std::vector<QueueNumbers> Numbers(std::size_t max);

 private:
  using CallPtr = std::unique_ptr<rpc::ServerCall>;
  using QueuePtr = std::shared_ptr<QueueRuntime>;

  void Enqueue(CallPtr call);
  void Lease(CallPtr call);
  void Complete(CallPtr call);
  void Fail(CallPtr call);
  void Extend(CallPtr call);
  void Release(CallPtr call);
  void Peek(CallPtr call);
  void Describe(CallPtr call);
  void List(CallPtr call);

  // Runs `op` on the queue's strand, loading the queue first if need be; or ends the call with the
  // reason why not. An instance that is on its way out is replaced by a new one, a few times.
  using Op = UniqueFunction<void(const QueuePtr&, CallPtr)>;
  void WithQueue(const store::PhysicalQueueKey& key, CallPtr call, Op op, int tries = 0);
  // The same, but NOT_FOUND instead of creating a queue that is not there.
  void WithExistingQueue(const store::PhysicalQueueKey& key, CallPtr call, Op op);

  struct Listing;  // One List call under way.
  void ListPage(const std::shared_ptr<Listing>& listing, std::string token);
  static void FinishList(const std::shared_ptr<Listing>& listing);

  const QueueConfig config_;
  std::vector<exec::Executor*> executors_;
  store::AsyncTaskStore& store_;
  Log& log_;
  std::unique_ptr<backlog::BacklogMetrics> backlog_metrics_;
  ServiceMetrics metrics_;
  backlog::OwnerWatch owner_watch_;
  QueueEnvironment environment_;
  MayLoad may_load_;     // Empty = always.
  exec::Strand strand_;  // Store calls that belong to no queue: List, Describe of an unloaded one.
  matching::Registry<QueueRuntime> registry_;
};

}  // namespace millrace::queue
