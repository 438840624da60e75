#include "millrace/base/time.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::seconds;

TEST(Instant, MaxStaysMax) {
  EXPECT_EQ(Instant::Max() + seconds(5), Instant::Max());
  EXPECT_EQ(Instant::Max() - seconds(5), Instant::Max());
  EXPECT_LT(Instant{0} + seconds(5), Instant::Max());
}

TEST(WallTime, ZeroIsNotSet) {
  EXPECT_FALSE(WallTime{}.is_set());
  EXPECT_EQ(WallTime{5'000'000'000} - WallTime{2'000'000'000}, seconds(3));
}

TEST(SystemClock, MonotonicNeverGoesBack) {
  const SystemClock clock;
  const Instant first = clock.Now();
  EXPECT_LE(first, clock.Now());
  EXPECT_TRUE(clock.WallNow().is_set());
}

}  // namespace
}  // namespace millrace
