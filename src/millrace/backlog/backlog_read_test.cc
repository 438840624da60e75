// Reading, expiry, acks, deletion, the update interval, and what an idle queue costs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/backlog/testing/backlog_harness.h"

namespace millrace::backlog {
namespace {

using sim::FaultKind;
using sim::StoreOp;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::QueueOwner;
using testing::SmallConfig;
using testing::World;

std::vector<std::string> Numbered(const std::string& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

class BacklogRead : public ::testing::TestWithParam<bool> {
 protected:
  int Reads() { return world_.faults.calls[StoreOp::kReadTasks]; }
  // Leaves `count` tasks in the store and nothing in memory.
  void Fill(int count) {
    BacklogConfig config = config_;
    config.page_size = 1'000;
    config.outstanding_appends_max = 1'000;
    QueueOwner owner(world_, config);
    owner.Start();
    owner.Spool(Numbered("t", count));
  }

  BacklogConfig config_ = SmallConfig(GetParam());
  World world_;
};
INSTANTIATE_TEST_SUITE_P(Modes, BacklogRead, ::testing::Bool(), [](const auto& mode) {
  return mode.param ? "DeleteOnFinish" : "Collected";
});

TEST_P(BacklogRead, NothingIsReadBeforeTheOwnerSaysSo) {
  Fill(3);
  QueueOwner owner(world_, config_);
  owner.read_at_once = false;
  owner.Start();
  EXPECT_EQ(Reads(), 0);
  owner.Spool({"new"});
  EXPECT_THAT(owner.Take(10), IsEmpty());
  owner.Run([](BacklogManager& manager) { manager.BeginReading(); });
  EXPECT_EQ(owner.Take(10).size(), 4u);
}

// "Memory is bounded: about one page; the reader stops when it is full and goes on when there is
// room."
TEST_P(BacklogRead, HoldsAPageAndGoesOnBelowHalf) {
  Fill(25);
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(Reads(), 1);
  EXPECT_EQ(owner.Internal().loaded_tasks, 10);
  EXPECT_EQ(owner.Take(5).size(), 5u);
  EXPECT_EQ(Reads(), 1);
  EXPECT_EQ(owner.Take(1).size(), 1u);  // Four left.
  EXPECT_EQ(Reads(), 2);
  EXPECT_EQ(owner.Take(100).size(), 10u);
  EXPECT_EQ(owner.Take(100).size(), 9u);
  EXPECT_EQ(world_.registry.Value("buffer_throttles_total"), 2u);
}

TEST_P(BacklogRead, PagesAreBoundedByBytes) {
  config_.page_bytes_max = 10;
  config_.write_batch_bytes_max = 1'000;
  {
    QueueOwner owner(world_, config_);
    owner.read_at_once = false;
    owner.Start();
    owner.Spool({"aaaa", "bbbb", "cccc", std::string(50, 'd'), "e"});
  }
  QueueOwner owner(world_, config_);
  owner.Start();
  std::vector<std::size_t> sizes;
  for (auto tasks = owner.Take(10); !tasks.empty(); tasks = owner.Take(10))
    sizes.push_back(tasks.size());
  // Below half of the bound one more row is read, however large it is.
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1));
}

TEST_P(BacklogRead, AQueueWithAPageOfOneStillMoves) {
  config_.page_size = 1;
  Fill(5);
  QueueOwner owner(world_, config_);
  owner.Start();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(owner.Take(10).size(), 1u);
  EXPECT_THAT(owner.Take(10), IsEmpty());
}

// A row just written is not read again when everything before it is in memory.
TEST_P(BacklogRead, TasksComeStraightFromTheirWrite) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool(Numbered("t", 10));
  EXPECT_EQ(Reads(), 0);
  owner.Spool(Numbered("u", 5));  // No room.
  EXPECT_EQ(Reads(), 0);
  EXPECT_EQ(owner.Take(7).size(), 7u);
  EXPECT_EQ(Reads(), 1);
  EXPECT_EQ(owner.Take(10).size(), 8u);
  owner.Spool({"v"});
  EXPECT_EQ(Reads(), 1);
  EXPECT_EQ(owner.Take(10).size(), 1u);
}

