#include "millrace/exec/strand.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "millrace/exec/gate.h"
#include "millrace/exec/manual_executor.h"

namespace millrace::exec {
namespace {

using std::chrono::seconds;

TEST(Strand, RunsInOrderAndNeverInsidePost) {
  ManualExecutor executor;
  Strand strand(executor);
  std::vector<int> seen;
  strand.Post([&] {
    strand.AssertCurrent();
    strand.Post([&] { seen.push_back(3); });
    seen.push_back(1);
  });
  strand.Post([&] { seen.push_back(2); });
  EXPECT_TRUE(seen.empty());
  executor.RunUntilIdle();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_FALSE(strand.IsCurrent());
}

TEST(Strand, YieldsAfterAFullTurn) {
  ManualExecutor executor;
  Strand strand(executor);
  int ran = 0;
  for (int i = 0; i < 1000; ++i) strand.Post([&] { ++ran; });
  bool other_ran_at = false;
  executor.Post([&] { other_ran_at = ran < 2000; });
  for (int i = 0; i < 1000; ++i) strand.Post([&] { ++ran; });
  executor.RunUntilIdle();
  EXPECT_EQ(ran, 2000);
  EXPECT_TRUE(other_ran_at);
}

TEST(Strand, TwoStrandsNestCorrectly) {
  ManualExecutor executor;
  Strand a(executor);
  Strand b(executor);
  bool checked = false;
  a.Post([&] {
    EXPECT_TRUE(a.IsCurrent());
    EXPECT_FALSE(b.IsCurrent());
    b.Post([&] {
      EXPECT_TRUE(b.IsCurrent());
      EXPECT_FALSE(a.IsCurrent());
      checked = true;
    });
  });
  executor.RunUntilIdle();
  EXPECT_TRUE(checked);
}

TEST(StrandTimer, FiresOnceAtItsTime) {
  ManualExecutor executor;
  Strand strand(executor);
  StrandTimer timer(strand);
  int fired = 0;
  timer.Arm(executor.clock().Now() + seconds(2), [&] {
    strand.AssertCurrent();
    ++fired;
  });
  EXPECT_TRUE(timer.armed());
  executor.AdvanceBy(seconds(1));
  EXPECT_EQ(fired, 0);
  executor.AdvanceBy(seconds(5));
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(timer.armed());
}

TEST(StrandTimer, CancelWinsEvenWhenTheClosureIsAlreadyOnTheStrand) {
  ManualExecutor executor;
  Strand strand(executor);
  StrandTimer timer(strand);
  bool fired = false;
  timer.Arm(executor.clock().Now() + seconds(1), [&] { fired = true; });
  strand.Post([&] {});
  executor.manual_clock().Advance(seconds(1));
  // Cancelled in a closure that runs after the timer was handed over but before its own closure.
  executor.Post([&] { timer.Cancel(); });
  executor.RunUntilIdle();
  EXPECT_FALSE(fired && timer.armed());
  EXPECT_EQ(executor.pending_timers(), 0u);
}

TEST(StrandTimer, ReArmingInsideTheClosureWorks) {
  ManualExecutor executor;
  Strand strand(executor);
  StrandTimer timer(strand);
  int fired = 0;
  std::function<void()> tick = [&] {
    if (++fired < 5) timer.Arm(executor.clock().Now() + seconds(1), [&] { tick(); });
  };
  timer.Arm(executor.clock().Now() + seconds(1), [&] { tick(); });
  executor.AdvanceBy(seconds(10));
  EXPECT_EQ(fired, 5);
}

TEST(StrandTimer, DestructionCancels) {
  ManualExecutor executor;
  Strand strand(executor);
  bool fired = false;
  {
    StrandTimer timer(strand);
    timer.Arm(executor.clock().Now() + seconds(1), [&] { fired = true; });
  }
  executor.AdvanceBy(seconds(2));
  EXPECT_FALSE(fired);
  EXPECT_EQ(executor.pending_timers(), 0u);
}

TEST(Gate, DrainsAfterTheLastHolder) {
  Gate gate;
  Gate::Holder a = gate.Enter();
  Gate::Holder b = gate.Enter();
  int drained = 0;
  gate.Close([&] { ++drained; });
  EXPECT_FALSE(gate.TryEnter());
  a.Release();
  EXPECT_EQ(drained, 0);
  b = {};
  EXPECT_EQ(drained, 1);
}

TEST(Gate, ClosedWithoutHoldersDrainsAtOnce) {
  Gate gate;
  bool drained = false;
  gate.Close([&] { drained = true; });
  EXPECT_TRUE(drained);
  EXPECT_TRUE(gate.closed());
}

}  // namespace
}  // namespace millrace::exec
