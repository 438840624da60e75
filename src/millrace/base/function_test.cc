#include "millrace/base/function.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace millrace {
namespace {

TEST(UniqueFunction, EmptyIsFalse) {
  Closure closure;
  EXPECT_FALSE(closure);
  closure = [] {};
  EXPECT_TRUE(closure);
  closure = nullptr;
  EXPECT_FALSE(closure);
}

TEST(UniqueFunction, HoldsMoveOnlyTargetsInlineAndOnTheHeap) {
  auto small = std::make_unique<int>(7);
  UniqueFunction<int()> inline_target = [p = std::move(small)] { return *p; };
  EXPECT_EQ(inline_target(), 7);

  std::array<std::int64_t, 16> large{};
  large[15] = 9;
  UniqueFunction<std::int64_t()> heap_target = [large] { return large[15]; };
  UniqueFunction<std::int64_t()> moved = std::move(heap_target);
  EXPECT_EQ(moved(), 9);
}

TEST(UniqueFunction, DestroysItsTargetExactlyOnce) {
  auto alive = std::make_shared<int>(0);
  for (bool big : {false, true}) {
    std::array<char, 100> pad{};
    Closure a;
    if (big) {
      a = [alive, pad] { (void)pad; };
    } else {
      a = [alive] {};
    }
    EXPECT_EQ(alive.use_count(), 2);
    Closure b = std::move(a);
    EXPECT_EQ(alive.use_count(), 2);
    b = [] {};
    EXPECT_EQ(alive.use_count(), 1);
  }
}

TEST(UniqueFunction, PassesArgumentsThrough) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>, int)> f = [](std::unique_ptr<int> p,
                                                                         int add) {
    *p += add;
    return p;
  };
  EXPECT_EQ(*f(std::make_unique<int>(1), 2), 3);
}

}  // namespace
}  // namespace millrace
