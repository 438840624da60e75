#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "temporal/server/api/historyservice/v1/request_response.pb.h"
#include "temporal/server/api/matchingservice/v1/request_response.pb.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::temporal {

// Messages made of a stored task, history's reply and the poll. History's parts are moved,
// unparsed.
//
// Thread: any; no state.

// The request that starts a task. `poll_request` is the worker's request, serialized; `request_id`
// one UUID per start.
::temporal::server::api::historyservice::v1::RecordWorkflowTaskStartedRequest StartWorkflowTask(
    const ::temporal::server::api::persistence::v1::TaskInfo& task, std::string poll_request,
    std::string request_id);
::temporal::server::api::historyservice::v1::RecordActivityTaskStartedRequest StartActivityTask(
    const ::temporal::server::api::persistence::v1::TaskInfo& task, std::string poll_request,
    std::string request_id);

// The answer to the worker, task token included; without backlog hint and scaling decision.
::temporal::server::api::matchingservice::v1::PollWorkflowTaskQueueResponse WorkflowPollReply(
    const ::temporal::server::api::persistence::v1::TaskInfo& task,
    ::temporal::server::api::historyservice::v1::RecordWorkflowTaskStartedResponse started);
// kInternal: history's reply is not about a scheduled activity.
Result<::temporal::server::api::matchingservice::v1::PollActivityTaskQueueResponse>
ActivityPollReply(
    const ::temporal::server::api::persistence::v1::TaskInfo& task,
    ::temporal::server::api::historyservice::v1::RecordActivityTaskStartedResponse started);

// A worker answers a query with this token, through any host.
std::string QueryTaskToken(std::string_view namespace_id, std::string_view rpc_name,
                           std::string_view task_id);

// The answer that brings a query to a worker. `history` is none when the worker has it in its
// cache: then `sticky` is true.
::temporal::server::api::matchingservice::v1::PollWorkflowTaskQueueResponse QueryPollReply(
    const ::temporal::server::api::matchingservice::v1::QueryWorkflowRequest& query,
    std::string task_token, bool sticky,
    ::temporal::server::api::historyservice::v1::GetMutableStateResponse state,
    ::temporal::server::api::historyservice::v1::GetWorkflowExecutionHistoryResponse history);

}  // namespace millrace::temporal
