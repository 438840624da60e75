// Writing: batches, ids, bounds, blocks, counts, unknown outcomes.

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

std::vector<std::int64_t> Ids(const std::vector<LoadedTask>& tasks) {
  std::vector<std::int64_t> ids;
  for (const LoadedTask& task : tasks) ids.push_back(task.key.level.id.value);
  return ids;
}

class BacklogWrite : public ::testing::TestWithParam<bool> {
 protected:
  int Commits() { return world_.faults.calls[StoreOp::kCommit]; }

  BacklogConfig config_ = SmallConfig(GetParam());
  World world_;
};
INSTANTIATE_TEST_SUITE_P(Modes, BacklogWrite, ::testing::Bool(), [](const auto& mode) {
  return mode.param ? "DeleteOnFinish" : "Collected";
});

// "It takes what is waiting, up to a batch, gives ids in order."
TEST_P(BacklogWrite, WaitingAppendsShareWritesUpToABatch) {
  QueueOwner owner(world_, config_);
  owner.Start();
  const int before = Commits();
  owner.Spool(Numbered("t", 25));
  EXPECT_EQ(Commits() - before, 3);
  for (int i = 0; i < 25; ++i) {
    EXPECT_EQ(owner.keys.at("t" + std::to_string(i)).level.id.value, i + 1);
  }
}

TEST_P(BacklogWrite, BatchesAreBoundedByBytesToo) {
  config_.write_batch_bytes_max = 100;
  QueueOwner owner(world_, config_);
  owner.Start();
  const int before = Commits();
  owner.Spool({std::string(60, 'a'), std::string(60, 'b'), std::string(300, 'c'), "d"});
  EXPECT_EQ(Commits() - before, 4);  // One may be larger than the bound, alone.
}

// "Full = an immediate resource exhausted, never a wait."
TEST_P(BacklogWrite, OneMoreThanTheBoundIsRefusedAtOnce) {
  config_.outstanding_appends_max = 25;
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool(Numbered("t", 26));
  EXPECT_EQ(owner.spooled.at("t24"), OkStatus());
  EXPECT_EQ(owner.spooled.at("t25").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(owner.spooled.at("t25").message(), "too many outstanding appends");
  EXPECT_EQ(owner.SpoolOne("again"), OkStatus());
  EXPECT_EQ(world_.registry.Value("appends_refused_total"), 1u);
}

TEST_P(BacklogWrite, AnOpLargerThanABatchGoesAlone) {
  QueueOwner owner(world_, config_);
  owner.Start();
  const int before = Commits();
  std::optional<WriteOutcome> outcome;
  owner.Run([&](BacklogManager& manager) {
    owner.SpoolLater(manager, owner.MakeTask("first"));
    WriteOp op;
    for (int i = 0; i < 30; ++i) op.creates.push_back(owner.MakeTask("x"));
    op.done = [&](WriteOutcome o) { outcome = std::move(o); };
    manager.Submit(std::move(op));
    owner.SpoolLater(manager, owner.MakeTask("last"));
  });
  EXPECT_EQ(Commits() - before, 3);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->created.size(), 30u);
  EXPECT_EQ(outcome->created.front().level.id, TaskId{2});
}

TEST_P(BacklogWrite, AnOpThatNoBlockHoldsIsRefused) {
  QueueOwner owner(world_, config_);
  owner.Start();
  std::optional<Status> outcome;
  owner.Run([&](BacklogManager& manager) {
    WriteOp op;
    op.creates.resize(101);
    op.done = [&](WriteOutcome o) { outcome = o.status; };
    manager.Submit(std::move(op));
    EXPECT_FALSE(outcome.has_value());  // Never inside the call.
  });
  EXPECT_EQ(outcome->code(), StatusCode::kInvalidArgument);
}

// "Block used up: renew the lease. The new block must follow the old one directly."
TEST_P(BacklogWrite, BlocksFollowEachOtherWithoutAGap) {
  config_.range_size = 4;
  QueueOwner owner(world_, config_);
  owner.Start();
  for (int i = 1; i <= 12; ++i) {
    ASSERT_EQ(owner.SpoolOne("t" + std::to_string(i)), OkStatus());
    EXPECT_EQ(owner.keys.at("t" + std::to_string(i)).level.id.value, i);
  }
  EXPECT_EQ(world_.Metadata().range_id, RangeId{3});
  EXPECT_THAT(Ids(owner.Take(20)), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(Ids(owner.Take(20)), ElementsAre(11, 12));
}

TEST_P(BacklogWrite, ALeaseThatCannotBeRenewedIsTheBatchsError) {
  config_.range_size = 2;
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b"});
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable);
  EXPECT_EQ(owner.SpoolOne("c").code(), StatusCode::kUnavailable);
  EXPECT_EQ(owner.SpoolOne("d"), OkStatus());
  EXPECT_EQ(owner.keys.at("d").level.id, TaskId{3});
}

