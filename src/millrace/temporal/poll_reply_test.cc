#include "millrace/temporal/poll_reply.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "millrace/temporal/history.h"
#include "millrace/temporal/proto_names.h"
#include "millrace/temporal/wire_vectors.h"

namespace millrace::temporal {
namespace {

using vectors::Bytes;

template <typename Message>
Message Parse(std::string_view hex) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(Bytes(hex)));
  return message;
}

// Go writes fields in the order of their numbers, and so does C++: the bytes are the same.
TEST(PollReply, StartsAreAskedForAsGoDoes) {
  const auto workflow = Parse<persistence_pb::TaskInfo>(vectors::kWorkflowTask);
  EXPECT_EQ(StartWorkflowTask(workflow, Bytes(vectors::kWorkflowPoll), "req").SerializeAsString(),
            Bytes(vectors::kWorkflowStart));
  const auto activity = Parse<persistence_pb::TaskInfo>(vectors::kActivityTask);
  EXPECT_EQ(StartActivityTask(activity, Bytes(vectors::kActivityPoll), "req").SerializeAsString(),
            Bytes(vectors::kActivityStart));
}

TEST(PollReply, StoredTasksAreWrittenAsGoDoes) {
  for (const char* hex : {vectors::kWorkflowTask, vectors::kActivityTask}) {
    EXPECT_EQ(Parse<persistence_pb::TaskInfo>(hex).SerializeAsString(), Bytes(hex));
  }
}

TEST(PollReply, AWorkflowTasksReplyIsGos) {
  auto reply = WorkflowPollReply(
      Parse<persistence_pb::TaskInfo>(vectors::kWorkflowTask),
      Parse<history_pb::RecordWorkflowTaskStartedResponse>(vectors::kWorkflowStarted));
  EXPECT_EQ(reply.task_token(), Bytes(vectors::kWorkflowToken));
  std::string bytes = reply.SerializeAsString();
  AppendBacklogHint(bytes, 300);
  matching_pb::PollWorkflowTaskQueueResponse read;
  ASSERT_TRUE(read.ParseFromString(bytes));
  EXPECT_EQ(read.SerializeAsString(), Bytes(vectors::kWorkflowReply));
}

TEST(PollReply, AnActivityTasksReplyIsGos) {
  const auto reply = ActivityPollReply(
      Parse<persistence_pb::TaskInfo>(vectors::kActivityTask),
      Parse<history_pb::RecordActivityTaskStartedResponse>(vectors::kActivityStarted));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->task_token(), Bytes(vectors::kActivityToken));
  EXPECT_EQ(reply->SerializeAsString(), Bytes(vectors::kActivityReply));
}

TEST(PollReply, AnActivityWithoutAnIdIsRefused) {
  auto started = Parse<history_pb::RecordActivityTaskStartedResponse>(vectors::kActivityStarted);
  started.mutable_scheduled_event()->clear_activity_task_scheduled_event_attributes();
  EXPECT_EQ(ActivityPollReply({}, started).code(), StatusCode::kInternal);
  EXPECT_EQ(ActivityPollReply({}, {}).code(), StatusCode::kInternal);
}

// Whichever of its fields history uses, the frontend gets it where it looks for it.
TEST(PollReply, HistoryComesThroughInEachOfItsForms) {
  history_pb::RecordWorkflowTaskStartedResponse started;
  started.set_history("plain");
  EXPECT_EQ(WorkflowPollReply({}, started).history(), "plain");
  EXPECT_TRUE(WorkflowPollReply({}, started).raw_history().empty());
  started.add_raw_history("old1");
  started.add_raw_history("old2");
  auto reply = WorkflowPollReply({}, started);
  ASSERT_EQ(reply.raw_history_size(), 2);
  EXPECT_EQ(reply.raw_history(1), "old2");
  EXPECT_FALSE(reply.has_history());
  started.add_raw_history_bytes("new");
  reply = WorkflowPollReply({}, started);
  ASSERT_EQ(reply.raw_history_size(), 1);
  EXPECT_EQ(reply.raw_history(0), "new");
  EXPECT_FALSE(WorkflowPollReply({}, {}).has_history());
}

TEST(PollReply, MessagesThatAreThereButEmptyStayThere) {
  history_pb::RecordWorkflowTaskStartedResponse started;
  started.set_workflow_type("");
  started.set_history("");
  started.set_started_time("");
  const auto reply = WorkflowPollReply({}, started);
  EXPECT_TRUE(reply.has_workflow_type());
  EXPECT_TRUE(reply.has_history());
  EXPECT_TRUE(reply.has_started_time());
  EXPECT_FALSE(reply.has_scheduled_time());
}

TEST(PollReply, AQueryGoesToAWorkerWithOrWithoutHistory) {
  EXPECT_EQ(QueryTaskToken("11111111-2222-3333-4444-555555555555", "/_sys/orders/2", "t1"),
            Bytes(vectors::kQueryToken));
  matching_pb::QueryWorkflowRequest query;
  query.mutable_query_request()->set_query("q");
  query.mutable_query_request()->mutable_execution()->set_workflow_id("wf");
  history_pb::GetMutableStateResponse state;
  state.set_next_event_id(9);
  state.set_previous_started_event_id(6);
  state.set_workflow_type("type");
  state.set_task_queue("queue");
  state.set_current_branch_token("branch");
  auto reply = QueryPollReply(query, "token", true, state, {});
  EXPECT_EQ(reply.task_token(), "token");
  EXPECT_EQ(reply.query(), "q");
  EXPECT_EQ(reply.workflow_execution().workflow_id(), "wf");
  EXPECT_EQ(reply.workflow_type(), "type");
  EXPECT_EQ(reply.workflow_execution_task_queue(), "queue");
  EXPECT_EQ(reply.branch_token(), "branch");
  EXPECT_EQ(reply.attempt(), 1);
  EXPECT_EQ(reply.started_event_id(), 0);
  EXPECT_EQ(reply.next_event_id(), 9);
  EXPECT_EQ(reply.previous_started_event_id(), 6);
  EXPECT_TRUE(reply.sticky_execution_enabled());
  EXPECT_TRUE(reply.has_history());
  EXPECT_EQ(reply.history(), "");

  history_pb::GetWorkflowExecutionHistoryResponse history;
  history.mutable_response()->set_history("plain");
  history.mutable_response()->set_next_page_token("next");
  reply = QueryPollReply(query, "token", false, state, history);
  EXPECT_EQ(reply.history(), "plain");
  EXPECT_EQ(reply.next_page_token(), "next");
  EXPECT_FALSE(reply.sticky_execution_enabled());

  history.mutable_response()->clear_history();
  history.mutable_response()->add_raw_history(
      "\x08\x01\x12\x02"
      "ab");
  history.mutable_response()->add_raw_history(
      "\x08\x01\x12\x01"
      "c");
  history.mutable_response()->add_raw_history(
      "\x08\x02\x12\x01"
      "j");  // Not Protobuf.
  EXPECT_EQ(QueryPollReply(query, "token", false, state, history).history(), "abc");

  history.add_history("raw");
  reply = QueryPollReply(query, "token", false, state, history);
  ASSERT_EQ(reply.raw_history_size(), 1);
  EXPECT_EQ(reply.raw_history(0), "raw");
  EXPECT_FALSE(reply.has_history());
}

}  // namespace
}  // namespace millrace::temporal
