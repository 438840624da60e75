#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "millrace/base/time.h"

namespace millrace::cli {

// Counts durations in buckets whose width is at most 1/32 of their value, from 1 ns to about 70 s;
// longer ones count as the last bucket. Adding costs a few instructions and no memory.
//
// Thread: one at a time.
class LatencyHistogram {
 public:
  void Add(Duration value);
  void Clear() { *this = LatencyHistogram(); }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Duration max() const { return max_; }
  // Smallest bucket bound that at least the share `quantile` (0..1) of the values do not exceed; 0
  // when empty.
  [[nodiscard]] Duration Quantile(double quantile) const;

 private:
  static constexpr int kSubBits = 5;
  static constexpr int kExponents = 32;
  static constexpr std::size_t kBuckets = std::size_t{kExponents} << kSubBits;

  static std::size_t BucketOf(std::uint64_t ns);
  static std::uint64_t UpperBound(std::size_t bucket);

  std::array<std::int64_t, kBuckets> buckets_{};
  std::int64_t count_ = 0;
  Duration max_ = Duration::zero();
};

}  // namespace millrace::cli