TEST_P(BacklogRead, TheOwnerMayKeepARow) {
  Fill(3);
  QueueOwner owner(world_, config_);
  owner.keep = [](const store::TaskRow& row) { return row.payload == "t1"; };
  owner.Start();
  EXPECT_EQ(owner.loaded.size(), 3u);
  const auto tasks = owner.Take(10);
  EXPECT_EQ(tasks.size(), 2u);
  EXPECT_EQ(owner.Internal().loaded_tasks, 3);
  for (const LoadedTask& task : tasks) owner.Complete(task.key);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{1});
  owner.Complete({0, {0, TaskId{2}}});
  EXPECT_EQ(owner.Count(), 0);
}

TEST_P(BacklogRead, PutBackGoesToItsPlace) {
  Fill(5);
  QueueOwner owner(world_, config_);
  owner.Start();
  auto tasks = owner.Take(3);
  owner.Run([&](BacklogManager& manager) {
    manager.PutBack(std::move(tasks[2]));
    manager.PutBack(std::move(tasks[0]));
  });
  std::vector<std::string> names;
  for (const LoadedTask& task : owner.Take(10)) names.push_back(task.payload);
  EXPECT_THAT(names, ElementsAre("t0", "t2", "t3", "t4"));
}

// "An empty range moves the read level over the gap, and the ack level with it; at most 10 empty
// ranges a turn."
TEST_P(BacklogRead, GapsAreCrossedOnceAndNotAtTheNextLoad) {
  config_.range_size = 3;
  for (int i = 0; i < 30; ++i) {
    BacklogConfig config = config_;
    QueueOwner owner(world_, config);
    owner.read_at_once = false;
    owner.Start();
  }
  {
    QueueOwner owner(world_, config_);
    owner.Start();
    EXPECT_EQ(owner.Internal().read_level.id, TaskId{90});
    EXPECT_EQ(owner.Internal().ack_level.id, TaskId{90});
    EXPECT_EQ(Reads(), 30);
  }
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(Reads(), 31);
}

TEST_P(BacklogRead, GapsAreSavedWithinTheUpdateInterval) {
  config_.range_size = 3;
  for (int i = 0; i < 3; ++i) {
    QueueOwner owner(world_, config_);
    owner.read_at_once = false;
    owner.Start();
  }
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(world_.Metadata().subqueues[0].ack_level.id, TaskId{0});
  world_.executor.AdvanceBy(config_.update_interval);
  EXPECT_EQ(world_.Metadata().subqueues[0].ack_level.id, TaskId{9});
}

// "25 expired tasks with batch 10, then a live one: live one in under 1 s, at most 4 reads, 25 rows
// deleted, count 0."
TEST_P(BacklogRead, AHeapOfExpiredTasksDoesNotStopTheReader) {
  {
    QueueOwner owner(world_, config_);
    owner.read_at_once = false;
    owner.Start();
    for (int i = 0; i < 25; ++i) owner.Expiring("e" + std::to_string(i), seconds(1));
    owner.Spool({"live"});
  }
  world_.executor.AdvanceBy(seconds(10));
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_LE(Reads(), 4);
  const auto tasks = owner.Take(10);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].payload, "live");
  EXPECT_EQ(owner.Count(), 1);
  EXPECT_EQ(world_.registry.Value("dropped_tasks_total|reason=expired_at_read"), 25u);
  owner.Complete(tasks[0].key);
  EXPECT_EQ(owner.Count(), 0);
  owner.Destroy();
  EXPECT_THAT(world_.Rows(), IsEmpty());
  EXPECT_EQ(At(world_.StoredTotals(), Total::kDroppedExpired), 25);
  EXPECT_EQ(At(world_.StoredTotals(), Total::kDone), 1);
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 0);
}

TEST_P(BacklogRead, ExpiredTasksAreDroppedEvenWhenTheStoreFailsForAWhile) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Expiring("e", seconds(1));
  owner.Spool({"live"});
  world_.executor.AdvanceBy(seconds(2));
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable, 3);
  world_.faults.Push(StoreOp::kCommit, FaultKind::kNotApplied, 1);
  EXPECT_EQ(owner.Take(10).size(), 1u);  // The expired one was at the head.
  EXPECT_EQ(world_.registry.Value("dropped_tasks_total|reason=expired_in_memory"), 1u);
  world_.executor.AdvanceBy(minutes(2));
  EXPECT_EQ(owner.Count(), 1);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{1});
}

