// The matching service, method by method, with a history service that works.
#include <set>
#include <string>
#include <vector>

#include "millrace/temporal/testing/matching_harness.h"

namespace millrace::temporal {
namespace {

TEST_F(MatchingTest, AWaitingPollGetsANewTaskThatIsNeverStored) {
  const auto poll = Poll();
  EXPECT_FALSE(poll->done);
  const auto add = Add("w1");
  EXPECT_TRUE(add->done && add->status.ok()) << add->status.message;
  ASSERT_TRUE(poll->done);
  EXPECT_EQ(poll->workflow(), "w1");
  EXPECT_EQ(poll->hint(), 0);
  ASSERT_EQ(history_.started.size(), 1u);
  EXPECT_EQ(history_.started[0].type, TaskType::kWorkflow);
  EXPECT_EQ(history_.started[0].namespace_name, "space");
  EXPECT_EQ(history_.started[0].deadline, executor_.clock().Now() + seconds(1));
  EXPECT_EQ(StoredQueues(), 0u);
}

TEST_F(MatchingTest, ATaskWithoutPollIsStoredAndComesToTheNextOne) {
  MustAdd("w1");
  EXPECT_EQ(StoredQueues(), 1u);
  const auto poll = Poll();
  executor_.AdvanceBy(milliseconds(10));
  ASSERT_TRUE(poll->done);
  EXPECT_EQ(poll->workflow(), "w1");
  EXPECT_EQ(history_.started.at(0).deadline,
            executor_.clock().Now() + seconds(10) - milliseconds(10));
  EXPECT_EQ(Describe().stats().approximate_backlog_count(), 0);
  EXPECT_EQ(Take(), "");
}

TEST_F(MatchingTest, WhatIsStoredIsWhatTheRequestSaid) {
  auto request = AddRequest("w1", Queue("q"));
  request.set_clock("clock bytes");
  request.set_stamp(7);
  request.mutable_priority()->set_priority_key(2);
  request.mutable_schedule_to_start_timeout()->set_seconds(60);
  const WallTime now = executor_.clock().WallNow();
  const auto add = host_->StartRaw("AddWorkflowTask", request.SerializeAsString());
  executor_.AdvanceBy(milliseconds(10));
  ASSERT_TRUE(add->done && add->status.ok());
  const store::PhysicalQueueKey key{kNamespace, "q", 1};
  const auto page = durable_.ReadTasks(key, 0, {}, {1'000, TaskId{1'000'000}}, 10, 1 << 20);
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->rows.size(), 1u);
  EXPECT_EQ(page->rows[0].create_time, now);
  EXPECT_EQ(page->rows[0].expiry_time, now + seconds(60));
  persistence_pb::TaskInfo info;
  ASSERT_TRUE(info.ParseFromString(page->rows[0].payload));
  EXPECT_EQ(info.namespace_id(), kNamespace);
  EXPECT_EQ(info.workflow_id(), "w1");
  EXPECT_EQ(info.run_id(), "run");
  EXPECT_EQ(info.scheduled_event_id(), 2);
  EXPECT_EQ(info.clock(), "clock bytes");
  EXPECT_EQ(info.stamp(), 7);
  common_pb::Priority priority;
  ASSERT_TRUE(priority.ParseFromString(info.priority()));
  EXPECT_EQ(priority.priority_key(), 2);
  EXPECT_EQ(info.create_time().seconds(), now.ns / 1'000'000'000);
  EXPECT_EQ(info.expiry_time().seconds(), now.ns / 1'000'000'000 + 60);
}

TEST_F(MatchingTest, ActivityTasksHaveAQueueOfTheirOwn) {
  matching_pb::AddActivityTaskRequest request;
  request.set_namespace_id(kNamespace);
  request.mutable_execution()->set_workflow_id("w1");
  *request.mutable_task_queue() = Queue("q");
  request.set_component_ref("ref");
  const auto add = host_->StartRaw("AddActivityTask", request.SerializeAsString());
  executor_.AdvanceBy(milliseconds(10));
  ASSERT_TRUE(add->done && add->status.ok());
  EXPECT_EQ(Take(), "");  // A workflow poll.
  matching_pb::PollActivityTaskQueueRequest poll;
  poll.set_namespace_id(kNamespace);
  *poll.mutable_poll_request()->mutable_task_queue() = Queue("q");
  const auto polled = host_->StartRaw("PollActivityTaskQueue", poll.SerializeAsString());
  ASSERT_TRUE(polled->done);
  EXPECT_EQ(polled->workflow(), "w1");
  EXPECT_EQ(history_.started.back().type, TaskType::kActivity);
}

TEST_F(MatchingTest, APollEndsEmptyAfterAMinuteOrASecondBeforeItsCallersDeadline) {
  const auto patient = Poll(Queue("q"), {.timeout = minutes(5)});
  const auto hasty = Poll(Queue("q"), {.timeout = seconds(10)});
  executor_.AdvanceBy(seconds(9) - milliseconds(1));
  EXPECT_FALSE(hasty->done);
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_TRUE(hasty->empty());
  executor_.AdvanceBy(seconds(51) - milliseconds(1));
  EXPECT_FALSE(patient->done);
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_TRUE(patient->empty());
}

TEST_F(MatchingTest, APollThatMayNotWaitTakesWhatIsThere) {
  EXPECT_TRUE(Poll(Queue("q"), {.no_wait = true})->empty());
  MustAdd("w1");
  const auto poll = Poll(Queue("q"), {.no_wait = true});
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_EQ(poll->workflow(), "w1");
}

TEST_F(MatchingTest, PollsAreServedInTheirOrder) {
  const auto first = Poll();
  const auto second = Poll();
  Add("w1");
  Add("w2");
  EXPECT_EQ(first->workflow(), "w1");
  EXPECT_EQ(second->workflow(), "w2");
}

TEST_F(MatchingTest, TheHintDoesNotCountTheTaskReturned) {
  for (const char* workflow : {"w1", "w2", "w3"}) MustAdd(workflow);
  const auto poll = Poll();
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_EQ(poll->workflow(), "w1");
  EXPECT_EQ(poll->hint(), 2);
}

TEST_F(MatchingTest, CancelOutstandingPollEndsThatPollAtOnce) {
  const auto one = Poll(Queue("q"), {.poller_id = "p1"});
  const auto two = Poll(Queue("q"), {.poller_id = "p2"});
  matching_pb::CancelOutstandingPollRequest request;
  request.set_namespace_id(kNamespace);
  request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  *request.mutable_task_queue() = Queue("q");
  request.set_poller_id("p1");
  Call<matching_pb::CancelOutstandingPollResponse>("CancelOutstandingPoll", request);
  EXPECT_TRUE(one->empty());
  EXPECT_FALSE(two->done);
  Add("w1");
  EXPECT_EQ(two->workflow(), "w1");
}

TEST_F(MatchingTest, AWorkerThatShutsDownGetsNothingMore) {
  const auto own = Poll(Queue("q"), {.worker_key = "k1"});
  const auto child = Poll(Queue("/_sys/q/2"), {.worker_key = "k1"});
  const auto other_queue = Poll(Queue("r"), {.worker_key = "k1"});
  const auto other_worker = Poll(Queue("q"), {.identity = "other", .worker_key = "k2"});
  matching_pb::CancelOutstandingWorkerPollsRequest request;
  request.set_namespace_id(kNamespace);
  *request.mutable_task_queue() = Queue("q");
  request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  request.set_worker_instance_key("k1");
  request.set_worker_identity("worker");
  const auto response = Call<matching_pb::CancelOutstandingWorkerPollsResponse>(
      "CancelOutstandingWorkerPolls", request);
  EXPECT_EQ(response.cancelled_count(), 3);
  EXPECT_TRUE(own->empty() && child->empty() && other_queue->empty());
  EXPECT_FALSE(other_worker->done);
  // Its next polls are empty for a while, and no task goes to them.
  EXPECT_TRUE(Poll(Queue("q"), {.worker_key = "k1"})->empty());
  Add("w1");
  EXPECT_EQ(other_worker->workflow(), "w1");
  const auto described = Describe();
  ASSERT_EQ(described.pollers_size(), 1);
  EXPECT_EQ(described.pollers(0).identity(), "other");
  executor_.AdvanceBy(seconds(31));
  EXPECT_FALSE(Poll(Queue("q"), {.worker_key = "k1"})->done);
}

TEST_F(MatchingTest, PartitionsOfWorkersPollsAreCancelledByName) {
  const auto poll = Poll(Queue("/_sys/q/2"), {.worker_key = "k1"});
  matching_pb::CancelOutstandingWorkerPollsPartitionRequest request;
  request.set_namespace_id(kNamespace);
  auto* partition = request.add_partitions();
  partition->set_task_queue("q");
  partition->set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  partition->set_normal_partition_id(2);
  request.add_workers()->set_worker_instance_key("k1");
  const auto response = Call<matching_pb::CancelOutstandingWorkerPollsPartitionResponse>(
      "CancelOutstandingWorkerPollsPartition", request);
  EXPECT_EQ(response.cancelled_count(), 1);
  EXPECT_TRUE(poll->empty());
}

TEST_F(MatchingTest, AVanishedPollerGetsNothingAndTheNextOneDoes) {
  const auto gone = Poll();
  const auto there = Poll();
  Cancel(gone);
  executor_.RunUntilIdle();
  EXPECT_TRUE(gone->done);
  Add("w1");
  EXPECT_EQ(there->workflow(), "w1");
  EXPECT_EQ(history_.started.size(), 1u);
}

TEST_F(MatchingTest, APollerThatVanishesAtTheMomentOfMatchLosesNoTask) {
  // A new task: the next poll gets it.
  auto gone = Poll();
  auto there = Poll();
  Cancel(gone);  // The strand does not know it yet.
  Add("w1");
  EXPECT_EQ(there->workflow(), "w1");
  EXPECT_TRUE(gone->done);
  // A new task and no other poll: it is stored.
  gone = Poll();
  Cancel(gone);
  MustAdd("w2");
  EXPECT_EQ(Take(), "w2");
  EXPECT_EQ(history_.started.size(), 2u);
}

TEST_F(MatchingTest, AStoredTaskGoesBackWhenItsPollerVanishesAtTheMomentOfMatch) {
  MustAdd("w1");
  EXPECT_TRUE(Poll(Queue("q"), {.vanished = true})->empty());
  EXPECT_TRUE(history_.started.empty());
  EXPECT_EQ(Take(), "w1");
}

TEST_F(MatchingTest, ExpiredTasksAreDropped) {
  MustAdd("short", Queue("q"), seconds(10));
  MustAdd("long", Queue("q"), seconds(60));
  MustAdd("for ever");
  executor_.AdvanceBy(seconds(11));
  EXPECT_EQ(Take(), "long");
  EXPECT_EQ(Take(), "for ever");
  EXPECT_EQ(Take(), "");
  EXPECT_EQ(Describe().stats().approximate_backlog_count(), 0);
}

TEST_F(MatchingTest, AStickyQueueTakesTasksOnlyWhileItsWorkerPolls) {
  EXPECT_EQ(Add("w0", Sticky("host:1"))->kind(), ErrorKind::kStickyWorkerUnavailable);
  const auto poll = Poll(Sticky("host:1"), {.timeout = seconds(30)});
  EXPECT_TRUE(Add("w1", Sticky("host:1"))->status.ok());
  EXPECT_EQ(poll->workflow(), "w1");
  // Between two polls of the worker.
  MustAdd("w2", Sticky("host:1"));
  EXPECT_EQ(Take(Sticky("host:1")), "w2");
  executor_.AdvanceBy(seconds(11));
  EXPECT_EQ(Add("w3", Sticky("host:1"))->kind(), ErrorKind::kStickyWorkerUnavailable);
  EXPECT_EQ(Take(Sticky("host:1")), "");
}

TEST_F(MatchingTest, AStickyQueueOfAWorkerThatShutDownTakesNothing) {
  const auto poll = Poll(Sticky("host:1"), {.worker_key = "k1"});
  matching_pb::CancelOutstandingWorkerPollsRequest request;
  request.set_namespace_id(kNamespace);
  *request.mutable_task_queue() = Queue("q");
  request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  request.set_worker_instance_key("k1");
  Call<matching_pb::CancelOutstandingWorkerPollsResponse>("CancelOutstandingWorkerPolls", request);
  EXPECT_TRUE(poll->empty());
  EXPECT_EQ(Add("w1", Sticky("host:1"))->kind(), ErrorKind::kStickyWorkerUnavailable);
}

TEST_F(MatchingTest, ATaskInAnyPartitionComesToAPollOnAnyOther) {
  const auto poll = Poll();
  Add("w1", Queue("/_sys/q/3"));
  EXPECT_EQ(poll->workflow(), "w1");
  MustAdd("w2", Queue("/_sys/q/3"));
  EXPECT_EQ(Take(Queue("/_sys/q/1")), "w2");
  // A partition beyond those that are looked for.
  MustAdd("w3", Queue("/_sys/q/77"));
  EXPECT_EQ(Take(), "w3");
}

TEST_F(MatchingTest, TasksOfEveryPartitionAreThereAfterARestart) {
  std::set<std::string> left;
  for (const char* queue : {"q", "/_sys/q/1", "/_sys/q/2", "/_sys/q/3"}) {
    MustAdd(std::string("in ") + queue, Queue(queue));
    left.insert(std::string("in ") + queue);
  }
  CrashAndRestart();
  while (!left.empty()) ASSERT_EQ(left.erase(Take(Queue("/_sys/q/1"))), 1u);
  EXPECT_EQ(Take(), "");
}

TEST_F(MatchingTest, ATaskBeingStartedAtACrashIsStartedAgain) {
  MustAdd("w1");
  history_.hold = true;
  const auto poll = Poll();
  executor_.RunUntilIdle();
  ASSERT_EQ(history_.started.size(), 1u);
  history_.next.clear();
  history_.Release();  // Answers that the dead host never hears of are answered all the same.
  host_->Crash();
  history_.hold = false;
  Restart();
  EXPECT_EQ(Take(), "w1");
  ASSERT_EQ(history_.started.size(), 2u);
  EXPECT_NE(history_.started[0].request_id, history_.started[1].request_id);
}

TEST_F(MatchingTest, QueuesThatAreOnlyPolledLeaveNoRows) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Poll(Queue("q" + std::to_string(i)), {.no_wait = true})->empty());
  }
  EXPECT_EQ(StoredQueues(), 0u);
  executor_.AdvanceBy(minutes(12));
  EXPECT_EQ(host_->service().loaded_queues(), 0u);
}

TEST_F(MatchingTest, AnIdleQueueWithAWaitingPollStaysAndCallsNoStore) {
  const auto poll = Poll(Queue("q"), {.timeout = minutes(5)});
  const std::uint64_t calls = host_->store().calls();
  executor_.AdvanceBy(seconds(59));
  EXPECT_EQ(host_->store().calls(), calls);
  EXPECT_FALSE(poll->done);
}

TEST_F(MatchingTest, StopEndsPollsEmptyAndRefusesTheRest) {
  const auto poll = Poll();
  const auto user_data = [&] {
    matching_pb::GetTaskQueueUserDataRequest request;
    request.set_namespace_id(kNamespace);
    request.set_task_queue("q");
    request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
    request.set_wait_new_data(true);
    return host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString());
  }();
  EXPECT_FALSE(user_data->done);
  host_->BeginStop();
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(host_->stopped());
  EXPECT_TRUE(poll->empty());
  EXPECT_TRUE(user_data->empty());
  EXPECT_TRUE(Poll()->empty());
  const auto add = Add("w1");
  EXPECT_EQ(add->status.code, rpc::Code::kUnavailable);
}

TEST_F(MatchingTest, DescribeTellsPollersAndBacklog) {
  EXPECT_EQ(Take(), "");
  MustAdd("w1");
  MustAdd("w2", Queue("/_sys/q/1"));
  executor_.AdvanceBy(seconds(2));
  auto described = Describe();
  ASSERT_EQ(described.pollers_size(), 1);
  EXPECT_EQ(described.pollers(0).identity(), "worker");
  EXPECT_EQ(described.pollers(0).rate_per_second(), 100'000);
  EXPECT_GT(described.pollers(0).last_access_time().seconds(), 0);
  EXPECT_EQ(described.stats().approximate_backlog_count(), 2);
  EXPECT_GE(described.stats().approximate_backlog_age().seconds(), 2);
  EXPECT_GT(described.stats().tasks_add_rate(), 0);
  EXPECT_EQ(described.task_queue_status().backlog_count_hint(), 1);  // Of this partition.
  EXPECT_EQ(described.task_queue_status().ack_level(), 0);
  EXPECT_EQ(described.task_queue_status().read_level(), 1);
  EXPECT_EQ(described.task_queue_status().task_id_block().start_id(), 1);
  EXPECT_EQ(described.task_queue_status().task_id_block().end_id(), 100'000);
  const std::set<std::string> got = {Take(), Take()};  // Partitions take turns.
  EXPECT_EQ(got, (std::set<std::string>{"w1", "w2"}));
  executor_.AdvanceBy(minutes(6));
  described = Describe();
  EXPECT_EQ(described.pollers_size(), 0);
  EXPECT_EQ(described.stats().approximate_backlog_count(), 0);
  EXPECT_EQ(described.stats().tasks_add_rate(), 0);
}

TEST_F(MatchingTest, DescribeOfAQueueInTheStoreLoadsIt) {
  MustAdd("w1");
  CrashAndRestart();
  EXPECT_EQ(Describe().stats().approximate_backlog_count(), 1);
}

TEST_F(MatchingTest, DescribePartitionTellsOfThatOneAlone) {
  MustAdd("w1", Queue("/_sys/q/1"));
  matching_pb::DescribeTaskQueuePartitionRequest request;
  request.set_namespace_id(kNamespace);
  auto* partition = request.mutable_task_queue_partition();
  partition->set_task_queue("q");
  partition->set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  partition->set_normal_partition_id(1);
  request.mutable_versions()->set_unversioned(true);
  request.set_report_stats(true);
  request.set_report_internal_task_queue_status(true);
  const auto describe = [&] {
    return Call<matching_pb::DescribeTaskQueuePartitionResponse>("DescribeTaskQueuePartition",
                                                                 request)
        .versions_info_internal()
        .at("")
        .physical_task_queue_info();
  };
  EXPECT_EQ(describe().task_queue_stats().approximate_backlog_count(), 1);
  EXPECT_EQ(describe().internal_task_queue_status(0).max_read_level(), 1);
  partition->set_normal_partition_id(2);
  EXPECT_EQ(describe().task_queue_stats().approximate_backlog_count(), 0);
}

TEST_F(MatchingTest, PartitionsAreListedWithTheirOwner) {
  matching_pb::ListTaskQueuePartitionsRequest request;
  request.set_namespace_id(kNamespace);
  *request.mutable_task_queue() = Queue("q");
  const auto response =
      Call<matching_pb::ListTaskQueuePartitionsResponse>("ListTaskQueuePartitions", request);
  ASSERT_EQ(response.workflow_task_queue_partitions_size(), 4);
  ASSERT_EQ(response.activity_task_queue_partitions_size(), 4);
  EXPECT_EQ(response.workflow_task_queue_partitions(0).key(), "q");
  EXPECT_EQ(response.activity_task_queue_partitions(3).key(), "/_sys/q/3");
  EXPECT_EQ(response.workflow_task_queue_partitions(2).owner_host_name(), "me:7630");
}

TEST_F(MatchingTest, UserDataIsEmptyAndNewsOfItAreWaitedFor) {
  matching_pb::GetTaskQueueUserDataRequest request;
  request.set_namespace_id(kNamespace);
  request.set_task_queue("q");
  request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
  EXPECT_TRUE(host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString())->empty());
  request.set_wait_new_data(true);
  const auto waiting =
      host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString(), seconds(30));
  const auto gone = host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString());
  Cancel(gone);
  executor_.AdvanceBy(seconds(29) - milliseconds(1));
  EXPECT_TRUE(gone->done);
  EXPECT_FALSE(waiting->done);
  executor_.AdvanceBy(milliseconds(1));
  EXPECT_TRUE(waiting->empty());
  request.set_only_if_loaded(true);
  EXPECT_EQ(host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString())->status.code,
            rpc::Code::kFailedPrecondition);
  request.set_only_if_loaded(false);
  request.set_last_known_user_data_version(-1);
  EXPECT_EQ(host_->StartRaw("GetTaskQueueUserData", request.SerializeAsString())->status.code,
            rpc::Code::kInvalidArgument);
}

