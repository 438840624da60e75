// MatchingService: what the cluster keeps of task queues and workers beside their tasks. This
// server keeps none of it yet, and answers as one does that has nothing.
#include <utility>

#include "millrace/temporal/error_details.h"
#include "millrace/temporal/matching_service.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/service_call.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"

namespace millrace::temporal {

void MatchingService::GetTaskQueueUserData(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::GetTaskQueueUserDataRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  const Result<TaskType> type = TaskTypeOf(request->task_queue_type());
  if (!type.ok()) return Reject(std::move(call), EngineError(type.status()));
  taskqueue_pb::TaskQueue named;
  named.set_name(request->task_queue());
  const Result<Partition> partition = PartitionOf(named, request->namespace_id(), *type);
  if (!partition.ok()) return Reject(std::move(call), EngineError(partition.status()));
  if (request->last_known_user_data_version() < 0) {
    return Reject(std::move(call),
                  InvalidArgument("last_known_user_data_version must not be negative"));
  }
  if (request->only_if_loaded() && registry_.Find(RootQueue(*partition)) == nullptr) {
    return call->Finish(
        EngineError(Status(StatusCode::kFailedPrecondition, "the partition is not loaded")),
        std::string());
  }
  if (!request->wait_new_data()) return call->FinishOk(std::string());
  const Instant until = WaitUntil(*call, config_.user_data_wait_max);
  long_waits_.Add(std::move(call), until, std::string());
}

void MatchingService::ListNexusEndpoints(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::ListNexusEndpointsRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  if (request->wait() && !request->next_page_token().empty()) {
    return Reject(std::move(call), InvalidArgument("only the first page can be waited for"));
  }
  if (!request->next_page_token().empty()) {
    return Reject(std::move(call), InvalidArgument("next_page_token is not of this server"));
  }
  if (!request->wait() && request->last_known_table_version() != 0) {
    return call->Finish(EngineError(Status(StatusCode::kFailedPrecondition,
                                           "nexus endpoints table version mismatch")),
                        std::string());
  }
  // The table is empty at version 0; whoever knows another version hears of it at once.
  if (!request->wait() || request->last_known_table_version() != 0) {
    return call->FinishOk(std::string());
  }
  const Instant until = WaitUntil(*call, config_.user_data_wait_max);
  long_waits_.Add(std::move(call), until, std::string());
}

void MatchingService::RecordWorkerHeartbeat(CallPtr call) {
  google::protobuf::Arena arena;
  const auto* request = ParseRequest<matching_pb::RecordWorkerHeartbeatRequest>(arena, call);
  if (request == nullptr) return metrics_.rejected.Increment();
  call->FinishOk(std::string());
}

}  // namespace millrace::temporal
