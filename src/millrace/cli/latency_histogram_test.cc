#include "millrace/cli/latency_histogram.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "millrace/base/random.h"

namespace millrace::cli {
namespace {

TEST(LatencyHistogramTest, EmptyIsZero) {
  EXPECT_EQ(LatencyHistogram().Quantile(0.5), Duration::zero());
}

TEST(LatencyHistogramTest, OneValueIsEveryQuantile) {
  for (std::int64_t ns : {0LL, 1LL, 31LL, 32LL, 33LL, 1'000LL, 123'456'789LL, 50'000'000'000LL}) {
    LatencyHistogram histogram;
    histogram.Add(Duration(ns));
    for (const double q : {0.0, 0.5, 0.999, 1.0}) EXPECT_EQ(histogram.Quantile(q).count(), ns);
  }
}

TEST(LatencyHistogramTest, LongestValuesAreKeptAsMaximum) {
  LatencyHistogram histogram;
  histogram.Add(std::chrono::hours(1));
  EXPECT_EQ(histogram.Quantile(1), std::chrono::hours(1));
}

TEST(LatencyHistogramTest, QuantilesAreNeverBelowAndAtMostAThirtySecondAbove) {
  SeededRandom random(7);
  LatencyHistogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bits = 1 + random.Below(34);
    values.push_back(static_cast<std::int64_t>(random.Below(std::uint64_t{1} << bits)));
    histogram.Add(Duration(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const std::int64_t exact = values[static_cast<std::size_t>(q * 20'000) - 1];
    const std::int64_t got = histogram.Quantile(q).count();
    EXPECT_GE(got, exact) << q;
    EXPECT_LE(got, exact + exact / 32) << q;
  }
  EXPECT_EQ(histogram.Quantile(1).count(), values.back());
}

}  // namespace
}  // namespace millrace::cli
