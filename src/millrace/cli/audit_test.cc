#include "millrace/cli/audit.h"

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(AuditTest, TheLaw) {
  EXPECT_TRUE((Conservation{"q", 10, 4, 3, 1, 1, 1}).holds());
  EXPECT_TRUE(Conservation{}.holds());
  const Conservation lost{"q", 10, 4, 3, 1, 1, 0};
  EXPECT_FALSE(lost.holds());
  EXPECT_EQ(lost.missing(), 1);
  EXPECT_EQ((Conservation{"q", 10, 4, 3, 1, 1, 2}).missing(), -1);
  EXPECT_FALSE((Conservation{"q", 10, 11, -1, 0, 0, 0}).holds())
      << "adds up, but with a negative count";
}

TEST(AuditTest, ReadsEveryCount) {
  v1::QueueInfo info;
  info.set_name("mail");
  v1::QueueCounts& counts = *info.mutable_counts();
  counts.set_accepted(63);
  counts.set_done(1);
  counts.set_waiting(2);
  counts.set_leased(4);
  counts.set_dead(8);
  counts.set_dropped(48);
  Conservation total = ConservationOf(info);
  EXPECT_EQ(total.name, "mail");
  EXPECT_EQ(total.accounted(), 63);
  EXPECT_TRUE(total.holds());
  total.Add(ConservationOf(info));
  EXPECT_EQ(total.accepted, 126);
  EXPECT_TRUE(total.holds());
}

TEST(AuditTest, CountedRowsDecideNotTheCounters) {
  v1::QueueInfo info;
  info.mutable_counts()->set_accepted(10);
  info.mutable_counts()->set_waiting(10);
  info.mutable_counts()->set_leased(3);
  v1::RowCounts& rows = *info.mutable_row_counts();
  rows.set_accepted(12);
  rows.set_done(1);
  rows.set_dropped(2);
  rows.set_dead(4);
  rows.set_dead_rows(5);
  rows.set_dead_total(5);
  rows.set_task_rows(5);
  EXPECT_TRUE(ConservationOf(info).holds());
  EXPECT_EQ(ConservationOf(info).waiting, 2);
  rows.set_task_rows(4);
  EXPECT_EQ(ConservationOf(info).missing(), 1);
  rows.set_task_rows(5);
  rows.set_dead_rows(4);
  EXPECT_EQ(ConservationOf(info).missing(), 1) << "a dead task that is not there";
}

TEST(AuditTest, ErrorsOfTwoQueuesDoNotHideEachOther) {
  Conservation total{"", 1, 0, 0, 0, 0, 0};
  const Conservation other{"", 0, 1, 0, 0, 0, 0};
  EXPECT_FALSE(total.holds());
  EXPECT_FALSE(other.holds());
  total.Add(other);
  EXPECT_TRUE(total.holds()) << "which is why each queue is checked by itself";
}

}  // namespace
}  // namespace millrace::cli
