#include "millrace/queue/lease_table.h"

#include <gtest/gtest.h>

namespace millrace::queue {
namespace {

using std::chrono::seconds;

Lease MakeLease(std::int64_t task, std::uint64_t counter, Instant deadline) {
  Lease lease;
  lease.task.level.id.value = task;
  lease.epoch.value = 3;
  lease.counter = counter;
  lease.deadline = deadline;
  return lease;
}

LeaseToken Token(std::int64_t task, std::int64_t epoch, std::uint64_t counter) {
  return {.queue_uid = 1, .epoch = RangeId{epoch}, .counter = counter, .task = TaskId{task}};
}

TEST(LeaseTable, OnlyTheExactTokenFindsALease) {
  LeaseTable table;
  table.Add(MakeLease(7, 11, Instant{100}));
  // Every other combination of task, epoch and counter near the right one misses.
  for (std::int64_t task = 6; task <= 8; ++task) {
    for (std::int64_t epoch = 2; epoch <= 4; ++epoch) {
      for (std::uint64_t counter = 10; counter <= 12; ++counter) {
        const bool exact = task == 7 && epoch == 3 && counter == 11;
        EXPECT_EQ(table.FindToken(Token(task, epoch, counter)) != nullptr, exact);
      }
    }
  }
  table.Remove(TaskId{7});
  EXPECT_EQ(table.FindToken(Token(7, 3, 11)), nullptr);
  table.Add(MakeLease(7, 12, Instant{100}));
  EXPECT_EQ(table.FindToken(Token(7, 3, 11)), nullptr)
      << "an old token must not find a newer lease";
}

TEST(LeaseTable, TimeCountsOnlyWhileActive) {
  LeaseTable table;
  Lease& a = table.Add(MakeLease(1, 1, Instant{0} + seconds(5)));
  Lease& b = table.Add(MakeLease(2, 2, Instant{0} + seconds(9)));
  EXPECT_EQ(table.NextDeadline(), Instant{0} + seconds(5));
  table.SetState(a, LeaseState::kEnding);
  EXPECT_EQ(table.NextDeadline(), Instant{0} + seconds(9));
  EXPECT_EQ(table.FirstExpired(Instant{0} + seconds(6)), nullptr);
  table.SetDeadline(a, Instant{0} + seconds(4), seconds(4));
  EXPECT_EQ(table.NextDeadline(), Instant{0} + seconds(9)) << "not watched until active again";
  table.SetState(a, LeaseState::kActive);
  EXPECT_EQ(table.FirstExpired(Instant{0} + seconds(4)), &a);
  EXPECT_EQ(table.FirstExpired(Instant{0} + seconds(4) - Duration(1)), nullptr);
  table.Remove(TaskId{1});
  table.SetDeadline(b, Instant{0} + seconds(20), seconds(11));
  EXPECT_EQ(table.NextDeadline(), Instant{0} + seconds(20));
  table.Remove(TaskId{2});
  EXPECT_EQ(table.NextDeadline(), Instant::Max());
}

// A token that begins with '-' would be a flag to a command line.
TEST(LeaseToken, BeginsWithTheFormatWhateverTheQueueUidIs) {
  for (std::uint64_t top = 0; top < 256; ++top) {
    const std::string bytes = EncodeLeaseToken(
        {.queue_uid = top << 56, .epoch = RangeId{1}, .counter = 1, .task = TaskId{1}});
    EXPECT_EQ(bytes.front(), '\x01');
    std::string other = bytes;
    other.front() = static_cast<char>(top);
    EXPECT_EQ(DecodeLeaseToken(other).has_value(), top == 1);
  }
}

TEST(LeaseToken, RoundTripsAndRefusesEveryOtherLength) {
  const LeaseToken token = {
      .queue_uid = 0xFEDCBA9876543210, .epoch = RangeId{5}, .counter = 1, .task = TaskId{1 << 20}};
  const std::string bytes = EncodeLeaseToken(token);
  EXPECT_EQ(bytes.size(), kLeaseTokenBytes);
  EXPECT_EQ(DecodeLeaseToken(bytes), token);
  for (std::size_t size = 0; size < 80; ++size) {
    if (size != kLeaseTokenBytes) {
      EXPECT_FALSE(DecodeLeaseToken(std::string(size, 'x')).has_value());
    }
  }
}

}  // namespace
}  // namespace millrace::queue
