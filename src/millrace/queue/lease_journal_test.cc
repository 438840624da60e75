#include "millrace/queue/lease_journal.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "millrace/base/random.h"

namespace millrace::queue {
namespace {

using std::chrono::seconds;

constexpr Instant kNow{5'000'000'000};
constexpr WallTime kWall{1'700'000'000'000'000'000};

// What the store would hold: applied writes only.
class JournalTest : public ::testing::Test {
 protected:
  Lease& Give(std::int64_t task, Duration duration = seconds(30)) {
    Lease lease;
    lease.task.level.id.value = task;
    lease.epoch.value = 2;
    lease.counter = ++counter_;
    lease.deadline = kNow + duration;
    lease.duration = duration;
    lease.worker_id = "w" + std::to_string(task);
    Lease& added = table_.Add(std::move(lease));
    journal_.Remember(added);
    return added;
  }
  void End(std::int64_t task) {
    Lease* lease = table_.Find(TaskId{task});
    journal_.Forget(*lease);
    table_.Remove(TaskId{task});
  }
  void Write(bool applied) {
    store::QueueWrite write;
    journal_.BuildWrite(table_, kNow, kWall, write);
    Finish(write, applied);
  }
  void Finish(const store::QueueWrite& write, bool applied) {
    if (applied) {
      for (const std::string& key : write.side_deletes) rows_.erase(key);
      for (const store::SideRow& row : write.side_puts) rows_[row.key] = row.value;
    }
    journal_.WriteEnded(table_, applied);
  }
  // What a new owner would remember.
  std::map<TaskId, LeaseRecord> Recover() const {
    LeaseJournal fresh;
    for (const auto& [key, value] : rows_)
      EXPECT_TRUE(fresh.Load(ParseLeaseChunkKey(key), value).ok());
    std::map<TaskId, LeaseRecord> result;
    for (auto& [task, recovered] : fresh.TakeRecovered()) result.emplace(task, recovered.record);
    return result;
  }

  LeaseTable table_;
  LeaseJournal journal_;
  std::map<std::string, std::string> rows_;
  std::uint64_t counter_ = 0;
};

TEST_F(JournalTest, LeasesOfOneWriteShareOneRow) {
  Give(1);
  Give(2);
  Write(true);
  EXPECT_EQ(rows_.size(), 1u);
  const auto recovered = Recover();
  ASSERT_EQ(recovered.size(), 2u);
  EXPECT_EQ(recovered.at(TaskId{2}).counter, 2u);
  EXPECT_EQ(recovered.at(TaskId{2}).deadline, kWall + seconds(30));
  EXPECT_EQ(recovered.at(TaskId{2}).worker_id, "w2");
  EXPECT_FALSE(journal_.dirty());
}

TEST_F(JournalTest, ALeaseThatEndedBeforeTheWriteIsNeverWritten) {
  Give(1);
  End(1);
  Write(true);
  EXPECT_TRUE(rows_.empty());
}

LeaseRecord SomeRecord() {
  LeaseRecord record;
  record.task.level.id.value = 7;
  record.epoch.value = 3;
  record.deadline = kWall;
  record.duration = seconds(30);
  return record;
}

// Cut to its 32 bits it would name a subqueue that the lease was never in.
TEST(LeaseChunk, SubqueueAboveItsRangeIsCorruption) {
  LeaseRecord record = SomeRecord();
  record.task.subqueue = 5;
  std::string bytes = EncodeLeaseChunk({record});
  ASSERT_TRUE(DecodeLeaseChunk(bytes).ok());
  bytes.replace(1, 1, "\x85\x80\x80\x80\x10");  // 5 + 2^32
  EXPECT_EQ(DecodeLeaseChunk(bytes).code(), StatusCode::kCorruption);
}

TEST(LeaseChunk, NumbersThatNoLeaseHadAreCorruption) {
  ASSERT_TRUE(DecodeLeaseChunk(EncodeLeaseChunk({SomeRecord()})).ok());
  std::vector<LeaseRecord> bad(7, SomeRecord());
  bad[0].task.subqueue = -1;
  bad[1].task.level.id.value = 0;
  bad[2].epoch.value = 0;
  bad[3].deadline.ns = -1;
  bad[4].duration = Duration::zero();
  bad[5].duration = seconds(-30);
  bad[6].duration = Duration::max();
  for (const LeaseRecord& record : bad) {
    EXPECT_EQ(DecodeLeaseChunk(EncodeLeaseChunk({record})).code(), StatusCode::kCorruption);
  }
}

TEST_F(JournalTest, AChunkUnderAKeyThatIsNoneFaultsTheQueueOnly) {
  const std::string bytes = EncodeLeaseChunk({SomeRecord()});
  LeaseJournal journal;
  EXPECT_EQ(journal.Load(ParseLeaseChunkKey("L"), bytes).code(), StatusCode::kCorruption);
  EXPECT_EQ(journal.Load(ParseLeaseChunkKey(LeaseChunkKey(0)), bytes).code(),
            StatusCode::kCorruption);
  EXPECT_TRUE(journal.Load(4, bytes).ok());
  EXPECT_EQ(journal.Load(4, bytes).code(), StatusCode::kCorruption);
  EXPECT_EQ(journal.Load(~std::uint64_t{0}, bytes).code(), StatusCode::kCorruption);
}

TEST_F(JournalTest, AChunkGoesWithItsLastLease) {
  Give(1);
  Give(2);
  Write(true);
  End(1);
  Write(true);
  EXPECT_EQ(rows_.size(), 1u);
  End(2);
  EXPECT_TRUE(journal_.dirty());
  Write(true);
  EXPECT_TRUE(rows_.empty());
  EXPECT_FALSE(journal_.dirty());
}

TEST_F(JournalTest, AnExtendedLeaseMovesToTheNewestChunk) {
  Lease& lease = Give(1);
  Write(true);
  table_.SetDeadline(lease, kNow + seconds(99), seconds(99));
  journal_.Remember(lease);
  Write(true);
  Write(true);  // Deletes the chunk it left.
  EXPECT_EQ(rows_.size(), 1u);
  EXPECT_EQ(Recover().at(TaskId{1}).deadline, kWall + seconds(99));
}

TEST_F(JournalTest, AFailedWriteIsRepeated) {
  Give(1);
  Write(false);
  EXPECT_TRUE(rows_.empty());
  EXPECT_TRUE(journal_.dirty());
  Write(true);
  EXPECT_EQ(Recover().size(), 1u);
  End(1);
  Write(false);
  EXPECT_EQ(rows_.size(), 1u);
  Write(true);
  EXPECT_TRUE(rows_.empty());
}

TEST_F(JournalTest, ALeaseThatEndsWhileItsChunkIsBeingWrittenLeavesNothing) {
  Give(1);
  store::QueueWrite write;
  journal_.BuildWrite(table_, kNow, kWall, write);
  End(1);
  Finish(write, true);
  EXPECT_EQ(rows_.size(), 1u);
  Write(true);
  EXPECT_TRUE(rows_.empty());
}

TEST_F(JournalTest, ChunkBytesThatAreNotAChunkAreCorruption) {
  Give(1);
  Write(true);
  const std::string good = rows_.begin()->second;
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Result<std::vector<LeaseRecord>> result =
        DecodeLeaseChunk(std::string_view(good).substr(0, size));
    if (size == 1) {
      EXPECT_TRUE(result.ok()) << "a chunk may be empty";
    } else {
      EXPECT_EQ(result.code(), StatusCode::kCorruption) << size;
    }
  }
  EXPECT_EQ(ParseLeaseChunkKey("Q"), 0u);
  EXPECT_EQ(ParseLeaseChunkKey(LeaseChunkKey(77)), 77u);
}

// Random life of many leases with failing writes: after every applied write, what a new owner would
// remember of each active, already written lease is its newest written form, and chunks never pile
// up.
TEST_F(JournalTest, RandomLivesNeverLoseAWrittenLease) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    table_ = LeaseTable();
    journal_ = LeaseJournal();
    rows_.clear();
    SeededRandom random(seed);
    std::map<std::int64_t, WallTime> written;  // Task -> deadline as of the last applied write.
    std::vector<std::int64_t> live;
    std::int64_t next_task = 1;
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t what = random.Below(10);
      if (what < 4 || live.empty()) {
        Give(next_task, seconds(1 + random.Below(100)));
        live.push_back(next_task++);
      } else if (what < 6) {
        const std::size_t index = random.Below(live.size());
        End(live[index]);
        written.erase(live[index]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
      } else if (what < 8) {
        Lease* lease = table_.Find(TaskId{live[random.Below(live.size())]});
        const Duration duration = seconds(1 + random.Below(100));
        table_.SetDeadline(*lease, kNow + duration, duration);
        journal_.Remember(*lease);
      } else {
        const bool applied = random.Chance(2, 3);
        Write(applied);
        if (!applied) continue;
        for (const std::int64_t task : live) {
          written[task] = kWall + (table_.Find(TaskId{task})->deadline - kNow);
        }
        const auto recovered = Recover();
        for (const auto& [task, deadline] : written) {
          ASSERT_EQ(recovered.count(TaskId{task}), 1u) << "seed " << seed;
          ASSERT_EQ(recovered.at(TaskId{task}).deadline, deadline) << "seed " << seed;
        }
      }
    }
    while (!live.empty()) {
      End(live.back());
      live.pop_back();
    }
    for (int i = 0; i < 3; ++i) Write(true);
    EXPECT_TRUE(rows_.empty()) << "seed " << seed;
    EXPECT_FALSE(journal_.dirty());
  }
}

}  // namespace
}  // namespace millrace::queue
