#pragma once

#include <cstdint>
#include <optional>

#include "millrace/base/ids.h"

namespace millrace::core {

// The task ids one lease may use: range id r with size S owns (r - 1) * S + 1 .. r * S, both
// inclusive.
//
// Invariants: ids come out in order, each once. Blocks of different range ids never overlap for one
// size.
class TaskIdBlock {
 public:
  // Owns nothing.
  TaskIdBlock() = default;
  // Empty when the ids would not fit 64 bits, or either number is below 1.
  static std::optional<TaskIdBlock> Make(RangeId range_id, std::int64_t size);

  [[nodiscard]] TaskId start() const { return {start_}; }
  [[nodiscard]] TaskId end() const { return {end_}; }
  // The id Take would start with.
  [[nodiscard]] TaskId next() const { return {next_}; }
  [[nodiscard]] std::int64_t remaining() const { return end_ - next_ + 1; }
  // Hands out `count` <= remaining() ids in a row; returns the first.
  TaskId Take(std::int64_t count);

 private:
  TaskIdBlock(std::int64_t start, std::int64_t end) : start_(start), end_(end), next_(start) {}

  std::int64_t start_ = 1;
  std::int64_t end_ = 0;
  std::int64_t next_ = 1;
};

// The range id a new owner takes: one more than the stored one; or, when the size of blocks was
// changed since, the first one above all ids that `stored` could have used. Empty when there is
// none.
std::optional<RangeId> NextRangeId(RangeId stored, std::int64_t stored_size, std::int64_t size);

}  // namespace millrace::core
