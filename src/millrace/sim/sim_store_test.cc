#include "millrace/sim/sim_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/sim/sim_executor.h"
#include "millrace/store/memory/memory_task_store.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const store::PhysicalQueueKey kQueue{"ns", "q", 0};

store::QueueWrite MetadataWrite(std::int64_t expected, std::int64_t range_id) {
  store::QueueWrite write;
  write.queue = kQueue;
  write.expected_range_id = RangeId{expected};
  write.metadata.emplace().range_id = RangeId{range_id};
  return write;
}

store::QueueWrite CreateWrite(std::int64_t expected, std::int64_t id) {
  store::QueueWrite write;
  write.queue = kQueue;
  write.expected_range_id = RangeId{expected};
  store::TaskRow& row = write.creates.emplace_back();
  row.key.level.id = TaskId{id};
  row.payload = "p" + std::to_string(id);
  return write;
}

class SimStoreTest : public testing::Test {
 protected:
  SimStoreTest() { EXPECT_TRUE(durable_.Commit(std::vector{MetadataWrite(0, 1)})[0].ok()); }

  // The outcome is in the returned slot once it is answered.
  std::shared_ptr<std::optional<Status>> Commit(SimStore& store, store::QueueWrite write) {
    auto outcome = std::make_shared<std::optional<Status>>();
    store.Commit(std::move(write), strand_, [this, outcome](Status status, store::QueueWrite) {
      strand_.AssertCurrent();
      EXPECT_EQ(exec::Executor::Current(), &host_);
      EXPECT_FALSE(outcome->has_value());
      *outcome = std::move(status);
    });
    EXPECT_FALSE(outcome->has_value());
    return outcome;
  }

  std::vector<std::int64_t> StoredIds() {
    std::vector<std::int64_t> ids;
    auto page = durable_.ReadTasks(kQueue, 0, {}, store::TaskLevel::Max(), 1'000, 1u << 20);
    EXPECT_TRUE(page.ok());
    for (const auto& row : page->rows) ids.push_back(row.key.level.id.value);
    return ids;
  }

  SimScheduler scheduler_{1};
  SimClock clock_{scheduler_};
  SimExecutor network_{scheduler_, clock_};
  SimExecutor host_{scheduler_, clock_};
  exec::Strand strand_{host_};
  store::MemoryTaskStore durable_;
};

TEST_F(SimStoreTest, WithoutFaultsAnswersAtOnceOnTheStrand) {
  NoFaults plan;
  SimStore store(network_, durable_, plan);
  const auto outcome = Commit(store, CreateWrite(1, 1));
  const Instant start = scheduler_.now();
  EXPECT_EQ(store.calls_in_flight(), 1u);
  scheduler_.RunReady();
  ASSERT_TRUE(outcome->has_value());
  EXPECT_TRUE((*outcome)->ok());
  EXPECT_EQ(scheduler_.now(), start);
  EXPECT_EQ(store.calls_in_flight(), 0u);
  EXPECT_EQ(StoredIds(), (std::vector<std::int64_t>{1}));
}

TEST_F(SimStoreTest, GivesTheWriteBack) {
  NoFaults plan;
  SimStore store(network_, durable_, plan);
  std::string payload;
  store.Commit(CreateWrite(1, 7), strand_, [&](Status status, store::QueueWrite write) {
    EXPECT_TRUE(status.ok());
    payload = write.creates.at(0).payload;
  });
  scheduler_.RunReady();
  EXPECT_EQ(payload, "p7");
}

TEST_F(SimStoreTest, EachFaultOfAWriteDoesWhatItSays) {
  struct Case {
    FaultKind kind;
    StatusCode code;
    bool applied_at_answer;
    bool applied_in_the_end;
  };
  for (const Case& c :
       {Case{FaultKind::kNone, StatusCode::kOk, true, true},
        Case{FaultKind::kUnavailable, StatusCode::kUnavailable, false, false},
        Case{FaultKind::kResourceExhausted, StatusCode::kResourceExhausted, false, false},
        Case{FaultKind::kReplyLost, StatusCode::kUnknownOutcome, true, true},
        Case{FaultKind::kNotApplied, StatusCode::kUnknownOutcome, false, false},
        Case{FaultKind::kAppliedLate, StatusCode::kUnknownOutcome, false, true},
        Case{FaultKind::kStall, StatusCode::kOk, true, true}}) {
    SCOPED_TRACE(FaultKindName(c.kind));
    ASSERT_TRUE(durable_.DeleteTasksThrough(kQueue, 0, store::TaskLevel::Max(), 100).ok());
    NthFault plan(0, c.kind);
    SimStore store(network_, durable_, plan);
    const auto outcome = Commit(store, CreateWrite(1, 5));
    EXPECT_TRUE(scheduler_.RunWhileNot([&] { return outcome->has_value(); }, seconds(2)));
    EXPECT_EQ((*outcome)->code(), c.code);
    EXPECT_EQ(StoredIds().size(), c.applied_at_answer ? 1u : 0u);
    EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(5)));
    EXPECT_EQ(StoredIds().size(), c.applied_in_the_end ? 1u : 0u);
    EXPECT_TRUE(plan.reached());
  }
}

