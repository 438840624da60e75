#include "millrace/cluster/membership_state.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/base/random.h"
#include "millrace/exec/manual_executor.h"
#include "millrace/store/memory/memory_node_table.h"

namespace millrace::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Queue(int i) { return "q" + std::to_string(i); }

class MembershipStateTest : public ::testing::Test {
 protected:
  // A node that keeps queues as a real one does.
  struct Node {
    explicit Node(const std::string& id, std::uint64_t incarnation = 1)
        : state({.id = id, .incarnation = incarnation, .address = id + ":1"}) {}

    MembershipState state;
    std::set<std::string> loaded;
    MembershipState::GiveUp giving_up;
  };

  std::unique_ptr<Node> Make(const std::string& id, std::uint64_t incarnation = 1) {
    return std::make_unique<Node>(id, incarnation);
  }

  void Beat(Node& node) {
    const Instant started = clock_.Now();
    const store::NodeBeat beat = node.state.NextBeat(0);
    Result<store::NodeRows> rows = table_.Beat(beat, node.state.first());
    ASSERT_TRUE(rows.ok());
    node.state.OnBeat(beat, started, clock_.Now(), std::move(*rows));
  }
  static void BeginGivingUp(Node& node) {
    const MembershipState::GiveUp what = node.state.TakeGiveUp();
    if (what.round != 0) node.giving_up = what;
  }
  static void FinishGivingUp(Node& node) {
    if (node.giving_up.round == 0) return;
    std::erase_if(node.loaded, [&](const std::string& queue) {
      return node.giving_up.all || !node.giving_up.members->Owns(node.state.view()->self, queue);
    });
    node.state.OnGivenUp(node.giving_up.round);
    node.giving_up = {};
  }
  // Beats and gives up at once.
  void Step(Node& node) {
    Beat(node);
    BeginGivingUp(node);
    FinishGivingUp(node);
  }
  void Settle(const std::vector<Node*>& nodes) {
    for (int i = 0; i < 3; ++i) {
      for (Node* node : nodes) Step(*node);
    }
  }
  bool MayLoad(const Node& node, const std::string& queue) {
    return node.state.view()->MayLoad(queue, clock_.Now());
  }
  int CountMayLoad(const Node& node, int queues = 100) {
    int count = 0;
    for (int i = 0; i < queues; ++i) count += MayLoad(node, Queue(i)) ? 1 : 0;
    return count;
  }

  exec::ManualClock clock_;
  store::MemoryNodeTable table_{clock_};
};

TEST_F(MembershipStateTest, ANodeAloneOwnsEverythingAfterItsSecondBeat) {
  auto a = Make("a");
  EXPECT_EQ(CountMayLoad(*a), 0);
  Step(*a);
  EXPECT_EQ(CountMayLoad(*a), 0) << "the others could not know yet";
  Step(*a);
  EXPECT_TRUE(a->state.view()->settled);
  EXPECT_EQ(CountMayLoad(*a), 100);
}

TEST_F(MembershipStateTest, ANodeThatJoinsWaitsUntilTheOldOwnersGaveItsQueuesUp) {
  auto a = Make("a");
  Settle({a.get()});
  for (int i = 0; i < 100; ++i) a->loaded.insert(Queue(i));
  auto b = Make("b");
  Step(*b);
  Step(*b);
  EXPECT_FALSE(b->state.view()->settled);
  EXPECT_EQ(CountMayLoad(*b), 0);
  Beat(*a);
  BeginGivingUp(*a);
  Beat(*a);
  Step(*b);
  EXPECT_EQ(CountMayLoad(*b), 0) << "a has them in memory still";
  // What stays with a was a's all along.
  const int kept = CountMayLoad(*a);
  EXPECT_GT(kept, 20);
  EXPECT_LT(kept, 80);
  FinishGivingUp(*a);
  EXPECT_EQ(static_cast<int>(a->loaded.size()), kept);
  Step(*b);
  EXPECT_EQ(CountMayLoad(*b), 0) << "a did not say so yet";
  Beat(*a);
  Step(*b);
  EXPECT_EQ(CountMayLoad(*b), 100 - kept);
}