TEST_P(BacklogRead, ExpiredOnlyInMemoryIsNotAvailable) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Expiring("e", seconds(1));
  EXPECT_TRUE(owner.Ask<bool>([](BacklogManager& m) { return m.HasLoaded(); }));
  world_.executor.AdvanceBy(seconds(2));
  EXPECT_FALSE(owner.Ask<bool>([](BacklogManager& m) { return m.HasLoaded(); }));
  EXPECT_THAT(owner.Take(1), IsEmpty());
  EXPECT_EQ(owner.Count(), 0);
}

// A poller asks HasLoaded before it takes. Fails without SubqueueBacklog::DropExpired: the buffer
// stays full of dead tasks and the reader never reaches the live one (found by millrace_sim,
// profile queue-owners, seed 346).
TEST_P(BacklogRead, AFullBufferThatExpiresLetsTheLiveTaskBehindItIn) {
  config_.page_size = 2;
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Expiring("e1", seconds(1));
  owner.Expiring("e2", seconds(1));
  owner.Expiring("e3", seconds(1));
  owner.Spool({"live"});
  world_.executor.AdvanceBy(seconds(2));
  const int available = owner.available;
  EXPECT_FALSE(owner.Ask<bool>([](BacklogManager& m) { return m.HasLoaded(); }));
  world_.executor.AdvanceBy(seconds(1));
  EXPECT_GT(owner.available, available);
  EXPECT_TRUE(owner.Ask<bool>([](BacklogManager& m) { return m.HasLoaded(); }));
  const std::vector<LoadedTask> taken = owner.Take(10);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].payload, "live");
  EXPECT_EQ(owner.Count(), 1);
}

// "Resource exhausted = again after 3 s; other = exponential back-off."
TEST_P(BacklogRead, ReadErrorsWaitAsAgreed) {
  Fill(1);
  world_.faults.Push(StoreOp::kReadTasks, FaultKind::kResourceExhausted);
  world_.faults.Push(StoreOp::kReadTasks, FaultKind::kUnavailable, 2);
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(Reads(), 1);
  world_.executor.AdvanceBy(milliseconds(2'999));
  EXPECT_EQ(Reads(), 1);
  world_.executor.AdvanceBy(milliseconds(1));
  EXPECT_EQ(Reads(), 2);
  world_.executor.AdvanceBy(milliseconds(50));
  EXPECT_EQ(Reads(), 3);
  world_.executor.AdvanceBy(milliseconds(100));
  EXPECT_EQ(owner.Take(1).size(), 1u);
  EXPECT_THAT(owner.unloads, IsEmpty());
}

// "Reader asleep while the store has tasks": never for longer than a retry, with a batch of 3 and a
// buffer of 1.
TEST_P(BacklogRead, TheReaderNeverSleepsWhileTheStoreHasTasks) {
  config_.write_batch_max = 3;
  config_.page_size = 1;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    World world;
    SeededRandom random(seed);
    sim::FaultRates rates;
    rates.unavailable = 10;
    sim::RandomFaults plan(random, rates);
    QueueOwner owner(world, config_, &plan);
    owner.Start();
    world.executor.AdvanceBy(seconds(20));
    std::size_t taken = 0;
    std::size_t accepted = 0;
    for (int step = 0; step < 40; ++step) {
      if (random.Chance(1, 2)) owner.Spool({"t" + std::to_string(step)});
      if (random.Chance(1, 2)) world.executor.AdvanceBy(milliseconds(random.Below(10)));
      if (random.Chance(1, 3)) taken += owner.Take(random.Below(3)).size();
    }
    world.executor.AdvanceBy(seconds(1));
    for (const auto& [name, status] : owner.spooled) accepted += status.ok() ? 1 : 0;
    for (int i = 0; i < 100 && taken < accepted; ++i) {
      taken += owner.Take(10).size();
      world.executor.AdvanceBy(config_.store_retry_min * 2);
    }
    ASSERT_EQ(taken, accepted) << "seed " << seed;
  }
}

TEST_P(BacklogRead, HeadAgeFollowsTheHead) {
  QueueOwner owner(world_, config_);
  const auto age = [&] {
    return owner.Ask<Duration>([](BacklogManager& m) { return m.BacklogHeadAge(); });
  };
  owner.Start();
  EXPECT_EQ(age(), Duration::zero());
  owner.Spool({"a"});
  world_.executor.AdvanceBy(seconds(5));
  owner.Spool({"b"});
  EXPECT_EQ(age(), seconds(5));
  const auto tasks = owner.Take(1);
  world_.executor.AdvanceBy(seconds(1));
  // A task handed out belongs to the backlog until it is done, unless a lease made it the taker's.
  EXPECT_EQ(age(), GetParam() ? seconds(1) : seconds(6));
  owner.Complete(tasks[0].key);
  EXPECT_EQ(age(), seconds(1));
  owner.Complete(owner.Take(1).at(0).key);
  EXPECT_EQ(age(), Duration::zero());
  world_.executor.manual_clock().JumpWall(-hours(1));
  owner.Spool({"c"});
  world_.executor.manual_clock().JumpWall(-hours(1));
  EXPECT_EQ(age(), Duration::zero());
}

TEST_P(BacklogRead, CompletingTwiceOrUnknownChangesNothing) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b"});
  const auto tasks = owner.Take(2);
  owner.Complete(tasks[1].key);
  owner.Complete(tasks[1].key);
  owner.Complete({0, {0, TaskId{99}}});
  owner.Complete({9, {0, TaskId{1}}});
  EXPECT_EQ(owner.Internal().loaded_tasks, 1);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{0});
  EXPECT_EQ(owner.Count(), GetParam() ? 1 : 2);  // Without deletion by the ack level.
  owner.Complete(tasks[0].key);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{2});
  EXPECT_EQ(owner.Count(), 0);
}

