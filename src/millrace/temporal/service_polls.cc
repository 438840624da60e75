// MatchingService: polls, and ending them.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "millrace/base/mutex.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/service_call.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"

namespace millrace::temporal {
namespace {

constexpr int kInstanceTriesMax = 4;
// What is told of a worker's rate limit when it has none.
constexpr double kRateWithoutLimit = 100'000;

template <typename PollRequest>
std::string AboutWorker(const PollRequest& poll) {
  taskqueue_pb::PollerInfo info;
  info.set_identity(poll.identity());
  info.set_rate_per_second(kRateWithoutLimit);
  if constexpr (std::is_same_v<PollRequest, workflow_pb::PollActivityTaskQueueRequest>) {
    if (poll.task_queue_metadata().has_max_tasks_per_second()) {
      info.set_rate_per_second(poll.task_queue_metadata().max_tasks_per_second().value());
    }
  }
  if (poll.has_worker_version_capabilities()) {
    *info.mutable_worker_version_capabilities() = poll.worker_version_capabilities();
  }
  if (poll.has_deployment_options()) *info.mutable_deployment_options() = poll.deployment_options();
  return info.SerializeAsString();
}

template <typename PollRequest>
bool IsVersioned(const PollRequest& poll) {
  return poll.worker_version_capabilities().use_versioning() ||
         poll.deployment_options().worker_versioning_mode() ==
             enums_pb::WORKER_VERSIONING_MODE_VERSIONED;
}

}  // namespace

// Ends a call with the number of polls cancelled, once everybody has said theirs.
struct MatchingService::CountedReply {
  CallPtr call;
  std::atomic<std::int32_t> cancelled = 0;

