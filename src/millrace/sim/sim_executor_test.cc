#include "millrace/sim/sim_executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "millrace/exec/strand.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SimExecutorTest, KeepsTheOrderOfOneExecutor) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimScheduler scheduler(seed);
    SimClock clock(scheduler);
    SimExecutor a(scheduler, clock);
    SimExecutor b(scheduler, clock);
    std::vector<int> order;
    for (int i = 0; i < 10; ++i) {
      a.Post([&order, i] { order.push_back(i); });
      b.Post([] {});
    }
    scheduler.RunReady();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(scheduler.steps(), 20u);
  }
}

TEST(SimExecutorTest, SeedsInterleaveExecutorsDifferently) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimScheduler scheduler(seed);
    SimClock clock(scheduler);
    SimExecutor a(scheduler, clock);
    SimExecutor b(scheduler, clock);
    std::string order;
    for (int i = 0; i < 2; ++i) {
      a.Post([&order] { order += 'a'; });
      b.Post([&order] { order += 'b'; });
    }
    scheduler.RunReady();
    orders.insert(order);
  }
  // All ways to merge "aa" with "bb".
  EXPECT_EQ(orders.size(), 6u);
}

TEST(SimExecutorTest, TimersRunInOrderOfTimeAndNeverEarly) {
  SimScheduler scheduler(7);
  SimClock clock(scheduler, seconds(1'000));
  SimExecutor executor(scheduler, clock, {.timer_delay_max = milliseconds(1)});
  const Instant start = clock.Now();
  std::vector<int> order;
  for (const int at : {30, 10, 20}) {
    executor.PostAt(start + milliseconds(at), [&, at] {
      EXPECT_GE(clock.Now(), start + milliseconds(at));
      EXPECT_LE(clock.Now(), start + milliseconds(at + 1));
      order.push_back(at);
    });
  }
  EXPECT_EQ(scheduler.RunReady(), 0u);
  EXPECT_TRUE(scheduler.RunUntilQuiet(seconds(1)));
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

TEST(SimExecutorTest, RunUntilStopsTheClockThere) {
  SimScheduler scheduler(1);
  SimClock clock(scheduler);
  SimExecutor executor(scheduler, clock);
  int ran = 0;
  executor.PostAt(clock.Now() + seconds(1), [&ran] { ++ran; });
  executor.PostAt(clock.Now() + seconds(3), [&ran] { ++ran; });
  const Instant start = scheduler.now();
  scheduler.RunFor(seconds(2));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(scheduler.now(), start + seconds(2));
  EXPECT_FALSE(scheduler.RunWhileNot([&ran] { return ran == 2; }, milliseconds(500)));
  EXPECT_TRUE(scheduler.RunWhileNot([&ran] { return ran == 2; }, seconds(5)));
  EXPECT_EQ(scheduler.now(), start + seconds(3));
}

TEST(SimExecutorTest, CancelledTimerNeverRuns) {
  SimScheduler scheduler(1);
  SimClock clock(scheduler);
  SimExecutor executor(scheduler, clock);
  bool ran = false;
  const exec::TimerId timer = executor.PostAt(clock.Now() + seconds(1), [&ran] { ran = true; });
  EXPECT_TRUE(executor.CancelTimer(timer));
  EXPECT_FALSE(executor.CancelTimer(timer));
  EXPECT_TRUE(scheduler.RunUntilQuiet(seconds(9)));
  EXPECT_FALSE(ran);
}

TEST(SimExecutorTest, StalledExecutorRunsNothingUntilItsTime) {
  SimScheduler scheduler(3);
  SimClock clock(scheduler);
  SimExecutor slow(scheduler, clock);
  SimExecutor other(scheduler, clock);
  Instant slow_at;
  Instant other_at;
  const Instant start = scheduler.now();
  slow.Post([&] { slow_at = scheduler.now(); });
  slow.StallUntil(start + seconds(5));
  other.PostAt(start + seconds(1), [&] { other_at = scheduler.now(); });
  EXPECT_TRUE(scheduler.RunUntilQuiet(seconds(10)));
  EXPECT_EQ(other_at, start + seconds(1));
  EXPECT_EQ(slow_at, start + seconds(5));
}

TEST(SimExecutorTest, DestructionDropsClosuresUnrunIncludingThosePostedByTheirDestructors) {
  struct PostsWhenDestroyed {
    SimExecutor* executor;
    int* destroyed;
    bool armed = true;
    PostsWhenDestroyed(SimExecutor* e, int* d) : executor(e), destroyed(d) {}
    PostsWhenDestroyed(PostsWhenDestroyed&& o) noexcept
        : executor(o.executor), destroyed(o.destroyed) {
      o.armed = false;
    }
    ~PostsWhenDestroyed() {
      if (!armed) return;
      ++*destroyed;
      executor->Post([d = destroyed] { *d = -100; });
    }
    void operator()() const {}
  };
  SimScheduler scheduler(3);
  SimClock clock(scheduler);
  int destroyed = 0;
  {
    SimExecutor executor(scheduler, clock);
    executor.Post(PostsWhenDestroyed(&executor, &destroyed));
    executor.PostAt(clock.Now() + seconds(1), PostsWhenDestroyed(&executor, &destroyed));
  }
  EXPECT_EQ(destroyed, 2);
  EXPECT_EQ(scheduler.pending(), 0u);
}

TEST(SimExecutorTest, WallJumpsLeaveTheMonotonicClockAlone) {
  SimScheduler scheduler(1);
  SimClock clock(scheduler, seconds(5));
  const Instant now = clock.Now();
  const WallTime wall = clock.WallNow();
  clock.JumpWall(-std::chrono::hours(1));
  EXPECT_EQ(clock.Now(), now);
  EXPECT_EQ(clock.WallNow(), wall - std::chrono::hours(1));
  scheduler.RunFor(seconds(1));
  EXPECT_EQ(clock.WallNow(), wall - std::chrono::hours(1) + seconds(1));
}

// A few strands on two executors that post to each other and arm timers: enough to tell orders
// apart.
std::uint64_t HashOfBusyRun(std::uint64_t seed) {
  SimScheduler scheduler(seed, {.step_cost_max = std::chrono::microseconds(2)});
  SimClock clock(scheduler);
  SimExecutor a(scheduler, clock, {.timer_delay_max = milliseconds(2)});
  SimExecutor b(scheduler, clock);
  exec::Strand s(a);
  exec::Strand t(b);
  for (int i = 0; i < 20; ++i) {
    a.PostAt(clock.Now() + milliseconds(i % 3), [&, i] {
      s.Post([&, i] {
        scheduler.Trace("s", i);
        t.Post([&, i] { scheduler.Trace("t", i); });
      });
    });
    b.PostAt(clock.Now() + milliseconds(i % 3),
             [&, i] { t.Post([&, i] { scheduler.Trace("u", i); }); });
  }
  EXPECT_TRUE(scheduler.RunUntilQuiet(seconds(1)));
  return scheduler.trace().hash();
}

TEST(SimExecutorTest, SameSeedSameHashAndOtherSeedOtherHash) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t hash = HashOfBusyRun(seed);
    EXPECT_EQ(HashOfBusyRun(seed), hash);
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 20u);
}

}  // namespace
}  // namespace millrace::sim
