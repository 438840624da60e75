#include "millrace/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace {
namespace {

TEST(SeededRandom, SameSeedSameSequence) {
  SeededRandom a(42);
  SeededRandom b(42);
  SeededRandom c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    differs |= value != c.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(SeededRandom, BelowReachesEveryValueAndNoOther) {
  SeededRandom random(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.Below(7));
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(*seen.rbegin(), 6u);
}

TEST(SystemRandom, DoesNotRepeat) {
  SystemRandom random;
  EXPECT_NE(random.Next(), random.Next());
}

}  // namespace
}  // namespace millrace