// "Idle: 0 store calls, no timers."
TEST_P(BacklogRead, AnIdleQueueCostsNothing) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b", "c"});
  for (const LoadedTask& task : owner.Take(10)) owner.Complete(task.key);
  world_.executor.AdvanceBy(minutes(3));
  EXPECT_TRUE(owner.Idle());
  const int before = world_.faults.total;
  EXPECT_EQ(world_.executor.pending_timers(), 0u);
  world_.executor.AdvanceBy(hours(1));
  EXPECT_EQ(world_.faults.total, before);
  EXPECT_EQ(world_.executor.pending_timers(), 0u);
}

TEST_P(BacklogRead, ABacklogWithoutPollersCostsNothingEither) {
  Fill(25);
  QueueOwner owner(world_, config_);
  owner.Start();
  const int before = world_.faults.total;
  world_.executor.AdvanceBy(hours(24));
  EXPECT_EQ(world_.faults.total, before);
}

// "Else the range id is read and compared, so that a stolen lease is noticed by an idle owner too."
TEST_P(BacklogRead, AnIdleOwnerOfASharedStoreNoticesTheftWithinAnInterval) {
  QueueOwner owner(world_, config_, nullptr, false);
  owner.Start();
  world_.executor.AdvanceBy(config_.update_interval * 3);
  EXPECT_THAT(owner.unloads, IsEmpty());
  QueueOwner thief(world_, config_, nullptr, false);
  thief.Start();
  world_.executor.AdvanceBy(config_.update_interval);
  ASSERT_EQ(owner.unloads.size(), 1u);
  EXPECT_EQ(owner.unloads[0].first, UnloadCause::kConflict);
  EXPECT_THAT(thief.unloads, IsEmpty());
}

class BacklogCollect : public ::testing::Test {
 protected:
  int Deletions() { return world_.faults.calls[StoreOp::kDeleteTasksThrough]; }
  void CompleteAll(QueueOwner& owner) {
    for (const LoadedTask& task : owner.Take(100)) owner.Complete(task.key);
  }
  BacklogConfig config_ = SmallConfig(false);
  World world_;
};