TEST_F(MembershipStateTest, AKilledNodesQueuesMoveWhenItExpiresAndNotBefore) {
  auto a = Make("a");
  auto b = Make("b");
  Settle({a.get(), b.get()});
  const int own = CountMayLoad(*a);
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(seconds(1));
    Step(*a);
    EXPECT_EQ(CountMayLoad(*a), own);
  }
  clock_.Advance(milliseconds(1'001));
  Step(*a);
  Step(*a);
  EXPECT_EQ(CountMayLoad(*a), 100);
}

TEST_F(MembershipStateTest, ANodeThatLeavesGivesUpEverythingFirst) {
  auto a = Make("a");
  auto b = Make("b");
  Settle({a.get(), b.get()});
  for (int i = 0; i < 100; ++i) {
    if (MayLoad(*b, Queue(i))) b->loaded.insert(Queue(i));
  }
  ASSERT_FALSE(b->loaded.empty());
  b->state.Leave();
  EXPECT_EQ(CountMayLoad(*b), 0);
  EXPECT_TRUE(b->state.view()->members->Contains("a"));
  BeginGivingUp(*b);
  Beat(*b);
  Step(*a);
  EXPECT_EQ(a->state.view()->members->size(), 1u);
  EXPECT_LT(CountMayLoad(*a), 100);
  EXPECT_FALSE(b->state.left());
  FinishGivingUp(*b);
  EXPECT_TRUE(b->loaded.empty());
  EXPECT_FALSE(b->state.left());
  Beat(*b);
  EXPECT_TRUE(b->state.left());
  Step(*a);
  EXPECT_EQ(CountMayLoad(*a), 100);
}

TEST_F(MembershipStateTest, APausedOwnerThatComesBackServesNothingOfBefore) {
  auto a = Make("a");
  auto b = Make("b");
  Settle({a.get(), b.get()});
  for (int i = 0; i < 100; ++i) {
    if (MayLoad(*b, Queue(i))) b->loaded.insert(Queue(i));
  }
  EXPECT_TRUE(b->state.view()->MayLease(clock_.Now()));
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(seconds(1));
    Step(*a);
  }
  EXPECT_EQ(CountMayLoad(*a), 100);
  // b goes on where it stood, with what it knew.
  EXPECT_FALSE(b->state.view()->MayLease(clock_.Now()));
  EXPECT_EQ(CountMayLoad(*b), 0);
  Beat(*b);
  EXPECT_FALSE(b->state.view()->MayLease(clock_.Now()));
  BeginGivingUp(*b);
  EXPECT_TRUE(b->giving_up.all);
  FinishGivingUp(*b);
  EXPECT_TRUE(b->loaded.empty());
  EXPECT_TRUE(b->state.view()->MayLease(clock_.Now()));
  EXPECT_EQ(CountMayLoad(*b), 0);
  Settle({a.get(), b.get()});
  EXPECT_EQ(CountMayLoad(*a) + CountMayLoad(*b), 100);
}

