// Faults that users of task queues met in the field, each with the right outcome. docs/testing.md
// has the table of faults and tests.
#include <gtest/gtest.h>
#include <millrace/v1/queue.pb.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/base/testing/named_metrics.h"
#include "millrace/queue/testing/queue_harness.h"

namespace millrace::queue {
namespace {

// Works, until a test switches one fault on for one kind of call.
class SwitchedFaults final : public sim::FaultPlan {
 public:
  struct Switch {
    bool on = false;
    sim::StoreOp op = sim::StoreOp::kCommit;
    sim::Fault fault;
  };
  explicit SwitchedFaults(const Switch& state) : state_(state) {}
  sim::Fault Next(sim::StoreOp op) override {
    return state_.on && op == state_.op ? state_.fault : sim::Fault{};
  }

 private:
  const Switch& state_;
};

class QueueFaultsTest : public QueueServiceTest {
 protected:
  QueueFaultsTest() { RestartWithFaults(); }
  // The host refers to members of this class.
  ~QueueFaultsTest() override { host_ = nullptr; }

  void RestartWithFaults() {
    host_ = nullptr;
    host_ = std::make_unique<Host>(executor_, durable_, config_,
                                   std::make_unique<SwitchedFaults>(faults_));
  }
  void Stall(sim::StoreOp op, Duration d) {
    faults_ = {true, op, {.kind = sim::FaultKind::kStall, .before = d}};
  }
  void Works() { faults_.on = false; }

