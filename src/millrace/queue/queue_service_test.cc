#include "millrace/queue/queue_service.h"

#include <gtest/gtest.h>
#include <millrace/v1/queue.pb.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/queue/testing/queue_harness.h"

namespace millrace::queue {
namespace {

TEST_F(QueueServiceTest, FullCycle) {
  const auto ids = Enqueue({"a", "b"});
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_NE(ids[0], ids[1]);
  const auto tasks = Lease(5);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].task_id(), ids[0]);
  EXPECT_EQ(tasks[0].payload(), "a");
  EXPECT_EQ(tasks[0].attempt(), 1);
  EXPECT_TRUE(Lease(5).empty()) << "leased tasks are not handed out";
  EXPECT_EQ(Describe().counts().leased(), 2);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Fail(tasks[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Release(tasks[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Extend(tasks[0].lease_token(), 10), "LEASE_LOST");
  EXPECT_EQ(Complete(tasks[1].lease_token()), "");
  const v1::QueueInfo info = Describe();
  EXPECT_EQ(info.counts().done(), 2);
  EXPECT_EQ(info.counts().waiting(), 0);
  EXPECT_EQ(info.row_counts().task_rows(), 0);
}

TEST_F(QueueServiceTest, HeadersAndTimesComeBack) {
  v1::EnqueueRequest request;
  request.set_queue("q");
  (*request.add_tasks()->mutable_headers())["trace"] = "xyz";
  request.mutable_tasks(0)->set_payload("p");
  (void)Call<v1::EnqueueResponse>("Enqueue", request);
  const auto tasks = Lease(1, 45);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].headers().at("trace"), "xyz");
  EXPECT_EQ(tasks[0].enqueue_time().seconds(), 1'700'000'000);
  EXPECT_EQ(tasks[0].lease_duration().seconds(), 45);
}

TEST_F(QueueServiceTest, AFailedTaskComesBackWithItsIdAndOneMoreAttempt) {
  const auto ids = Enqueue({"a", "b"});
  const auto first = Lease(1);
  EXPECT_EQ(Fail(first[0].lease_token()), "");
  const auto again = Lease(2);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].payload(), "b") << "a failed task goes to the end";
  EXPECT_EQ(again[1].task_id(), ids[0]);
  EXPECT_EQ(again[1].attempt(), 2);
  EXPECT_EQ(again[0].attempt(), 1) << "its neighbour is not charged";
  EXPECT_EQ(again[1].enqueue_time().seconds(), first[0].enqueue_time().seconds());
  EXPECT_EQ(Complete(first[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Complete(again[1].lease_token()), "");
}

TEST_F(QueueServiceTest, MaxAttemptsIsTheTotalWithTheFirstIncluded) {
  for (const int max : {1, 2, 3}) {
    Enqueue({"p"}, max);
    for (int attempt = 1; attempt <= max; ++attempt) {
      const auto tasks = Lease(1);
      ASSERT_EQ(tasks.size(), 1u) << max << " " << attempt;
      EXPECT_EQ(tasks[0].attempt(), attempt);
      EXPECT_EQ(Fail(tasks[0].lease_token()), "");
    }
    EXPECT_TRUE(Lease(1).empty());
  }
  EXPECT_EQ(Describe().counts().dead(), 3);
  const auto dead = Peek(v1::TASK_STATE_DEAD, 1);
  ASSERT_EQ(dead.size(), 3u);
  EXPECT_EQ(dead[0].error_message(), "it broke");
  EXPECT_EQ(dead[2].attempt(), 3);
  EXPECT_EQ(dead[2].payload(), "p");
}

TEST_F(QueueServiceTest, APermanentFailureIsDeadAtOnce) {
  Enqueue({"p"});
  EXPECT_EQ(Fail(Lease(1)[0].lease_token(), true), "");
  EXPECT_EQ(Describe().counts().dead(), 1);
  CrashAndRestart();
  EXPECT_EQ(Describe().counts().dead(), 1);
  EXPECT_TRUE(Lease(1).empty());
}

TEST_F(QueueServiceTest, AReleasedTaskIsNotChargedAnAttempt) {
  Enqueue({"p"}, 1);
  for (int i = 0; i < 3; ++i) {
    const auto tasks = Lease(1);
    ASSERT_EQ(tasks.size(), 1u);
    EXPECT_EQ(tasks[0].attempt(), 1);
    EXPECT_EQ(Release(tasks[0].lease_token()), "");
  }
  EXPECT_EQ(Complete(Lease(1)[0].lease_token()), "");
}

TEST_F(QueueServiceTest, AnExpiredLeaseIsLostAndTheTaskComesBack) {
  Enqueue({"p"});
  const auto tasks = Lease(1, 10);
  executor_.AdvanceBy(seconds(9));
  EXPECT_TRUE(Lease(1).empty());
  // The next holder waits when the lease runs out: it must get the task then, not after its own
  // wait.
  const auto waiting = host_->Start("Lease", LeaseRequest(1, 30, 60));
  executor_.AdvanceBy(seconds(2));
  ASSERT_TRUE(waiting->done);
  v1::LeaseResponse response;
  response.ParseFromString(waiting->response);
  ASSERT_EQ(response.tasks_size(), 1);
  EXPECT_EQ(response.tasks(0).attempt(), 2);
  EXPECT_EQ(response.tasks(0).task_id(), tasks[0].task_id());
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Complete(response.tasks(0).lease_token()), "");
}

TEST_F(QueueServiceTest, AnExtendedLeaseIsKeptAndClockJumpsDoNotMatter) {
  Enqueue({"p"});
  const auto tasks = Lease(1, 10);
  for (int i = 0; i < 20; ++i) {
    executor_.AdvanceBy(seconds(8));
    executor_.manual_clock().JumpWall(i % 2 == 0 ? Duration(hours(1)) : Duration(-hours(2)));
    EXPECT_EQ(Extend(tasks[0].lease_token(), 10), "");
    EXPECT_TRUE(Lease(1).empty());
  }
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
}

TEST_F(QueueServiceTest, ARestartRemembersLeasesAndTheirTokens) {
  Enqueue({"a", "b", "c"});
  const auto tasks = Lease(2, 60);
  executor_.AdvanceBy(milliseconds(100));  // The next commit has taken the leases along.
  CrashAndRestart();
  const auto rest = Lease(5);
  ASSERT_EQ(rest.size(), 1u) << "running work is not handed out twice";
  EXPECT_EQ(rest[0].payload(), "c");
  EXPECT_EQ(Describe().counts().leased(), 3);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
  executor_.AdvanceBy(seconds(61));
  const auto late = Lease(5);
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].attempt(), 2);
  EXPECT_EQ(Complete(tasks[1].lease_token()), "LEASE_LOST");
}

