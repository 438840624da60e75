// Life cycle of a backlog: lease, blocks, stop, losing the queue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/backlog/testing/backlog_harness.h"

namespace millrace::backlog {
namespace {

using sim::FaultKind;
using sim::StoreOp;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::QueueOwner;
using testing::SmallConfig;
using testing::World;

std::vector<std::string> Names(const std::vector<LoadedTask>& tasks) {
  std::vector<std::string> names;
  for (const LoadedTask& task : tasks) names.push_back(task.payload);
  return names;
}

class BacklogLife : public ::testing::TestWithParam<bool> {
 protected:
  BacklogConfig config_ = SmallConfig(GetParam());
  World world_;
};
INSTANTIATE_TEST_SUITE_P(Modes, BacklogLife, ::testing::Bool(), [](const auto& mode) {
  return mode.param ? "DeleteOnFinish" : "Collected";
});

// backlog.md, life cycle 2: not there = created with range id 1, ack level 0, max read level 0.
TEST_P(BacklogLife, CreatesTheQueueWithRangeIdOne) {
  QueueOwner owner(world_, config_);
  EXPECT_EQ(owner.Ask<std::int64_t>(
                [](BacklogManager& m) { return m.DescribeBacklog().ack_level.id.value; }),
            -1);
  EXPECT_EQ(owner.Ask<std::int64_t>(
                [](BacklogManager& m) { return m.DescribeBacklog().read_level.id.value; }),
            -1);
  owner.Start();
  ASSERT_TRUE(owner.initialized.has_value());
  EXPECT_EQ(*owner.initialized, OkStatus());
  EXPECT_EQ(owner.lease_held, 1);
  EXPECT_EQ(world_.Metadata().range_id, RangeId{1});
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{0});
  EXPECT_EQ(owner.Internal().max_read_level, TaskId{0});
  EXPECT_EQ(owner.Internal().task_id_block.start, TaskId{1});
  EXPECT_EQ(owner.Internal().task_id_block.end, TaskId{100});
}

// There = range id + 1, max read level = start of the new block minus 1.
TEST_P(BacklogLife, TakesTheNextRangeId) {
  QueueOwner(world_, config_).Start();
  QueueOwner owner(world_, config_);
  owner.read_at_once = false;
  owner.Start();
  EXPECT_EQ(world_.Metadata().range_id, RangeId{2});
  EXPECT_EQ(owner.Internal().max_read_level, TaskId{100});
  EXPECT_EQ(owner.Internal().task_id_block.start, TaskId{101});
}

TEST_P(BacklogLife, SpoolsTakesFinishesAndComesBackEmpty) {
  {
    QueueOwner owner(world_, config_);
    owner.Start();
    EXPECT_EQ(owner.SpoolOne("a"), OkStatus());
    EXPECT_EQ(owner.SpoolOne("b"), OkStatus());
    EXPECT_EQ(owner.Count(), 2);
    EXPECT_EQ(owner.available, 2);
    const auto tasks = owner.Take(10);
    EXPECT_EQ(Names(tasks), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(owner.Ask<std::int64_t>([](BacklogManager& m) { return m.BacklogCountHint(); }), 2);
    owner.Complete(tasks[0].key);
    owner.Complete(tasks[1].key);
    EXPECT_EQ(owner.Count(), 0);
    EXPECT_EQ(owner.Internal().ack_level.id, TaskId{2});
    EXPECT_TRUE(owner.Idle());
  }
  EXPECT_TRUE(world_.Rows().empty());
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 0);
  EXPECT_EQ(At(world_.StoredTotals(), Total::kAccepted), 2);
  EXPECT_EQ(At(world_.StoredTotals(), Total::kDone), 2);
  QueueOwner next(world_, config_);
  next.Start();
  EXPECT_TRUE(next.Take(10).empty());
}

TEST_P(BacklogLife, UnfinishedTasksComeBackInOrderWithExactCount) {
  {
    QueueOwner owner(world_, config_);
    owner.Start();
    owner.Spool({"a", "b", "c", "d"});
    const auto tasks = owner.Take(3);
    owner.Complete(tasks[1].key);
  }
  QueueOwner next(world_, config_);
  next.Start();
  if (GetParam()) {
    EXPECT_EQ(next.Count(), 3);
    EXPECT_EQ(Names(next.Take(10)), (std::vector<std::string>{"a", "c", "d"}));
  } else {
    EXPECT_EQ(next.Count(), 4);  // The ack level has not passed "a", so "b" comes again.
    EXPECT_EQ(Names(next.Take(10)), (std::vector<std::string>{"a", "b", "c", "d"}));
  }
}

// "Transient store errors are retried for ever (until stopped)."
TEST_P(BacklogLife, LeaseIsRetriedThroughTransientErrors) {
  for (const StoreOp op : {StoreOp::kReadMetadata, StoreOp::kCommit}) {
    for (const FaultKind kind :
         {FaultKind::kUnavailable, FaultKind::kResourceExhausted, FaultKind::kReplyLost,
          FaultKind::kNotApplied, FaultKind::kAppliedLate}) {
      World world;
      QueueOwner(world, config_).Start();
      world.faults.Push(op, kind, 5, seconds(1));
      QueueOwner owner(world, config_);
      owner.Start();
      EXPECT_FALSE(owner.initialized.has_value());
      world.executor.AdvanceBy(minutes(1));
      ASSERT_TRUE(owner.initialized.has_value());
      EXPECT_EQ(*owner.initialized, OkStatus());
      EXPECT_EQ(world.Metadata().range_id,
                owner.Ask<RangeId>([](BacklogManager& m) { return m.range_id(); }));
      EXPECT_EQ(owner.SpoolOne("a"), OkStatus());
      EXPECT_EQ(owner.Take(5).size(), 1u);
    }
  }
}

TEST_P(BacklogLife, LeaseRetryEndsWithStop) {
  world_.faults.every = [](StoreOp) -> std::optional<sim::Fault> {
    return sim::Fault{.kind = FaultKind::kUnavailable};
  };
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.executor.AdvanceBy(minutes(10));
  EXPECT_FALSE(owner.initialized.has_value());
  owner.Stop();
  EXPECT_EQ(owner.stopped, 1);
  EXPECT_EQ(owner.initialized->code(), StatusCode::kShuttingDown);
  const int before = world_.faults.total;
  world_.executor.AdvanceBy(minutes(10));
  EXPECT_EQ(world_.faults.total, before);
}

// "A failed initialization marks the queue "no final update" and asks to unload it with cause init
// error."
TEST_P(BacklogLife, DamagedMetadataIsAnInitError) {
  QueueOwner(world_, config_).Start();
  store::QueueWrite write;
  write.queue = world_.key;
  write.expected_range_id = RangeId{1};
  write.metadata = world_.Metadata();
  write.metadata->owner_state = "garbage";
  ASSERT_TRUE(world_.durable.Commit({&write, 1})[0].ok());
  QueueOwner owner(world_, config_);
  owner.Start();
  ASSERT_TRUE(owner.initialized.has_value());
  EXPECT_EQ(owner.initialized->code(), StatusCode::kCorruption);
  ASSERT_EQ(owner.unloads.size(), 1u);
  EXPECT_EQ(owner.unloads[0].first, UnloadCause::kInitError);
  EXPECT_EQ(owner.SpoolOne("a").code(), StatusCode::kCorruption);
  const int commits = world_.faults.calls[StoreOp::kCommit];
  owner.Destroy();
  EXPECT_EQ(world_.faults.calls[StoreOp::kCommit], commits);
}

TEST_P(BacklogLife, AnAckLevelAboveEverythingIsDamage) {
  QueueOwner(world_, config_).Start();
  store::QueueWrite write;
  write.queue = world_.key;
  write.expected_range_id = RangeId{1};
  write.metadata = world_.Metadata();
  write.metadata->subqueues[0].ack_level.id = TaskId{101};
  ASSERT_TRUE(world_.durable.Commit({&write, 1})[0].ok());
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(owner.initialized->code(), StatusCode::kCorruption);
}

// Opens an owner whose ids would overlap, was the size of blocks not remembered.
TEST_P(BacklogLife, AChangedRangeSizeNeverReusesIds) {
  std::int64_t last = 0;
  for (const std::int64_t size : {100, 7, 50, 3, 1000, 1}) {
    config_.range_size = size;
    QueueOwner owner(world_, config_);
    owner.Start();
    ASSERT_EQ(owner.SpoolOne("a"), OkStatus());
    EXPECT_GT(owner.keys.at("a").level.id.value, last);
    last = owner.Internal().task_id_block.end.value;
  }
  QueueOwner owner(world_, config_);
  owner.Start();
  std::size_t taken = 0;
  for (auto tasks = owner.Take(10); !tasks.empty(); tasks = owner.Take(10)) taken += tasks.size();
  EXPECT_EQ(taken, 6u);
}

// What the old owner wrote between the new one's read and its lease is not lost from the counts.
// Fails without QueueLease::StartResize: the stored size stayed the old one until an owner wrote,
// and every owner that was lost before multiplied the range id by the ratio of the sizes, until no
// ids were left (found by millrace_sim, profile queue-owners, range size changed between lives).
TEST_P(BacklogLife, OwnersThatWriteNothingDoNotMultiplyTheRangeId) {
  config_.range_size = 1'000;
  ASSERT_EQ(QueueOwner(world_, config_).Start().SpoolOne("a"), OkStatus());
  config_.range_size = 10;
  for (int lives = 0; lives < 30; ++lives) {
    QueueOwner owner(world_, config_);
    owner.Start();
    ASSERT_EQ(owner.initialized, OkStatus()) << lives;
    owner.store().Crash(world_.random);
  }
  EXPECT_EQ(world_.Metadata().range_id, RangeId{2 * 1'000 / 10 + 1 + 29});
}

TEST_P(BacklogLife, AChangeOfTheRangeSizeIsRetriedThroughEveryFault) {
  for (const FaultKind kind : {FaultKind::kUnavailable, FaultKind::kReplyLost,
                               FaultKind::kNotApplied, FaultKind::kAppliedLate}) {
    World world;
    BacklogConfig config = config_;
    ASSERT_EQ(QueueOwner(world, config).Start().SpoolOne("a"), OkStatus());
    config.range_size = 7;
    QueueOwner owner(world, config);
    for (int i = 0; i < 5; ++i) {  // The lease works, the jump to the new size does not.
      world.faults.Push(StoreOp::kCommit, FaultKind::kNone);
      world.faults.Push(StoreOp::kCommit, kind);
    }
    owner.Start();
    world.executor.AdvanceBy(std::chrono::minutes(2));
    ASSERT_EQ(owner.initialized, OkStatus());
    // One more for each try, and then one jump above what they might have used.
    EXPECT_LE(world.Metadata().range_id, RangeId{7 * 100 / 7 + 1});
    world.faults.next.clear();
    ASSERT_EQ(owner.SpoolOne("b"), OkStatus());
    EXPECT_GT(owner.keys.at("b").level.id, TaskId{100});
    EXPECT_EQ(owner.Count(), 2);
    EXPECT_EQ(owner.Take(10).size(), 2u);
  }
}

TEST_P(BacklogLife, AWriteThatLandsWhileTheQueueIsBeingTakenIsCounted) {
  QueueOwner old_owner(world_, config_);
  old_owner.Start();
  QueueOwner owner(world_, config_);
  // The new owner's lease write is slow; the old one writes meanwhile.
  world_.faults.every = [&](StoreOp op) -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    world_.faults.every = nullptr;
    return sim::Fault{.before = seconds(1)};
  };
  owner.Start();
  EXPECT_EQ(old_owner.SpoolOne("a"), OkStatus());
  world_.executor.AdvanceBy(seconds(2));
  EXPECT_EQ(world_.Metadata().range_id, RangeId{2});
  EXPECT_EQ(owner.Count(), 1);
  EXPECT_EQ(At(owner.Ask<Totals>([](BacklogManager& m) { return m.totals(); }), Total::kAccepted),
            1);
  EXPECT_EQ(Names(owner.Take(10)), (std::vector<std::string>{"a"}));
}

// Stop: "write the metadata once more with the current ack level, then delete finished tasks at
// once".
TEST(BacklogStop, FinalWriteThenFinalDelete) {
  World world;
  QueueOwner owner(world, SmallConfig(false));
  owner.Start();
  owner.Spool({"a", "b"});
  const auto tasks = owner.Take(2);
  owner.Complete(tasks[0].key);
  world.executor.AdvanceBy(milliseconds(1));
  owner.Complete(tasks[1].key);
  EXPECT_EQ(world.Metadata().subqueues[0].ack_level.id, TaskId{0});
  owner.Stop();
  EXPECT_EQ(owner.stopped, 1);
  EXPECT_EQ(world.Metadata().subqueues[0].ack_level.id, TaskId{2});
  EXPECT_EQ(world.Metadata().subqueues[0].approximate_count, 0);
  EXPECT_TRUE(world.Rows().empty());
}

// "Deleting is right even when the metadata write failed."
TEST(BacklogStop, DeletesEvenWhenTheFinalWriteFails) {
  World world;
  QueueOwner owner(world, SmallConfig(false));
  owner.Start();
  owner.Spool({"a", "b"});
  const auto tasks = owner.Take(2);
  owner.Complete(tasks[0].key);
  world.executor.AdvanceBy(milliseconds(1));
  owner.Complete(tasks[1].key);
  world.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable);
  owner.Stop();
  EXPECT_EQ(owner.stopped, 1);
  EXPECT_TRUE(world.Rows().empty());
}

// Time limit 5 s for each: a store that hangs does not keep the deletion from being tried.
TEST(BacklogStop, AHangingFinalWriteGivesWayAfterFiveSeconds) {
  World world;
  QueueOwner owner(world, SmallConfig(false));
  owner.Start();
  owner.Spool({"a", "b"});
  const auto tasks = owner.Take(2);
  owner.Complete(tasks[0].key);
  world.executor.AdvanceBy(milliseconds(1));
  owner.Complete(tasks[1].key);
  world.faults.every = [](StoreOp op) -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    return sim::Fault{.after = seconds(60)};
  };
  const int deletions = world.faults.calls[StoreOp::kDeleteTasksThrough];
  owner.Stop();
  world.executor.AdvanceBy(milliseconds(4'999));
  EXPECT_EQ(world.faults.calls[StoreOp::kDeleteTasksThrough], deletions);
  world.executor.AdvanceBy(milliseconds(1));
  EXPECT_EQ(world.faults.calls[StoreOp::kDeleteTasksThrough], deletions + 1);
  EXPECT_EQ(owner.stopped, 0);  // The write may still come back to this object.
  world.executor.AdvanceBy(seconds(60));
  EXPECT_EQ(owner.stopped, 1);
}

// "Stop twice, stop during start, stop with I/O in flight: all fine", whatever the store call under
// way.
TEST_P(BacklogLife, StopAtEveryPointOfALife) {
  for (int stop_at = 0; stop_at < 40; ++stop_at) {
    World world;
    int calls = 0;
    QueueOwner* running = nullptr;
    world.faults.every = [&](StoreOp) -> std::optional<sim::Fault> {
      if (calls++ == stop_at && running != nullptr) {
        running->strand().Post(
            [running] { running->manager().Stop([running] { ++running->stopped; }); });
        running->strand().Post(
            [running] { running->manager().Stop([running] { ++running->stopped; }); });
      }
      return sim::Fault{.before = milliseconds(1), .after = milliseconds(1)};
    };
    std::size_t durable = 0;
    {
      QueueOwner owner(world, config_);
      running = &owner;
      owner.Start();
      for (int i = 0; i < 12; ++i) {
        owner.Spool({"a" + std::to_string(i), "b" + std::to_string(i)});
        world.executor.AdvanceBy(milliseconds(i));
        for (const LoadedTask& task : owner.Take(1)) owner.Complete(task.key);
      }
      world.executor.AdvanceBy(seconds(1));
      if (calls > stop_at) {
        EXPECT_EQ(owner.stopped, 2);
      }
      EXPECT_TRUE(owner.initialized.has_value());
      EXPECT_EQ(owner.spooled.size(), 24u);
      for (const auto& [name, status] : owner.spooled) {
        durable += status.ok() ? 1 : 0;
        EXPECT_TRUE(status.ok() || status.code() == StatusCode::kShuttingDown) << status;
      }
      EXPECT_TRUE(owner.unloads.empty());
      owner.Destroy();
      running = nullptr;
    }
    const Totals totals = durable > 0 ? world.StoredTotals() : Totals{};
    EXPECT_EQ(At(totals, Total::kAccepted), static_cast<std::int64_t>(durable));
  }
}

TEST_P(BacklogLife, AfterStopEverythingIsRefusedAndNothingIsGivenOut) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a"});
  owner.Stop();
  EXPECT_EQ(owner.SpoolOne("b").code(), StatusCode::kShuttingDown);
  EXPECT_TRUE(owner.Take(10).empty());
  EXPECT_FALSE(owner.Ask<bool>([](BacklogManager& m) { return m.HasLoaded(); }));
  std::optional<Status> late;
  owner.Run([&](BacklogManager& m) {
    m.WhenInitialized([&](Status status) { late = std::move(status); });
  });
  EXPECT_EQ(late->code(), StatusCode::kShuttingDown);
  owner.Stop();
  EXPECT_EQ(owner.stopped, 2);
}

TEST_P(BacklogLife, StopBeforeStart) {
  QueueOwner owner(world_, config_);
  owner.Stop();
  EXPECT_EQ(owner.stopped, 1);
  EXPECT_EQ(world_.faults.total, 0);
}

// "Lease stolen with a write in flight, then the old owner's fatal signal arrives late": the old
// write is refused, the old owner unloads once, the new one never; no row of the old range id
// afterwards.
TEST_P(BacklogLife, AStolenQueueIsGivenUpOnce) {
  QueueOwner old_owner(world_, config_);
  old_owner.Start();
  ASSERT_EQ(old_owner.SpoolOne("mine"), OkStatus());
  world_.faults.every = [&](StoreOp op) -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    world_.faults.every = nullptr;
    return sim::Fault{.before = seconds(1), .after = seconds(30)};
  };
  old_owner.Spool({"late"});
  QueueOwner owner(world_, config_);
  owner.Start();
  ASSERT_EQ(owner.SpoolOne("theirs"), OkStatus());
  world_.executor.AdvanceBy(seconds(40));
  EXPECT_EQ(old_owner.spooled.at("late").code(), StatusCode::kFenced);
  ASSERT_EQ(old_owner.unloads.size(), 1u);
  EXPECT_EQ(old_owner.unloads[0].first, UnloadCause::kConflict);
  EXPECT_EQ(old_owner.SpoolOne("more").code(), StatusCode::kFenced);
  EXPECT_TRUE(old_owner.Take(10).empty());
  EXPECT_EQ(old_owner.unloads.size(), 1u);
  const int commits = world_.faults.calls[StoreOp::kCommit];
  const int deletions = world_.faults.calls[StoreOp::kDeleteTasksThrough];
  old_owner.Destroy();
  EXPECT_EQ(world_.faults.calls[StoreOp::kCommit], commits);  // No final update.
  EXPECT_EQ(world_.faults.calls[StoreOp::kDeleteTasksThrough], deletions);
  EXPECT_TRUE(owner.unloads.empty());
  EXPECT_EQ(Names(owner.Take(10)), (std::vector<std::string>{"mine", "theirs"}));
  EXPECT_EQ(world_.registry.Value("condition_failures_total"), 1u);
}