  static store::PhysicalQueueKey Key() { return QueueKey("q"); }
  std::size_t StoredRows(const store::PhysicalQueueKey& queue) {
    return durable_.ReadTasks(queue, 0, {}, store::TaskLevel::Max(), 10'000, 1u << 30)->rows.size();
  }

  SwitchedFaults::Switch faults_;
};

// "Client vanishes without closing; a lease of 10 s under a poll wait of 5 s": redelivered at 10 s.
TEST_F(QueueFaultsTest, AVanishedWorkersTaskComesToPollersThatWaitHalfItsLease) {
  Enqueue({"p"});
  const Instant leased_at = executor_.clock().Now();
  ASSERT_EQ(Lease(1, 10).size(), 1u);
  v1::LeaseResponse response;
  for (int polls = 0; polls < 4 && response.tasks_size() == 0; ++polls) {
    const auto poll = host_->Start("Lease", LeaseRequest(1, 30, 5));
    while (!poll->done) executor_.AdvanceBy(milliseconds(10));
    ASSERT_TRUE(response.ParseFromString(poll->response));
  }
  ASSERT_EQ(response.tasks_size(), 1);
  const Duration after = executor_.clock().Now() - leased_at;
  EXPECT_GE(after, seconds(10));
  EXPECT_LE(after, milliseconds(10'100));
}

// "Late acks, extends and nacks change nothing and say so": from the moment its time is over, even
// when the timer that ends the lease is late.
TEST_F(QueueFaultsTest, ALeaseIsOverAtItsDeadlineHoweverLateItsTimerRuns) {
  for (const char* call : {"complete", "extend", "fail", "release"}) {
    SCOPED_TRACE(call);
    Enqueue({"p"});
    const auto tasks = Lease(1, 10);
    ASSERT_EQ(tasks.size(), 1u);
    // Nothing runs in between: the call comes before the timer.
    executor_.manual_clock().Advance(seconds(10));
    const std::string& token = tasks[0].lease_token();
    const std::string what = call;
    EXPECT_EQ(what == "complete" ? Complete(token)
              : what == "extend" ? Extend(token, 10)
              : what == "fail"   ? Fail(token)
                                 : Release(token),
              "LEASE_LOST");
    const auto again = Lease(1);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].attempt(), 2);
    EXPECT_EQ(Complete(again[0].lease_token()), "");
  }
}

TEST_F(QueueFaultsTest, ALeaseThatRanOutIsLostWhileItsTaskIsStillBeingWrittenAgain) {
  Enqueue({"p"});
  const auto tasks = Lease(1, 10);
  Stall(sim::StoreOp::kReadTasks, seconds(5));
  executor_.AdvanceBy(seconds(11));
  EXPECT_EQ(Extend(tasks[0].lease_token(), 60), "LEASE_LOST");
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
  Works();
  executor_.AdvanceBy(seconds(10));
  const auto again = Lease(1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt(), 2);
}

// A chunk of remembered leases outlives the first of them that ends.
TEST_F(QueueFaultsTest, AFinishedTasksLeaseDoesNotComeBackWithItsNeighbour) {
  Enqueue({"a", "b"});
  const auto tasks = Lease(2, 600);
  executor_.AdvanceBy(milliseconds(100));
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  host_->Crash();
  RestartWithFaults();
  EXPECT_EQ(Complete(tasks[0].lease_token()), "LEASE_LOST");
  EXPECT_EQ(Describe().counts().leased(), 1);
  executor_.AdvanceBy(seconds(700));
  const v1::QueueInfo info = Describe();
  EXPECT_EQ(info.counts().waiting(), 1);
  EXPECT_EQ(info.counts().done(), 1);
  EXPECT_EQ(info.counts().dropped(), 0);
}

// "Clocks jump": what was left of a lease when the server went down is all that is left of it.
TEST_F(QueueFaultsTest, AClockSetBackWhileTheServerWasDownProlongsNoLease) {
  Enqueue({"p"});
  ASSERT_EQ(Lease(1, 60).size(), 1u);
  executor_.AdvanceBy(milliseconds(100));
  host_->Crash();
  executor_.manual_clock().JumpWall(-hours(5));
  RestartWithFaults();
  EXPECT_TRUE(Lease(1).empty());
  executor_.AdvanceBy(seconds(61));
  EXPECT_EQ(Lease(1).size(), 1u);
}

// "Expired, invalid and already finished rows take the same path": one bad row never stops the
// rest.
TEST_F(QueueFaultsTest, ARowThatDoesNotParseIsDroppedAndTheOthersCome) {
  Enqueue({"bad", "good"});
  host_ = nullptr;
  store::QueueWrite write;
  write.queue = Key();
  write.expected_range_id = durable_.ReadMetadata(Key())->range_id;
  write.creates.push_back(
      durable_.ReadTasks(Key(), 0, {}, store::TaskLevel::Max(), 1, 1)->rows.front());
  write.creates.front().payload = "\xff";
  ASSERT_TRUE(durable_.Commit(std::span<const store::QueueWrite>(&write, 1))[0].ok());
  RestartWithFaults();
  const auto poll = host_->Start("Lease", LeaseRequest(1, 30, 10));
  executor_.AdvanceBy(seconds(1));
  std::vector<v1::LeasedTask> tasks = Lease(5);
  v1::LeaseResponse response;
  ASSERT_TRUE(poll->done);
  ASSERT_TRUE(response.ParseFromString(poll->response));
  tasks.insert(tasks.end(), response.tasks().begin(), response.tasks().end());
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].payload(), "good");
  const v1::QueueInfo info = Describe();
  EXPECT_EQ(info.counts().dropped(), 1);
  EXPECT_EQ(info.row_counts().task_rows(), 1);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  EXPECT_EQ(StoredRows(Key()), 0u);
}

// "Restart changes priority, counters, order or due times": identical.
TEST_F(QueueFaultsTest, ARestartKeepsOrderIdsAttemptsTimesAndCounts) {
  Enqueue({"a", "b", "c", "dead"});
  executor_.AdvanceBy(seconds(5));
  const auto first = Lease(1);
  EXPECT_EQ(Fail(first[0].lease_token()), "");
  const auto others = Lease(3);
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(Fail(others[2].lease_token(), true), "");
  EXPECT_EQ(Release(others[0].lease_token()), "");
  EXPECT_EQ(Release(others[1].lease_token()), "");
  const auto before = Peek(v1::TASK_STATE_WAITING);
  const v1::QueueCounts counts = Describe().counts();
  executor_.AdvanceBy(seconds(5));
  for (const bool crash : {false, true}) {
    if (crash) host_->Crash();
    RestartWithFaults();
    const auto after = Peek(v1::TASK_STATE_WAITING);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].SerializeAsString(), before[i].SerializeAsString()) << i;
    }
    EXPECT_EQ(Describe().counts().SerializeAsString(), counts.SerializeAsString());
  }
  const auto leased = Lease(5);
  ASSERT_EQ(leased.size(), 3u);
  std::map<std::string, int> attempts;
  for (const auto& task : leased) attempts[task.payload()] = task.attempt();
  EXPECT_EQ(attempts, (std::map<std::string, int>{{"a", 2}, {"b", 1}, {"c", 1}}));
}

// "Buffers full for minutes": bounded, nothing dropped.
TEST_F(QueueFaultsTest, MoreLeasesThanTheBoundWaitTheirTurn) {
  config_.leases_max = 2;
  RestartWithFaults();
  Enqueue({"a", "b", "c"});
  const auto tasks = Lease(1);
  ASSERT_EQ(Lease(1).size(), 1u);
  const auto poll = host_->Start("Lease", LeaseRequest(1, 30, 60));
  executor_.AdvanceBy(seconds(10));
  EXPECT_FALSE(poll->done);
  EXPECT_EQ(Describe().counts().leased(), 2);
  EXPECT_EQ(Complete(tasks[0].lease_token()), "");
  ASSERT_TRUE(poll->done);
  v1::LeaseResponse response;
  ASSERT_TRUE(response.ParseFromString(poll->response));
  EXPECT_EQ(response.tasks_size(), 1);
}

