#include "millrace/cluster/membership.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/exec/manual_executor.h"
#include "millrace/store/memory/memory_node_table.h"

namespace millrace::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Answers by a post; fails or keeps silent when told so.
class SwitchedTable final : public store::AsyncNodeTable {
 public:
  explicit SwitchedTable(store::NodeTable& table) : table_(table) {}

  void Beat(store::NodeBeat beat, bool first, exec::Strand& strand,
            UniqueFunction<void(Result<store::NodeRows>)> done) override {
    ++beats;
    Result<store::NodeRows> rows =
        broken ? Status(StatusCode::kUnavailable, "no answer") : table_.Beat(beat, first);
    Answer(strand,
           [done = std::move(done), rows = std::move(rows)]() mutable { done(std::move(rows)); });
  }
  void Remove(std::string id, std::uint64_t incarnation, exec::Strand& strand,
              UniqueFunction<void(Status)> done) override {
    Answer(strand, [this, id = std::move(id), incarnation, done = std::move(done)]() mutable {
      done(table_.Remove(id, incarnation));
    });
  }
  void Speak() {
    silent = false;
    for (auto& [strand, answer] : std::exchange(held_, {})) strand->Post(std::move(answer));
  }

  bool broken = false;
  bool silent = false;
  int beats = 0;

 private:
  void Answer(exec::Strand& strand, Closure answer) {
    if (silent) {
      held_.emplace_back(&strand, std::move(answer));
    } else {
      strand.Post(std::move(answer));
    }
  }

  store::NodeTable& table_;
  std::vector<std::pair<exec::Strand*, Closure>> held_;
};

class Node final : public MembershipListener {
 public:
  Node(exec::ManualExecutor& executor, store::NodeTable& shared, const std::string& id)
      : table(shared),
        membership({.id = id, .incarnation = 1, .address = id + ":1"}, table, executor, random_,
                   log_, NullMetrics(), *this) {}

  void OnView(const ViewPtr& view, bool changed) override {
    last = view;
    changes += changed ? 1 : 0;
  }
  void GiveUp(const MembershipState::GiveUp& what, Closure done) override {
    given_up.push_back(what);
    if (slow) {
      held = std::move(done);
    } else {
      done();
    }
  }
  void OnClock(Duration ahead) override { clock_ahead = ahead; }
  std::int64_t LoadedQueues() override { return 3; }

  SwitchedTable table;
  ViewPtr last;
  int changes = 0;
  bool slow = false;
  Closure held;
  std::vector<MembershipState::GiveUp> given_up;
  Duration clock_ahead{};

 private:
  SeededRandom random_{7};
  NullLog log_;

 public:
  Membership membership;
};

class MembershipTest : public ::testing::Test {
 protected:
  ~MembershipTest() override {
    for (Node* node : {&a_, &b_}) {
      bool stopped = false;
      node->membership.Stop([&stopped] { stopped = true; });
      executor_.RunUntilIdle();
      EXPECT_TRUE(stopped);
    }
    EXPECT_EQ(executor_.pending_timers(), 0u);
  }

  exec::ManualExecutor executor_;
  store::MemoryNodeTable table_{executor_.manual_clock()};
  Node a_{executor_, table_, "a"};
  Node b_{executor_, table_, "b"};
};

TEST_F(MembershipTest, NodesFindEachOtherAndAgree) {
  a_.membership.Start();
  executor_.AdvanceBy(milliseconds(500));
  ASSERT_TRUE(a_.last->settled);
  EXPECT_EQ(a_.last->members->size(), 1u);
  EXPECT_EQ(a_.last->nodes[0].queues, 3);
  b_.membership.Start();
  executor_.AdvanceBy(seconds(2));
  EXPECT_TRUE(a_.last->settled && b_.last->settled);
  EXPECT_EQ(a_.last->members->fingerprint(), b_.last->members->fingerprint());
  EXPECT_EQ(a_.membership.view(), a_.last);
  // At rest: a beat a second or so, and no decisions anew.
  const int beats = a_.table.beats;
  const int changes = a_.changes;
  executor_.AdvanceBy(seconds(10));
  EXPECT_LE(a_.table.beats - beats, 12);
  EXPECT_GE(a_.table.beats - beats, 9);
  EXPECT_EQ(a_.changes, changes);
}