TEST_P(BacklogWrite, ARangeIdThatNoLongerFitsIsAnErrorNotAJump) {
  config_.range_size = 2;
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b"});
  QueueOwner thief(world_, config_);
  thief.Start();
  EXPECT_EQ(owner.SpoolOne("c").code(), StatusCode::kFenced);
  ASSERT_EQ(owner.unloads.size(), 1u);
  EXPECT_EQ(owner.unloads[0].first, UnloadCause::kConflict);
}

// "ids are never used twice, and max read level moves whether the write worked or not."
TEST_P(BacklogWrite, IdsOfARefusedWriteAreBurnt) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable);
  EXPECT_EQ(owner.SpoolOne("a").code(), StatusCode::kUnavailable);
  EXPECT_EQ(owner.Internal().max_read_level, TaskId{1});
  EXPECT_EQ(owner.SpoolOne("b"), OkStatus());
  EXPECT_EQ(owner.keys.at("b").level.id, TaskId{2});
  EXPECT_THAT(Ids(owner.Take(10)), ElementsAre(2));
}

// "Count goes up before the write; it comes back down only when the write surely did not happen."
TEST_P(BacklogWrite, CountCoversTheWriteUnderWay) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable);
  world_.faults.every = [](StoreOp op) -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    return sim::Fault{.kind = FaultKind::kUnavailable, .before = seconds(1)};
  };
  owner.Spool({"a", "b"});
  EXPECT_EQ(owner.Count(), 2);
  world_.executor.AdvanceBy(seconds(1));
  EXPECT_EQ(owner.spooled.at("a").code(), StatusCode::kUnavailable);
  EXPECT_EQ(owner.Count(), 0);
  world_.faults.every = nullptr;
}

TEST_P(BacklogWrite, EveryPutFailsWhileTheStoreIsFullAndWorksAgainAfter) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.every = [](StoreOp op) -> std::optional<sim::Fault> {
    if (!IsWrite(op)) return std::nullopt;
    return sim::Fault{.kind = FaultKind::kResourceExhausted};
  };
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(owner.SpoolOne("full" + std::to_string(i)).code(), StatusCode::kResourceExhausted);
    world_.executor.AdvanceBy(seconds(1));
  }
  world_.faults.every = nullptr;
  EXPECT_EQ(owner.SpoolOne("healed"), OkStatus());
  EXPECT_EQ(owner.Count(), 1);
  EXPECT_EQ(owner.Take(10).size(), 1u);
  EXPECT_THAT(owner.unloads, IsEmpty());
}

// "A write times out and commits 2 s later, an empty read lets the ack level pass it: lost for
// ever."
TEST_P(BacklogWrite, AWriteThatLandsLateIsFencedOrDelivered) {
  for (const FaultKind kind :
       {FaultKind::kAppliedLate, FaultKind::kReplyLost, FaultKind::kNotApplied}) {
    World world;
    QueueOwner owner(world, config_);
    owner.Start();
    // The fence itself takes longer than the late write.
    world.faults.Push(StoreOp::kCommit, kind);
    world.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable, 8);
    std::optional<bool> applied;
    owner.Run([&](BacklogManager& manager) {
      WriteOp op;
      op.creates.push_back(owner.MakeTask("late"));
      op.done = [&](const WriteOutcome& o) {
        EXPECT_EQ(o.status.code(), StatusCode::kUnknownOutcome);
      };
      op.decided = [&](bool a) { applied = a; };
      manager.Submit(std::move(op));
    });
    EXPECT_FALSE(applied.has_value());
    EXPECT_EQ(owner.Internal().max_read_level, TaskId{1});
    EXPECT_EQ(owner.Internal().read_level.id, TaskId{0});  // Not past the undecided id.
    EXPECT_EQ(owner.Internal().ack_level.id, TaskId{0});
    EXPECT_FALSE(owner.Idle());
    for (int i = 0; i < 200 && !applied; ++i) {
      world.executor.AdvanceBy(milliseconds(100));
      if (!applied) {
        EXPECT_EQ(owner.Internal().read_level.id, TaskId{0});
      }
    }
    ASSERT_TRUE(applied.has_value());
    EXPECT_EQ(*applied, kind != FaultKind::kNotApplied);
    EXPECT_EQ(world.Metadata().range_id, RangeId{2});  // A new lease first.
    EXPECT_EQ(owner.Take(10).size(), *applied ? 1u : 0u);
    EXPECT_EQ(owner.Count(), *applied ? 1 : 0);
    EXPECT_EQ(owner.write_ends.back(), *applied);
    EXPECT_EQ(owner.SpoolOne("next"), OkStatus());
    EXPECT_EQ(owner.keys.at("next").level.id, TaskId{101});
    EXPECT_EQ(owner.Take(10).size(), 1u);
  }
}

