#include "millrace/store/rocksdb/wal_scan.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/store/crc32c.h"
#include "millrace/store/rocksdb/wal_claim.h"

namespace millrace::store {
namespace {

constexpr std::size_t kBlock = 32u << 10;

void AppendLittleEndian(std::uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Writes logs as RocksDB does; wal_check_test checks the scanner on logs that RocksDB wrote.
class LogWriter {
 public:
  void Add(std::uint64_t sequence, std::uint32_t count, std::uint64_t synced_through,
           std::size_t payload_bytes) {
    std::string batch;
    AppendLittleEndian(sequence, 8, batch);
    AppendLittleEndian(count, 4, batch);
    const std::string claim = EncodeWalClaim(synced_through);
    batch.push_back(0x3);
    batch.push_back(static_cast<char>(claim.size()));
    batch += claim + std::string(payload_bytes, 'x');
    std::string_view left = batch;
    bool first = true;
    do {
      const std::size_t room = kBlock - log_.size() % kBlock;
      if (room < 7) {
        log_.append(room, '\0');
        continue;
      }
      const std::string_view data = left.substr(0, room - 7);
      left.remove_prefix(data.size());
      const bool last = left.empty();
      std::string body(1, static_cast<char>(first ? (last ? 1 : 2) : (last ? 4 : 3)));
      body += data;
      const std::uint32_t crc = Crc32c(body);
      AppendLittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4, log_);
      AppendLittleEndian(data.size(), 2, log_);
      log_ += body;
      first = false;
      if (last) return;
    } while (true);
  }
  // Fills up to `room` bytes before the end of the block with one record.
  void FillTo(std::size_t room, std::uint64_t sequence) {
    const std::size_t overhead = 7 + 12 + 14;
    Add(sequence, 1, sequence - 1, kBlock - log_.size() % kBlock - room - overhead);
    EXPECT_EQ((kBlock - log_.size() % kBlock) % kBlock, room % kBlock);
  }
  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  std::string log_;
};

struct Found {
  std::vector<WalRecord> good;
  std::vector<WalRecord> behind;
  WalScan scan;
};
Found Scan(std::string_view log) {
  Found found;
  found.scan = ScanWal(
      log, [&](const WalRecord& record) { found.good.push_back(record); },
      [&](const WalRecord& record) { found.behind.push_back(record); });
  return found;
}

TEST(WalScan, EmptyLog) {
  EXPECT_FALSE(Scan("").scan.damaged);
  EXPECT_EQ(Scan("").scan.good_bytes, 0u);
}

// A record that starts with any number of bytes left in its block: none, less than a header, a
// header alone, and every split of its own first bytes.
TEST(WalScan, RecordsMayStartAnywhereInABlock) {
  for (std::size_t room = 0; room < 80; ++room) {
    LogWriter writer;
    writer.FillTo(room, 1);
    writer.Add(2, 3, 1, 100);
    writer.Add(5, 0, 4, 0);
    const Found found = Scan(writer.log());
    EXPECT_FALSE(found.scan.damaged) << room;
    ASSERT_EQ(found.good.size(), 3u) << room;
    EXPECT_EQ(found.good[1].first_sequence, 2u);
    EXPECT_EQ(found.good[1].next_sequence(), 5u);
    EXPECT_EQ(found.good[1].synced_through, 1u);
    EXPECT_EQ(found.good[2].next_sequence(), 5u);
    EXPECT_EQ(found.good[2].synced_through, 4u);
    EXPECT_EQ(found.scan.good_bytes, writer.log().size());
  }
}

TEST(WalScan, FindsRecordsBehindDamageWhereverTheyStart) {
  for (std::size_t room = 0; room < 80; ++room) {
    LogWriter writer;
    writer.FillTo(room, 1);
    writer.Add(2, 3, 1, 100);
    writer.Add(5, 1, 4, 70'000);
    std::string log = writer.log();
    log[100] = static_cast<char>(log[100] ^ 1);
    const Found found = Scan(log);
    EXPECT_TRUE(found.scan.damaged);
    EXPECT_EQ(found.scan.good_bytes, 0u);
    EXPECT_TRUE(found.good.empty());
    ASSERT_EQ(found.behind.size(), 2u) << room;
    EXPECT_EQ(found.behind[0].first_sequence, 2u);
    EXPECT_EQ(found.behind[1].first_sequence, 5u);
    EXPECT_EQ(found.behind[1].synced_through, 4u);
  }
}

TEST(WalScan, RecordsWithoutAClaim) {
  LogWriter writer;
  writer.Add(1, 1, 0, 10);
  std::string log = writer.log();
  // The claim's tag becomes that of another entry; the checksum is made right again.
  log[7 + 12] = 1;
  const std::uint32_t crc = Crc32c(std::string_view(log).substr(6));
  std::string masked;
  AppendLittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4, masked);
  std::copy(masked.begin(), masked.end(), log.begin());
  const Found found = Scan(log);
  ASSERT_EQ(found.good.size(), 1u);
  EXPECT_EQ(found.good[0].synced_through, std::nullopt);
}

}  // namespace
}  // namespace millrace::store
