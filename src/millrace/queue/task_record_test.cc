#include "millrace/queue/task_record.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::queue {
namespace {

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const unsigned char c : bytes) {
    out.push_back("0123456789abcdef"[c >> 4]);
    out.push_back("0123456789abcdef"[c & 15]);
  }
  return out;
}

TaskRecord Sample() {
  TaskRecord record;
  record.first_id.value = 300;
  record.attempts_ended = 2;
  record.max_attempts = 5;
  record.enqueue_time.ns = 1;
  record.headers = {{"k", "v"}};
  record.payload = "body";
  return record;
}

// docs/storage_format.md, "Task record".
TEST(TaskRecord, GoldenVectors) {
  EXPECT_EQ(Hex(EncodeTaskRecord(Sample())),
            "01ac02020501"
            "01"
            "016b0176"
            "626f6479");
  EXPECT_EQ(Hex(EncodeTaskRecord(TaskRecord{})), "010000000000");
  const std::string record = EncodeTaskRecord(TaskRecord{});
  EXPECT_EQ(
      Hex(EncodeDeadTask({.death_time = WallTime{1}, .error_message = "no", .record = record})),
      "0101026e6f"
      "010000000000");
}

TEST(TaskRecord, RoundTrips) {
  const std::string bytes = EncodeTaskRecord(Sample());
  const Result<TaskRecord> decoded = DecodeTaskRecord(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->first_id.value, 300);
  EXPECT_EQ(decoded->attempts_ended, 2);
  EXPECT_EQ(decoded->max_attempts, 5);
  EXPECT_EQ(decoded->enqueue_time.ns, 1);
  ASSERT_EQ(decoded->headers.size(), 1u);
  EXPECT_EQ(decoded->headers[0].second, "v");
  EXPECT_EQ(decoded->payload, "body");
}

TEST(TaskRecord, EveryCutBeforeThePayloadIsCorruption) {
  const std::string bytes = EncodeTaskRecord(Sample());
  const std::size_t header = bytes.size() - 4;
  for (std::size_t size = 0; size < header; ++size) {
    EXPECT_EQ(DecodeTaskRecord(std::string_view(bytes).substr(0, size)).code(),
              StatusCode::kCorruption)
        << size;
  }
  std::string other_version = bytes;
  other_version[0] = 9;
  EXPECT_EQ(DecodeTaskRecord(other_version).code(), StatusCode::kCorruption);
  // A header count that no stored bytes could hold must not allocate.
  EXPECT_EQ(DecodeTaskRecord(std::string("\x01\x00\x00\x00\x00\xff\xff\xff\xff\x7f", 10)).code(),
            StatusCode::kCorruption);
}

// Every record has one spelling: a number with spare bytes was not written by us.
TEST(TaskRecord, LongWayOfWritingANumberIsCorruption) {
  const std::string shortest = EncodeTaskRecord(TaskRecord{});
  for (std::size_t at = 1; at < shortest.size(); ++at) {
    std::string longer = shortest;
    longer[at] = '\x80';
    longer.insert(at + 1, 1, '\0');
    EXPECT_EQ(DecodeTaskRecord(longer).code(), StatusCode::kCorruption) << at;
  }
}

TEST(TaskRecord, AttemptsThatCannotBeCountedOnAreCorruption) {
  TaskRecord record;
  record.attempts_ended = kAttemptsEndedMax;
  EXPECT_TRUE(DecodeTaskRecord(EncodeTaskRecord(record)).ok());
  ++record.attempts_ended;
  EXPECT_EQ(DecodeTaskRecord(EncodeTaskRecord(record)).code(), StatusCode::kCorruption);
}

TEST(DeadTask, RoundTrips) {
  const std::string record = EncodeTaskRecord(Sample());
  const std::string bytes = EncodeDeadTask(
      {.death_time = WallTime{42}, .error_message = "exit code 3", .record = record});
  const Result<DeadTask> decoded = DecodeDeadTask(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->death_time.ns, 42);
  EXPECT_EQ(decoded->error_message, "exit code 3");
  EXPECT_EQ(decoded->record, record);
  EXPECT_EQ(DecodeDeadTask(bytes.substr(0, 3)).code(), StatusCode::kCorruption);
}

TEST(PublicTaskId, NamesQueueAndFirstId) {
  EXPECT_EQ(PublicTaskId(0x9f3c21d07a5e44b1, TaskId{42}), "9f3c21d07a5e44b1-2a");
  EXPECT_EQ(PublicTaskId(1, TaskId{1}), "0000000000000001-1");
}

}  // namespace
}  // namespace millrace::queue