TEST_P(BacklogWrite, AnUndecidedWriteFencedInTimeNeverLands) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.Push(StoreOp::kCommit, FaultKind::kAppliedLate);
  owner.Spool({"late"});
  world_.executor.AdvanceBy(seconds(10));
  EXPECT_THAT(world_.Rows(), IsEmpty());
  EXPECT_EQ(owner.Count(), 0);
  EXPECT_TRUE(owner.Idle());
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{1});
}

// "Such ids stay undecided", also for a reader that wakes meanwhile.
TEST_P(BacklogWrite, NoReaderPassesUndecidedIds) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a"});
  world_.faults.Push(StoreOp::kCommit, FaultKind::kReplyLost);
  world_.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable, 3);
  owner.Spool({"b"});
  EXPECT_EQ(owner.spooled.at("b").code(), StatusCode::kUnknownOutcome);
  EXPECT_EQ(owner.Take(1).size(), 1u);  // Wakes the reader.
  EXPECT_EQ(owner.Internal().read_level.id, TaskId{1});
  EXPECT_EQ(owner.Internal().max_read_level, TaskId{2});
  EXPECT_EQ(owner.loaded, std::vector<std::string>{"a"});
  world_.executor.AdvanceBy(seconds(10));
  EXPECT_EQ(owner.loaded, (std::vector<std::string>{"a", "b"}));
}

// "Returns when the task is durable."
TEST_P(BacklogWrite, WhatCallersWaitForIsSyncedAndTheRestRidesAlong) {
  testing::DamagedStore seen(world_.durable);
  QueueOwner owner(world_, config_, nullptr, true, &seen);
  owner.Start();
  seen.durabilities.clear();
  owner.Spool({"a"});
  owner.End({owner.Take(1).at(0).key});
  owner.Run([](BacklogManager& manager) { manager.RequestWrite(false); });
  using store::Durability;
  EXPECT_EQ(seen.durabilities, (std::vector<Durability>{Durability::kSynced, Durability::kSynced,
                                                        Durability::kRelaxed}));
}

// "For ends in an undecided op: ids stay outstanding until decided."
TEST_P(BacklogWrite, UndecidedEndsStayOutstanding) {
  for (const FaultKind kind : {FaultKind::kReplyLost, FaultKind::kNotApplied}) {
    World world;
    QueueOwner owner(world, config_);
    owner.Start();
    owner.Spool({"a"});
    const auto tasks = owner.Take(1);
    world.faults.Push(StoreOp::kCommit, kind);
    world.faults.Push(StoreOp::kCommit, FaultKind::kUnavailable, 3);
    owner.End({tasks[0].key});
    EXPECT_EQ(owner.ended.at(0).code(), StatusCode::kUnknownOutcome);
    EXPECT_EQ(owner.Internal().loaded_tasks, 1);
    EXPECT_EQ(owner.Internal().ack_level.id, TaskId{0});
    owner.End({tasks[0].key});
    EXPECT_EQ(owner.ended.at(1).code(), StatusCode::kNotFound);  // It is ending already.
    world.executor.AdvanceBy(seconds(5));
    const bool applied = kind == FaultKind::kReplyLost;
    EXPECT_THAT(owner.decided, ElementsAre(applied));
    EXPECT_EQ(owner.Internal().loaded_tasks, applied ? 0 : 1);
    EXPECT_EQ(owner.Count(), applied ? 0 : 1);
    owner.End({tasks[0].key});
    EXPECT_EQ(owner.ended.at(2).code(), applied ? StatusCode::kNotFound : StatusCode::kOk);
    EXPECT_EQ(owner.Count(), 0);
    EXPECT_EQ(At(world.StoredTotals(), Total::kDone), 1);
  }
}

