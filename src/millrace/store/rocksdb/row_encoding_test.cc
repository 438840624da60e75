#include "millrace/store/rocksdb/row_encoding.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "millrace/store/key_encoding.h"
#include "millrace/store/rocksdb/wal_claim.h"

namespace millrace::store {
namespace {

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

const PhysicalQueueKey kQueue{"ns", "jobs", 0};

TaskRow GoldenTask() {
  return {TaskKey{1, {2, TaskId{100'003}}}, WallTime{1'700'000'000'000'000'000},
          WallTime{1'700'000'060'000'000'000}, "hello"};
}

QueueMetadata GoldenMetadata() {
  QueueMetadata metadata;
  metadata.range_id = RangeId{7};
  metadata.subqueues = {{TaskLevel{0, TaskId{600'004}}, 12}, {TaskLevel{3, TaskId{-1}}, 0}};
  metadata.update_time = WallTime{1'700'000'000'000'000'000};
  metadata.owner_state = "st";
  return metadata;
}

// The vectors of docs/storage_format.md. A change here is a change of the stored format.
TEST(GoldenVectors, Keys) {
  const std::string queue = EncodeQueueKey(kQueue);
  std::string key;
  EXPECT_EQ(Hex(queue), "026e7300046a6f627300");
  BuildKeyPrefix(RowKind::kMetadata, queue, key);
  EXPECT_EQ(Hex(key), "6d026e7300046a6f627300");
  BuildTaskKey(queue, GoldenTask().key, key);
  EXPECT_EQ(Hex(key),
            "74026e7300046a6f627300"
            "80000001"
            "8000000000000002"
            "80000000000186a3");
  BuildTaskKey(queue, TaskKey{0, {-1, TaskId{-2}}}, key);
  EXPECT_EQ(Hex(key),
            "74026e7300046a6f627300"
            "80000000"
            "7fffffffffffffff"
            "7ffffffffffffffe");
  BuildSideKey(queue, "L1", key);
  EXPECT_EQ(Hex(key), "73026e7300046a6f6273004c31");
}

TEST(GoldenVectors, TaskValues) {
  std::string header;
  EncodeTaskHeader(GoldenTask(), header);
  EXPECT_EQ(Hex(header + "hello"),
            "0101"
            "97979cfe362a0000"
            "97979d0c2e715800"
            "68656c6c6f");
  TaskRow forever = GoldenTask();
  forever.expiry_time = {};
  EncodeTaskHeader(forever, header);
  EXPECT_EQ(Hex(header + "hello"), "010097979cfe362a000068656c6c6f");
}

TEST(GoldenVectors, MetadataValue) {
  std::string key;
  BuildKeyPrefix(RowKind::kMetadata, EncodeQueueKey(kQueue), key);
  std::string value;
  EncodeMetadata(key, GoldenMetadata(), value);
  EXPECT_EQ(Hex(value),
            "01"
            "8000000000000007"
            "97979cfe362a0000"
            "80000002"
            "800000000000000080000000000927c4800000000000000c"
            "80000000000000037fffffffffffffff8000000000000000"
            "00027374"
            "fda327a5");
}

TEST(GoldenVectors, SideValueAndClaim) {
  std::string header;
  EncodeSideHeader(header);
  EXPECT_EQ(Hex(header + "v"), "0176");
  EXPECT_EQ(Hex(EncodeWalClaim(258)), "6d7273310000000000000102");
  EXPECT_EQ(DecodeWalClaim(EncodeWalClaim(258)), 258u);
  EXPECT_EQ(DecodeWalClaim("mrs212345678"), std::nullopt);
  EXPECT_EQ(DecodeWalClaim("mrs1"), std::nullopt);
}

TEST(RowEncoding, TaskRoundTripAndEveryShortValue) {
  const TaskRow row = GoldenTask();
  std::string value;
  EncodeTaskHeader(row, value);
  const std::size_t header = value.size();
  value += row.payload;
  TaskRow decoded;
  decoded.key = row.key;
  ASSERT_TRUE(DecodeTask(value, decoded).ok());
  EXPECT_EQ(decoded, row);
  for (std::size_t size = 0; size < header; ++size) {
    EXPECT_EQ(DecodeTask(std::string_view(value).substr(0, size), decoded).code(),
              StatusCode::kCorruption);
  }
  value[0] = 2;
  EXPECT_EQ(DecodeTask(value, decoded).code(), StatusCode::kCorruption);
  value[0] = 1;
  value[1] = 3;
  EXPECT_EQ(DecodeTask(value, decoded).code(), StatusCode::kCorruption);
}

// Metadata carries its own checksum: any one wrong bit is found, and so is a row under another
// queue's key.
// The flag says that there is one, so it is not the one that stands for none.
TEST(RowEncoding, ExpiryThatIsNotSetIsDamage) {
  std::string bytes;
  TaskRow row;
  row.expiry_time = WallTime{1};
  EncodeTaskHeader(row, bytes);
  EXPECT_TRUE(DecodeTask(bytes, row).ok());
  bytes.back() = '\0';
  EXPECT_EQ(DecodeTask(bytes, row).code(), StatusCode::kCorruption);
}

TEST(RowEncoding, MetadataFindsEveryFlippedBit) {
  std::string key;
  BuildKeyPrefix(RowKind::kMetadata, EncodeQueueKey(kQueue), key);
  std::string value;
  EncodeMetadata(key, GoldenMetadata(), value);
  ASSERT_EQ(*DecodeMetadata(key, value), GoldenMetadata());
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    std::string flipped = value;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeMetadata(key, flipped).code(), StatusCode::kCorruption) << bit;
  }
  for (std::size_t size = 0; size < value.size(); ++size) {
    EXPECT_EQ(DecodeMetadata(key, std::string_view(value).substr(0, size)).code(),
              StatusCode::kCorruption);
  }
  std::string other;
  BuildKeyPrefix(RowKind::kMetadata, EncodeQueueKey({"ns", "jobt", 0}), other);
  EXPECT_EQ(DecodeMetadata(other, value).code(), StatusCode::kCorruption);
}

TEST(RowEncoding, SideValues) {
  std::string out;
  EXPECT_TRUE(DecodeSide(std::string_view("\x01value"), out).ok());
  EXPECT_EQ(out, "value");
  EXPECT_EQ(DecodeSide("", out).code(), StatusCode::kCorruption);
  EXPECT_EQ(DecodeSide(std::string_view("\x02value"), out).code(), StatusCode::kCorruption);
}

TEST(RowEncoding, AfterPrefix) {
  EXPECT_EQ(AfterPrefix("a"), "b");
  EXPECT_EQ(AfterPrefix("a\xff\xff"), "b");
  EXPECT_EQ(AfterPrefix(std::string_view("a\0", 2)), "a\x01");
}

TEST(RowEncoding, TaskKeysNeedTheirExactSize) {
  const std::string queue = EncodeQueueKey(kQueue);
  std::string key;
  BuildTaskKey(queue, GoldenTask().key, key);
  TaskKey parsed;
  EXPECT_TRUE(ParseTaskKey(key, 1 + queue.size(), parsed));
  EXPECT_EQ(parsed, GoldenTask().key);
  EXPECT_FALSE(ParseTaskKey(key + "x", 1 + queue.size(), parsed));
  EXPECT_FALSE(ParseTaskKey(key.substr(0, key.size() - 1), 1 + queue.size(), parsed));
  EXPECT_FALSE(ParseTaskKey("", 1 + queue.size(), parsed));
}

}  // namespace
}  // namespace millrace::store
