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

}  // namespace
}  // namespace millrace::backlog