TEST_P(BacklogWrite, AFenceWhoseOwnReplyIsLostUnloadsSafely) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.Push(StoreOp::kCommit, FaultKind::kReplyLost, 2);
  owner.Spool({"a"});
  world_.executor.AdvanceBy(seconds(10));
  ASSERT_EQ(owner.unloads.size(), 1u);
  EXPECT_EQ(owner.unloads[0].first, UnloadCause::kConflict);
  EXPECT_EQ(owner.SpoolOne("b").code(), StatusCode::kFenced);
  owner.Destroy();
  QueueOwner next(world_, config_);
  next.Start();
  EXPECT_EQ(next.Take(10).size(), 1u);
  EXPECT_EQ(next.Count(), 1);
}

TEST_P(BacklogWrite, OpsAreRefusedAtOnceWhileTheFenceCannotBeWritten) {
  QueueOwner owner(world_, config_);
  owner.Start();
  world_.faults.every = [first = true](StoreOp op) mutable -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    if (!std::exchange(first, false)) return sim::Fault{.kind = FaultKind::kResourceExhausted};
    return sim::Fault{.kind = FaultKind::kNotApplied};
  };
  owner.Spool({"unknown"});
  for (int i = 0; i < 20; ++i) {
    // No time passes: none of them waits for the next try of the fence.
    owner.Spool({"refused" + std::to_string(i)});
    ASSERT_TRUE(owner.spooled.count("refused" + std::to_string(i)));
    EXPECT_EQ(owner.spooled.at("refused" + std::to_string(i)).code(),
              StatusCode::kResourceExhausted);
  }
  world_.faults.every = nullptr;
  world_.executor.AdvanceBy(config_.store_retry_max);
  EXPECT_EQ(owner.SpoolOne("healed"), OkStatus());
  EXPECT_EQ(owner.Take(10).size(), 1u);
}

TEST_P(BacklogWrite, TotalsAndCountsAreInTheSameWriteAsTheRows) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool(Numbered("t", 7));
  const auto tasks = owner.Take(7);
  owner.End({tasks[0].key, tasks[1].key});
  owner.End({tasks[2].key}, Total::kDead);
  owner.Run([&](BacklogManager& manager) {
    WriteOp rewrite;  // Two tasks end, one of them lives on under a new id.
    rewrite.accepts = false;
    rewrite.creates.push_back(owner.MakeTask("again"));
    rewrite.ends = {tasks[3].key, tasks[4].key};
    rewrite.ends_as = Total::kDroppedInvalid;
    manager.Submit(std::move(rewrite));
  });
  const Totals totals = world_.StoredTotals();
  EXPECT_EQ(At(totals, Total::kAccepted), 7);
  EXPECT_EQ(At(totals, Total::kDone), 2);
  EXPECT_EQ(At(totals, Total::kDead), 1);
  EXPECT_EQ(At(totals, Total::kDroppedInvalid), 1);
  EXPECT_EQ(static_cast<std::int64_t>(world_.Rows().size()), 3);
  EXPECT_EQ(world_.Metadata().subqueues[0].approximate_count, 3);
  EXPECT_EQ(owner.Count(), 3);
  EXPECT_EQ(owner.Ask<Totals>([](BacklogManager& m) { return m.totals(); }), totals);
}

TEST_P(BacklogWrite, EndingWhatIsNotOutstandingChangesNothing) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b"});
  const auto tasks = owner.Take(2);
  const int before = Commits();
  owner.End({tasks[0].key, {0, {0, TaskId{77}}}});
  owner.End({{5, {0, TaskId{1}}}});
  owner.End({tasks[0].key, tasks[0].key});
  for (const Status& status : owner.ended) EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(Commits(), before);
  owner.End({tasks[0].key});
  EXPECT_EQ(owner.ended.back(), OkStatus());
}

// Side rows ride along, and a relaxed request costs no sync of its own.
TEST_P(BacklogWrite, TheOwnersSideRowsRideAlong) {
  std::vector<store::Durability> how;
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.on_build = [&](store::QueueWrite& write) {
    write.side_puts.push_back({"x", std::to_string(how.size())});
    how.push_back(write.durability);
  };
  owner.Run([](BacklogManager& manager) { manager.RequestWrite(false); });
  owner.Run([](BacklogManager& manager) { manager.RequestWrite(true); });
  owner.Spool({"a"});
  EXPECT_THAT(how, ElementsAre(store::Durability::kRelaxed, store::Durability::kSynced,
                               store::Durability::kSynced));
  EXPECT_EQ(world_.durable.ReadSideRows(world_.key, "x", "", 10)->rows.at(0).value, "2");
  EXPECT_THAT(owner.write_ends, ElementsAre(true, true, true));
}

