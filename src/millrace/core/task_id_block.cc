#include "millrace/core/task_id_block.h"

#include <algorithm>

#include "millrace/base/check.h"
#include "millrace/base/mutation.h"

namespace millrace::core {

std::optional<TaskIdBlock> TaskIdBlock::Make(RangeId range_id, std::int64_t size) {
  std::int64_t end = 0;
  if (range_id.value < 1 || size < 1 || __builtin_mul_overflow(range_id.value, size, &end)) {
    return std::nullopt;
  }
  return TaskIdBlock(end - size + 1, end);
}

TaskId TaskIdBlock::Take(std::int64_t count) {
  MR_CHECK(count >= 0 && count <= remaining());
  const TaskId first{next_};
  next_ += count;
  return first;
}

std::optional<RangeId> NextRangeId(RangeId stored, std::int64_t stored_size, std::int64_t size) {
  std::int64_t used_through = 0;
  if (stored.value < 0 || stored_size < 1 || size < 1 ||
      __builtin_mul_overflow(stored.value, stored_size, &used_through)) {
    return std::nullopt;
  }
  const std::int64_t covered = used_through / size + (used_through % size == 0 ? 0 : 1);
  const std::int64_t step = MR_MUTANT(task_id_block_reused) && stored.value > 0 ? 0 : 1;
  const RangeId next{std::max(stored.value, covered) + step};
  if (!TaskIdBlock::Make(next, size)) return std::nullopt;
  return next;
}

}  // namespace millrace::core