TEST_P(BacklogLife, TheOwnerMayStopInsideTheUnloadSignal) {
  QueueOwner old_owner(world_, config_);
  old_owner.stop_on_unload = true;
  old_owner.Start();
  QueueOwner owner(world_, config_);
  owner.Start();
  EXPECT_EQ(old_owner.SpoolOne("x").code(), StatusCode::kFenced);
  EXPECT_EQ(old_owner.stopped, 1);
  EXPECT_EQ(old_owner.unloads.size(), 1u);
}

// Damaged rows fault their queue, and keep the process and the rows.
TEST_P(BacklogLife, DamageFaultsTheQueueOnce) {
  for (const bool writes : {false, true}) {
    World world;
    QueueOwner(world, config_).Start();
    testing::DamagedStore damaged(world.durable);
    QueueOwner owner(world, config_, nullptr, true, &damaged);
    owner.Start();
    owner.Spool({"a"});
    (writes ? damaged.writes_damaged : damaged.tasks_damaged) = true;
    config_.page_size = 1;
    QueueOwner next(world, config_, nullptr, true, &damaged);
    if (writes) {
      EXPECT_EQ(owner.SpoolOne("b").code(), StatusCode::kCorruption);
      ASSERT_EQ(owner.unloads.size(), 1u);
      EXPECT_EQ(owner.unloads[0], std::pair(UnloadCause::kOtherError, StatusCode::kCorruption));
      EXPECT_EQ(owner.SpoolOne("c").code(), StatusCode::kCorruption);
      EXPECT_EQ(owner.unloads.size(), 1u);
    } else {
      next.Start();
      ASSERT_EQ(next.unloads.size(), 1u);
      EXPECT_EQ(next.unloads[0], std::pair(UnloadCause::kOtherError, StatusCode::kCorruption));
      EXPECT_EQ(next.initialized, OkStatus());
    }
    EXPECT_EQ(world.Rows().size(), 1u);
  }
}

// What it shows: BacklogStatus and InternalStatus.
TEST_P(BacklogLife, ShowsLevelsCountsAndBlocks) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b", "c"});
  const auto tasks = owner.Take(2);
  owner.Complete(tasks[0].key);
  const auto status =
      owner.Ask<BacklogStatus>([](BacklogManager& m) { return m.DescribeBacklog(); });
  EXPECT_EQ(status.read_level.id, TaskId{3});
  EXPECT_EQ(status.ack_level.id, TaskId{1});
  EXPECT_EQ(status.approximate_count, 2);
  EXPECT_EQ(status.task_id_block.start, TaskId{1});
  EXPECT_EQ(status.task_id_block.end, TaskId{100});
  const InternalSubqueueStatus internal = owner.Internal();
  EXPECT_EQ(internal.loaded_tasks, 2);
  EXPECT_EQ(internal.max_read_level, TaskId{3});
  EXPECT_EQ(internal.task_id_block.start, TaskId{4});  // The next one it gives.
  EXPECT_EQ(internal.approximate_count, 2);
  EXPECT_TRUE(owner.Ask<bool>([](BacklogManager& m) { return m.lease_held(); }));
}

}  // namespace
}  // namespace millrace::backlog