TEST_P(BacklogWrite, SubqueuesHaveTheirOwnLevelsAndTheLowestComesFirst) {
  {
    QueueOwner owner(world_, config_);
    owner.Start();
    owner.Run([&](BacklogManager& manager) {
      for (const int subqueue : {2, 0, 1, 2}) {
        NewTask task = owner.MakeTask(std::to_string(subqueue) + "-" + std::to_string(owner.built));
        task.subqueue = subqueue;
        manager.SpoolTask(std::move(task),
                          [](const WriteOutcome& o) { EXPECT_TRUE(o.status.ok()); });
      }
    });
    EXPECT_EQ(owner.Internal(2).approximate_count, 2);
    EXPECT_THAT(Ids(owner.Take(1)), ElementsAre(2));
  }
  QueueOwner next(world_, config_);
  next.Start();
  EXPECT_EQ(next.Count(), 4);
  const auto tasks = next.Take(10);
  EXPECT_THAT(Ids(tasks), ElementsAre(2, 3, 1, 4));
  for (const LoadedTask& task : tasks) next.Complete(task.key);
  EXPECT_EQ(next.Count(), 0);
  next.Destroy();
  EXPECT_EQ(world_.Metadata().subqueues.size(), 3u);
  std::optional<Status> refused;
  QueueOwner last(world_, config_);
  last.Start();
  last.Run([&](BacklogManager& manager) {
    NewTask task = last.MakeTask("x");
    task.subqueue = -1;
    manager.SpoolTask(std::move(task), [&](const WriteOutcome& o) { refused = o.status; });
  });
  EXPECT_EQ(refused->code(), StatusCode::kInvalidArgument);
}

// Finishing with an error: "write it again with a new, higher id, then mark the old id done".
TEST_P(BacklogWrite, ATaskThatCouldNotStartGoesToTheTail) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a", "b"});
  auto tasks = owner.Take(1);
  owner.Run([&](BacklogManager& manager) { manager.RewriteTask(std::move(tasks[0])); });
  EXPECT_THAT(Ids(owner.Take(10)), ElementsAre(2, 3));
  EXPECT_EQ(owner.Count(), 2);
  EXPECT_EQ(owner.Internal().ack_level.id, TaskId{1});
  EXPECT_EQ(At(world_.StoredTotals(), Total::kAccepted), 2);
  EXPECT_EQ(world_.registry.Value("rewrites_total"), 1u);
}

TEST_P(BacklogWrite, ARewriteIsRetriedForThirtySecondsThenTheQueueIsUnloaded) {
  QueueOwner owner(world_, config_);
  owner.Start();
  owner.Spool({"a"});
  auto tasks = owner.Take(1);
  world_.faults.every = [](StoreOp op) -> std::optional<sim::Fault> {
    if (op != StoreOp::kCommit) return std::nullopt;
    return sim::Fault{.kind = FaultKind::kUnavailable};
  };
  const int before = Commits();
  owner.Run([&](BacklogManager& manager) { manager.RewriteTask(std::move(tasks[0])); });
  world_.executor.AdvanceBy(milliseconds(49));
  EXPECT_EQ(Commits() - before, 1);
  world_.executor.AdvanceBy(milliseconds(1));
  EXPECT_EQ(Commits() - before, 2);
  world_.executor.AdvanceBy(seconds(28));
  EXPECT_THAT(owner.unloads, IsEmpty());
  world_.executor.AdvanceBy(seconds(3));
  ASSERT_EQ(owner.unloads.size(), 1u);
  EXPECT_EQ(owner.unloads[0].first, UnloadCause::kOtherError);
  world_.faults.every = nullptr;
  const int commits = Commits();
  owner.Destroy();
  EXPECT_EQ(Commits(), commits);  // No final update.
  QueueOwner next(world_, config_);
  next.Start();
  EXPECT_EQ(next.Take(10).size(), 1u);
}

TEST_P(BacklogWrite, ARewriteOfUnknownOutcomeHappensOnce) {
  for (const FaultKind kind : {FaultKind::kReplyLost, FaultKind::kNotApplied}) {
    World world;
    QueueOwner owner(world, config_);
    owner.Start();
    owner.Spool({"a"});
    auto tasks = owner.Take(1);
    world.faults.Push(StoreOp::kCommit, kind);
    owner.Run([&](BacklogManager& manager) { manager.RewriteTask(std::move(tasks[0])); });
    world.executor.AdvanceBy(seconds(5));
    EXPECT_EQ(owner.Take(10).size(), 1u);
    EXPECT_EQ(owner.Count(), 1);
  }
}

}  // namespace
}  // namespace millrace::backlog
