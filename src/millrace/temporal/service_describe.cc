// MatchingService: looking at task queues, loading and unloading them.
#include <algorithm>
#include <utility>

#include "millrace/base/mutex.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/service_call.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"

namespace millrace::temporal {
namespace {

constexpr int kDefaultPriority = 3;
constexpr double kRateWithoutLimit = 100'000;

template <typename Pollers>
void FillPollers(const TaskQueueView& view, Pollers* out) {
  for (const PollerHistory::Entry& entry : view.pollers) {
    taskqueue_pb::PollerInfo* info = out->Add();
    info->ParseFromString(entry.about);
    SetTime(entry.last_wall, info->mutable_last_access_time());
  }
}

void FillStats(const TaskQueueView& view, taskqueue_pb::TaskQueueStats* out) {
  std::int64_t count = 0;
  Duration age{};
  for (const auto& [number, partition] : view.partitions) {
    count += partition.approximate_count;
    age = std::max(age, partition.head_age);
  }
  out->set_approximate_backlog_count(count);
  SetDuration(age, out->mutable_approximate_backlog_age());
  out->set_tasks_add_rate(static_cast<float>(view.add_rate));
  out->set_tasks_dispatch_rate(static_cast<float>(view.dispatch_rate));
}

void FillStatus(const TaskQueueView& view, std::int32_t partition,
                taskqueue_pb::TaskQueueStatus* out) {
  out->set_rate_per_second(kRateWithoutLimit);
  const auto it = view.partitions.find(partition);
  if (it == view.partitions.end()) return;
  const PartitionView& from = it->second;
  out->set_backlog_count_hint(from.approximate_count);
  out->set_read_level(from.backlog.read_level.id.value);
  out->set_ack_level(from.backlog.ack_level.id.value);
  out->mutable_task_id_block()->set_start_id(from.backlog.task_id_block.start.value);
  out->mutable_task_id_block()->set_end_id(from.backlog.task_id_block.end.value);
}

// One partition alone; rates are of the whole queue, and told by its root.
TaskQueueView OnlyPartition(TaskQueueView view, const Partition& partition) {
  std::erase_if(view.partitions,
                [&](const auto& other) { return other.first != partition.number; });
  if (partition.is_child()) view.add_rate = view.dispatch_rate = 0;
  return view;
}

void FillPhysical(const TaskQueueView& view, const Partition& partition,
                  const matching_pb::DescribeTaskQueuePartitionRequest& request,
                  partition_pb::PhysicalTaskQueueInfo* out) {
  if (request.report_pollers()) FillPollers(view, out->mutable_pollers());
  if (request.report_stats()) {
    FillStats(view, out->mutable_task_queue_stats());
    FillStats(view, &(*out->mutable_task_queue_stats_by_priority_key())[kDefaultPriority]);
  }
  const auto it = view.partitions.find(partition.number);
  if (!request.report_internal_task_queue_status() || it == view.partitions.end()) return;
  const backlog::InternalSubqueueStatus& from = it->second.internal;
  partition_pb::InternalTaskQueueStatus* status = out->add_internal_task_queue_status();
  status->set_read_level(from.read_level.id.value);
  status->set_ack_level(from.ack_level.id.value);
  status->mutable_task_id_block()->set_start_id(from.task_id_block.start.value);
  status->mutable_task_id_block()->set_end_id(from.task_id_block.end.value);
  status->set_loaded_tasks(from.loaded_tasks);
  status->set_max_read_level(from.max_read_level.value);
  status->set_approximate_backlog_count(from.approximate_count);
}

// Build ids that a caller wants to hear of; no selection means the unversioned queue.
bool WantsUnversioned(const taskqueue_pb::TaskQueueVersionSelection& versions) {
  const bool none = versions.build_ids().empty() && !versions.all_active();
  return versions.unversioned() || versions.all_active() || none ||
         std::any_of(versions.build_ids().begin(), versions.build_ids().end(),
                     [](const std::string& build_id) { return build_id.empty(); });
}

// The views of several types of one task queue, as they come in.
struct EnhancedReply {
  std::unique_ptr<rpc::ServerCall> call;
  bool report_stats = false;
  bool report_pollers = false;
  Mutex mutex;
  matching_pb::DescribeTaskQueueResponse response MR_GUARDED_BY(mutex);