TEST_F(MatchingTest, ThereAreNoNexusEndpointsAndNewsOfThemAreWaitedFor) {
  matching_pb::ListNexusEndpointsRequest request;
  EXPECT_TRUE(host_->StartRaw("ListNexusEndpoints", request.SerializeAsString())->empty());
  request.set_wait(true);
  const auto waiting =
      host_->StartRaw("ListNexusEndpoints", request.SerializeAsString(), seconds(20));
  executor_.AdvanceBy(seconds(18));
  EXPECT_FALSE(waiting->done);
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(waiting->empty());
  request.set_last_known_table_version(3);
  EXPECT_TRUE(host_->StartRaw("ListNexusEndpoints", request.SerializeAsString())->empty());
  request.set_wait(false);
  EXPECT_EQ(host_->StartRaw("ListNexusEndpoints", request.SerializeAsString())->status.code,
            rpc::Code::kFailedPrecondition);
}

TEST_F(MatchingTest, EveryMethodOfTheServiceIsKnown) {
  EXPECT_EQ(host_->table().unary.size(), 42u);
  for (const char* method :
       {"QueryWorkflow", "DispatchNexusTask", "UpdateFairnessState", "ListWorkers"}) {
    const auto ended = host_->StartRaw(method, "");
    EXPECT_EQ(ended->status.code, rpc::Code::kUnimplemented) << method;
    EXPECT_NE(ended->status.message.find(method), std::string::npos) << ended->status.message;
  }
}

TEST_F(MatchingTest, ForceUnloadGivesTheQueueUpAndTheNextCallLoadsIt) {
  MustAdd("w1");
  const auto poll = Poll(Queue("r"), {});
  for (const char* queue : {"q", "r"}) {
    matching_pb::ForceUnloadTaskQueueRequest request;
    request.set_namespace_id(kNamespace);
    request.set_task_queue(queue);
    request.set_task_queue_type(enums_pb::TASK_QUEUE_TYPE_WORKFLOW);
    EXPECT_TRUE(Call<matching_pb::ForceUnloadTaskQueueResponse>("ForceUnloadTaskQueue", request)
                    .was_loaded());
  }
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(poll->empty());
  EXPECT_EQ(host_->service().loaded_queues(), 0u);
  EXPECT_EQ(Take(), "w1");
}

}  // namespace
}  // namespace millrace::temporal