TEST_F(MembershipStateTest, AfterASilenceOfTheTableNobodyTakesEverything) {
  auto a = Make("a");
  auto b = Make("b");
  Settle({a.get(), b.get()});
  clock_.Advance(seconds(30));
  // The table is back, and a is the first to find that out.
  Step(*a);
  Step(*a);
  EXPECT_EQ(CountMayLoad(*a), 0);
  clock_.Advance(milliseconds(500));
  Settle({b.get(), a.get()});
  clock_.Advance(milliseconds(2'000));
  Settle({a.get(), b.get()});
  EXPECT_EQ(CountMayLoad(*a) + CountMayLoad(*b), 100);
  EXPECT_GT(CountMayLoad(*b), 20);
}

TEST_F(MembershipStateTest, ThenItDoesNotWaitForEver) {
  auto a = Make("a");
  auto b = Make("b");
  Settle({a.get(), b.get()});
  clock_.Advance(seconds(30));
  Step(*a);
  clock_.Advance(milliseconds(2'100));
  Settle({a.get()});
  EXPECT_EQ(CountMayLoad(*a), 100);
}

TEST_F(MembershipStateTest, WhatWasAnothersMeanwhileIsNotMineAllAlong) {
  auto a = Make("a");
  Settle({a.get()});
  // b comes, and a says that it gave up what is b's.
  auto b = Make("b");
  Step(*b);
  Step(*a);
  Beat(*a);
  Step(*b);
  std::string moved;
  for (int i = 0; i < 100 && moved.empty(); ++i) {
    if (MayLoad(*b, Queue(i))) moved = Queue(i);
  }
  ASSERT_FALSE(moved.empty());
  b->loaded.insert(moved);
  // c comes; a has never been settled with b. A view in which the queue is a's again must wait.
  auto c = Make("c");
  Step(*c);
  b->state.Leave();
  Beat(*b);
  Beat(*a);
  BeginGivingUp(*a);
  EXPECT_FALSE(MayLoad(*a, moved));
}

TEST_F(MembershipStateTest, AReplacedNodeOwnsNothing) {
  auto old_one = Make("n", 1);
  Settle({old_one.get()});
  auto new_one = Make("n", 2);
  Settle({new_one.get()});
  Step(*old_one);
  EXPECT_TRUE(old_one->state.replaced());
  EXPECT_EQ(CountMayLoad(*old_one), 0);
  EXPECT_EQ(CountMayLoad(*new_one), 100);
}

// Nodes that come, go, stop and pause in any order, beats that are answered late, giving up that
// takes its time: of two nodes that are both fresh never both may load a queue, nor one while the
// other has it in memory.
TEST_F(MembershipStateTest, NeverTwoOwners) {
  std::uint64_t all_loads = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    store::MemoryNodeTable table(clock_);
    struct Late {
      store::NodeBeat beat;
      Instant started;
      store::NodeRows rows;
    };
    struct Actor {
      std::unique_ptr<Node> node;
      std::unique_ptr<Late> late;
      Instant paused_until;
    };
    std::vector<Actor> actors(4);
    std::uint64_t incarnation = seed << 20;
    std::uint64_t loads = 0;
    for (int step = 0; step < 1'500; ++step) {
      clock_.Advance(milliseconds(random.Below(150)));
      const std::size_t pick = random.Below(actors.size());
      Actor& actor = actors[pick];
      if (actor.node == nullptr) {
        if (random.Chance(1, 4)) {
          actor.node = Make("n" + std::to_string(pick), ++incarnation);
          actor.late = nullptr;
        }
        continue;
      }
      if (clock_.Now() < actor.paused_until) continue;
      Node& node = *actor.node;
      const std::uint64_t what = random.Below(1'000);
      if (what < 3 || (node.state.left() && random.Chance(1, 5))) {
        actor.node = nullptr;  // Killed, or it has stopped.
      } else if (what < 8) {
        node.state.Leave();
      } else if (what < 12) {
        actor.paused_until = clock_.Now() + milliseconds(random.Below(12'000));
      } else if (what < 550) {
        if (actor.late == nullptr) {
          store::NodeBeat beat = node.state.NextBeat(0);
          store::NodeRows rows = *table.Beat(beat, node.state.first());
          actor.late = std::make_unique<Late>(Late{beat, clock_.Now(), std::move(rows)});
          if (random.Chance(1, 3)) continue;
        }
        node.state.OnBeat(actor.late->beat, actor.late->started, clock_.Now(),
                          std::move(actor.late->rows));
        actor.late = nullptr;
      } else if (what < 650) {
        BeginGivingUp(node);
        if (random.Chance(1, 2)) FinishGivingUp(node);
      } else if (what < 750) {
        FinishGivingUp(node);
      } else {
        const std::string queue = Queue(static_cast<int>(random.Below(8)));
        if (!MayLoad(node, queue) || node.loaded.contains(queue)) continue;
        ++loads;
        for (const Actor& other : actors) {
          if (other.node == nullptr || &other == &actor) continue;
          // One that is not fresh hands nothing out, and gives up all when it is back.
          const bool serves = other.node->state.view()->MayLease(clock_.Now());
          ASSERT_FALSE(serves && other.node->loaded.contains(queue))
              << "seed " << seed << " step " << step << " " << queue;
          ASSERT_FALSE(MayLoad(*other.node, queue)) << "seed " << seed << " step " << step;
        }
        node.loaded.insert(queue);
      }
      // Queues that nobody uses any more leave memory.
      if (actor.node != nullptr && random.Chance(1, 10)) node.loaded.clear();
    }
    all_loads += loads;
  }
  EXPECT_GT(all_loads, 200u * 10);
}

}  // namespace
}  // namespace millrace::cluster