TEST_F(MembershipTest, NobodySettlesWhileANodeGivesUp) {
  a_.membership.Start();
  executor_.AdvanceBy(milliseconds(500));
  a_.slow = true;
  b_.membership.Start();
  executor_.AdvanceBy(seconds(3));
  EXPECT_FALSE(b_.last->settled);
  ASSERT_TRUE(a_.held);
  EXPECT_FALSE(a_.given_up.back().all);
  a_.slow = false;
  std::exchange(a_.held, {})();
  executor_.AdvanceBy(milliseconds(500));
  EXPECT_TRUE(a_.last->settled && b_.last->settled);
}

TEST_F(MembershipTest, ANodeThatLeavesIsGoneWhenAllMayKnow) {
  a_.membership.Start();
  b_.membership.Start();
  executor_.AdvanceBy(seconds(2));
  bool left = false;
  b_.slow = true;
  b_.membership.Leave([&left] { left = true; });
  executor_.AdvanceBy(seconds(1));
  EXPECT_FALSE(left);
  EXPECT_FALSE(b_.last->members->Contains("b"));
  std::exchange(b_.held, {})();
  executor_.AdvanceBy(milliseconds(1'500));
  EXPECT_TRUE(left);
  EXPECT_TRUE(a_.last->settled);
  EXPECT_EQ(a_.last->members->size(), 1u);
  EXPECT_EQ(a_.last->nodes.size(), 2u) << "it is alive, but no member";
}

TEST_F(MembershipTest, LeavingDoesNotWaitForATableThatDoesNotAnswer) {
  a_.membership.Start();
  executor_.AdvanceBy(seconds(1));
  a_.table.broken = true;
  bool left = false;
  a_.membership.Leave([&left] { left = true; });
  executor_.AdvanceBy(seconds(6));
  EXPECT_TRUE(left);
  EXPECT_FALSE(a_.given_up.empty());
}

TEST_F(MembershipTest, ASilenceOfTheTableEndsFreshnessAndItsReturnStartsAnew) {
  a_.membership.Start();
  b_.membership.Start();
  executor_.AdvanceBy(seconds(2));
  a_.table.broken = true;
  executor_.AdvanceBy(seconds(4));
  EXPECT_TRUE(a_.membership.view()->MayLease(executor_.clock().Now()));
  executor_.AdvanceBy(seconds(2));
  EXPECT_FALSE(a_.membership.view()->MayLease(executor_.clock().Now()));
  EXPECT_EQ(b_.last->members->size(), 1u);
  a_.table.broken = false;
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(a_.given_up.back().all);
  executor_.AdvanceBy(seconds(3));
  EXPECT_TRUE(a_.last->settled && b_.last->settled);
  EXPECT_TRUE(a_.last->MayLease(executor_.clock().Now()));
}

TEST_F(MembershipTest, AnAnswerThatComesTooLateIsNoSignOfLife) {
  a_.membership.Start();
  executor_.AdvanceBy(seconds(1));
  a_.table.silent = true;
  executor_.AdvanceBy(seconds(9));
  a_.table.Speak();
  executor_.RunUntilIdle();
  EXPECT_TRUE(a_.given_up.back().all);
  executor_.AdvanceBy(seconds(1));
  EXPECT_TRUE(a_.last->settled);
}

TEST_F(MembershipTest, ANudgeLooksAtOnceButDoesNotHammer) {
  a_.membership.Start();
  executor_.AdvanceBy(milliseconds(950));
  const int beats = a_.table.beats;
  for (int i = 0; i < 100; ++i) {
    a_.membership.Nudge();
    executor_.AdvanceBy(milliseconds(1));
  }
  EXPECT_GE(a_.table.beats - beats, 1);
  EXPECT_LE(a_.table.beats - beats, 4);
}

TEST_F(MembershipTest, TheStoresClockIsReported) {
  a_.membership.Start();
  executor_.manual_clock().JumpWall(std::chrono::hours(1));
  executor_.RunUntilIdle();
  // The memory table goes by the same clock.
  EXPECT_EQ(a_.clock_ahead, Duration::zero());
}

}  // namespace
}  // namespace millrace::cluster
