// Disk full and I/O errors: refused with the right code while they last, working again afterwards
// without a restart.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/store/rocksdb/fault_file_system.h"
#include "millrace/store/rocksdb/store_testing.h"
#include "millrace/store/rocksdb/temp_directory.h"

namespace millrace::store {
namespace {

using Ids = std::vector<std::int64_t>;

class RocksFaultTest : public ::testing::Test {
 protected:
  void Open(Duration heal_retry = Duration::zero()) {
    config_.path = directory_.path() / "data";
    config_.heal_retry = heal_retry;
    config_.env = file_system_.env();
    store_.reset();
    Result<std::unique_ptr<RocksTaskStore>> opened = RocksTaskStore::Open(config_, log_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = std::move(*opened);
  }

  // One fault from the first refused write to the store that works again. The lease and task 1 are
  // there before.
  void BreakAndHeal(StatusCode refused) {
    EXPECT_EQ(CommitOne(*store_, TestCreate("q", 2)).code(), StatusCode::kUnknownOutcome);
    for (int i = 0; i < 3; ++i) {
      const std::vector<Status> group =
          store_->Commit(std::vector{TestCreate("q", 3), TestLease("other")});
      EXPECT_EQ(group[0].code(), refused) << group[0];
      EXPECT_EQ(group[1].code(), refused) << group[1];
      EXPECT_EQ(store_->Health().code(), refused);
      EXPECT_EQ(store_->DeleteQueue({"ns", "q", 0}, RangeId{1}).code(), refused);
      EXPECT_EQ(store_->DeleteTasksThrough({"ns", "q", 0}, 0, TaskLevel::Max(), 10).code(),
                refused);
      // What is stored can still be read.
      EXPECT_EQ(TaskIds(*store_, "q").at(0), 1);
      EXPECT_FALSE(store_->TryHeal().ok());
    }
    file_system_.Heal();
    ASSERT_TRUE(store_->TryHeal().ok());
    EXPECT_TRUE(store_->Health().ok());

    // The unknown write is decided: in or out, and it stays so.
    const Ids decided = TaskIds(*store_, "q");
    EXPECT_TRUE(decided == Ids({1}) || decided == Ids({1, 2})) << decided.size();
    EXPECT_TRUE(CommitOne(*store_, TestLease("q", 2)).ok());
    EXPECT_EQ(CommitOne(*store_, TestCreate("q", 4, 1)).code(), StatusCode::kFenced);
    EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 5, 2)).ok());
    Ids expected = decided;
    expected.push_back(5);
    EXPECT_EQ(TaskIds(*store_, "q"), expected);
    EXPECT_EQ(store_->ReadMetadata({"ns", "other", 0}).code(), StatusCode::kNotFound);
    Open();
    EXPECT_EQ(TaskIds(*store_, "q"), expected);
  }

  void OpenWithTask() {
    Open();
    ASSERT_TRUE(CommitOne(*store_, TestLease("q")).ok());
    ASSERT_TRUE(CommitOne(*store_, TestCreate("q", 1)).ok());
  }

  RecordingLog log_;
  TempDirectory directory_;
  FaultFileSystem file_system_;
  RocksTaskStoreConfig config_;
  std::unique_ptr<RocksTaskStore> store_;
};

TEST_F(RocksFaultTest, DiskFull) {
  OpenWithTask();
  file_system_.FailAppends(rocksdb::IOStatus::NoSpace("test"));
  BreakAndHeal(StatusCode::kUnavailable);
}

TEST_F(RocksFaultTest, AppendsFail) {
  OpenWithTask();
  file_system_.FailAppends(rocksdb::IOStatus::IOError("test"));
  BreakAndHeal(StatusCode::kUnavailable);
}

TEST_F(RocksFaultTest, SyncsFail) {
  OpenWithTask();
  file_system_.FailSyncs(rocksdb::IOStatus::IOError("test"));
  BreakAndHeal(StatusCode::kUnavailable);
}

// After a failed sync nobody knows what the disk holds: nothing more is acknowledged from that log,
// even when the next sync would work.
TEST_F(RocksFaultTest, NothingIsAcknowledgedAfterAFailedSync) {
  OpenWithTask();
  file_system_.FailSyncs(rocksdb::IOStatus::IOError("test"), ".log");
  EXPECT_EQ(CommitOne(*store_, TestCreate("q", 2)).code(), StatusCode::kUnknownOutcome);
  file_system_.Heal();
  const std::uint64_t syncs = file_system_.syncs();
  EXPECT_EQ(CommitOne(*store_, TestCreate("q", 3)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(file_system_.syncs(), syncs);
  EXPECT_TRUE(store_->TryHeal().ok());
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 3)).ok());
}

