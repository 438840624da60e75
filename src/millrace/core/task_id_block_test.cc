#include "millrace/core/task_id_block.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace millrace::core {
namespace {

TEST(TaskIdBlock, OwnsTheDocumentedIds) {
  for (std::int64_t r = 1; r <= 5; ++r) {
    for (std::int64_t s = 1; s <= 5; ++s) {
      const auto block = TaskIdBlock::Make(RangeId{r}, s);
      ASSERT_TRUE(block.has_value());
      EXPECT_EQ(block->start().value, (r - 1) * s + 1);
      EXPECT_EQ(block->end().value, r * s);
      EXPECT_EQ(block->remaining(), s);
    }
  }
}

TEST(TaskIdBlock, HandsOutEachIdOnceInOrderOverAdjacentBlocks) {
  for (std::int64_t s = 1; s <= 4; ++s) {
    std::int64_t expected = 1;
    for (std::int64_t r = 1; r <= 4; ++r) {
      TaskIdBlock block = *TaskIdBlock::Make(RangeId{r}, s);
      while (block.remaining() > 0) {
        EXPECT_EQ(block.next().value, expected);
        EXPECT_EQ(block.Take(1).value, expected++);
      }
    }
  }
}

TEST(TaskIdBlock, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(TaskIdBlock::Make(RangeId{0}, 10));
  EXPECT_FALSE(TaskIdBlock::Make(RangeId{1}, 0));
  EXPECT_FALSE(TaskIdBlock::Make(RangeId{std::numeric_limits<std::int64_t>::max()}, 2));
  EXPECT_TRUE(TaskIdBlock::Make(RangeId{std::numeric_limits<std::int64_t>::max()}, 1));
  EXPECT_EQ(TaskIdBlock().remaining(), 0);
}

TEST(NextRangeId, IsOneMoreForAnUnchangedSize) {
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t s = 1; s < 6; ++s) EXPECT_EQ(NextRangeId(RangeId{r}, s, s)->value, r + 1);
  }
}

TEST(NextRangeId, NeverReusesIdsWhenTheSizeChanged) {
  for (std::int64_t r = 1; r < 8; ++r) {
    for (std::int64_t old_size = 1; old_size < 8; ++old_size) {
      for (std::int64_t size = 1; size < 8; ++size) {
        const auto next = NextRangeId(RangeId{r}, old_size, size);
        ASSERT_TRUE(next.has_value());
        EXPECT_GT(next->value, r);
        EXPECT_GT(TaskIdBlock::Make(*next, size)->start().value, r * old_size);
      }
    }
  }
}

TEST(NextRangeId, HasAnEnd) {
  const std::int64_t max = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(NextRangeId(RangeId{max / 10}, 10, 10));
  EXPECT_FALSE(NextRangeId(RangeId{max}, 10, 10));
  EXPECT_FALSE(NextRangeId(RangeId{-1}, 10, 10));
}

}  // namespace
}  // namespace millrace::core