TEST_F(QueueServiceTest, ARememberedLeaseBehindAFullBufferIsStillGood) {
  config_.backlog.page_size = 2;
  Restart();
  Enqueue({"a", "b", "c", "d", "e", "f"});
  auto tasks = Lease(2, 60);
  for (const auto& more : {Lease(2, 60), Lease(2, 60)})
    tasks.insert(tasks.end(), more.begin(), more.end());
  ASSERT_EQ(tasks.size(), 6u);
  // The first four go back to waiting under new ids only after the restart; the last two stay
  // leased.
  executor_.AdvanceBy(milliseconds(100));
  CrashAndRestart();
  EXPECT_EQ(Complete(tasks[5].lease_token()), "");
  EXPECT_EQ(Complete(tasks[5].lease_token()), "LEASE_LOST");
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(Complete(tasks[static_cast<std::size_t>(i)].lease_token()), "");
  EXPECT_TRUE(Lease(5).empty()) << "a finished task came back";
  EXPECT_EQ(Describe().counts().done(), 6);
}

// Fails without QueueRuntime::recovered_: the final write of the failed instance then replaces the
// queue's uid by 0 and forgets the leases (found by millrace_sim, profile queue, seed 5).
TEST_F(QueueServiceTest, ALoadThatFailsLeavesIdsAndLeasesAlone) {
  const auto ids = Enqueue({"a", "b"});
  const auto tasks = Lease(1, 600);
  Restart();
  for (std::uint64_t n = 0; n < 4; ++n) {
    host_ = nullptr;
    host_ = std::make_unique<Host>(executor_, durable_, config_,
                                   std::make_unique<sim::NthFault>(n, sim::FaultKind::kUnavailable,
                                                                   sim::StoreOp::kReadSideRows));
    (void)host_->Start("Lease", LeaseRequest(1, 600));
    Restart();
  }
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  executor_.AdvanceBy(seconds(700));
  const auto others = Lease(2);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].task_id(), ids[1]);
}

