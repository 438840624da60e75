#include "millrace/cli/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace::cli {

std::size_t LatencyHistogram::BucketOf(std::uint64_t ns) {
  constexpr std::uint64_t kLinear = 1u << kSubBits;
  if (ns < kLinear) return ns;  // One bucket each.
  const int exponent = std::bit_width(ns) - 1 - kSubBits;
  const std::uint64_t sub = (ns >> exponent) - kLinear;
  const std::size_t bucket = ((static_cast<std::size_t>(exponent) + 1) << kSubBits) + sub;
  return std::min(bucket, kBuckets - 1);
}

std::uint64_t LatencyHistogram::UpperBound(std::size_t bucket) {
  constexpr std::uint64_t kLinear = 1u << kSubBits;
  if (bucket < kLinear) return bucket;
  const std::size_t exponent = (bucket >> kSubBits) - 1;
  const std::uint64_t sub = (bucket & (kLinear - 1)) + kLinear;
  return ((sub + 1) << exponent) - 1;
}

void LatencyHistogram::Add(Duration value) {
  const std::int64_t ns = std::max<std::int64_t>(value.count(), 0);
  ++buckets_[BucketOf(static_cast<std::uint64_t>(ns))];
  ++count_;
  max_ = std::max(max_, Duration(ns));
}

Duration LatencyHistogram::Quantile(double quantile) const {
  if (count_ == 0) return Duration::zero();
  const auto wanted = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(quantile * static_cast<double>(count_))), 1, count_);
  std::int64_t seen = 0;
  for (std::size_t bucket = 0; bucket + 1 < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted)
      return std::min(Duration(static_cast<std::int64_t>(UpperBound(bucket))), max_);
  }
  return max_;  // The last bucket has no bound of its own.
}

}  // namespace millrace::cli
