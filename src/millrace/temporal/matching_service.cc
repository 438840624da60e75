#include "millrace/temporal/matching_service.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "millrace/backlog/metrics.h"
#include "millrace/temporal/error_details.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"

namespace millrace::temporal {
namespace {

// All that a Temporal 1.32 cluster knows of this service.
constexpr const char* kMethods[] = {
    "PollWorkflowTaskQueue",
    "PollActivityTaskQueue",
    "AddWorkflowTask",
    "AddActivityTask",
    "QueryWorkflow",
    "RespondQueryTaskCompleted",
    "DispatchNexusTask",
    "PollNexusTaskQueue",
    "RespondNexusTaskCompleted",
    "RespondNexusTaskFailed",
    "CancelOutstandingPoll",
    "CancelOutstandingWorkerPolls",
    "CancelOutstandingWorkerPollsPartition",
    "DescribeTaskQueue",
    "DescribeTaskQueuePartition",
    "DescribeVersionedTaskQueues",
    "ListTaskQueuePartitions",
    "UpdateWorkerBuildIdCompatibility",
    "GetWorkerBuildIdCompatibility",
    "GetTaskQueueUserData",
    "UpdateWorkerVersioningRules",
    "GetWorkerVersioningRules",
    "SyncDeploymentUserData",
    "ApplyTaskQueueUserDataReplicationEvent",
    "GetBuildIdTaskQueueMapping",
    "ForceLoadTaskQueuePartition",
    "ForceUnloadTaskQueue",
    "ForceUnloadTaskQueuePartition",
    "UpdateTaskQueueUserData",
    "ReplicateTaskQueueUserData",
    "CheckTaskQueueUserDataPropagation",
    "CreateNexusEndpoint",
    "UpdateNexusEndpoint",
    "DeleteNexusEndpoint",
    "ListNexusEndpoints",
    "RecordWorkerHeartbeat",
    "ListWorkers",
    "CountWorkers",
    "UpdateTaskQueueConfig",
    "DescribeWorker",
    "UpdateFairnessState",
    "CheckTaskQueueVersionMembership",
};

}  // namespace

MatchingService::MatchingService(const MatchingConfig& config, std::string own_address,
                                 std::vector<exec::Executor*> executors,
                                 store::AsyncTaskStore& store, History& history, Random& random,
                                 Log& log, Metrics& metrics)
    : config_(config),
      own_address_(std::move(own_address)),
      executors_(std::move(executors)),
      backlog_metrics_(
          std::make_unique<backlog::BacklogMetrics>(backlog::BacklogMetrics::Create(metrics))),
      metrics_(metrics),
      owner_watch_(store, *executors_.front(), config_.backlog.update_interval),
      environment_{
          {config_, store, owner_watch_, random, *backlog_metrics_, log}, history, metrics_},
      shutdowns_(config_.worker_shutdown_memory, config_.worker_shutdowns_max),
      long_waits_(*executors_.front(), config_.long_waits_max),
      registry_(
          [this](const store::PhysicalQueueKey& key) {
            const std::size_t slot =
                std::hash<std::string>()(key.persistence_name) % executors_.size();
            return std::make_shared<TaskQueueRuntime>(key, environment_, *executors_[slot]);
          },
          *executors_.front(), config_.idle_unload, log) {}

MatchingService::~MatchingService() = default;

void MatchingService::Register(rpc::ServiceTable& table) {
  const std::string prefix = "/" + std::string(kMatchingServiceName) + "/";
  const auto add = [&](const char* method, auto handler) {
    table.unary.emplace(prefix + method, std::move(handler));
  };
  const auto member = [&](const char* method, void (MatchingService::*handler)(CallPtr)) {
    add(method, [this, handler](CallPtr call) { (this->*handler)(std::move(call)); });
  };
  add("AddWorkflowTask", [this](CallPtr call) {
    AddTask<::temporal::server::api::matchingservice::v1::AddWorkflowTaskRequest>(
        TaskType::kWorkflow, std::move(call));
  });
  add("AddActivityTask", [this](CallPtr call) {
    AddTask<::temporal::server::api::matchingservice::v1::AddActivityTaskRequest>(
        TaskType::kActivity, std::move(call));
  });
  add("PollWorkflowTaskQueue", [this](CallPtr call) {
    PollTasks<::temporal::server::api::matchingservice::v1::PollWorkflowTaskQueueRequest>(
        TaskType::kWorkflow, std::move(call));
  });
  add("PollActivityTaskQueue", [this](CallPtr call) {
    PollTasks<::temporal::server::api::matchingservice::v1::PollActivityTaskQueueRequest>(
        TaskType::kActivity, std::move(call));
  });
  member("PollNexusTaskQueue", &MatchingService::PollNexusTaskQueue);
  member("CancelOutstandingPoll", &MatchingService::CancelOutstandingPoll);
  member("CancelOutstandingWorkerPolls", &MatchingService::CancelOutstandingWorkerPolls);
  member("CancelOutstandingWorkerPollsPartition",
         &MatchingService::CancelOutstandingWorkerPollsPartition);
  member("DescribeTaskQueue", &MatchingService::DescribeTaskQueue);
  member("DescribeTaskQueuePartition", &MatchingService::DescribeTaskQueuePartition);
  member("ListTaskQueuePartitions", &MatchingService::ListTaskQueuePartitions);
  member("ForceLoadTaskQueuePartition", &MatchingService::ForceLoadTaskQueuePartition);
  member("ForceUnloadTaskQueuePartition", &MatchingService::ForceUnloadTaskQueuePartition);
  member("ForceUnloadTaskQueue", &MatchingService::ForceUnloadTaskQueue);
  member("GetTaskQueueUserData", &MatchingService::GetTaskQueueUserData);
  member("ListNexusEndpoints", &MatchingService::ListNexusEndpoints);
  member("RecordWorkerHeartbeat", &MatchingService::RecordWorkerHeartbeat);
  for (const char* method : kMethods) {
    if (table.unary.contains(prefix + method)) continue;
    add(method,
        [this, method](CallPtr call) { Reject(std::move(call), UnimplementedError(method)); });
  }
  table.services.emplace_back(kMatchingServiceName);
  table.services.emplace_back(kMatchingHealthName);
}

void MatchingService::Stop(Closure done) {
  draining_.store(true, std::memory_order_relaxed);
  long_waits_.Stop(
      [this, done = std::move(done)]() mutable { registry_.StopAll(std::move(done)); });
}

Instant MatchingService::WaitUntil(const rpc::ServerCall& call, Duration wait) const {
  const Instant now = executors_.front()->clock().Now();
  return std::max(now, std::min(now + wait, call.deadline() - config_.poll_deadline_margin));
}

void MatchingService::Reject(CallPtr call, rpc::RpcStatus status) {
  metrics_.rejected.Increment();
  call->Finish(std::move(status), std::string());
}

}  // namespace millrace::temporal
