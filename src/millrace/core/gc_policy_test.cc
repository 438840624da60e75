#include "millrace/core/gc_policy.h"

#include <gtest/gtest.h>

namespace millrace::core {
namespace {

using std::chrono::seconds;

TaskLevel L(std::int64_t id) { return {0, TaskId{id}}; }
Instant At(int s) { return Instant{1'000'000'000'000} + seconds(s); }

// Every distance around the batch, and every age of the last try around the interval.
TEST(GcPolicy, DueByDistanceOrByTimeWhenThereIsSomething) {
  for (std::int64_t distance = 0; distance <= 12; ++distance) {
    for (int age = 0; age <= 3; ++age) {
      GcPolicy gc(10, seconds(1));
      gc.Begin(L(20), At(0));
      gc.EndOk(0);
      const bool due = gc.Due(L(20 + distance), At(age));
      EXPECT_EQ(due, distance > 0 && (distance >= 10 || age > 1)) << distance << " " << age;
      EXPECT_EQ(gc.Due(L(20 + distance), At(age), true), distance > 0);
    }
  }
}

TEST(GcPolicy, TheFirstTryIsDueAtOnce) {
  GcPolicy gc(10, seconds(1));
  EXPECT_FALSE(gc.Due(L(0), Instant{0}));
  EXPECT_TRUE(gc.Due(L(1), Instant{0}));
}

TEST(GcPolicy, OneAtATime) {
  GcPolicy gc(10, seconds(1));
  EXPECT_TRUE(gc.Due(L(100), At(0)));
  gc.Begin(L(100), At(0));
  EXPECT_FALSE(gc.Due(L(500), At(9)));
  EXPECT_FALSE(gc.Due(L(500), At(9), true));
}

TEST(GcPolicy, CursorMovesOnlyWhenEverythingIsDeleted) {
  GcPolicy gc(10, seconds(1));
  gc.Begin(L(100), At(0));
  gc.EndOk(10);
  EXPECT_EQ(gc.cursor(), L(0));
  EXPECT_TRUE(gc.Due(L(100), At(0)));
  gc.Begin(L(100), At(0));
  gc.EndOk(9);
  EXPECT_EQ(gc.cursor(), L(100));
  EXPECT_FALSE(gc.Due(L(100), At(9)));
  gc.Begin(L(200), At(10));
  gc.EndOk(-1);
  EXPECT_EQ(gc.cursor(), L(200));
}

TEST(GcPolicy, AFailingStoreIsAskedOnceAnInterval) {
  GcPolicy gc(10, seconds(1));
  gc.Begin(L(100), At(0));
  gc.EndFailed();
  EXPECT_EQ(gc.cursor(), L(0));
  EXPECT_FALSE(gc.Due(L(100), At(1)));
  EXPECT_TRUE(gc.Due(L(100), At(2)));
}

}  // namespace
}  // namespace millrace::core
