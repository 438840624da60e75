#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/testing/named_metrics.h"
#include "millrace/temporal/matching_metrics.h"
#include "millrace/temporal/poller_history.h"
#include "millrace/temporal/task_rate.h"
#include "millrace/temporal/uuid.h"
#include "millrace/temporal/worker_shutdowns.h"

namespace millrace::temporal {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kStart{5'000'000'000};

TEST(PollerHistoryTest, KeepsWhatWasSeenWithinItsTime) {
  PollerHistory history(minutes(5), 10);
  history.Saw("b", "about b", kStart, WallTime{1});
  history.Saw("a", "about a", kStart + minutes(2), WallTime{2});
  ASSERT_EQ(history.List(kStart + minutes(2)).size(), 2u);
  EXPECT_EQ(history.List(kStart + minutes(2))[0].identity, "a");
  const auto later = history.List(kStart + minutes(5));
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].about, "about a");
  EXPECT_EQ(later[0].last_wall, WallTime{2});
  history.Saw("a", "new", kStart + minutes(6), WallTime{3});
  EXPECT_EQ(history.size(), 1u);
  EXPECT_EQ(history.List(kStart + minutes(10))[0].about, "new");
  history.Forget("a");
  history.Forget("a");
  EXPECT_TRUE(history.List(kStart).empty());
}

TEST(PollerHistoryTest, TheOneUnheardOfForLongestGivesWay) {
  PollerHistory history(minutes(5), 2);
  history.Saw("a", "", kStart, {});
  history.Saw("b", "", kStart + seconds(1), {});
  history.Saw("a", "", kStart + seconds(2), {});
  history.Saw("c", "", kStart + seconds(3), {});
  const auto list = history.List(kStart + seconds(3));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].identity, "a");
  EXPECT_EQ(list[1].identity, "c");
}

TEST(TaskRateTest, CountsTheLastHalfMinute) {
  TaskRate rate(kStart);
  EXPECT_EQ(rate.PerSecond(kStart), 0);
  for (int i = 0; i < 60; ++i) rate.Count(kStart + seconds(1) * i);
  EXPECT_NEAR(rate.PerSecond(kStart + seconds(59)), 1.0, 0.1);
  EXPECT_NEAR(rate.PerSecond(kStart + seconds(74)), 0.5, 0.1);
  EXPECT_EQ(rate.PerSecond(kStart + seconds(200)), 0);
  rate.Count(kStart + seconds(1'000));
  EXPECT_NEAR(rate.PerSecond(kStart + seconds(1'000)), 1.0 / 28, 0.01);
}

TEST(TaskRateTest, AYoungOneIsMeasuredOverItsLife) {
  TaskRate rate(kStart);
  for (int i = 0; i < 50; ++i) rate.Count(kStart + seconds(i / 10));
  EXPECT_NEAR(rate.PerSecond(kStart + seconds(5)), 10.0, 0.1);
}

TEST(UuidTest, IsRandomAndWellFormed) {
  SeededRandom random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = NewUuid(random);
    EXPECT_TRUE(IsUuid(uuid)) << uuid;
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
    EXPECT_TRUE(seen.insert(uuid).second);
  }
  EXPECT_FALSE(IsUuid(""));
  EXPECT_FALSE(IsUuid("0a1b2c3d-0000-4000-8000-00000000000"));
  EXPECT_FALSE(IsUuid("0A1b2c3d-0000-4000-8000-000000000001"));
  EXPECT_FALSE(IsUuid("0a1b2c3d00000-4000-8000-000000000001"));
}

TEST(WorkerShutdownsTest, RemembersForAWhile) {
  WorkerShutdowns shutdowns(seconds(30), 2);
  EXPECT_FALSE(shutdowns.Contains("a", kStart));
  shutdowns.Add("a", kStart);
  shutdowns.Add("a", kStart + seconds(1));
  EXPECT_TRUE(shutdowns.Contains("a", kStart + seconds(29)));
  EXPECT_FALSE(shutdowns.Contains("", kStart));
  shutdowns.Add("b", kStart + seconds(29));
  EXPECT_FALSE(shutdowns.Contains("a", kStart + seconds(31)));
  shutdowns.Add("c", kStart + seconds(31));
  shutdowns.Add("d", kStart + seconds(31));
  EXPECT_FALSE(shutdowns.Contains("b", kStart + seconds(31)));
  EXPECT_TRUE(shutdowns.Contains("c", kStart + seconds(31)));
  EXPECT_TRUE(shutdowns.Contains("d", kStart + seconds(31)));
}

// A change here is a change for everybody who watches.
TEST(MatchingMetricsTest, NamesAndLabelsArePinned) {
  NamedMetrics metrics;
  MatchingMetrics matching(metrics);
  const std::set<std::string> expected = {
      "counter millrace_temporal_adds_total result=failed",
      "counter millrace_temporal_adds_total result=matched",
      "counter millrace_temporal_adds_total result=spooled",
      "counter millrace_temporal_dropped_tasks_total reason=data_loss",
      "counter millrace_temporal_dropped_tasks_total reason=internal_error",
      "counter millrace_temporal_dropped_tasks_total reason=invalid",
      "counter millrace_temporal_dropped_tasks_total reason=not_found",
      "counter millrace_temporal_polls_total result=empty",
      "counter millrace_temporal_polls_total result=failed",
      "counter millrace_temporal_polls_total result=task",
      "counter millrace_temporal_requests_rejected_total",
      "counter millrace_temporal_starts_failed_total",
      "counter millrace_temporal_starts_total",
      "counter millrace_temporal_sticky_refusals_total",
  };
  EXPECT_EQ(metrics.names, expected);
}

}  // namespace
}  // namespace millrace::temporal