TEST_F(QueueServiceTest, ALeaseThatRanOutWhileTheServerWasDownIsLost) {
  Enqueue({"a"});
  const auto tasks = Lease(1, 10);
  executor_.AdvanceBy(milliseconds(100));
  host_->Crash();
  executor_.manual_clock().Advance(seconds(30));
  Restart();
  // Loading the queue finds that its time is up; a call that waits a moment gets the task.
  const auto waiting = host_->Start("Lease", LeaseRequest(1, 30, 5));
  executor_.AdvanceBy(milliseconds(100));
  ASSERT_TRUE(waiting->done);
  v1::LeaseResponse response;
  ASSERT_TRUE(response.ParseFromString(waiting->response));
  ASSERT_EQ(response.tasks_size(), 1);
  EXPECT_EQ(response.tasks(0).attempt(), 2);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
}

TEST_F(QueueServiceTest, AFinishedTaskStaysFinishedWhileAnOlderOneRuns) {
  Enqueue({"old", "young"});
  const auto tasks = Lease(2, 600);
  EXPECT_EQ(Complete(tasks[1].lease_token()), "");
  CrashAndRestart();
  EXPECT_TRUE(Lease(5).empty() || Describe().counts().leased() == 1);
  std::set<std::string> seen;
  for (const auto& task : Peek(v1::TASK_STATE_UNSPECIFIED)) seen.insert(task.payload());
  EXPECT_EQ(seen, std::set<std::string>{"old"});
}

TEST_F(QueueServiceTest, ALongPollWakesWhenATaskComes) {
  const auto waiting = host_->Start("Lease", LeaseRequest(10, 30, 60));
  EXPECT_FALSE(waiting->done);
  EXPECT_EQ(Describe(false).pollers(), 1);
  Enqueue({"x", "y"});
  ASSERT_TRUE(waiting->done);
  v1::LeaseResponse response;
  response.ParseFromString(waiting->response);
  EXPECT_EQ(response.tasks_size(), 2);
}

TEST_F(QueueServiceTest, ALongPollEndsEmptyAndOkShortlyBeforeTheDeadline) {
  const Instant deadline = executor_.clock().Now() + seconds(5);
  const auto waiting = host_->Start("Lease", LeaseRequest(1, 30, 60), deadline);
  executor_.AdvanceBy(milliseconds(4'790));
  EXPECT_FALSE(waiting->done);
  executor_.AdvanceBy(milliseconds(20));
  ASSERT_TRUE(waiting->done);
  EXPECT_TRUE(waiting->status.ok());
  EXPECT_TRUE(waiting->response.empty());
}

TEST_F(QueueServiceTest, AVanishedPollerGetsNothingAndTheNextOneDoes) {
  const auto gone = host_->Start("Lease", LeaseRequest(1, 30, 60));
  ASSERT_TRUE(gone->on_cancel);
  gone->on_cancel();
  executor_.RunUntilIdle();
  EXPECT_TRUE(gone->done);
  Enqueue({"x"});
  EXPECT_EQ(Lease(1).size(), 1u);
}

TEST_F(QueueServiceTest, AnExpiredTaskIsDroppedAndCounted) {
  Enqueue({"short"}, 0, seconds(5));
  Enqueue({"long"});
  executor_.AdvanceBy(seconds(6));
  const auto tasks = Lease(5);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].payload(), "long");
  EXPECT_EQ(Describe().counts().dropped(), 1);
}