  void Add(TaskType type, const TaskQueueView& view) {
    MutexLock lock(mutex);
    auto& version = (*response.mutable_desc_response()->mutable_versions_info())[""];
    auto& info = (*version.mutable_types_info())[static_cast<std::int32_t>(type)];
    if (report_pollers) FillPollers(view, info.mutable_pollers());
    if (report_stats) FillStats(view, info.mutable_stats());
  }
  ~EnhancedReply() {
    MutexLock lock(mutex);
    call->FinishOk(response.SerializeAsString());
  }
};

}  // namespace

void MatchingService::Look(const Partition& partition,
                           UniqueFunction<void(Result<TaskQueueView>)> done) {
  const QueuePtr queue = registry_.GetOrLoad(RootQueue(partition));
  if (queue == nullptr) {
    return done(Status(StatusCode::kShuttingDown, "the server is shutting down"));
  }
  TaskQueueRuntime& runtime = *queue;
  runtime.Visit(
      [queue, kind = partition.kind, done = std::move(done)](const Status& ready) mutable {
        if (!ready.ok()) return done(ready);
        queue->UseAs(kind);
        TaskQueueRuntime& known = *queue;
        known.WhenKnown([queue, done = std::move(done)]() mutable { done(queue->Describe()); });
      });
}

void MatchingService::DescribeTaskQueue(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::DescribeTaskQueueRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const auto& asked = request->desc_request();
  if (request->has_version()) {
    return Reject(std::move(call), UnimplementedError("DescribeTaskQueue of a worker version"));
  }
  const bool enhanced = asked.api_mode() == enums_pb::DESCRIBE_TASK_QUEUE_MODE_ENHANCED;
  const Result<TaskType> type =
      enhanced ? Result<TaskType>(TaskType::kWorkflow) : TaskTypeOf(asked.task_queue_type());
  if (!type.ok()) return Reject(std::move(call), EngineError(type.status()));
  Result<Partition> partition = PartitionOf(asked.task_queue(), request->namespace_id(), *type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (!IsUuid(request->namespace_id())) {
    return Reject(std::move(call), InvalidArgument("namespace_id is not a UUID"));
  }
  if (enhanced) {
    auto reply = std::make_shared<EnhancedReply>();
    reply->call = std::move(call);
    reply->report_stats = asked.report_stats();
    reply->report_pollers = asked.report_pollers();
    if (!WantsUnversioned(asked.versions())) return;
    for (const int number : asked.task_queue_types()) {
      const Result<TaskType> wanted = TaskTypeOf(number);
      if (!wanted.ok()) continue;
      Partition of_type = *partition;
      of_type.type = *wanted;
      Look(of_type, [reply, wanted = *wanted](const Result<TaskQueueView>& view) {
        if (view.ok()) reply->Add(wanted, *view);
      });
    }
    return;
  }
  const bool status = asked.include_task_queue_status();
  const bool stats = asked.report_stats();
  Look(*partition, [call = std::move(call), number = partition->number, status,
                    stats](const Result<TaskQueueView>& view) mutable {
    if (!view.ok()) return call->Finish(EngineError(view.status()), std::string());
    matching_pb::DescribeTaskQueueResponse response;
    auto* out = response.mutable_desc_response();
    FillPollers(*view, out->mutable_pollers());
    if (status) FillStatus(*view, number, out->mutable_task_queue_status());
    if (stats) {
      FillStats(*view, out->mutable_stats());
      FillStats(*view, &(*out->mutable_stats_by_priority_key())[kDefaultPriority]);
    }
    call->FinishOk(response.SerializeAsString());
  });
}

void MatchingService::DescribeTaskQueuePartition(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::DescribeTaskQueuePartitionRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  Result<Partition> partition =
      PartitionOf(request->task_queue_partition(), request->namespace_id());
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (!IsUuid(request->namespace_id())) {
    return Reject(std::move(call), InvalidArgument("namespace_id is not a UUID"));
  }
  if (request->only_if_loaded() && registry_.Find(RootQueue(*partition)) == nullptr) {
    return Reject(std::move(call), EngineError(Status(StatusCode::kFailedPrecondition,
                                                      "the partition is not loaded")));
  }
  if (!WantsUnversioned(request->versions())) return call->FinishOk(std::string());
  const Partition looked = *partition;
  Look(looked, [call = std::move(call), partition = std::move(*partition),
                request = *request](Result<TaskQueueView> view) mutable {
    if (!view.ok()) return call->Finish(EngineError(view.status()), std::string());
    matching_pb::DescribeTaskQueuePartitionResponse response;
    const TaskQueueView own = OnlyPartition(std::move(*view), partition);
    FillPhysical(
        own, partition, request,
        (*response.mutable_versions_info_internal())[""].mutable_physical_task_queue_info());
    call->FinishOk(response.SerializeAsString());
  });
}

void MatchingService::ListTaskQueuePartitions(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::ListTaskQueuePartitionsRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  Result<Partition> partition =
      PartitionOf(request->task_queue(), request->namespace_id(), TaskType::kWorkflow);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  matching_pb::ListTaskQueuePartitionsResponse response;
  const int count = partition->kind == QueueKind::kNormal ? config_.partitions : 1;
  for (int n = 0; n < count; ++n) {
    const std::string name = partition->kind == QueueKind::kNormal ? partition->Sibling(n).RpcName()
                                                                   : partition->RpcName();
    for (auto* out : {response.add_workflow_task_queue_partitions(),
                      response.add_activity_task_queue_partitions()}) {
      out->set_key(name);
      out->set_owner_host_name(own_address_);
    }
  }
  call->FinishOk(response.SerializeAsString());
}

void MatchingService::ForceLoadTaskQueuePartition(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::ForceLoadTaskQueuePartitionRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<Partition> partition =
      PartitionOf(request->task_queue_partition(), request->namespace_id());
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (!IsUuid(request->namespace_id())) {
    return Reject(std::move(call), InvalidArgument("namespace_id is not a UUID"));
  }
  const store::PhysicalQueueKey key = RootQueue(*partition);
  matching_pb::ForceLoadTaskQueuePartitionResponse response;
  response.set_was_unloaded(registry_.Find(key) == nullptr);
  if (registry_.GetOrLoad(key) == nullptr) {
    return call->Finish(
        EngineError(Status(StatusCode::kShuttingDown, "the server is shutting down")),
        std::string());
  }
  call->FinishOk(response.SerializeAsString());
}

void MatchingService::ForceUnloadTaskQueuePartition(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request =
      ParseRequest<matching_pb::ForceUnloadTaskQueuePartitionRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<Partition> partition =
      PartitionOf(request->task_queue_partition(), request->namespace_id());
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  const QueuePtr queue = registry_.Find(RootQueue(*partition));
  if (queue != nullptr) queue->ForceUnload();
  matching_pb::ForceUnloadTaskQueuePartitionResponse response;
  response.set_was_loaded(queue != nullptr);
  call->FinishOk(response.SerializeAsString());
}

void MatchingService::ForceUnloadTaskQueue(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::ForceUnloadTaskQueueRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<TaskType> type = TaskTypeOf(request->task_queue_type());
  if (!type.ok()) return Reject(std::move(call), EngineError(type.status()));
  taskqueue_pb::TaskQueue named;
  named.set_name(request->task_queue());
  const Result<Partition> partition = PartitionOf(named, request->namespace_id(), *type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  const QueuePtr queue = registry_.Find(RootQueue(*partition));
  if (queue != nullptr) queue->ForceUnload();
  matching_pb::ForceUnloadTaskQueueResponse response;
  response.set_was_loaded(queue != nullptr);
  call->FinishOk(response.SerializeAsString());
}

}  // namespace millrace::temporal