  ~CountedReply() {
    // Both responses have the number in field 1.
    matching_pb::CancelOutstandingWorkerPollsResponse response;
    response.set_cancelled_count(cancelled.load());
    call->FinishOk(response.SerializeAsString());
  }
};

template <typename Request>
void MatchingService::PollTasks(TaskType type, CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<Request>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const auto& poll = request->poll_request();
  Result<Partition> partition = PartitionOf(poll.task_queue(), request->namespace_id(), type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (!IsUuid(request->namespace_id())) {
    return Reject(std::move(call), InvalidArgument("namespace_id is not a UUID"));
  }
  if (partition->kind == QueueKind::kSticky && type != TaskType::kWorkflow) {
    return Reject(std::move(call), InvalidArgument("a sticky queue has workflow tasks only"));
  }
  if (IsVersioned(poll)) return Reject(std::move(call), UnimplementedError("worker versioning"));
  PollParams params;
  params.poller_id = request->poller_id();
  params.identity = poll.identity();
  params.worker_key = poll.worker_instance_key();
  params.namespace_name = poll.namespace_();
  params.poll_request = poll.SerializeAsString();
  params.about = AboutWorker(poll);
  params.deadline = WaitUntil(*call, config_.poll_wait_max);
  params.no_wait = request->conditions().no_wait();
  params.ticket = std::make_shared<PollTicket>();
  PollFrom(*partition, std::move(params), std::move(call), 0);
}

template void MatchingService::PollTasks<matching_pb::PollWorkflowTaskQueueRequest>(TaskType,
                                                                                    CallPtr);
template void MatchingService::PollTasks<matching_pb::PollActivityTaskQueueRequest>(TaskType,
                                                                                    CallPtr);

void MatchingService::PollFrom(const Partition& partition, PollParams params, CallPtr call,
                               int tries) {
  QueuePtr queue = registry_.GetOrLoad(RootQueue(partition));
  if (queue == nullptr || tries >= kInstanceTriesMax) return call->FinishOk(std::string());
  TaskQueueRuntime& runtime = *queue;
  runtime.Run([this, queue = std::move(queue), partition, params = std::move(params),
               call = std::move(call), tries](const Status& ready) mutable {
    if (!ready.ok()) return PollFrom(partition, std::move(params), std::move(call), tries + 1);
    if (shutdowns_.Contains(params.worker_key, executors_.front()->clock().Now())) {
      return call->FinishOk(std::string());
    }
    queue->UseAs(partition.kind);
    // The call lives until the poll is answered, and cancelling comes before that or not at all.
    rpc::ServerCall* raw = call.get();
    std::shared_ptr<PollTicket> ticket = params.ticket;
    const TaskQueueRuntime::PollId poll =
        queue->Poll(std::move(params), [call = std::move(call)](PollOutcome outcome) mutable {
          call->Finish(std::move(outcome.status), std::move(outcome.response));
        });
    raw->OnCancel([weak = std::weak_ptr(queue), ticket = std::move(ticket), poll] {
      ticket->gone.store(true, std::memory_order_release);
      const QueuePtr alive = weak.lock();
      if (alive == nullptr) return;
      TaskQueueRuntime& waiting = *alive;
      waiting.Visit([alive, poll](const Status& status) {
        if (status.ok()) alive->CancelPoll(poll);
      });
    });
  });
}

void MatchingService::PollNexusTaskQueue(CallPtr call) {
  // Nobody can dispatch a Nexus task here, so none will ever come.
  const Instant until = WaitUntil(*call, config_.poll_wait_max);
  long_waits_.Add(std::move(call), until, std::string());
}

void MatchingService::CancelOutstandingPoll(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::CancelOutstandingPollRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<TaskType> type = TaskTypeOf(request->task_queue_type());
  if (!type.ok()) return Reject(std::move(call), EngineError(type.status()));
  const Result<Partition> partition =
      PartitionOf(request->task_queue(), request->namespace_id(), *type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  const QueuePtr queue = registry_.Find(RootQueue(*partition));
  if (queue == nullptr) return call->FinishOk(std::string());
  TaskQueueRuntime& runtime = *queue;
  runtime.Visit(
      [queue, call = std::move(call), poller_id = request->poller_id()](const Status& status) {
        if (status.ok()) queue->CancelPoller(poller_id);
        call->FinishOk(std::string());
      });
}

void MatchingService::CancelWorkers(std::string_view namespace_id,
                                    const std::vector<std::string>& worker_keys,
                                    std::shared_ptr<CountedReply> reply) {
  const Instant now = executors_.front()->clock().Now();
  std::vector<std::string> keys;
  for (const std::string& key : worker_keys) {
    if (key.empty()) continue;
    shutdowns_.Add(key, now);
    keys.push_back(key);
  }
  if (keys.empty()) return;
  // A worker polls several queues: all of its polls end.
  for (const QueuePtr& queue : registry_.Loaded()) {
    if (queue->key().namespace_id != namespace_id) continue;
    queue->Visit([queue, keys, reply](const Status& status) {
      if (!status.ok()) return;
      for (const std::string& key : keys) reply->cancelled += queue->CancelWorker(key);
    });
  }
}

void MatchingService::CancelOutstandingWorkerPolls(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::CancelOutstandingWorkerPollsRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<TaskType> type = TaskTypeOf(request->task_queue_type());
  if (!type.ok()) return Reject(std::move(call), EngineError(type.status()));
  const Result<Partition> partition =
      PartitionOf(request->task_queue(), request->namespace_id(), *type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  auto reply = std::make_shared<CountedReply>();
  reply->call = std::move(call);
  const QueuePtr queue = registry_.Find(RootQueue(*partition));
  if (queue != nullptr && !request->worker_identity().empty()) {
    queue->Visit([queue, reply, identity = request->worker_identity()](const Status& status) {
      if (status.ok()) queue->ForgetPoller(identity);
    });
  }
  CancelWorkers(request->namespace_id(), {request->worker_instance_key()}, reply);
}

void MatchingService::CancelOutstandingWorkerPollsPartition(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request =
      ParseRequest<matching_pb::CancelOutstandingWorkerPollsPartitionRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  std::vector<std::string> keys;
  std::vector<std::string> identities;
  for (const auto& worker : request->workers()) {
    keys.push_back(worker.worker_instance_key());
    if (!worker.worker_identity().empty()) identities.push_back(worker.worker_identity());
  }
  std::vector<Partition> partitions;
  for (const auto& named : request->partitions()) {
    Result<Partition> partition = PartitionOf(named, request->namespace_id());
    if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
    partitions.push_back(std::move(*partition));
  }
  auto reply = std::make_shared<CountedReply>();
  reply->call = std::move(call);
  if (partitions.empty()) return;
  for (const Partition& partition : partitions) {
    const QueuePtr queue = registry_.Find(RootQueue(partition));
    if (queue == nullptr) continue;
    queue->Visit([queue, reply, identities](const Status& status) {
      if (!status.ok()) return;
      for (const std::string& identity : identities) queue->ForgetPoller(identity);
    });
  }
  CancelWorkers(request->namespace_id(), keys, reply);
}

}  // namespace millrace::temporal
