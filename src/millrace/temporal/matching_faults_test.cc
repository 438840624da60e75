// The matching service when history, the store, callers or other owners do what they should not.
#include <set>
#include <string>
#include <vector>

#include "millrace/temporal/testing/matching_harness.h"

namespace millrace::temporal {
namespace {

using rpc::Code;
using rpc::RpcStatus;

RpcStatus Busy() {
  return ResourceExhaustedError(enums_pb::RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED,
                                enums_pb::RESOURCE_EXHAUSTED_SCOPE_SYSTEM, "too much to do");
}
RpcStatus BusyWorkflow() {
  return ResourceExhaustedError(enums_pb::RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW,
                                enums_pb::RESOURCE_EXHAUSTED_SCOPE_NAMESPACE,
                                "the workflow is busy");
}
RpcStatus Down() { return {Code::kUnavailable, "connection refused", {}}; }

struct DropCase {
  const char* name;
  RpcStatus status;
};

std::vector<DropCase> DropCases() {
  return {{"not found", NotFoundError("no such workflow")},
          {"already started", TaskAlreadyStartedError()},
          {"obsolete build", ObsoleteDispatchBuildIdError("obsolete")},
          {"obsolete task", ObsoleteMatchingTaskError("obsolete")},
          {"transition", ActivityStartDuringTransitionError()},
          {"internal", {Code::kInternal, "broken", {}}},
          {"data loss", {Code::kDataLoss, "lost", {}}}};
}

TEST_F(MatchingTest, TasksThatHistoryWillNotStartAreDroppedAndThePollGoesOn) {
  for (const DropCase& drop : DropCases()) {
    SCOPED_TRACE(drop.name);
    // As a new task.
    const auto poll = Poll();
    history_.next = {drop.status};
    EXPECT_TRUE(Add("dead")->status.ok());
    EXPECT_FALSE(poll->done);
    EXPECT_TRUE(Add("live")->status.ok());
    EXPECT_EQ(poll->workflow(), "live");
    // From the backlog.
    MustAdd("dead");
    MustAdd("live");
    history_.next = {drop.status};
    EXPECT_EQ(Take(), "live");
    EXPECT_EQ(Describe().stats().approximate_backlog_count(), 0);
  }
  EXPECT_EQ(history_.started.size(), 4 * DropCases().size());
}

TEST_F(MatchingTest, AnOverloadedHistoryIsToldToThePollAndToWhoAdds) {
  const auto poll = Poll();
  history_.next = {Busy()};
  const auto add = Add("w1");
  EXPECT_EQ(add->kind(), ErrorKind::kResourceExhausted);
  EXPECT_EQ(poll->kind(), ErrorKind::kResourceExhausted);
  EXPECT_EQ(Take(), "");  // Whoever adds tries again; it was not stored.
}

TEST_F(MatchingTest, StartsNeverExceedPollsWhileHistoryIsOverloaded) {
  for (int i = 0; i < 5; ++i) MustAdd("w" + std::to_string(i));
  history_.for_ever = Busy();
  std::size_t polls = 0;
  for (int i = 0; i < 20; ++i) {
    const auto poll = Poll();
    ++polls;
    executor_.AdvanceBy(seconds(1));
    EXPECT_EQ(poll->kind(), ErrorKind::kResourceExhausted);
    EXPECT_LE(history_.started.size(), polls);
  }
  history_.for_ever = {};
  std::set<std::string> left = {"w0", "w1", "w2", "w3", "w4"};
  while (!left.empty()) ASSERT_EQ(left.erase(Take()), 1u);
  EXPECT_EQ(Take(), "");
}

TEST_F(MatchingTest, ABusyWorkflowHoldsUpNobodyElse) {
  MustAdd("busy");
  MustAdd("w1");
  history_.next = {BusyWorkflow()};
  const auto first = Poll();
  const auto second = Poll();
  executor_.AdvanceBy(milliseconds(10));
  EXPECT_EQ(second->workflow(), "w1");
  executor_.AdvanceBy(seconds(1));
  EXPECT_EQ(first->workflow(), "busy");
  // Told to whoever adds, which tries again.
  const auto poll = Poll();
  history_.next = {BusyWorkflow()};
  EXPECT_EQ(Add("w2")->kind(), ErrorKind::kResourceExhausted);
  executor_.AdvanceBy(seconds(1));
  EXPECT_FALSE(poll->done);
  Add("w3");
  EXPECT_EQ(poll->workflow(), "w3");
}

TEST_F(MatchingTest, WhileHistoryIsDownTasksAreKeptAndNothingRunsHot) {
  history_.for_ever = Down();
  const auto poll = Poll(Queue("q"), {.timeout = minutes(2)});
  MustAdd("w1");
  MustAdd("w2");
  executor_.AdvanceBy(seconds(30));
  EXPECT_FALSE(poll->done);
  const std::size_t starts = history_.started.size();
  EXPECT_GE(starts, 10u);
  EXPECT_LE(starts, 40u);  // One poll, a second between two tries.
  history_.for_ever = {};
  executor_.AdvanceBy(seconds(2));
  std::set<std::string> left = {"w1", "w2"};
  EXPECT_EQ(left.erase(poll->workflow()), 1u);
  EXPECT_EQ(left.erase(Take()), 1u);
  EXPECT_EQ(Take(), "");
}

TEST_F(MatchingTest, ManyPollsDoNotMakeADownHistoryHot) {
  history_.for_ever = Down();
  std::vector<std::shared_ptr<Ended>> polls;
  for (int i = 0; i < 50; ++i) polls.push_back(Poll(Queue("q"), {.timeout = seconds(20)}));
  for (int i = 0; i < 50; ++i) MustAdd("w" + std::to_string(i));
  executor_.AdvanceBy(seconds(10));
  EXPECT_LE(history_.started.size(), 700u);
  executor_.AdvanceBy(seconds(10));
  for (const auto& poll : polls) EXPECT_TRUE(poll->empty());
  history_.for_ever = {};
  std::set<std::string> got;
  for (int i = 0; i < 50; ++i) got.insert(Take());
  EXPECT_EQ(got.size(), 50u);
}

TEST_F(MatchingTest, ANamespaceInHandoverIsToldToThePoll) {
  MustAdd("w1");
  history_.next = {NamespaceHandoverError()};
  const auto poll = Poll();
  executor_.AdvanceBy(milliseconds(10));
  EXPECT_EQ(poll->kind(), ErrorKind::kNamespaceHandover);
  EXPECT_EQ(Take(), "w1");
}

TEST_F(MatchingTest, ANewTaskWhoseStartFailsIsStored) {
  const auto poll = Poll();
  history_.next = {{Code::kDeadlineExceeded, "too slow", {}}};
  MustAdd("w1");
  executor_.AdvanceBy(seconds(1));
  EXPECT_EQ(poll->workflow(), "w1");
  ASSERT_EQ(history_.started.size(), 2u);
  EXPECT_NE(history_.started[0].request_id, history_.started[1].request_id);
}

TEST_F(MatchingTest, NewTasksDoNotOvertakeAnOldBacklog) {
  // Tasks that wait while polls rest, since history was down.
  MustAdd("old");
  executor_.AdvanceBy(seconds(6));
  history_.hold = true;
  const auto poll = Poll();
  const auto other = Poll();
  ASSERT_EQ(history_.held(), 1u);  // "old" is being started.
  const auto add = Add("new");
  executor_.RunUntilIdle();
  // Written before it goes to the poll that waits.
  EXPECT_EQ(StoredQueues(), 1u);
  EXPECT_TRUE(add->done && add->status.ok());
  executor_.AdvanceBy(milliseconds(10));
  EXPECT_EQ(history_.held(), 2u);
  EXPECT_EQ(history_.started[1].deadline - executor_.clock().Now(), seconds(10) - milliseconds(10));
  history_.hold = false;
  history_.Release();
  executor_.RunUntilIdle();
  EXPECT_EQ(poll->workflow(), "old");
  EXPECT_EQ(other->workflow(), "new");
}

TEST_F(MatchingTest, AForwardedTaskIsGivenAwayOrRefusedButNeverStored) {
  auto request = AddRequest("w1", Queue("q"));
  request.mutable_forward_info()->set_source_partition("/_sys/q/1");
  EXPECT_EQ(host_->StartRaw("AddWorkflowTask", request.SerializeAsString())->kind(),
            ErrorKind::kRemoteSyncMatchFailed);
  const auto poll = Poll();
  EXPECT_TRUE(host_->StartRaw("AddWorkflowTask", request.SerializeAsString())->status.ok());
  EXPECT_EQ(poll->workflow(), "w1");
  const auto again = Poll();
  history_.next = {Down()};
  EXPECT_EQ(host_->StartRaw("AddWorkflowTask", request.SerializeAsString())->kind(),
            ErrorKind::kRemoteSyncMatchFailed);
  executor_.AdvanceBy(seconds(5));
  EXPECT_FALSE(again->done);
  EXPECT_EQ(StoredQueues(), 0u);
}

TEST_F(MatchingTest, APollThatIsCancelledWhileItsStartFailsWaitsForNoOther) {
  MustAdd("w1");
  history_.hold = true;
  history_.next = {NotFoundError("gone")};
  const auto poll = Poll(Queue("q"), {.poller_id = "p1"});
  ASSERT_EQ(history_.held(), 1u);
  Cancel(poll);
  executor_.RunUntilIdle();
  EXPECT_FALSE(poll->done);
  history_.hold = false;
  history_.Release();
  executor_.RunUntilIdle();
  EXPECT_TRUE(poll->empty());
}

TEST_F(MatchingTest, AStopWaitsForTheStartsUnderWay) {
  MustAdd("w1");
  MustAdd("w2");
  history_.hold = true;
  history_.next = {{}, Down()};
  const auto started = Poll();
  const auto failed = Poll();
  ASSERT_EQ(history_.held(), 2u);
  host_->BeginStop();
  executor_.AdvanceBy(seconds(1));
  EXPECT_FALSE(host_->stopped());
  history_.hold = false;
  history_.Release();
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(host_->stopped());
  EXPECT_EQ(started->workflow(), "w1");
  EXPECT_TRUE(failed->empty());
  Restart();
  EXPECT_EQ(Take(), "w2");
  EXPECT_EQ(Take(), "");
}

TEST_F(MatchingTest, WhileTheStoreIsDownAddsFailAndPollsWait) {
  sim::FaultRates down;
  down.unavailable = 1'000;
  SeededRandom random(1);
  sim::RandomFaults faults(random, down);
  host_ = nullptr;
  plan_ = &faults;
  Restart();
  const auto poll = Poll(Queue("q"), {.timeout = minutes(2)});
  const auto add = Add("w1");
  executor_.AdvanceBy(seconds(6));
  ASSERT_TRUE(add->done);
  EXPECT_EQ(add->status.code, Code::kUnavailable);
  EXPECT_FALSE(poll->done);
  down.unavailable = 0;
  faults.SetRates(down);
  executor_.AdvanceBy(seconds(6));
  EXPECT_TRUE(Add("w2")->status.ok());
  EXPECT_EQ(poll->workflow(), "w2");
  host_ = nullptr;
  plan_ = &no_faults_;
}

TEST_F(MatchingTest, EveryStoreCallMayFailOnce) {
  using enum sim::FaultKind;
  for (const sim::FaultKind kind : {kUnavailable, kReplyLost, kNotApplied, kAppliedLate, kStall}) {
    for (std::uint64_t n = 0;; ++n) {
      SCOPED_TRACE(std::string(sim::FaultKindName(kind)) + " " + std::to_string(n));
      ASSERT_LT(n, 60u);
      host_ = nullptr;
      store::MemoryTaskStore durable;
      sim::NthFault fault(n, kind);
      host_ = std::make_unique<MatchingHost>(executor_, durable, history_, config_, fault);
      std::set<std::string> accepted;
      for (const char* workflow : {"w1", "w2", "w3"}) {
        const auto add = Add(workflow, Queue(workflow[1] == '2' ? "/_sys/q/1" : "q"));
        executor_.AdvanceBy(seconds(12));
        ASSERT_TRUE(add->done);
        if (add->status.ok()) accepted.insert(workflow);
      }
      const auto poll = Poll(Queue("q"), {.timeout = seconds(3)});
      executor_.AdvanceBy(seconds(12));
      accepted.erase(poll->workflow());
      host_->Stop();
      host_ = std::make_unique<MatchingHost>(executor_, durable, history_, config_, fault);
      for (int i = 0; i < 4; ++i) accepted.erase(Take());
      EXPECT_TRUE(accepted.empty()) << *accepted.begin();
      host_ = nullptr;
      if (!fault.reached()) break;
    }
  }
  Restart();
}

TEST_F(MatchingTest, AQueueThatAnotherOwnerTookIsGivenUpAndTakenBackOnDemand) {
  MustAdd("w1");
  EXPECT_EQ(Take(), "w1");
  // Another host loads the queue and stores a task.
  auto other = std::make_unique<MatchingHost>(executor_, durable_, history_, config_, no_faults_);
  const auto theirs =
      other->StartRaw("AddWorkflowTask", AddRequest("w2", Queue("q")).SerializeAsString());
  executor_.AdvanceBy(milliseconds(10));
  ASSERT_TRUE(theirs->done && theirs->status.ok());
  // This host finds out by its write, which is refused; the caller tries again.
  const auto add = Add("w3");
  executor_.AdvanceBy(seconds(1));
  ASSERT_TRUE(add->done);
  EXPECT_EQ(add->status.code, Code::kUnavailable);
  MustAdd("w3");
  const std::set<std::string> got = {Take(), Take()};
  EXPECT_EQ(got, (std::set<std::string>{"w2", "w3"}));
  EXPECT_EQ(Take(), "");
  // The other one has lost it and hands nothing out twice.
  matching_pb::PollWorkflowTaskQueueRequest poll;
  poll.set_namespace_id(kNamespace);
  *poll.mutable_poll_request()->mutable_task_queue() = Queue("q");
  const auto late =
      other->StartRaw("PollWorkflowTaskQueue", poll.SerializeAsString(), seconds(100));
  executor_.AdvanceBy(minutes(2));
  EXPECT_TRUE(late->done);
  other->Stop();
}

TEST_F(MatchingTest, AnIdleOwnerFindsOutThatItsQueueWasTaken) {
  MustAdd("w1");
  EXPECT_EQ(Take(), "w1");
  const auto poll = Poll(Queue("q"), {.timeout = minutes(5)});
  auto other = std::make_unique<MatchingHost>(executor_, durable_, history_, config_, no_faults_);
  const auto theirs =
      other->StartRaw("AddWorkflowTask", AddRequest("w2", Queue("q")).SerializeAsString());
  executor_.AdvanceBy(milliseconds(10));
  ASSERT_TRUE(theirs->done && theirs->status.ok());
  other->Stop();
  executor_.AdvanceBy(minutes(1) + seconds(1));
  // Its worker is told to come back later, and finds the task then.
  ASSERT_TRUE(poll->done);
  EXPECT_EQ(Take(), "w2");
}

// Found by the simulator: a queue that had nothing when a poll came was never looked at again.
TEST_F(MatchingTest, WhatAnotherHostStoredInAQueueThatWasAbsentIsFound) {
  config_.backlog.update_interval = seconds(5);
  Restart();
  host_->store().set_traits({.exclusive = false, .counts_deletes = true});
  const auto poll = Poll();
  executor_.AdvanceBy(milliseconds(10));
  {
    MatchingHost other(executor_, durable_, history_, config_, no_faults_);
    const auto theirs =
        other.StartRaw("AddWorkflowTask", AddRequest("w1", Queue("q")).SerializeAsString());
    executor_.AdvanceBy(milliseconds(10));
    ASSERT_TRUE(theirs->done && theirs->status.ok());
  }
  executor_.AdvanceBy(seconds(6));
  ASSERT_TRUE(poll->done);
  EXPECT_EQ(poll->workflow(), "w1");
}

TEST_F(MatchingTest, BytesThatAreNoRequestAreRefused) {
  for (const auto& [path, handler] : host_->table().unary) {
    const std::string method = path.substr(path.rfind('/') + 1);
    const auto ended = host_->StartRaw(method, "\xff\xff\xff", seconds(2));
    executor_.AdvanceBy(seconds(2));
    ASSERT_TRUE(ended->done) << method;
    if (ended->status.ok()) {
      EXPECT_EQ(method, "PollNexusTaskQueue");  // It reads nothing of its request.
      continue;
    }
    EXPECT_TRUE(ended->status.code == Code::kInvalidArgument ||
                ended->status.code == Code::kUnimplemented)
        << method << ": " << ended->status.message;
  }
}

TEST_F(MatchingTest, RequestsThatMakeNoSenseAreRefused) {
  const auto refused = [&](const char* method, const google::protobuf::Message& request,
                           Code code = Code::kInvalidArgument) {
    const auto ended = host_->StartRaw(method, request.SerializeAsString(), seconds(2));
    executor_.AdvanceBy(seconds(2));
    ASSERT_TRUE(ended->done) << method << " " << request.ShortDebugString();
    EXPECT_EQ(ended->status.code, code) << method << " " << request.ShortDebugString();
  };
  // Adding.
  refused("AddWorkflowTask", AddRequest("w", Queue("")));
  refused("AddWorkflowTask", AddRequest("w", Queue("/_sys/")));
  refused("AddWorkflowTask", AddRequest("w", Queue("/_sys/q/0")));
  refused("AddWorkflowTask", AddRequest("w", Queue("/_sys/q/x")));
  refused("AddWorkflowTask", AddRequest("w", Queue(std::string(2'000, 'q'))));
  refused("AddWorkflowTask", AddRequest("w", Sticky("/_sys/q/1")));
  auto add = AddRequest("w", Queue("q"));
  add.set_namespace_id("not a uuid");
  refused("AddWorkflowTask", add);
  add = AddRequest("w", Queue("q"));
  add.clear_namespace_id();
  refused("AddWorkflowTask", add);
  add = AddRequest("w", Queue("q"));
  add.mutable_task_queue()->set_kind(static_cast<enums_pb::TaskQueueKind>(99));
  refused("AddWorkflowTask", add);
  add.mutable_task_queue()->set_kind(enums_pb::TASK_QUEUE_KIND_WORKER_COMMANDS);
  refused("AddWorkflowTask", add);
  // A task for one version of a worker would go to any.
  partition_pb::TaskVersionDirective directive;
  directive.set_assigned_build_id("b1");
  add = AddRequest("w", Queue("q"));
  add.set_version_directive(directive.SerializeAsString());
  refused("AddWorkflowTask", add, Code::kUnimplemented);
  // Polling.
  matching_pb::PollWorkflowTaskQueueRequest poll;
  poll.set_namespace_id(kNamespace);
  refused("PollWorkflowTaskQueue", poll);
  *poll.mutable_poll_request()->mutable_task_queue() = Queue("q");
  poll.mutable_poll_request()->mutable_deployment_options()->set_worker_versioning_mode(
      enums_pb::WORKER_VERSIONING_MODE_VERSIONED);
  refused("PollWorkflowTaskQueue", poll, Code::kUnimplemented);
  poll.mutable_poll_request()->clear_deployment_options();
  poll.set_namespace_id("x");
  refused("PollWorkflowTaskQueue", poll);
  // The rest.
  refused("CancelOutstandingPoll", matching_pb::CancelOutstandingPollRequest());
  refused("CancelOutstandingWorkerPolls", matching_pb::CancelOutstandingWorkerPollsRequest());
  refused("DescribeTaskQueue", matching_pb::DescribeTaskQueueRequest());
  refused("DescribeTaskQueuePartition", matching_pb::DescribeTaskQueuePartitionRequest());
  refused("ListTaskQueuePartitions", matching_pb::ListTaskQueuePartitionsRequest());
  refused("GetTaskQueueUserData", matching_pb::GetTaskQueueUserDataRequest());
  refused("ForceUnloadTaskQueue", matching_pb::ForceUnloadTaskQueueRequest());
  refused("ForceLoadTaskQueuePartition", matching_pb::ForceLoadTaskQueuePartitionRequest());
  // The server is none the worse.
  MustAdd("w1");
  EXPECT_EQ(Take(), "w1");
}

TEST_F(MatchingTest, LivesThatCannotBeAreForEver) {
  for (const auto& [seconds_of_life, nanos] : std::vector<std::pair<std::int64_t, std::int32_t>>{
           {-5, 0}, {0, -1}, {0, 2'000'000'000}, {std::int64_t{1} << 62, 0}}) {
    auto request = AddRequest("w1", Queue("q"));
    request.mutable_schedule_to_start_timeout()->set_seconds(seconds_of_life);
    request.mutable_schedule_to_start_timeout()->set_nanos(nanos);
    const auto add = host_->StartRaw("AddWorkflowTask", request.SerializeAsString());
    executor_.AdvanceBy(milliseconds(10));
    EXPECT_TRUE(add->done && add->status.ok());
    EXPECT_EQ(Take(), "w1");
  }
}

TEST_F(MatchingTest, TooManyPollsAndTooManyPartitionsAreRefused) {
  config_.pollers_max = 2;
  config_.partitions_max = 5;
  Restart();
  const auto one = Poll();
  const auto two = Poll();
  const auto three = Poll();
  EXPECT_EQ(three->kind(), ErrorKind::kResourceExhausted);
  EXPECT_FALSE(one->done || two->done);
  Add("w1", Queue("/_sys/q/7"));
  EXPECT_EQ(one->workflow(), "w1");
  EXPECT_EQ(Add("w2", Queue("/_sys/q/8"))->kind(), ErrorKind::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::temporal
