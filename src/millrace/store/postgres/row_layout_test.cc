// Golden vectors of docs/storage_format.md, and rows that are damaged.

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "millrace/store/postgres/row_layout.h"

namespace millrace::store {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
const PhysicalQueueKey kQueue{"ns", "jobs", 0};

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

QueueMetadata Metadata() {
  QueueMetadata metadata;
  metadata.range_id = RangeId{7};
  metadata.update_time = WallTime{1'700'000'000 * kSecond};
  metadata.subqueues = {{{0, TaskId{600'004}}, 12}, {{3, TaskId{-1}}, 0}};
  metadata.owner_state = "st";
  return metadata;
}

TEST(StandaloneLayout, IdsAreAsDocumented) {
  const RowLayout& layout = StandaloneLayout();
  const RowLayout::Place place = *layout.PlaceOfQueue(kQueue);
  EXPECT_EQ(place.range_hash, -1);
  EXPECT_EQ(Hex(place.task_queue_id),
            "004d696c6c726163652071756575650002"
            "6e7300046a6f627300");
  EXPECT_EQ(Hex(layout.PlaceOfTasks(place, 300).task_queue_id), Hex(place.task_queue_id) + "ac02");
  EXPECT_EQ(layout.PlaceOfTasks(place, 0).task_queue_id, place.task_queue_id);
  EXPECT_EQ(layout.QueueAt(place.task_queue_id), kQueue);
  EXPECT_EQ(layout.QueueAt(place.task_queue_id + "x"), std::nullopt);
  EXPECT_EQ(layout.QueueAt("0123456789abcdefqueue\1"), std::nullopt);
  EXPECT_LT(layout.first_id(), place.task_queue_id);
  EXPECT_GT(layout.end_id(), place.task_queue_id);
}

TEST(StandaloneLayout, QueueRowsAreAsDocumented) {
  const RowLayout& layout = StandaloneLayout();
  const RowLayout::Place place = *layout.PlaceOfQueue(kQueue);
  std::string data;
  layout.EncodeQueue(kQueue, place, Metadata(), data);
  EXPECT_EQ(Hex(data),
            "0197979cfe362a0000"
            "80000002800000000000000080000000000927c4800000000000000c"
            "80000000000000037fffffffffffffff800000000000000000027374"
            "0c29205b");
  const RowLayout::QueueRow row{7, data, "Millrace", std::nullopt, 0, 0};
  EXPECT_EQ(*layout.DecodeQueue(place, row), Metadata());
  // What a lease does in place.
  const WallTime later{1'800'000'000 * kSecond};
  std::string leased = data;
  leased.replace(1, 8, layout.EncodeUpdateTime(later));
  QueueMetadata expected = Metadata();
  expected.update_time = later;
  EXPECT_EQ(*layout.DecodeQueue(place, {7, leased, "Millrace", std::nullopt, 0, 0}), expected);
}

TEST(StandaloneLayout, EveryFlippedBitOfAQueueRowIsNoticedButInItsTime) {
  const RowLayout& layout = StandaloneLayout();
  const RowLayout::Place place = *layout.PlaceOfQueue(kQueue);
  std::string data;
  layout.EncodeQueue(kQueue, place, Metadata(), data);
  for (std::size_t byte = 0; byte < data.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = data;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << bit));
      const auto read = layout.DecodeQueue(place, {7, flipped, "Millrace", std::nullopt, 0, 0});
      EXPECT_EQ(read.code() == StatusCode::kCorruption, byte == 0 || byte > 8) << byte;
    }
  }
  for (std::size_t size = 0; size < data.size(); ++size) {
    const std::string_view part = std::string_view(data).substr(0, size);
    EXPECT_EQ(layout.DecodeQueue(place, {7, part, "Millrace", std::nullopt, 0, 0}).code(),
              StatusCode::kCorruption);
  }
  EXPECT_EQ(layout.DecodeQueue(place, {7, data, "Proto3", std::nullopt, 0, 0}).code(),
            StatusCode::kCorruption);
  EXPECT_EQ(layout.DecodeQueue(place, {0, data, "Millrace", std::nullopt, 0, 0}).code(),
            StatusCode::kCorruption);
  // A row under another queue's id.
  const RowLayout::Place other = *layout.PlaceOfQueue({"ns", "jobz", 0});
  EXPECT_EQ(layout.DecodeQueue(other, {7, data, "Millrace", std::nullopt, 0, 0}).code(),
            StatusCode::kCorruption);
}

TEST(StandaloneLayout, TaskRowsAreAsDocumented) {
  const RowLayout& layout = StandaloneLayout();
  TaskRow row{{}, WallTime{1'700'000'000 * kSecond}, WallTime{1'700'000'060 * kSecond}, "hello"};
  std::string data;
  ASSERT_TRUE(layout.EncodeTask(row, data).ok());
  EXPECT_EQ(Hex(data), "010197979cfe362a000097979d0c2e71580068656c6c6f");
  TaskRow read;
  ASSERT_TRUE(layout.DecodeTask(data, "Millrace", read).ok());
  EXPECT_EQ(read, row);
  EXPECT_EQ(layout.DecodeTask(data, "Proto3", read).code(), StatusCode::kCorruption);
  data[0] = 2;
  EXPECT_EQ(layout.DecodeTask(data, "Millrace", read).code(), StatusCode::kCorruption);
  EXPECT_EQ(layout.DecodeTask("", "Millrace", read).code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace millrace::store