// A deletion that is not due when the metadata is written is made up for, though nothing else
// happens.
TEST_F(BacklogCollect, WhatIsLeftGoesThoughNothingElseHappens) {
  config_.update_interval = config_.gc_interval / 4;
  for (const bool exclusive : {true, false}) {
    QueueOwner owner(world_, config_, nullptr, exclusive);
    owner.Start();
    owner.Spool({"a", "b"});
    const std::vector<LoadedTask> tasks = owner.Take(2);
    ASSERT_EQ(tasks.size(), 2u);
    owner.Complete(tasks[0].key);
    world_.executor.AdvanceBy(config_.gc_interval / 8);
    owner.Complete(tasks[1].key);
    world_.executor.AdvanceBy(config_.gc_interval * 3);
    EXPECT_THAT(world_.Rows(), IsEmpty());
    // And then there is no more to do.
    const int deletions = Deletions();
    world_.executor.AdvanceBy(config_.gc_interval * 10);
    EXPECT_EQ(Deletions(), deletions);
    owner.Stop();
  }
}

// "It runs when at least a batch lies between cursor and ack level, or something and the last try
// is over a second ago."
TEST_F(BacklogCollect, RunsByDistanceOrAge) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a"});
  CompleteAll(owner);
  EXPECT_EQ(Deletions(), 1);  // The first try is due.
  EXPECT_THAT(world_.Rows(), IsEmpty());
  owner.Spool(Numbered("b", 9));
  CompleteAll(owner);
  EXPECT_EQ(Deletions(), 1);
  owner.Spool({"c"});
  CompleteAll(owner);
  EXPECT_EQ(Deletions(), 3);  // A full batch, so once more.
  EXPECT_THAT(world_.Rows(), IsEmpty());
  owner.Spool({"d"});
  world_.executor.AdvanceBy(milliseconds(1'001));
  CompleteAll(owner);
  EXPECT_EQ(Deletions(), 4);
}

TEST_F(BacklogCollect, TheCountFollowsTheAckLevel) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b", "c"});
  const auto tasks = owner.Take(3);
  owner.Complete(tasks[2].key);
  owner.Complete(tasks[1].key);
  EXPECT_EQ(owner.Count(), 3);
  owner.Complete(tasks[0].key);
  EXPECT_EQ(owner.Count(), 0);
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 3);
  world_.executor.AdvanceBy(config_.update_interval);
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 0);
  EXPECT_EQ(world_.Metadata().subqueues[0].ack_level.id, TaskId{3});
}

// "A failed metadata write leaves the in-memory ack level as it was", and is tried again.
TEST_F(BacklogCollect, AFailedUpdateIsTriedAgainAndChangesNothing) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a"});
  CompleteAll(owner);
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable);
  world_.executor.AdvanceBy(config_.update_interval);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{1});
  EXPECT_EQ(owner.Count(), 0);
  EXPECT_EQ(world_.Metadata().subqueues[0].ack_level.id, TaskId{0});
  world_.executor.AdvanceBy(config_.update_interval);
  EXPECT_EQ(world_.Metadata().subqueues[0].ack_level.id, TaskId{1});
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 0);
}

// "Count is set to 0 when ack level = max read level": a wrong stored count heals.
TEST_F(BacklogCollect, AWrongCountIsPutRightWhenTheQueueIsEmpty) {
  QueueOwner(world_, config_).Start();
  store::QueueWrite write;
  write.queue = world_.key;
  write.expected_range_id = RangeId{1};
  write.metadata = world_.Metadata();
  write.metadata->subqueues[0].approximate_count = 5;
  ASSERT_TRUE(world_.durable.Commit({&write, 1})[0].ok());
  QueueOwner owner(world_, config_);
  owner.read_at_once = false;
  owner.Start();
  EXPECT_EQ(owner.Count(), 5);
  owner.Run([](BacklogManager& manager) { manager.BeginReading(); });
  EXPECT_EQ(owner.Count(), 0);
  EXPECT_EQ(world_.registry.Value("count_corrections_total"), 1u);
}

// "After a crash the count is between what is surely there and what may be there": nothing is
// stored but writes.
TEST_F(BacklogCollect, AfterACrashTheCountIsThatOfTheRowsAboveTheAckLevel) {
  SeededRandom random(1);
  {
    QueueOwner owner(world_, config_);
    owner.Start();
    owner.Spool(Numbered("t", 8));
    const auto tasks = owner.Take(3);
    for (const LoadedTask& task : tasks) owner.Complete(task.key);
    owner.store().Crash(random);
  }
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(owner.Count(), 8);
  CompleteAll(owner);
  EXPECT_EQ(owner.Count(), 0);
}

}  // namespace
}  // namespace millrace::backlog