// A whole group shares one outcome; a write that was refused for its own reason keeps that reason.
TEST_F(RocksFaultTest, GroupOfAFailedSyncIsUnknownAsAWhole) {
  OpenWithTask();
  file_system_.FailSyncs(rocksdb::IOStatus::IOError("test"));
  const std::vector<Status> group = store_->Commit(
      std::vector{TestCreate("q", 2), TestCreate("q", 3, /*range_id=*/7), TestLease("other")});
  EXPECT_EQ(group[0].code(), StatusCode::kUnknownOutcome);
  EXPECT_EQ(group[1].code(), StatusCode::kFenced);
  EXPECT_EQ(group[2].code(), StatusCode::kUnknownOutcome);
}

// A commit that only meets its own errors touches no file.
TEST_F(RocksFaultTest, FencedWritesDoNotSync) {
  OpenWithTask();
  const std::uint64_t syncs = file_system_.syncs();
  EXPECT_EQ(CommitOne(*store_, TestCreate("q", 2, 7)).code(), StatusCode::kFenced);
  EXPECT_EQ(file_system_.syncs(), syncs);
}

TEST_F(RocksFaultTest, OneSyncForManyQueues) {
  Open();
  std::vector<QueueWrite> writes;
  for (int i = 0; i < 100; ++i) writes.push_back(TestLease("q" + std::to_string(i)));
  ASSERT_TRUE(CommitOne(*store_, TestLease("first")).ok());
  const std::uint64_t syncs = file_system_.syncs();
  for (const Status& status : store_->Commit(writes)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(file_system_.syncs(), syncs + 1);
}

TEST_F(RocksFaultTest, RelaxedGroupsDoNotSync) {
  OpenWithTask();
  QueueWrite relaxed = TestCreate("q", 2);
  relaxed.durability = Durability::kRelaxed;
  const std::uint64_t syncs = file_system_.syncs();
  ASSERT_TRUE(CommitOne(*store_, relaxed).ok());
  EXPECT_EQ(file_system_.syncs(), syncs);
  store_.reset();
  EXPECT_GT(file_system_.syncs(), syncs);  // A clean stop makes them durable.
}

// A flush in the background meets the full disk first.
TEST_F(RocksFaultTest, TablesCannotBeWritten) {
  config_.write_buffer_bytes = 64u << 10;
  OpenWithTask();
  file_system_.FailAppends(rocksdb::IOStatus::NoSpace("test"), ".sst");
  std::int64_t last_ok = 1;
  Status status;
  for (std::int64_t id = 2; status.ok() && id < 10'000; ++id) {
    status = CommitOne(*store_, TestCreate("q", id, 1, std::string(8'000, 'x')));
    if (status.ok()) last_ok = id;
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(store_->Health().code(), StatusCode::kUnavailable) << store_->Health();
  file_system_.Heal();
  ASSERT_TRUE(store_->TryHeal().ok());
  const Ids ids = TaskIds(*store_, "q");
  ASSERT_GE(static_cast<std::int64_t>(ids.size()), last_ok);
  EXPECT_LE(static_cast<std::int64_t>(ids.size()), last_ok + 1);
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 20'000)).ok());
}

TEST_F(RocksFaultTest, HealsByItself) {
  Open(std::chrono::milliseconds(1));
  ASSERT_TRUE(CommitOne(*store_, TestLease("q")).ok());
  file_system_.FailAppends(rocksdb::IOStatus::NoSpace("test"));
  EXPECT_EQ(CommitOne(*store_, TestCreate("q", 1)).code(), StatusCode::kUnknownOutcome);
  log_.AwaitLine("store takes no writes");
  file_system_.Heal();
  log_.AwaitLine("store takes writes again");
  EXPECT_TRUE(store_->Health().ok());
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 2)).ok());
}

TEST_F(RocksFaultTest, StopsWhileBroken) {
  Open(std::chrono::hours(1));
  ASSERT_TRUE(CommitOne(*store_, TestLease("q")).ok());
  file_system_.FailAppends(rocksdb::IOStatus::NoSpace("test"));
  EXPECT_FALSE(CommitOne(*store_, TestCreate("q", 1)).ok());
  store_.reset();
  file_system_.Heal();
  Open();
  EXPECT_TRUE(CommitOne(*store_, TestCreate("q", 2)).ok());
}

TEST_F(RocksFaultTest, OpeningOnAFullDisk) {
  file_system_.FailAppends(rocksdb::IOStatus::NoSpace("test"));
  config_.path = directory_.path() / "data";
  config_.env = file_system_.env();
  EXPECT_EQ(RocksTaskStore::Open(config_, log_).code(), StatusCode::kUnavailable);
  file_system_.Heal();
  OpenWithTask();
}

}  // namespace
}  // namespace millrace::store
