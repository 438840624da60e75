// Damaged rows fault their own queue and nothing else.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include "millrace/store/key_encoding.h"
#include "millrace/store/rocksdb/row_encoding.h"
#include "millrace/store/rocksdb/store_testing.h"
#include "millrace/store/rocksdb/temp_directory.h"

namespace millrace::store {
namespace {

class RocksDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.path = directory_.path() / "data";
    Open();
    for (const char* queue : {"a", "b", "c"}) {
      ASSERT_TRUE(CommitOne(*store_, TestLease(queue)).ok());
      ASSERT_TRUE(CommitOne(*store_, TestCreate(queue, 1)).ok());
    }
  }
  void Open() {
    Result<std::unique_ptr<RocksTaskStore>> opened = RocksTaskStore::Open(config_, log_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = std::move(*opened);
  }
  // Puts bytes under a key as no store would.
  void Overwrite(const std::string& key, const std::string& value) {
    store_.reset();
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), config_.path + "/db", &raw).ok());
    const std::unique_ptr<rocksdb::DB> db(raw);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, value).ok());
  }

  const std::string bad_ = EncodeQueueKey({"ns", "b", 0});
  RecordingLog log_;
  TempDirectory directory_;
  RocksTaskStoreConfig config_;
  std::unique_ptr<RocksTaskStore> store_;
};

TEST_F(RocksDamageTest, Metadata) {
  std::string key;
  BuildKeyPrefix(RowKind::kMetadata, bad_, key);
  Overwrite(key, "not metadata");
  Open();
  EXPECT_EQ(store_->ReadMetadata({"ns", "b", 0}).code(), StatusCode::kCorruption);
  EXPECT_EQ(store_->DeleteQueue({"ns", "b", 0}, RangeId{1}).code(), StatusCode::kCorruption);
  const std::vector<Status> group = store_->Commit(
      std::vector{TestCreate("a", 2), TestCreate("b", 2), TestLease("b"), TestCreate("c", 2)});
  EXPECT_TRUE(group[0].ok());
  EXPECT_EQ(group[1].code(), StatusCode::kCorruption);
  EXPECT_EQ(group[2].code(), StatusCode::kCorruption);
  EXPECT_TRUE(group[3].ok());
  // The list goes on behind it, page by page as well.
  Result<QueuePage> first = store_->ListQueues("", 1);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->queues.size(), 1u);
  EXPECT_EQ(first->queues[0].key.persistence_name, "a");
  Result<QueuePage> second = store_->ListQueues(first->next_page_token, 1);
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second->queues.size(), 1u);
  EXPECT_EQ(second->queues[0].key.persistence_name, "c");
  EXPECT_TRUE(second->next_page_token.empty());
  EXPECT_FALSE(log_.Find("left out of a list").empty());
}

TEST_F(RocksDamageTest, TaskRow) {
  std::string key;
  BuildTaskKey(bad_, TaskKey{0, {0, TaskId{2}}}, key);
  Overwrite(key, "\x07");
  Open();
  Result<TaskPage> page =
      store_->ReadTasks({"ns", "b", 0}, 0, TaskLevel::Min(), TaskLevel::Max(), 10, 1'000);
  EXPECT_EQ(page.code(), StatusCode::kCorruption);
  EXPECT_EQ(TaskIds(*store_, "a"), std::vector<std::int64_t>({1}));
  EXPECT_TRUE(CommitOne(*store_, TestCreate("c", 2)).ok());
}

TEST_F(RocksDamageTest, SideRow) {
  std::string key;
  BuildSideKey(bad_, "k", key);
  Overwrite(key, "");
  Open();
  EXPECT_EQ(store_->ReadSideRows({"ns", "b", 0}, "", "", 10).code(), StatusCode::kCorruption);
  EXPECT_TRUE(store_->ReadSideRows({"ns", "a", 0}, "", "", 10).ok());
}

}  // namespace
}  // namespace millrace::store