TEST_F(QueueServiceTest, DeadTasksInMemoryDoNotKeepThePollerFromTheLiveOne) {
  config_.backlog.page_size = 2;
  Restart();
  (void)Enqueue({"a", "b", "c"}, 0, seconds(1));
  (void)Enqueue({"live"});
  executor_.AdvanceBy(seconds(5));
  const auto poll = host_->Start("Lease", LeaseRequest(1, 30, 10));
  executor_.AdvanceBy(seconds(2));
  ASSERT_TRUE(poll->done);
  v1::LeaseResponse response;
  ASSERT_TRUE(response.ParseFromString(poll->response));
  ASSERT_EQ(response.tasks_size(), 1);
  EXPECT_EQ(response.tasks(0).payload(), "live");
  EXPECT_EQ(Describe().counts().dropped(), 3);
}

TEST_F(QueueServiceTest, ALeasedTaskDoesNotExpire) {
  Enqueue({"p"}, 0, seconds(5));
  const auto tasks = Lease(1, 60);
  executor_.AdvanceBy(seconds(10));
  CrashAndRestart();
  EXPECT_TRUE(Lease(1).empty());
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  EXPECT_EQ(Describe().counts().dropped(), 0);
}

TEST_F(QueueServiceTest, PeekChangesNothingAndPages) {
  Enqueue({"a", "b", "c", "d", "e"});
  const auto leased = Lease(2);
  EXPECT_EQ(Peek(v1::TASK_STATE_WAITING, 1).size(), 3u);
  EXPECT_EQ(Peek(v1::TASK_STATE_LEASED, 1).size(), 2u);
  const auto all = Peek(v1::TASK_STATE_UNSPECIFIED, 2);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].state(), v1::TASK_STATE_LEASED);
  EXPECT_EQ(all[0].worker_id(), "worker");
  EXPECT_EQ(all[0].attempt(), 1);
  EXPECT_EQ(all[4].attempt(), 0);
  EXPECT_EQ(Lease(5).size(), 3u);
}

TEST_F(QueueServiceTest, DescribeAndPeekOfAnUnknownQueueAreNotFoundAndCreateNothing) {
  v1::DescribeRequest describe;
  describe.set_queue("nobody");
  v1::PeekRequest peek;
  peek.set_queue("nobody");
  for (const auto& ended : {host_->Start("Describe", describe), host_->Start("Peek", peek)}) {
    executor_.AdvanceBy(milliseconds(50));
    ASSERT_TRUE(ended->done);
    EXPECT_EQ(ended->status.code, rpc::Code::kNotFound);
    EXPECT_EQ(ended->reason(), "QUEUE_NOT_FOUND");
  }
  EXPECT_EQ(Call<v1::ListResponse>("List", v1::ListRequest()).queues_size(), 0);
}

TEST_F(QueueServiceTest, ListShowsLoadedAndUnloadedQueuesAlike) {
  for (const char* name : {"a/1", "a/2", "b"}) {
    v1::EnqueueRequest request;
    request.set_queue(name);
    request.add_tasks()->set_payload("p");
    (void)Call<v1::EnqueueResponse>("Enqueue", request);
  }
  for (const bool restarted : {false, true}) {
    if (restarted) Restart();
    v1::ListRequest request;
    request.set_page_size(1);
    std::map<std::string, std::int64_t> waiting;
    do {
      const auto response = Call<v1::ListResponse>("List", request);
      for (const auto& queue : response.queues()) {
        waiting[queue.name()] = queue.counts().waiting();
        EXPECT_EQ(queue.loaded(), !restarted);
      }
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(waiting, (std::map<std::string, std::int64_t>{{"a/1", 1}, {"a/2", 1}, {"b", 1}}));
    v1::ListRequest prefixed;
    prefixed.set_name_prefix("a/");
    EXPECT_EQ(Call<v1::ListResponse>("List", prefixed).queues_size(), 2);
  }
}

TEST_F(QueueServiceTest, OneBadItemDoesNotSpoilItsBatch) {
  v1::EnqueueRequest request;
  request.set_queue("q");
  request.add_tasks()->set_payload("good");
  request.add_tasks()->set_payload(std::string(config_.payload_bytes_max + 1, 'x'));
  request.add_tasks()->set_max_attempts(-1);
  request.add_tasks()->mutable_time_to_live()->set_seconds(-5);
  request.add_tasks()->set_payload("also good");
  const auto response = Call<v1::EnqueueResponse>("Enqueue", request);
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(1).error().reason(), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(response.results(2).error().code(), static_cast<int>(rpc::Code::kInvalidArgument));
  EXPECT_TRUE(response.results(3).has_error());
  const auto tasks = Lease(5);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].task_id(), response.results(0).task_id());
  EXPECT_EQ(tasks[1].task_id(), response.results(4).task_id());
}

