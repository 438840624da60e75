#include "millrace/core/read_planner.h"

#include <gtest/gtest.h>

#include <limits>

#include "millrace/core/expiry.h"

namespace millrace::core {
namespace {

TaskLevel L(std::int64_t id) { return {0, TaskId{id}}; }

// Ranges tile what is to be read, without gap or overlap, none longer than the limit.
TEST(ReadPlanner, RangesTileTheSpace) {
  for (std::int64_t limit = 1; limit <= 5; ++limit) {
    for (std::int64_t read = 0; read <= 12; ++read) {
      for (std::int64_t through = 0; through <= 12; ++through) {
        ReadPlanner planner(limit, 10);
        std::int64_t at = read;
        while (const auto range = planner.Next(L(at), TaskId{through})) {
          EXPECT_EQ(range->from, L(at + 1));
          EXPECT_LE(range->through.id.value - at, limit);
          EXPECT_LE(range->through.id.value, through);
          at = range->through.id.value;
        }
        EXPECT_EQ(at, std::max(read, through));
      }
    }
  }
}

TEST(ReadPlanner, ATurnIsTenEmptyRanges) {
  ReadPlanner planner(5, 10);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 9; ++i) EXPECT_FALSE(planner.OnEmptyRange());
    EXPECT_TRUE(planner.OnEmptyRange());
  }
  for (int i = 0; i < 9; ++i) planner.OnEmptyRange();
  planner.OnRows();
  EXPECT_FALSE(planner.OnEmptyRange());
}

TEST(Expiry, FromItsTimeOn) {
  EXPECT_FALSE(IsExpired(WallTime{}, WallTime{100}));
  EXPECT_FALSE(IsExpired(WallTime{101}, WallTime{100}));
  EXPECT_TRUE(IsExpired(WallTime{100}, WallTime{100}));
  EXPECT_TRUE(IsExpired(WallTime{99}, WallTime{100}));
}

TEST(Expiry, AgesAreNeverNegative) {
  EXPECT_EQ(AgeOf(WallTime{40}, WallTime{100}), Duration(60));
  EXPECT_EQ(AgeOf(WallTime{140}, WallTime{100}), Duration(0));
  EXPECT_EQ(AgeOf(WallTime{}, WallTime{100}), Duration(0));
  EXPECT_EQ(AgeOf(WallTime{std::numeric_limits<std::int64_t>::min()}, WallTime{100}), Duration(0));
}

}  // namespace
}  // namespace millrace::core
