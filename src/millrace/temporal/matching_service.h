#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backlog/owner_watch.h"
#include "millrace/base/log.h"
#include "millrace/base/metrics.h"
#include "millrace/base/random.h"
#include "millrace/exec/executor.h"
#include "millrace/matching/registry.h"
#include "millrace/rpc/service.h"
#include "millrace/store/async_task_store.h"
#include "millrace/temporal/history.h"
#include "millrace/temporal/long_waits.h"
#include "millrace/temporal/matching_config.h"
#include "millrace/temporal/matching_metrics.h"
#include "millrace/temporal/task_queue_name.h"
#include "millrace/temporal/task_queue_runtime.h"
#include "millrace/temporal/worker_shutdowns.h"

namespace millrace::temporal {

inline constexpr char kMatchingServiceName[] =
    "temporal.server.api.matchingservice.v1.MatchingService";
// What Temporal's tools ask the health of.
inline constexpr char kMatchingHealthName[] = "temporal.api.workflowservice.v1.MatchingService";

// Rows of the queue's root, which the runtime of all its partitions is known by. A queue of another
// kind that had the same rows would be the same queue.
[[nodiscard]] inline store::PhysicalQueueKey RootQueue(const Partition& partition) {
  return partition.is_child() ? partition.Sibling(0).UnversionedQueue()
                              : partition.UnversionedQueue();
}

// The matching service of a Temporal cluster: checks requests, finds or loads the task queue, and
// turns outcomes into replies. Methods that are not served answer UNIMPLEMENTED and say so.
//
// Thread: handlers from any executor thread; Stop from any thread. `executors` (at least one) run
// the queues, spread by name. Everything handed in outlives the service; the service is destroyed
// after Stop is done. Bounds: MatchingConfig.
class MatchingService {
 public:
  // `own_address`: what this host is called when a caller asks who has a partition.
  MatchingService(const MatchingConfig& config, std::string own_address,
                  std::vector<exec::Executor*> executors, store::AsyncTaskStore& store,
                  History& history, Random& random, Log& log, Metrics& metrics);
  ~MatchingService();
  MatchingService(const MatchingService&) = delete;
  MatchingService& operator=(const MatchingService&) = delete;

  // Adds the methods to `table`. The service must outlive the table's use.
  void Register(rpc::ServiceTable& table);

  // From here polls end empty and other calls get UNAVAILABLE. Queues are given up cleanly. `done`
  // runs once, on an executor thread or here. Once.
  void Stop(Closure done);

  [[nodiscard]] std::size_t loaded_queues() { return registry_.size(); }

 private:
  using CallPtr = std::unique_ptr<rpc::ServerCall>;
  using QueuePtr = std::shared_ptr<TaskQueueRuntime>;
  struct CountedReply;

  // service_adds.cc
  template <typename Request>
  void AddTask(TaskType type, CallPtr call);
  void AddTo(const Partition& partition, AddedTask task, CallPtr call, int tries);
  void AddToSticky(const Partition& partition, AddedTask task, CallPtr call);

  // service_polls.cc
  template <typename Request>
  void PollTasks(TaskType type, CallPtr call);
  void PollFrom(const Partition& partition, PollParams params, CallPtr call, int tries);
  void PollNexusTaskQueue(CallPtr call);
  void CancelOutstandingPoll(CallPtr call);
  void CancelOutstandingWorkerPolls(CallPtr call);
  void CancelOutstandingWorkerPollsPartition(CallPtr call);
  void CancelWorkers(std::string_view namespace_id, const std::vector<std::string>& worker_keys,
                     std::shared_ptr<CountedReply> reply);

  // service_describe.cc
  void DescribeTaskQueue(CallPtr call);
  void DescribeTaskQueuePartition(CallPtr call);
  void ListTaskQueuePartitions(CallPtr call);
  void ForceLoadTaskQueuePartition(CallPtr call);
  void ForceUnloadTaskQueuePartition(CallPtr call);
  void ForceUnloadTaskQueue(CallPtr call);
  void Look(const Partition& partition, UniqueFunction<void(Result<TaskQueueView>)> done);

  // service_user_data.cc
  void GetTaskQueueUserData(CallPtr call);
  void ListNexusEndpoints(CallPtr call);
  void RecordWorkerHeartbeat(CallPtr call);

  // When a call that may wait ends: `wait` from now or before its caller gives up.
  [[nodiscard]] Instant WaitUntil(const rpc::ServerCall& call, Duration wait) const;
  void Reject(CallPtr call, rpc::RpcStatus status);

  const MatchingConfig config_;
  const std::string own_address_;
  std::vector<exec::Executor*> executors_;
  std::unique_ptr<backlog::BacklogMetrics> backlog_metrics_;
  MatchingMetrics metrics_;
  backlog::OwnerWatch owner_watch_;
  TaskQueueEnvironment environment_;
  WorkerShutdowns shutdowns_;
  LongWaits long_waits_;
  std::atomic<bool> draining_ = false;
  matching::Registry<TaskQueueRuntime> registry_;
};

}  // namespace millrace::temporal
