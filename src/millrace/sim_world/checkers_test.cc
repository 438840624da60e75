// The checkers must notice each broken rule: what they accept is what the simulations prove.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "millrace/backlog/owner_state.h"
#include "millrace/sim_world/answer_once.h"
#include "millrace/sim_world/audited_store.h"
#include "millrace/sim_world/task_ledger.h"

namespace millrace::sim {
namespace {

const store::PhysicalQueueKey kQueue{"default", "q", 0};

class CheckersTest : public testing::Test {
 protected:
  CheckersTest() { Write(Metadata(0, 1, 0)); }

  static store::QueueWrite Empty(std::int64_t expected) {
    store::QueueWrite write;
    write.queue = kQueue;
    write.expected_range_id = RangeId{expected};
    return write;
  }
  static store::QueueWrite Metadata(std::int64_t expected, std::int64_t range_id,
                                    std::int64_t ack) {
    store::QueueWrite write = Empty(expected);
    write.metadata.emplace().range_id = RangeId{range_id};
    write.metadata->subqueues.push_back({{0, TaskId{ack}}, 0});
    return write;
  }
  static store::TaskRow Row(std::int64_t id, std::int64_t task) {
    store::TaskRow row;
    row.key.level.id = TaskId{id};
    row.payload = "xx" + TaskMarker(task) + "yy";
    return row;
  }
  void Create(std::int64_t range_id, std::int64_t id, std::int64_t task, WallTime expiry = {}) {
    store::QueueWrite write = Empty(range_id);
    write.creates.push_back(Row(id, task));
    write.creates.back().expiry_time = expiry;
    Write(write);
  }
  void Delete(std::int64_t range_id, std::int64_t id) {
    store::QueueWrite write = Empty(range_id);
    write.deletes.push_back(Row(id, 1).key);
    Write(write);
  }
  void Write(const store::QueueWrite& write) {
    last_ = durable_.Commit(std::span<const store::QueueWrite>(&write, 1))[0];
  }

