// MatchingService: AddWorkflowTask and AddActivityTask.
#include <type_traits>
#include <utility>

#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/service_call.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::temporal {
namespace {

constexpr int kInstanceTriesMax = 4;
constexpr std::int32_t kPinned = 1;  // temporal.api.enums.v1.VersioningBehavior

// Whether a task may only go to workers of a certain version.
bool IsVersioned(const std::string& directive_bytes) {
  partition_pb::TaskVersionDirective directive;
  if (!directive.ParseFromString(directive_bytes)) return false;
  if (!directive.assigned_build_id().empty()) return true;
  return directive.behavior() == kPinned &&
         (directive.has_deployment() || directive.has_deployment_version());
}

template <typename Request>
AddedTask TaskFrom(const Request& request, WallTime now) {
  AddedTask task;
  task.create_time = now;
  const Duration life = LifeFrom(request.schedule_to_start_timeout());
  if (life > Duration::zero()) task.expiry_time = now + life;
  persistence_pb::TaskInfo info;
  info.set_namespace_id(request.namespace_id());
  info.set_workflow_id(request.execution().workflow_id());
  info.set_run_id(request.execution().run_id());
  info.set_scheduled_event_id(request.scheduled_event_id());
  SetTime(now, info.mutable_create_time());
  if (task.expiry_time.is_set()) SetTime(task.expiry_time, info.mutable_expiry_time());
  if (request.has_clock()) info.set_clock(request.clock());
  if (request.has_version_directive()) info.set_version_directive(request.version_directive());
  info.set_stamp(request.stamp());
  if (request.has_priority()) request.priority().SerializeToString(info.mutable_priority());
  if constexpr (std::is_same_v<Request, matching_pb::AddActivityTaskRequest>) {
    info.set_component_ref(request.component_ref());
  }
  task.payload = info.SerializeAsString();
  task.forwarded = request.has_forward_info();
  return task;
}

}  // namespace

template <typename Request>
void MatchingService::AddTask(TaskType type, CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<Request>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  Result<Partition> partition = PartitionOf(request->task_queue(), request->namespace_id(), type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (!IsUuid(request->namespace_id())) {
    return Reject(std::move(call), InvalidArgument("namespace_id is not a UUID"));
  }
  if (partition->kind == QueueKind::kSticky && type != TaskType::kWorkflow) {
    return Reject(std::move(call), InvalidArgument("a sticky queue takes workflow tasks only"));
  }
  if (IsVersioned(request->version_directive())) {
    return Reject(std::move(call), UnimplementedError("a task for workers of one version"));
  }
  AddedTask task = TaskFrom(*request, executors_.front()->clock().WallNow());
  if (partition->kind == QueueKind::kSticky) {
    return AddToSticky(*partition, std::move(task), std::move(call));
  }
  AddTo(*partition, std::move(task), std::move(call), 0);
}

template void MatchingService::AddTask<matching_pb::AddWorkflowTaskRequest>(TaskType, CallPtr);
template void MatchingService::AddTask<matching_pb::AddActivityTaskRequest>(TaskType, CallPtr);

void MatchingService::AddToSticky(const Partition& partition, AddedTask task, CallPtr call) {
  const auto refuse = [this](CallPtr refused) {
    metrics_.sticky_refusals.Increment();
    refused->Finish(StickyWorkerUnavailableError(), std::string());
  };
  // One that is not loaded had no poll for a long time.
  QueuePtr queue = registry_.Find(RootQueue(partition));
  if (queue == nullptr) return refuse(std::move(call));
  TaskQueueRuntime& runtime = *queue;
  runtime.Visit([this, refuse, queue = std::move(queue), partition, task = std::move(task),
                 call = std::move(call)](const Status& ready) mutable {
    if (!ready.ok() || !queue->PolledWithin(config_.sticky_unavailable_after)) {
      return refuse(std::move(call));
    }
    AddTo(partition, std::move(task), std::move(call), 0);
  });
}

void MatchingService::AddTo(const Partition& partition, AddedTask task, CallPtr call, int tries) {
  QueuePtr queue = registry_.GetOrLoad(RootQueue(partition));
  if (queue == nullptr || tries >= kInstanceTriesMax) {
    return call->Finish(
        EngineError(Status(StatusCode::kShuttingDown, "the task queue is changing hands")),
        std::string());
  }
  TaskQueueRuntime& runtime = *queue;
  runtime.Run([this, queue = std::move(queue), partition, task = std::move(task),
               call = std::move(call), tries](const Status& ready) mutable {
    if (!ready.ok()) return AddTo(partition, std::move(task), std::move(call), tries + 1);
    queue->UseAs(partition.kind);
    const std::int32_t number = partition.number;
    queue->Add(number, std::move(task),
               [this, partition = std::move(partition), call = std::move(call),
                tries](TaskQueueRuntime::AddOutcome outcome) mutable {
                 if (outcome.retry) {
                   return AddTo(partition, std::move(outcome.task), std::move(call), tries + 1);
                 }
                 // Neither response says anything without versioning.
                 call->Finish(std::move(outcome.status), std::string());
               });
  });
}

}  // namespace millrace::temporal
