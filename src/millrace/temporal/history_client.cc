#include "millrace/temporal/history_client.h"

#include <utility>

#include "millrace/temporal/error_details.h"
#include "millrace/temporal/history_calls.h"
#include "millrace/temporal/poll_reply.h"
#include "millrace/temporal/proto_names.h"

namespace millrace::temporal {
namespace {

constexpr std::string_view kStartWorkflowTask =
    "/temporal.server.api.historyservice.v1.HistoryService/RecordWorkflowTaskStarted";
constexpr std::string_view kStartActivityTask =
    "/temporal.server.api.historyservice.v1.HistoryService/RecordActivityTaskStarted";
constexpr std::string_view kIsWorkflowTaskValid =
    "/temporal.server.api.historyservice.v1.HistoryService/IsWorkflowTaskValid";
constexpr std::string_view kIsActivityTaskValid =
    "/temporal.server.api.historyservice.v1.HistoryService/IsActivityTaskValid";
constexpr std::string_view kGetMutableState =
    "/temporal.server.api.historyservice.v1.HistoryService/GetMutableState";
constexpr std::string_view kGetHistory =
    "/temporal.server.api.historyservice.v1.HistoryService/GetWorkflowExecutionHistory";

constexpr int kHistoryPageSize = 256;

using CallDone = UniqueFunction<void(rpc::RpcStatus, std::string)>;

rpc::RpcStatus Nonsense(std::string_view what) {
  return {rpc::Code::kInternal, "history sent a malformed answer: " + std::string(what), {}};
}

std::unique_ptr<HistoryCall> MakeCall(std::string_view method,
                                      const google::protobuf::Message& request, std::int32_t shard,
                                      Instant deadline, CallDone done) {
  auto call = std::make_unique<HistoryCall>();
  call->method = method;
  request.SerializeToString(&call->request);
  call->shard = shard;
  call->deadline = deadline;
  call->done = std::move(done);
  return call;
}

StartResult Failed(rpc::RpcStatus status) {
  StartResult result;
  result.outcome = ClassifyStart(status);
  result.status = std::move(status);
  return result;
}

StartResult WorkflowResult(const persistence_pb::TaskInfo& task, rpc::RpcStatus status,
                           const std::string& response) {
  if (!status.ok()) return Failed(std::move(status));
  history_pb::RecordWorkflowTaskStartedResponse started;
  if (!started.ParseFromString(response)) return Failed(Nonsense("a started workflow task"));
  StartResult result;
  result.outcome = ClassifyStart(status);
  WorkflowPollReply(task, std::move(started)).SerializeToString(&result.response);
  return result;
}

StartResult ActivityResult(const persistence_pb::TaskInfo& task, rpc::RpcStatus status,
                           const std::string& response) {
  if (!status.ok()) return Failed(std::move(status));
  history_pb::RecordActivityTaskStartedResponse started;
  if (!started.ParseFromString(response)) return Failed(Nonsense("a started activity task"));
  const auto reply = ActivityPollReply(task, std::move(started));
  if (!reply.ok()) return Failed(Nonsense(reply.status().message()));
  StartResult result;
  result.outcome = ClassifyStart(status);
  reply->SerializeToString(&result.response);
  return result;
}

template <typename Response>
ValidResult ReadValid(rpc::RpcStatus status, const std::string& response) {
  ValidResult result;
  result.status = std::move(status);
  Response valid;
  if (!result.status.ok()) return result;
  if (!valid.ParseFromString(response)) {
    result.status = Nonsense("whether a task is valid");
    return result;
  }
  result.valid = valid.is_valid();
  return result;
}

template <typename Request>
void FillValid(const persistence_pb::TaskInfo& task, Request& request) {
  request.set_namespace_id(task.namespace_id());
  request.mutable_execution()->set_workflow_id(task.workflow_id());
  request.mutable_execution()->set_run_id(task.run_id());
  if (task.has_clock()) request.set_clock(task.clock());
  request.set_scheduled_event_id(task.scheduled_event_id());
  request.set_stamp(task.stamp());
}

// A query on its way to a worker.
struct OpenQuery {
  matching_pb::QueryWorkflowRequest query;
  std::string token;
  std::string polled_queue;
  std::int32_t shard = 1;
  Instant deadline;
  UniqueFunction<void(QueryStartResult)> done;
  history_pb::GetMutableStateResponse state;
};

void AnswerQuery(std::unique_ptr<OpenQuery> open, bool sticky,
                 history_pb::GetWorkflowExecutionHistoryResponse history) {
  QueryStartResult result;
  QueryPollReply(open->query, std::move(open->token), sticky, std::move(open->state),
                 std::move(history))
      .SerializeToString(&result.response);
  open->done(std::move(result));
}

void OnQueryHistory(std::unique_ptr<OpenQuery> open, rpc::RpcStatus status,
                    const std::string& response) {
  history_pb::GetWorkflowExecutionHistoryResponse history;
  if (status.ok() && !history.ParseFromString(response)) status = Nonsense("a history");
  if (!status.ok()) {
    open->done({std::move(status), {}});
    return;
  }
  AnswerQuery(std::move(open), false, std::move(history));
}

void OnQueryState(const std::shared_ptr<HistoryCalls>& calls, std::unique_ptr<OpenQuery> open,
                  rpc::RpcStatus status, const std::string& response) {
  if (status.ok() && !open->state.ParseFromString(response)) status = Nonsense("a mutable state");
  if (!status.ok()) {
    open->done({std::move(status), {}});
    return;
  }
  // The workflow may have left a sticky queue whose worker is long gone; then this one needs all.
  if (open->polled_queue == open->state.sticky_task_queue().name()) {
    AnswerQuery(std::move(open), true, {});
    return;
  }
  history_pb::GetWorkflowExecutionHistoryRequest request;
  request.set_namespace_id(open->query.namespace_id());
  auto& page = *request.mutable_request();
  page.set_namespace_(open->query.query_request().namespace_());
  *page.mutable_execution() = open->query.query_request().execution();
  page.set_maximum_page_size(kHistoryPageSize);
  page.set_skip_archival(true);
  const std::int32_t shard = open->shard;
  const Instant deadline = open->deadline;
  std::string caller = open->query.query_request().namespace_();
  auto call =
      MakeCall(kGetHistory, request, shard, deadline,
               [open = std::move(open)](rpc::RpcStatus ended, const std::string& bytes) mutable {
                 OnQueryHistory(std::move(open), std::move(ended), bytes);
               });
  call->caller = std::move(caller);
  calls->Start(std::move(call));
}

}  // namespace

Status CheckHistoryClientConfig(const HistoryClientConfig& config) {
  if (config.hosts.empty()) return {StatusCode::kInvalidArgument, "no history host is given"};
  for (const std::string& host : config.hosts) {
    if (!IsHostAddress(host)) {
      return {StatusCode::kInvalidArgument, "history host '" + host + "' is not host:port"};
    }
  }
  if (config.shards <= 0) {
    return {StatusCode::kInvalidArgument, "the number of history shards must be above 0"};
  }
  return {};
}

HistoryClient::HistoryClient(HistoryClientConfig config, std::vector<exec::EventLoop*> loops)
    : calls_(std::make_shared<HistoryCalls>(std::move(config), std::move(loops))) {}

HistoryClient::~HistoryClient() { calls_->Close(); }

void HistoryClient::StartTask(StartRequest request, UniqueFunction<void(StartResult)> done) {
  persistence_pb::TaskInfo task;
  if (!task.ParseFromString(request.task)) {
    calls_->Post([done = std::move(done)]() mutable {
      done(Failed({rpc::Code::kDataLoss, "the stored task is malformed", {}}));
    });
    return;
  }
  const std::int32_t shard = calls_->ShardOf(task.namespace_id(), task.workflow_id());
  std::unique_ptr<HistoryCall> call;
  if (request.type == TaskType::kWorkflow) {
    const auto message =
        StartWorkflowTask(task, std::move(request.poll_request), std::move(request.request_id));
    call = MakeCall(kStartWorkflowTask, message, shard, request.deadline,
                    [task = std::move(task), done = std::move(done)](
                        rpc::RpcStatus status, const std::string& response) mutable {
                      done(WorkflowResult(task, std::move(status), response));
                    });
  } else {
    const auto message =
        StartActivityTask(task, std::move(request.poll_request), std::move(request.request_id));
    call = MakeCall(kStartActivityTask, message, shard, request.deadline,
                    [task = std::move(task), done = std::move(done)](
                        rpc::RpcStatus status, const std::string& response) mutable {
                      done(ActivityResult(task, std::move(status), response));
                    });
  }
  call->caller = std::move(request.namespace_name);
  calls_->Start(std::move(call));
}

void HistoryClient::IsTaskValid(TaskType type, std::string task_bytes, Instant deadline,
                                UniqueFunction<void(ValidResult)> done) {
  persistence_pb::TaskInfo task;
  if (!task.ParseFromString(task_bytes)) {
    calls_->Post([done = std::move(done)]() mutable {
      done({{rpc::Code::kDataLoss, "the stored task is malformed", {}}, true});
    });
    return;
  }
  const std::int32_t shard = calls_->ShardOf(task.namespace_id(), task.workflow_id());
  if (type == TaskType::kWorkflow) {
    history_pb::IsWorkflowTaskValidRequest request;
    FillValid(task, request);
    calls_->Start(MakeCall(
        kIsWorkflowTaskValid, request, shard, deadline,
        [done = std::move(done)](rpc::RpcStatus status, const std::string& response) mutable {
          done(ReadValid<history_pb::IsWorkflowTaskValidResponse>(std::move(status), response));
        }));
    return;
  }
  history_pb::IsActivityTaskValidRequest request;
  FillValid(task, request);
  request.set_component_ref(task.component_ref());
  calls_->Start(MakeCall(
      kIsActivityTaskValid, request, shard, deadline,
      [done = std::move(done)](rpc::RpcStatus status, const std::string& response) mutable {
        done(ReadValid<history_pb::IsActivityTaskValidResponse>(std::move(status), response));
      }));
}

void HistoryClient::StartQuery(QueryStart query, UniqueFunction<void(QueryStartResult)> done) {
  auto open = std::make_unique<OpenQuery>();
  if (!open->query.ParseFromString(query.query)) {
    calls_->Post([done = std::move(done)]() mutable {
      done({{rpc::Code::kInvalidArgument, "the query is malformed", {}}, {}});
    });
    return;
  }
  const auto& execution = open->query.query_request().execution();
  open->token = std::move(query.token);
  open->polled_queue = std::move(query.polled_queue);
  open->shard = calls_->ShardOf(open->query.namespace_id(), execution.workflow_id());
  open->deadline = query.deadline;
  open->done = std::move(done);
  history_pb::GetMutableStateRequest request;
  request.set_namespace_id(open->query.namespace_id());
  *request.mutable_execution() = execution;
  const std::int32_t shard = open->shard;
  std::string caller = open->query.query_request().namespace_();
  auto call = MakeCall(kGetMutableState, request, shard, query.deadline,
                       [calls = calls_, open = std::move(open)](
                           rpc::RpcStatus status, const std::string& response) mutable {
                         OnQueryState(calls, std::move(open), std::move(status), response);
                       });
  call->caller = std::move(caller);
  calls_->Start(std::move(call));
}

void AppendBacklogHint(std::string& response, std::int64_t hint) {
  matching_pb::PollWorkflowTaskQueueResponse part;
  part.set_backlog_count_hint(hint);
  part.AppendToString(&response);
}

}  // namespace millrace::temporal
