#include "millrace/core/retry_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{1'000'000'000};

TEST(RetryPolicy, DoublesUpToTheCap) {
  RetryPolicy retry(milliseconds(50), seconds(1));
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 8; ++i) waits.push_back(*retry.OnFailure(kStart) / milliseconds(1));
  EXPECT_EQ(waits, (std::vector<std::int64_t>{50, 100, 200, 400, 800, 1000, 1000, 1000}));
  retry.OnSuccess();
  EXPECT_EQ(*retry.OnFailure(kStart), milliseconds(50));
}

TEST(RetryPolicy, EndsWhenTheTotalIsOver) {
  RetryPolicy retry(milliseconds(50), seconds(1), seconds(30));
  Instant now = kStart;
  int tries = 0;
  while (const auto wait = retry.OnFailure(now)) {
    now = now + *wait;
    ASSERT_LT(++tries, 1000);
  }
  EXPECT_LE(now - kStart, seconds(30));
  EXPECT_GT(now - kStart, seconds(28));
}

TEST(RetryPolicy, JitterStaysInTheUpperHalf) {
  SeededRandom random(1);
  for (int i = 0; i < 1000; ++i) {
    RetryPolicy retry(milliseconds(100), seconds(1), Duration::zero(), &random);
    const Duration wait = *retry.OnFailure(kStart);
    EXPECT_GE(wait, milliseconds(50));
    EXPECT_LE(wait, milliseconds(100));
  }
}

}  // namespace
}  // namespace millrace::core
