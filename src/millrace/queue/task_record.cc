#include "millrace/queue/task_record.h"

#include <cinttypes>
#include <cstdio>
#include <limits>

#include "millrace/queue/bytes.h"

namespace millrace::queue {
namespace {

constexpr std::uint8_t kTaskRecordVersion = 1;
constexpr std::uint8_t kDeadTaskVersion = 1;

Status Damaged(const char* what) {
  return {StatusCode::kCorruption, std::string(what) + " does not parse"};
}

bool ReadInt32(ByteReader& reader, std::int32_t* value) {
  std::uint64_t raw = 0;
  if (!reader.Varint(&raw) ||
      raw > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    return false;
  *value = static_cast<std::int32_t>(raw);
  return true;
}

}  // namespace

std::string EncodeTaskRecord(const TaskRecord& record) {
  std::size_t size = 40 + record.payload.size();
  for (const auto& [name, value] : record.headers) size += name.size() + value.size() + 10;
  std::string out;
  out.reserve(size);
  out.push_back(static_cast<char>(kTaskRecordVersion));
  AppendVarint(out, static_cast<std::uint64_t>(record.first_id.value));
  AppendVarint(out, static_cast<std::uint64_t>(record.attempts_ended));
  AppendVarint(out, static_cast<std::uint64_t>(record.max_attempts));
  AppendVarint(out, static_cast<std::uint64_t>(record.enqueue_time.ns));
  AppendVarint(out, record.headers.size());
  for (const auto& [name, value] : record.headers) {
    AppendSized(out, name);
    AppendSized(out, value);
  }
  out.append(record.payload);
  return out;
}

Result<TaskRecord> DecodeTaskRecord(std::string_view bytes) {
  ByteReader reader(bytes);
  TaskRecord record;
  std::uint8_t version = 0;
  if (!reader.Byte(&version) || version != kTaskRecordVersion) return Damaged("task record");
  std::uint64_t first_id = 0;
  std::uint64_t enqueue_ns = 0;
  std::uint64_t header_count = 0;
  if (!reader.Varint(&first_id) || !ReadInt32(reader, &record.attempts_ended) ||
      !ReadInt32(reader, &record.max_attempts) || !reader.Varint(&enqueue_ns) ||
      !reader.Varint(&header_count)) {
    return Damaged("task record");
  }
  if (record.attempts_ended > kAttemptsEndedMax) return Damaged("task record");
  record.first_id.value = static_cast<std::int64_t>(first_id);
  record.enqueue_time.ns = static_cast<std::int64_t>(enqueue_ns);
  for (std::uint64_t i = 0; i < header_count; ++i) {
    std::string_view name;
    std::string_view value;
    if (!reader.Sized(&name) || !reader.Sized(&value)) return Damaged("task record");
    record.headers.emplace_back(name, value);
  }
  record.payload = reader.rest();
  return record;
}

std::string EncodeDeadTask(const DeadTask& dead) {
  std::string out;
  out.reserve(20 + dead.error_message.size() + dead.record.size());
  out.push_back(static_cast<char>(kDeadTaskVersion));
  AppendVarint(out, static_cast<std::uint64_t>(dead.death_time.ns));
  AppendSized(out, dead.error_message);
  out.append(dead.record);
  return out;
}

Result<DeadTask> DecodeDeadTask(std::string_view bytes) {
  ByteReader reader(bytes);
  DeadTask dead;
  std::uint8_t version = 0;
  std::uint64_t death_ns = 0;
  if (!reader.Byte(&version) || version != kDeadTaskVersion || !reader.Varint(&death_ns) ||
      !reader.Sized(&dead.error_message)) {
    return Damaged("dead task");
  }
  dead.death_time.ns = static_cast<std::int64_t>(death_ns);
  dead.record = reader.rest();
  return dead;
}

std::string PublicTaskId(std::uint64_t queue_uid, TaskId first_id) {
  char text[40];
  const int size = std::snprintf(text, sizeof(text), "%016" PRIx64 "-%" PRIx64, queue_uid,
                                 static_cast<std::uint64_t>(first_id.value));
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace millrace::queue
