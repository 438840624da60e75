#include "millrace/temporal/poll_reply.h"

#include <optional>
#include <utility>

#include "millrace/temporal/proto_names.h"
#include "temporal/server/api/token/v1/message.pb.h"

namespace millrace::temporal {
namespace {

constexpr int kProtobufEncoding = 1;

void SetExecution(const persistence_pb::TaskInfo& task, common_pb::WorkflowExecution& execution) {
  execution.set_workflow_id(task.workflow_id());
  execution.set_run_id(task.run_id());
}

// The deployment that a task's version directive names, in the older of its two forms; both have
// the same fields.
std::optional<std::string> ScheduledDeployment(const persistence_pb::TaskInfo& task) {
  partition_pb::TaskVersionDirective directive;
  if (!task.has_version_directive() || !directive.ParseFromString(task.version_directive())) {
    return std::nullopt;
  }
  if (directive.has_deployment_version()) return directive.deployment_version();
  if (directive.has_deployment()) return directive.deployment();
  return std::nullopt;
}

// What both requests have in common.
template <typename Request>
Request Start(const persistence_pb::TaskInfo& task, std::string poll_request,
              std::string request_id) {
  Request request;
  request.set_namespace_id(task.namespace_id());
  SetExecution(task, *request.mutable_workflow_execution());
  request.set_scheduled_event_id(task.scheduled_event_id());
  request.set_request_id(std::move(request_id));
  request.set_poll_request(std::move(poll_request));
  if (task.has_clock()) request.set_clock(task.clock());
  if (std::optional<std::string> deployment = ScheduledDeployment(task)) {
    request.set_scheduled_deployment(*std::move(deployment));
  }
  if (task.has_version_directive()) request.set_version_directive(task.version_directive());
  request.set_stamp(task.stamp());
  return request;
}

token_pb::Task TokenOf(const persistence_pb::TaskInfo& task) {
  token_pb::Task token;
  token.set_namespace_id(task.namespace_id());
  token.set_workflow_id(task.workflow_id());
  token.set_run_id(task.run_id());
  return token;
}

std::string WorkflowToken(const persistence_pb::TaskInfo& task,
                          const history_pb::RecordWorkflowTaskStartedResponse& started) {
  token_pb::Task token = TokenOf(task);
  token.set_scheduled_event_id(started.scheduled_event_id());
  token.set_started_event_id(started.started_event_id());
  if (started.has_started_time()) token.set_started_time(started.started_time());
  token.set_attempt(started.attempt());
  if (started.has_clock()) token.set_clock(started.clock());
  token.set_version(started.version());
  return token.SerializeAsString();
}

std::string ActivityToken(const persistence_pb::TaskInfo& task,
                          const history_pb::RecordActivityTaskStartedResponse& started) {
  const auto& activity = started.scheduled_event().activity_task_scheduled_event_attributes();
  token_pb::Task token = TokenOf(task);
  token.set_scheduled_event_id(task.scheduled_event_id());
  token.set_activity_id(activity.activity_id());
  token.set_activity_type(activity.activity_type().name());
  token.set_attempt(started.attempt());
  if (started.has_clock()) token.set_clock(started.clock());
  token.set_version(started.version());
  token.set_start_version(started.start_version());
  if (!task.component_ref().empty()) {
    token.set_component_ref(task.component_ref());
    token.set_activity_attempt_stamp(task.stamp());
  }
  return token.SerializeAsString();
}

}  // namespace

history_pb::RecordWorkflowTaskStartedRequest StartWorkflowTask(const persistence_pb::TaskInfo& task,
                                                               std::string poll_request,
                                                               std::string request_id) {
  return Start<history_pb::RecordWorkflowTaskStartedRequest>(task, std::move(poll_request),
                                                             std::move(request_id));
}

history_pb::RecordActivityTaskStartedRequest StartActivityTask(const persistence_pb::TaskInfo& task,
                                                               std::string poll_request,
                                                               std::string request_id) {
  auto request = Start<history_pb::RecordActivityTaskStartedRequest>(task, std::move(poll_request),
                                                                     std::move(request_id));
  request.set_component_ref(task.component_ref());
  return request;
}

matching_pb::PollWorkflowTaskQueueResponse WorkflowPollReply(
    const persistence_pb::TaskInfo& task, history_pb::RecordWorkflowTaskStartedResponse started) {
  matching_pb::PollWorkflowTaskQueueResponse reply;
  reply.set_task_token(WorkflowToken(task, started));
  SetExecution(task, *reply.mutable_workflow_execution());
  if (started.has_workflow_type()) {
    reply.set_workflow_type(std::move(*started.mutable_workflow_type()));
  }
  reply.set_previous_started_event_id(started.previous_started_event_id());
  reply.set_started_event_id(started.started_event_id());
  reply.set_attempt(started.attempt());
  reply.set_next_event_id(started.next_event_id());
  reply.set_sticky_execution_enabled(started.sticky_execution_enabled());
  if (started.has_transient_workflow_task()) {
    reply.set_transient_workflow_task(std::move(*started.mutable_transient_workflow_task()));
  }
  if (started.has_workflow_execution_task_queue()) {
    reply.set_workflow_execution_task_queue(
        std::move(*started.mutable_workflow_execution_task_queue()));
  }
  reply.set_branch_token(std::move(*started.mutable_branch_token()));
  if (started.has_scheduled_time()) {
    reply.set_scheduled_time(std::move(*started.mutable_scheduled_time()));
  }
  if (started.has_started_time())
    reply.set_started_time(std::move(*started.mutable_started_time()));
  *reply.mutable_queries() = std::move(*started.mutable_queries());
  *reply.mutable_messages() = std::move(*started.mutable_messages());
  reply.set_next_page_token(std::move(*started.mutable_next_page_token()));
  // Raw history is what the frontend parses and completes; an older history service sends it under
  // another number.
  if (!started.raw_history_bytes().empty()) {
    *reply.mutable_raw_history() = std::move(*started.mutable_raw_history_bytes());
  } else if (!started.raw_history().empty()) {
    *reply.mutable_raw_history() = std::move(*started.mutable_raw_history());
  } else if (started.has_history()) {
    reply.set_history(std::move(*started.mutable_history()));
  }
  return reply;
}

Result<matching_pb::PollActivityTaskQueueResponse> ActivityPollReply(
    const persistence_pb::TaskInfo& task, history_pb::RecordActivityTaskStartedResponse started) {
  auto& event = *started.mutable_scheduled_event();
  auto& activity = *event.mutable_activity_task_scheduled_event_attributes();
  if (activity.activity_id().empty()) {
    return Status(StatusCode::kInternal, "history started an activity without an id");
  }
  matching_pb::PollActivityTaskQueueResponse reply;
  reply.set_task_token(ActivityToken(task, started));
  SetExecution(task, *reply.mutable_workflow_execution());
  reply.set_activity_id(std::move(*activity.mutable_activity_id()));
  if (activity.has_activity_type()) {
    *reply.mutable_activity_type() = std::move(*activity.mutable_activity_type());
  }
  if (activity.has_input()) reply.set_input(std::move(*activity.mutable_input()));
  if (event.has_event_time()) reply.set_scheduled_time(std::move(*event.mutable_event_time()));
  // Always there: some workers take it for granted.
  reply.set_schedule_to_close_timeout(std::move(*activity.mutable_schedule_to_close_timeout()));
  if (started.has_started_time())
    reply.set_started_time(std::move(*started.mutable_started_time()));
  if (activity.has_start_to_close_timeout()) {
    reply.set_start_to_close_timeout(std::move(*activity.mutable_start_to_close_timeout()));
  }
  if (activity.has_heartbeat_timeout()) {
    reply.set_heartbeat_timeout(std::move(*activity.mutable_heartbeat_timeout()));
  }
  reply.set_attempt(started.attempt());
  if (started.has_current_attempt_scheduled_time()) {
    reply.set_current_attempt_scheduled_time(
        std::move(*started.mutable_current_attempt_scheduled_time()));
  }
  if (started.has_heartbeat_details()) {
    reply.set_heartbeat_details(std::move(*started.mutable_heartbeat_details()));
  }
  if (started.has_workflow_type()) {
    reply.set_workflow_type(std::move(*started.mutable_workflow_type()));
  }
  reply.set_workflow_namespace(std::move(*started.mutable_workflow_namespace()));
  if (activity.has_header()) reply.set_header(std::move(*activity.mutable_header()));
  if (started.has_priority()) reply.set_priority(std::move(*started.mutable_priority()));
  if (started.has_retry_policy())
    reply.set_retry_policy(std::move(*started.mutable_retry_policy()));
  reply.set_activity_run_id(std::move(*started.mutable_activity_run_id()));
  return reply;
}

std::string QueryTaskToken(std::string_view namespace_id, std::string_view rpc_name,
                           std::string_view task_id) {
  token_pb::QueryTask token;
  token.set_namespace_id(std::string(namespace_id));
  token.set_task_queue(std::string(rpc_name));
  token.set_task_id(std::string(task_id));
  return token.SerializeAsString();
}

matching_pb::PollWorkflowTaskQueueResponse QueryPollReply(
    const matching_pb::QueryWorkflowRequest& query, std::string task_token, bool sticky,
    history_pb::GetMutableStateResponse state,
    history_pb::GetWorkflowExecutionHistoryResponse history) {
  matching_pb::PollWorkflowTaskQueueResponse reply;
  reply.set_task_token(std::move(task_token));
  *reply.mutable_workflow_execution() = query.query_request().execution();
  if (state.has_workflow_type()) reply.set_workflow_type(std::move(*state.mutable_workflow_type()));
  reply.set_previous_started_event_id(state.previous_started_event_id());
  reply.set_attempt(1);
  reply.set_next_event_id(state.next_event_id());
  reply.set_sticky_execution_enabled(sticky);
  reply.set_query(query.query_request().query());
  if (state.has_task_queue()) {
    reply.set_workflow_execution_task_queue(std::move(*state.mutable_task_queue()));
  }
  reply.set_branch_token(std::move(*state.mutable_current_branch_token()));
  auto& page = *history.mutable_response();
  reply.set_next_page_token(std::move(*page.mutable_next_page_token()));
  if (!history.history().empty()) {
    *reply.mutable_raw_history() = std::move(*history.mutable_history());
    return reply;
  }
  // Serialized histories one after the other are one history.
  std::string events = std::move(*page.mutable_history());
  for (const std::string& bytes : page.raw_history()) {
    common_pb::DataBlob blob;
    if (blob.ParseFromString(bytes) && blob.encoding_type() == kProtobufEncoding) {
      events += blob.data();
    }
  }
  reply.set_history(std::move(events));
  return reply;
}

}  // namespace millrace::temporal
