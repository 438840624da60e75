#include "millrace/exec/timer_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "millrace/base/random.h"

namespace millrace::exec {
namespace {

TEST(TimerHeapTest, ComesDueByInstantThenByOrderOfArming) {
  TimerHeap heap;
  std::vector<int> ran;
  heap.Arm(Instant{20}, [&ran] { ran.push_back(3); });
  heap.Arm(Instant{10}, [&ran] { ran.push_back(1); });
  heap.Arm(Instant{10}, [&ran] { ran.push_back(2); });
  EXPECT_EQ(heap.NextDue(), Instant{10});
  EXPECT_FALSE(heap.PopDue(Instant{9}));
  while (Closure closure = heap.PopDue(Instant{20})) closure();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(heap.NextDue(), Instant::Max());
}

TEST(TimerHeapTest, CancelWorksOnceAndOnlyForItsOwnTimer) {
  TimerHeap heap;
  const TimerId first = heap.Arm(Instant{1}, [] {});
  EXPECT_TRUE(heap.Cancel(first));
  EXPECT_FALSE(heap.Cancel(first));
  const TimerId second = heap.Arm(Instant{1}, [] {});
  EXPECT_NE(first, second);
  EXPECT_FALSE(heap.Cancel(first));
  EXPECT_TRUE(heap.PopDue(Instant{1}));
  EXPECT_FALSE(heap.Cancel(second));
  EXPECT_FALSE(heap.Cancel(0));
  EXPECT_FALSE(heap.Cancel(~TimerId{0}));
}

// Against an ordered map as the model, over random schedules.
TEST(TimerHeapTest, AgreesWithAnOrderedMap) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    TimerHeap heap;
    std::map<std::pair<Instant, std::uint64_t>, std::uint64_t> model;  // (when, order) -> id
    std::map<std::uint64_t, std::pair<Instant, std::uint64_t>> keys;
    std::set<TimerId> seen;
    std::uint64_t order = 0;
    Instant now{0};
    std::uint64_t ran = 0;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t what = random.Below(10);
      if (what < 5) {
        const Instant when = now + Duration(random.Below(20));
        const std::uint64_t number = ++order;
        const TimerId id = heap.Arm(when, [&ran, number] { ran = number; });
        ASSERT_TRUE(seen.insert(id).second);
        model.emplace(std::pair(when, number), id);
        keys.emplace(id, std::pair(when, number));
      } else if (what < 7 && !keys.empty()) {
        auto it = keys.begin();
        std::advance(it, random.Below(keys.size()));
        ASSERT_TRUE(heap.Cancel(it->first));
        model.erase(it->second);
        keys.erase(it);
      } else {
        now = now + Duration(random.Below(5));
        while (Closure closure = heap.PopDue(now)) {
          closure();
          ASSERT_FALSE(model.empty());
          ASSERT_EQ(model.begin()->first.second, ran);
          ASSERT_LE(model.begin()->first.first, now);
          keys.erase(model.begin()->second);
          model.erase(model.begin());
        }
        ASSERT_TRUE(model.empty() || model.begin()->first.first > now);
      }
      ASSERT_EQ(heap.size(), model.size());
      ASSERT_EQ(heap.NextDue(), model.empty() ? Instant::Max() : model.begin()->first.first);
    }
  }
}

TEST(TimerHeapTest, PopAnyEmptiesIt) {
  TimerHeap heap;
  for (int i = 0; i < 10; ++i) heap.Arm(Instant{i}, [] {});
  int popped = 0;
  while (heap.PopAny()) ++popped;
  EXPECT_EQ(popped, 10);
  EXPECT_EQ(heap.size(), 0u);
}

}  // namespace
}  // namespace millrace::exec