TEST_F(SimStoreTest, ALateWriteIsFencedByANewRangeId) {
  NthFault plan(0, FaultKind::kAppliedLate);
  SimStore store(network_, durable_, plan);
  const auto late = Commit(store, CreateWrite(1, 5));
  const auto lease = Commit(store, MetadataWrite(1, 2));
  EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(5)));
  EXPECT_EQ((*late)->code(), StatusCode::kUnknownOutcome);
  EXPECT_TRUE((*lease)->ok());
  EXPECT_TRUE(StoredIds().empty());
}

TEST_F(SimStoreTest, ALateWriteDoesNotSurviveARestartOfTheStore) {
  const auto incarnation = std::make_shared<std::uint64_t>(1);
  NthFault plan(0, FaultKind::kAppliedLate);
  SimStore store(network_, durable_, plan);
  store.set_incarnation(incarnation);
  const auto late = Commit(store, CreateWrite(1, 5));
  scheduler_.RunReady();
  EXPECT_EQ((*late)->code(), StatusCode::kUnknownOutcome);
  ++*incarnation;
  EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(5)));
  EXPECT_TRUE(StoredIds().empty());
}

TEST_F(SimStoreTest, ReadsHaveNoUnknownOutcome) {
  for (const FaultKind kind :
       {FaultKind::kReplyLost, FaultKind::kNotApplied, FaultKind::kAppliedLate}) {
    NthFault plan(0, kind);
    SimStore store(network_, durable_, plan);
    StatusCode code = StatusCode::kOk;
    store.ReadMetadata(kQueue, strand_,
                       [&](Result<store::QueueMetadata> result) { code = result.code(); });
    EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(5)));
    EXPECT_EQ(code, StatusCode::kUnavailable);
  }
}

TEST_F(SimStoreTest, WritesOfAQueueKeepTheirOrderUnderAnyLatency) {
  SeededRandom random(5);
  RandomFaults plan(random, {.stall = 200});
  SimStore store(network_, durable_, plan);
  // Each only applies after the one before.
  std::vector<std::shared_ptr<std::optional<Status>>> outcomes;
  for (int i = 1; i <= 50; ++i) outcomes.push_back(Commit(store, MetadataWrite(i, i + 1)));
  EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(1'000)));
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome->value().ok());
}

TEST_F(SimStoreTest, CrashLetsAPrefixOfTheWritesThroughAndNothingLater) {
  bool some = false;
  bool none = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    ASSERT_TRUE(durable_.DeleteTasksThrough(kQueue, 0, store::TaskLevel::Max(), 100).ok());
    SeededRandom random(seed);
    RandomFaults plan(random, {.latency_max = milliseconds(50)});
    SimStore store(network_, durable_, plan);
    std::vector<std::shared_ptr<std::optional<Status>>> outcomes;
    for (int i = 1; i <= 4; ++i) outcomes.push_back(Commit(store, CreateWrite(1, i)));
    store.Crash(random);
    outcomes.push_back(Commit(store, CreateWrite(1, 9)));
    const std::vector<std::int64_t> ids = StoredIds();
    EXPECT_TRUE(scheduler_.RunUntilQuiet(seconds(5)));
    EXPECT_EQ(StoredIds(), ids);
    for (std::size_t i = 0; i < ids.size(); ++i)
      EXPECT_EQ(ids[i], static_cast<std::int64_t>(i) + 1);
    some |= !ids.empty();
    none |= ids.empty();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(outcomes[i]->value().code(), StatusCode::kUnknownOutcome);
    EXPECT_EQ(outcomes[4]->value().code(), StatusCode::kUnavailable);
    EXPECT_EQ(store.calls_in_flight(), 0u);
  }
  EXPECT_TRUE(some && none);
}

TEST(FaultPlanTest, NthCountsOnlyTheAskedCalls) {
  NthFault plan(1, FaultKind::kUnavailable, StoreOp::kReadTasks);
  EXPECT_EQ(plan.Next(StoreOp::kReadTasks).kind, FaultKind::kNone);
  EXPECT_EQ(plan.Next(StoreOp::kCommit).kind, FaultKind::kNone);
  EXPECT_FALSE(plan.reached());
  EXPECT_EQ(plan.Next(StoreOp::kReadTasks).kind, FaultKind::kUnavailable);
  EXPECT_TRUE(plan.reached());
  EXPECT_EQ(plan.Next(StoreOp::kReadTasks).kind, FaultKind::kNone);
}

TEST(FaultPlanTest, RandomKeepsItsRates) {
  SeededRandom random(1);
  RandomFaults plan(random, {.unavailable = 100, .reply_lost = 50, .stall = 10});
  for (int i = 0; i < 10'000; ++i) plan.Next(StoreOp::kCommit);
  EXPECT_NEAR(static_cast<double>(plan.drawn(FaultKind::kUnavailable)), 1'000, 150);
  EXPECT_NEAR(static_cast<double>(plan.drawn(FaultKind::kReplyLost)), 500, 100);
  EXPECT_NEAR(static_cast<double>(plan.drawn(FaultKind::kStall)), 100, 50);
  EXPECT_EQ(plan.drawn(FaultKind::kAppliedLate), 0u);
}

}  // namespace
}  // namespace millrace::sim