  Judge judge_;
  Coverage coverage_;
  WallTime now_{1'000};
  TaskLedger ledger_{judge_, coverage_, {.delete_on_finish = true}, [this] { return now_; }};
  AuditedStore durable_{judge_, ledger_, {.range_sizes = {10}}};
  Status last_;
};

TEST_F(CheckersTest, ARightLifeOfATaskIsAccepted) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.Accepted(task);
  ledger_.Delivered(task);
  // Rewritten, then finished.
  store::QueueWrite rewrite = Empty(1);
  rewrite.creates.push_back(Row(2, task));
  rewrite.deletes.push_back(Row(1, task).key);
  Write(rewrite);
  EXPECT_EQ(ledger_.Unfinished(10), (std::vector<std::int64_t>{task}));
  ledger_.FinishAsked(task);
  Delete(1, 2);
  ledger_.Finished(task);
  EXPECT_TRUE(ledger_.Unfinished(10).empty());
  durable_.CheckAgainstStore();
  EXPECT_EQ(judge_.violation(), "");
}

TEST_F(CheckersTest, AcknowledgedButNotStored) {
  ledger_.Accepted(ledger_.NewTask({}));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, RefusedButStored) {
  const std::int64_t task = ledger_.NewTask({});
  ledger_.Refused(task);
  EXPECT_FALSE(judge_.failed());
  Create(1, 1, task);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, DeletedThoughNobodyFinishedIt) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  Delete(1, 1);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, ExpiryExcusesADeletionOnceItsTimeHasCome) {
  const std::int64_t early = ledger_.NewTask(WallTime{900});
  Create(1, 1, early, WallTime{900});
  Delete(1, 1);
  EXPECT_EQ(judge_.violation(), "");
  const std::int64_t later = ledger_.NewTask(WallTime{1'001});
  Create(1, 2, later, WallTime{1'001});
  Delete(1, 2);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, FinishedTwice) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.FinishAsked(task);
  Delete(1, 1);
  ledger_.Finished(task);
  EXPECT_FALSE(judge_.failed());
  ledger_.Finished(task);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, FinishedButStillThere) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.Finished(task);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, ComesBackAfterItsEnd) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.FinishAsked(task);
  Delete(1, 1);
  EXPECT_FALSE(judge_.failed());
  Create(1, 2, task);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, DeliveredAfterItsEnd) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.FinishAsked(task);
  Delete(1, 1);
  ledger_.Delivered(task);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AckLevelPassesAnUnfinishedTask) {
  Create(1, 3, ledger_.NewTask({}));
  Write(Metadata(1, 1, 2));
  EXPECT_FALSE(judge_.failed());
  Write(Metadata(1, 1, 3));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AckLevelGoesBack) {
  Write(Metadata(1, 1, 5));
  EXPECT_FALSE(judge_.failed());
  Write(Metadata(1, 1, 4));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AnIdIsUsedTwice) {
  Create(1, 1, ledger_.NewTask(WallTime{1}), WallTime{1});
  Delete(1, 1);
  EXPECT_FALSE(judge_.failed());
  Create(1, 1, ledger_.NewTask({}));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AnIdOutsideTheBlock) {
  Create(1, 11, ledger_.NewTask({}));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, RangeIdJumps) {
  Write(Metadata(1, 2, 0));
  EXPECT_FALSE(judge_.failed());
  Write(Metadata(2, 4, 0));
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AFencedWriteIsRefusedByTheStore) {
  Write(Metadata(1, 2, 0));
  Create(1, 1, ledger_.NewTask({}));
  EXPECT_EQ(last_.code(), StatusCode::kFenced);
  EXPECT_FALSE(judge_.failed());
}

TEST_F(CheckersTest, StoredTotalsDoNotAddUp) {
  backlog::OwnerState state;
  state.range_size = 10;
  backlog::At(state.totals, backlog::Total::kAccepted) = 1;
  store::QueueWrite write = Metadata(1, 1, 0);
  write.creates.push_back(Row(1, ledger_.NewTask({})));
  write.metadata->owner_state = backlog::EncodeOwnerState(state);
  Write(write);
  EXPECT_EQ(judge_.violation(), "");
  write = Metadata(1, 1, 0);
  write.creates.push_back(Row(2, ledger_.NewTask({})));
  write.metadata->owner_state = backlog::EncodeOwnerState(state);
  Write(write);
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, PowerLossUndoesOnlyWhatWasNotSynced) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.Accepted(task);
  store::QueueWrite relaxed = Empty(1);
  relaxed.side_puts.push_back({"s", "v"});
  relaxed.durability = store::Durability::kRelaxed;
  Write(relaxed);
  EXPECT_EQ(durable_.Image(kQueue)->side_rows.size(), 1u);
  durable_.LosePower();
  EXPECT_EQ(durable_.Image(kQueue)->side_rows.size(), 0u);
  EXPECT_EQ(durable_.Image(kQueue)->rows.size(), 1u);
  durable_.CheckAgainstStore();
  EXPECT_EQ(judge_.violation(), "");
}

TEST_F(CheckersTest, AcknowledgedBeforeItWasSynced) {
  const std::int64_t task = ledger_.NewTask({});
  store::QueueWrite write = Empty(1);
  write.creates.push_back(Row(1, task));
  write.durability = store::Durability::kRelaxed;
  Write(write);
  ledger_.Accepted(task);
  EXPECT_FALSE(judge_.failed());
  durable_.LosePower();
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, FinishReportedBeforeItWasSynced) {
  const std::int64_t task = ledger_.NewTask({});
  Create(1, 1, task);
  ledger_.FinishAsked(task);
  store::QueueWrite write = Empty(1);
  write.deletes.push_back(Row(1, task).key);
  write.durability = store::Durability::kRelaxed;
  Write(write);
  ledger_.Finished(task);
  EXPECT_FALSE(judge_.failed());
  durable_.LosePower();
  EXPECT_TRUE(judge_.failed());
}

TEST_F(CheckersTest, AnswersAreCounted) {
  {
    AnswerOnce(judge_, "a call").Answer();
  }
  EXPECT_FALSE(judge_.failed());
  {
    AnswerOnce never(judge_, "a call");
  }
  EXPECT_EQ(judge_.violation(), "a call was never answered");
}

TEST(TaskMarkerTest, IsFoundAmongOtherBytes) {
  EXPECT_EQ(FindTaskMarker("\x01#\x02pp#12;#"), 12);
  EXPECT_EQ(FindTaskMarker(TaskMarker(7)), 7);
  EXPECT_EQ(FindTaskMarker("#12"), std::nullopt);
  EXPECT_EQ(FindTaskMarker("12;"), std::nullopt);
}

}  // namespace
}  // namespace millrace::sim