// Counters and rows agree as of one moment, whatever happens while the rows are counted.
TEST_F(QueueFaultsTest, ACountOfRowsHoldsWhileTasksEnd) {
  Enqueue({"a", "b", "c"});
  const auto tasks = Lease(2);
  Stall(sim::StoreOp::kReadTasks, seconds(2));
  v1::DescribeRequest request;
  request.set_queue("q");
  request.set_count_rows(true);
  const auto count = host_->Start("Describe", request);
  EXPECT_EQ(Complete(tasks[1].lease_token()), "");
  Enqueue({"new"});
  executor_.AdvanceBy(seconds(3));
  ASSERT_TRUE(count->done);
  v1::DescribeResponse response;
  ASSERT_TRUE(response.ParseFromString(count->response));
  const v1::RowCounts& rows = response.queue().row_counts();
  EXPECT_EQ(rows.task_rows(), 3);
  EXPECT_EQ(rows.accepted(), 3);
  EXPECT_EQ(rows.done(), 0);
}

// "50,000 queues used once": nothing stays in memory, and no rows but what a queue is known by.
TEST_F(QueueFaultsTest, QueuesUsedOnceLeaveNothingInMemoryAndNoTaskRows) {
  constexpr int kQueues = 300;
  for (int i = 0; i < kQueues; ++i) {
    v1::EnqueueRequest enqueue;
    enqueue.set_queue("once/" + std::to_string(i));
    enqueue.add_tasks()->set_payload("p");
    (void)Call<v1::EnqueueResponse>("Enqueue", enqueue);
    v1::LeaseRequest lease = LeaseRequest(1, 30);
    lease.set_queue(enqueue.queue());
    const auto leased = Call<v1::LeaseResponse>("Lease", lease);
    ASSERT_EQ(leased.tasks_size(), 1);
    v1::CompleteRequest complete;
    complete.set_queue(enqueue.queue());
    complete.add_lease_tokens(leased.tasks(0).lease_token());
    (void)Call<v1::CompleteResponse>("Complete", complete);
  }
  executor_.AdvanceBy(minutes(15));
  EXPECT_EQ(host_->service().loaded_queues(), 0u);
  EXPECT_EQ(executor_.pending_timers(), 0u);
  for (int i = 0; i < kQueues; ++i) {
    const store::PhysicalQueueKey key = QueueKey("once/" + std::to_string(i));
    EXPECT_EQ(StoredRows(key), 0u);
    EXPECT_LE(durable_.ReadSideRows(key, "", "", 100)->rows.size(), 1u) << "its own number";
  }
  const std::uint64_t calls = host_->store().calls();
  executor_.AdvanceBy(hours(24));
  EXPECT_EQ(host_->store().calls(), calls);
}

// "Metric names change under dashboards": a change here is a change for everybody who watches.
TEST(MetricNamesTest, NamesAndLabelsArePinned) {
  exec::ManualExecutor executor;
  store::MemoryTaskStore durable;
  sim::NoFaults plan;
  sim::SimStore store(executor, durable, plan);
  SeededRandom random(1);
  NullLog log;
  NamedMetrics metrics;
  QueueService service({}, {&executor}, store, random, log, metrics);
  const std::set<std::string> expected = {
      "counter millrace_backlog_appends_refused_total",
      "counter millrace_backlog_buffer_throttles_total",
      "counter millrace_backlog_condition_failures_total",
      "counter millrace_backlog_count_corrections_total",
      "counter millrace_backlog_dropped_tasks_total reason=expired_at_read",
      "counter millrace_backlog_dropped_tasks_total reason=expired_in_memory",
      "counter millrace_backlog_fences_total",
      "counter millrace_backlog_gc_failures_total",
      "counter millrace_backlog_gc_runs_total",
      "counter millrace_backlog_lease_failures_total",
      "counter millrace_backlog_lease_requests_total",
      "counter millrace_backlog_read_failures_total",
      "counter millrace_backlog_read_throttles_total",
      "counter millrace_backlog_reads_total",
      "counter millrace_backlog_rewrite_failures_total",
      "counter millrace_backlog_rewrites_total",
      "counter millrace_backlog_rows_collected_total",
      "counter millrace_backlog_rows_written_total",
      "counter millrace_backlog_unknown_outcomes_total",
      "counter millrace_backlog_write_failures_total",
      "counter millrace_backlog_write_throttles_total",
      "counter millrace_backlog_writes_total",
      "counter millrace_empty_polls_total",
      "counter millrace_lease_lost_total",
      "counter millrace_requests_rejected_total",
      "counter millrace_tasks_completed_total",
      "counter millrace_tasks_enqueued_total",
      "counter millrace_tasks_failed_total",
      "counter millrace_tasks_leased_total",
      "counter millrace_tasks_released_total",
      "histogram millrace_backlog_write_seconds",
  };
  EXPECT_EQ(metrics.names, expected);
}

}  // namespace
}  // namespace millrace::queue