TEST_F(QueueServiceTest, ALeaseReplyFitsIntoWhatClientsTake) {
  for (int i = 0; i < 10; ++i) Enqueue({std::string(config_.payload_bytes_max, 'x')});
  std::set<std::string> seen;
  for (int calls = 0; calls < 5 && seen.size() < 10; ++calls) {
    const auto ended = host_->Start("Lease", LeaseRequest(1'000, 30));
    executor_.AdvanceBy(milliseconds(50));
    ASSERT_TRUE(ended->done);
    EXPECT_LE(ended->response.size(), 4u << 20);
    v1::LeaseResponse response;
    ASSERT_TRUE(response.ParseFromString(ended->response));
    EXPECT_GE(response.tasks_size(), 1);
    for (const auto& task : response.tasks()) EXPECT_TRUE(seen.insert(task.task_id()).second);
  }
  EXPECT_EQ(seen.size(), 10u) << "what did not fit waits for the next call";
}

TEST_F(QueueServiceTest, MalformedRequestsAreRefusedWithFields) {
  for (const char* method :
       {"Enqueue", "Lease", "Complete", "Fail", "Extend", "Release", "Peek", "Describe", "List"}) {
    const auto garbage = host_->StartRaw(method, "\xff\xff\xff");
    ASSERT_TRUE(garbage->done) << method;
    EXPECT_EQ(garbage->status.code, rpc::Code::kInvalidArgument) << method;
    if (std::string(method) == "List") continue;
    const auto empty = host_->StartRaw(method, "");
    ASSERT_TRUE(empty->done) << method;
    EXPECT_EQ(empty->status.code, rpc::Code::kInvalidArgument) << method;
    EXPECT_NE(empty->status.details.find("BadRequest"), std::string::npos) << method;
  }
  for (v1::LeaseRequest request : {LeaseRequest(-1, 30), LeaseRequest(1'001, 30),
                                   LeaseRequest(1, 0), LeaseRequest(1, 50'000)}) {
    EXPECT_EQ(host_->Start("Lease", request)->status.code, rpc::Code::kInvalidArgument);
  }
  Enqueue({"still works"});
}

TEST_F(QueueServiceTest, TokensOfOtherQueuesAndRandomBytesChangeNothing) {
  Enqueue({"p"});
  const std::string token = Lease(1)[0].lease_token();
  v1::EnqueueRequest other;
  other.set_queue("other");
  other.add_tasks()->set_payload("p");
  (void)Call<v1::EnqueueResponse>("Enqueue", other);
  v1::LeaseRequest lease = LeaseRequest(1, 30);
  lease.set_queue("other");
  const auto foreign = Call<v1::LeaseResponse>("Lease", lease);
  ASSERT_EQ(foreign.tasks_size(), 1);
  EXPECT_EQ(Complete(foreign.tasks(0).lease_token()), "LEASE_LOST");
  for (std::size_t i = 1; i < token.size(); ++i) {
    std::string bent = token;
    bent[i] = static_cast<char>(bent[i] ^ 1);
    EXPECT_EQ(Complete(bent), "LEASE_LOST") << i;
  }
  std::string other_format = token;
  other_format.front() = 2;
  v1::CompleteRequest request;
  request.set_queue("q");
  request.add_lease_tokens("short");
  request.add_lease_tokens(other_format);
  const auto refused = Call<v1::CompleteResponse>("Complete", request);
  ASSERT_EQ(refused.results_size(), 2);
  for (const v1::ItemResult& result : refused.results()) {
    EXPECT_EQ(result.error().code(), static_cast<int>(rpc::Code::kInvalidArgument));
  }
  EXPECT_EQ(Complete(token), "");
}

TEST_F(QueueServiceTest, AnIdleQueueIsUnloadedAndComesBackWhole) {
  Enqueue({"a", "b"});
  EXPECT_EQ(Complete(Lease(1)[0].lease_token()), "");
  executor_.AdvanceBy(minutes(10));
  EXPECT_EQ(host_->service().loaded_queues(), 0u);
  EXPECT_EQ(executor_.pending_timers(), 0u);
  const v1::QueueInfo stored = Describe(false);
  EXPECT_FALSE(stored.loaded());
  EXPECT_EQ(stored.counts().waiting(), 1);
  EXPECT_EQ(Lease(1).size(), 1u);
}

TEST_F(QueueServiceTest, AQueueWithAPollerOrALeaseIsNotUnloaded) {
  Enqueue({"a"});
  const auto tasks = Lease(1, 3'600);
  executor_.AdvanceBy(minutes(20));
  EXPECT_EQ(host_->service().loaded_queues(), 1u);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
}

TEST_F(QueueServiceTest, AnIdleLoadedQueueCallsNoStore) {
  config_.idle_unload = hours(100);
  Restart();
  Enqueue({"a"});
  EXPECT_EQ(Complete(Lease(1)[0].lease_token()), "");
  executor_.AdvanceBy(minutes(5));  // Whatever the cycle left to tidy up is done.
  const std::uint64_t before = host_->store().calls();
  executor_.AdvanceBy(hours(10));
  EXPECT_EQ(host_->store().calls(), before);
}

TEST_F(QueueServiceTest, NumbersForMetricsFollowAndGoAwayWithTheQueue) {
  Enqueue({"a", "b", "c"});
  const auto tasks = Lease(1);
  EXPECT_EQ(Fail(tasks[0].lease_token(), true), "");
  (void)Lease(1, 3'600);
  executor_.AdvanceBy(seconds(10));
  auto numbers = host_->service().Numbers(5);
  ASSERT_EQ(numbers.size(), 1u);
  EXPECT_EQ(numbers[0].queue, "q");
  EXPECT_EQ(numbers[0].waiting, 1);
  EXPECT_EQ(numbers[0].leased, 1);
  EXPECT_EQ(numbers[0].dead, 1);
  EXPECT_GE(numbers[0].head_age, seconds(10));
  EXPECT_EQ(numbers[0].ack_lag, 2);
  numbers = host_->service().Numbers(0);
  ASSERT_EQ(numbers.size(), 1u);
  EXPECT_EQ(numbers[0].queue, "") << "queues beyond the bound are taken together";
  EXPECT_EQ(numbers[0].waiting, 1);
  Restart();
  EXPECT_TRUE(host_->service().Numbers(5).empty());
}

TEST_F(QueueServiceTest, StopAnswersEveryWaitingCall) {
  const auto waiting = host_->Start("Lease", LeaseRequest(1, 30, 60));
  EXPECT_FALSE(waiting->done);
  host_->Stop();
  ASSERT_TRUE(waiting->done);
  EXPECT_EQ(waiting->status.code, rpc::Code::kUnavailable);
  EXPECT_EQ(waiting->reason(), "DRAINING");
  Restart();
}

TEST(CountsTest, NeverShowMoreLeasesThanStoredTasks) {
  backlog::Totals totals{};
  backlog::At(totals, backlog::Total::kAccepted) = 4;
  backlog::At(totals, backlog::Total::kDone) = 2;
  backlog::At(totals, backlog::Total::kDroppedExpired) = 1;
  EXPECT_EQ(CountsFrom(totals, 0).waiting, 1);
  EXPECT_EQ(CountsFrom(totals, 2).leased, 1);
  EXPECT_EQ(CountsFrom(totals, 2).waiting, 0);
}

}  // namespace
}  // namespace millrace::queue
