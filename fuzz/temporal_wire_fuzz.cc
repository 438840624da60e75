// What peers of a Temporal cluster send: queue names, errors, stored tasks and history's answers.

#include <google/protobuf/stubs/logging.h>

#include <string>

#include "fuzz_input.h"
#include "millrace/temporal/error_details.h"
#include "millrace/temporal/history_hosts.h"
#include "millrace/temporal/poll_reply.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/start_outcome.h"
#include "millrace/temporal/task_queue_name.h"
#include "temporal/server/api/token/v1/message.pb.h"

namespace millrace::temporal {
namespace {

using fuzz::FuzzInput;

void CheckNames(FuzzInput& in) {
  const auto type = static_cast<TaskType>(1 + in.Below(3));
  taskqueue_pb::TaskQueue queue;
  queue.set_kind(static_cast<enums_pb::TaskQueueKind>(in.Below(5)));
  if (in.Bool()) queue.set_normal_name("normal");
  queue.set_name((in.Bool() ? "/_sys/" : "") + std::string(in.Rest()));
  const Result<Partition> read = PartitionOf(queue, "ns", type);
  if (!read.ok()) {
    FUZZ_CHECK(read.code() == StatusCode::kInvalidArgument);
    return;
  }
  FUZZ_CHECK(read->RpcName() == queue.name());
  FUZZ_CHECK(!read->base_name.starts_with("/_sys/") && read->number <= kPartitionMax);
  FUZZ_CHECK(read->number == 0 || read->kind == QueueKind::kNormal);
  const Result<Partition> again = PartitionOf(ToTaskQueue(*read), "ns", type);
  FUZZ_CHECK(again.ok() && *again == *read);
  FUZZ_CHECK(!read->is_child() || read->Parent(20).number < read->number);
}

void CheckErrors(FuzzInput& in) {
  rpc::RpcStatus status;
  status.code = static_cast<rpc::Code>(1 + in.Below(16));
  status.details = in.Rest();
  const ServiceError error = ReadServiceError(status);
  FUZZ_CHECK(error.code == status.code);
  const StartOutcome outcome = ClassifyStart(status);
  FUZZ_CHECK(outcome.task != TaskFate::kStarted && outcome.poller != PollerFate::kAnswer);
  FUZZ_CHECK((outcome.task == TaskFate::kDrop) == (outcome.drop_reason != DropReason::kNone));
  // A host to go to is one that can be gone to.
  HistoryHosts hosts({"a:1"});
  (void)hosts.Learn(1, error.owner_host);
  FUZZ_CHECK(IsHostAddress(hosts.HostOf(1)));
}

// History's bytes come through as they are.
void CheckWorkflowReply(const persistence_pb::TaskInfo& task, const std::string& bytes) {
  history_pb::RecordWorkflowTaskStartedResponse started;
  if (!started.ParseFromString(bytes)) return;
  const matching_pb::PollWorkflowTaskQueueResponse reply = WorkflowPollReply(task, started);
  FUZZ_CHECK(reply.has_workflow_type() == started.has_workflow_type());
  FUZZ_CHECK(reply.workflow_type() == started.workflow_type());
  FUZZ_CHECK(reply.queries_size() == started.queries_size());
  FUZZ_CHECK(reply.messages_size() == started.messages_size());
  const int raw = started.raw_history_bytes_size() > 0 ? started.raw_history_bytes_size()
                                                       : started.raw_history_size();
  FUZZ_CHECK(reply.raw_history_size() == raw);
  FUZZ_CHECK(reply.has_history() == (raw == 0 && started.has_history()));
  matching_pb::PollWorkflowTaskQueueResponse read;
  FUZZ_CHECK(read.ParseFromString(reply.SerializeAsString()));
  token_pb::Task token;
  FUZZ_CHECK(token.ParseFromString(reply.task_token()));
  FUZZ_CHECK(token.workflow_id() == task.workflow_id() && token.clock() == started.clock());
}

void CheckActivityReply(const persistence_pb::TaskInfo& task, const std::string& bytes) {
  history_pb::RecordActivityTaskStartedResponse started;
  if (!started.ParseFromString(bytes)) return;
  const auto reply = ActivityPollReply(task, started);
  const auto& activity = started.scheduled_event().activity_task_scheduled_event_attributes();
  FUZZ_CHECK(reply.ok() == !activity.activity_id().empty());
  if (!reply.ok()) return;
  FUZZ_CHECK(reply->input() == activity.input() && reply->has_schedule_to_close_timeout());
  token_pb::Task token;
  FUZZ_CHECK(token.ParseFromString(reply->task_token()));
  FUZZ_CHECK(token.activity_id() == activity.activity_id());
}

void CheckReplies(FuzzInput& in) {
  const bool workflow = in.Bool();
  persistence_pb::TaskInfo task;
  if (!task.ParseFromString(in.String())) task.Clear();
  const std::string start = workflow ? StartWorkflowTask(task, "poll", "id").SerializeAsString()
                                     : StartActivityTask(task, "poll", "id").SerializeAsString();
  FUZZ_CHECK(!start.empty());
  const std::string bytes(in.Rest());
  if (workflow) return CheckWorkflowReply(task, bytes);
  CheckActivityReply(task, bytes);
}

}  // namespace
}  // namespace millrace::temporal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  google::protobuf::SetLogHandler(nullptr);
  millrace::fuzz::FuzzInput in(data, size);
  switch (in.Below(3)) {
    case 0:
      millrace::temporal::CheckNames(in);
      break;
    case 1:
      millrace::temporal::CheckErrors(in);
      break;
    default:
      millrace::temporal::CheckReplies(in);
  }
  return 0;
}
