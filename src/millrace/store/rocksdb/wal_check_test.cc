// Torn tails and flipped bytes in the log of a store that was killed, on real files.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/store/rocksdb/store_testing.h"
#include "millrace/store/rocksdb/temp_directory.h"
#include "millrace/store/rocksdb/wal_scan.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kTasks = 30;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class WalCheckTest : public ::testing::Test {
 protected:
  // The files as a kill leaves them: a lease and kTasks synced writes, the larger ones over several
  // blocks of the log.
  void SetUp() override {
    RocksTaskStoreConfig config;
    config.path = directory_.path() / "live";
    NullLog log;
    auto store = RocksTaskStore::Open(config, log);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(CommitOne(**store, TestLease("q")).ok());
    for (int id = 1; id <= kTasks; ++id) {
      const std::size_t size = id % 10 == 5 ? 50'000 : 100;
      ASSERT_TRUE(CommitOne(**store, TestCreate("q", id, 1, std::string(size, 'p'))).ok());
    }
    Copy("live", "image");
    log_path_ = OnlyLog("image");
    bytes_ = ReadFile(log_path_);
    ScanWal(
        bytes_, [this](const WalRecord& record) { records_.push_back(record); },
        [](const WalRecord&) { FAIL(); });
    ASSERT_EQ(records_.size(), std::size_t{kTasks} + 1);
  }

  void Copy(const std::string& from, const std::string& to) {
    fs::remove_all(directory_.path() / to);
    fs::copy(directory_.path() / from, directory_.path() / to, fs::copy_options::recursive);
  }
  fs::path OnlyLog(const std::string& image) {
    fs::path found;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(directory_.path() / image / "db")) {
      if (entry.path().extension() != ".log" || entry.file_size() == 0) continue;
      EXPECT_TRUE(found.empty());
      found = entry.path();
    }
    return found;
  }

  // Opens a copy of the image whose log is `bytes`; the number of tasks there, -1 = refused.
  int Open(const std::string& bytes) {
    Copy("image", "run");
    const fs::path log_path = directory_.path() / "run" / "db" / log_path_.filename();
    WriteFile(log_path, bytes);
    RocksTaskStoreConfig config;
    config.path = directory_.path() / "run";
    config.heal_retry = Duration::zero();
    log_ = std::make_unique<RecordingLog>();
    auto store = RocksTaskStore::Open(config, *log_);
    status_ = store.status();
    if (!store.ok()) return -1;
    const std::vector<std::int64_t> ids = TaskIds(**store, "q");
    for (std::size_t i = 0; i < ids.size(); ++i)
      EXPECT_EQ(ids[i], static_cast<std::int64_t>(i) + 1);
    // It takes writes, and the next start has nothing to say.
    EXPECT_TRUE(CommitOne(**store, ids.empty() && !(*store)->ReadMetadata({"ns", "q", 0}).ok()
                                       ? TestLease("q")
                                       : TestCreate("q", 1'000))
                    .ok());
    store->reset();
    RecordingLog second_log;
    EXPECT_TRUE(RocksTaskStore::Open(config, second_log).ok());
    EXPECT_TRUE(second_log.Find("cut off").empty());
    return static_cast<int>(ids.size());
  }
  bool SaidCut() { return !log_->Find("cut off").empty(); }

  TempDirectory directory_;
  fs::path log_path_;
  std::string bytes_;
  std::vector<WalRecord> records_;
  std::unique_ptr<RecordingLog> log_;
  Status status_;
};

TEST_F(WalCheckTest, KilledStoreOpensWithEverything) {
  EXPECT_EQ(Open(bytes_), kTasks);
  EXPECT_FALSE(SaidCut());
}

TEST_F(WalCheckTest, EveryRecordCarriesWhatWasSyncedBeforeIt) {
  for (std::size_t i = 1; i < records_.size(); ++i) {
    ASSERT_TRUE(records_[i].synced_through.has_value());
    EXPECT_EQ(*records_[i].synced_through, records_[i].first_sequence - 1);
    EXPECT_EQ(records_[i].first_sequence, records_[i - 1].next_sequence());
  }
}

TEST_F(WalCheckTest, TornTailIsCutAndSaid) {
  const WalRecord& last = records_.back();
  for (std::size_t size = last.begin + 1; size < last.end; size += 7) {
    EXPECT_EQ(Open(bytes_.substr(0, size)), kTasks - 1) << size;
    ASSERT_TRUE(SaidCut()) << size;
    EXPECT_THAT(log_->Find("cut off")[0],
                HasSubstr("cut_bytes=" + std::to_string(size - last.begin)));
    EXPECT_THAT(log_->Find("cut off")[0], HasSubstr(log_path_.filename().string()));
  }
}

TEST_F(WalCheckTest, TornInsideALargeRecord) {
  const WalRecord& large = records_[25];
  ASSERT_GT(large.end - large.begin, 32u << 10);
  for (const std::size_t size : {large.begin + 10, large.begin + (20u << 10), large.end - 1}) {
    EXPECT_EQ(Open(bytes_.substr(0, size)), 24) << size;
    EXPECT_TRUE(SaidCut());
  }
}

TEST_F(WalCheckTest, TailOfZerosOrNoiseIsCutAndSaid) {
  for (const char fill : {'\0', '\x5a', '\xff'}) {
    EXPECT_EQ(Open(bytes_ + std::string(5'000, fill)), kTasks);
    EXPECT_TRUE(SaidCut());
    EXPECT_EQ(Open(bytes_.substr(0, records_.back().begin + 20) + std::string(80'000, fill)),
              kTasks - 1);
    EXPECT_TRUE(SaidCut());
  }
}

TEST_F(WalCheckTest, FlippedByteInTheLastRecordLooksTorn) {
  const WalRecord& last = records_.back();
  for (std::size_t at = last.begin; at < last.end; at += 11) {
    std::string flipped = bytes_;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    EXPECT_EQ(Open(flipped), kTasks - 1) << at;
    EXPECT_TRUE(SaidCut());
  }
}

TEST_F(WalCheckTest, DamagedAcknowledgedWorkIsRefused) {
  for (const std::size_t record : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{14},
                                   std::size_t{15}, records_.size() - 2}) {
    const WalRecord& hit = records_[record];
    // Header and data, checksum and length, first and last byte.
    for (const std::size_t at :
         {hit.begin, hit.begin + 4, hit.begin + 5, hit.begin + 6, hit.begin + 30, hit.end - 1}) {
      std::string flipped = bytes_;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x01);
      EXPECT_EQ(Open(flipped), -1) << record << " " << at;
      EXPECT_EQ(status_.code(), StatusCode::kCorruption);
      EXPECT_THAT(std::string(status_.message()), HasSubstr(log_path_.filename().string()));
      EXPECT_THAT(std::string(status_.message()), HasSubstr(std::to_string(hit.begin)));
    }
  }
}

TEST_F(WalCheckTest, ZeroedPagesUnderAcknowledgedWorkAreRefused) {
  std::string zeroed = bytes_;
  std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(records_[3].begin), 4'096, '\0');
  EXPECT_EQ(Open(zeroed), -1);
  EXPECT_EQ(status_.code(), StatusCode::kCorruption);
}

// After a clean stop the last record says that all before it was synced: then even the last task's
// damage shows.
TEST_F(WalCheckTest, CleanStopProvesEverything) {
  RocksTaskStoreConfig config;
  config.path = directory_.path() / "stopped";
  NullLog quiet;
  auto store = RocksTaskStore::Open(config, quiet);
  ASSERT_TRUE(CommitOne(**store, TestLease("q")).ok());
  store->reset();
  log_path_ = OnlyLog("stopped");
  Copy("stopped", "image");
  bytes_ = ReadFile(log_path_);
  records_.clear();
  ScanWal(
      bytes_, [this](const WalRecord& record) { records_.push_back(record); },
      [](const WalRecord&) { FAIL(); });
  EXPECT_EQ(Open(bytes_), 0);
  EXPECT_FALSE(SaidCut());
  bytes_[records_[0].begin + 30] ^= 1;
  EXPECT_EQ(Open(bytes_), -1);
}

// The scanner on every cut and every flipped byte of a small log: never beyond its end, never a
// record that is not there.
TEST_F(WalCheckTest, ScannerKeepsToWhatIsThere) {
  const std::string small = bytes_.substr(0, records_[4].end);
  for (std::size_t size = 0; size <= small.size(); ++size) {
    std::size_t good = 0;
    const WalScan scan = ScanWal(
        std::string_view(small).substr(0, size), [&](const WalRecord&) { ++good; },
        [](const WalRecord&) { FAIL(); });
    const auto whole = static_cast<std::size_t>(std::count_if(
        records_.begin(), records_.end(), [&](const WalRecord& r) { return r.end <= size; }));
    EXPECT_EQ(good, whole);
    EXPECT_EQ(scan.good_bytes, whole == 0 ? 0 : records_[whole - 1].end);
    EXPECT_EQ(scan.damaged, scan.good_bytes != size);
  }
  for (std::size_t at = 0; at < small.size(); ++at) {
    std::string flipped = small;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    std::size_t good = 0;
    std::size_t behind = 0;
    const WalScan scan =
        ScanWal(flipped, [&](const WalRecord&) { ++good; }, [&](const WalRecord&) { ++behind; });
    EXPECT_TRUE(scan.damaged);
    EXPECT_EQ(good + behind, 4u) << at;
    EXPECT_LE(records_[good].begin, at);
    EXPECT_GT(records_[good].end, at);
  }
}

}  // namespace
}  // namespace millrace::store
