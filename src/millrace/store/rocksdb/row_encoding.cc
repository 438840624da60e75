#include "millrace/store/rocksdb/row_encoding.h"

#include "millrace/base/check.h"
#include "millrace/store/crc32c.h"
#include "millrace/store/key_encoding.h"
#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

constexpr std::uint8_t kMetadataVersion = 1;
constexpr std::uint8_t kTaskVersion = 1;
constexpr std::uint8_t kSideVersion = 1;

constexpr std::uint8_t kTaskHasExpiry = 1;

Status Damaged(std::string_view what) {
  return {StatusCode::kCorruption, "damaged " + std::string(what)};
}

}  // namespace

void BuildKeyPrefix(RowKind kind, std::string_view queue, std::string& out) {
  out.assign(1, static_cast<char>(kind));
  out.append(queue);
}

void BuildTaskKey(std::string_view queue, const TaskKey& key, std::string& out) {
  BuildKeyPrefix(RowKind::kTask, queue, out);
  AppendTaskKey(key, out);
}

void BuildSideKey(std::string_view queue, std::string_view key, std::string& out) {
  BuildKeyPrefix(RowKind::kSide, queue, out);
  out.append(key);
}

std::string AfterPrefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  MR_CHECK(!end.empty());
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

bool ParseTaskKey(std::string_view key, std::size_t prefix_size, TaskKey& out) {
  if (key.size() < prefix_size) return false;
  key.remove_prefix(prefix_size);
  return TakeTaskKey(key, out) && key.empty();
}

void EncodeMetadata(std::string_view key, const QueueMetadata& metadata, std::string& out) {
  out.clear();
  AppendOrdered8(kMetadataVersion, out);
  AppendOrdered64(metadata.range_id.value, out);
  AppendOrdered64(metadata.update_time.ns, out);
  AppendOrdered32(static_cast<std::int32_t>(metadata.subqueues.size()), out);
  for (const SubqueueMetadata& subqueue : metadata.subqueues) {
    AppendOrdered64(subqueue.ack_level.pass, out);
    AppendOrdered64(subqueue.ack_level.id.value, out);
    AppendOrdered64(subqueue.approximate_count, out);
  }
  AppendOrdered16(static_cast<std::uint16_t>(metadata.owner_state.size()), out);
  out.append(metadata.owner_state);
  AppendChecksum(Crc32c(out, Crc32c(key)), out);
}

Result<QueueMetadata> DecodeMetadata(std::string_view key, std::string_view value) {
  const Status damaged = Damaged("queue metadata");
  if (value.empty()) return damaged;
  if (static_cast<std::uint8_t>(value.front()) != kMetadataVersion) {
    return Damaged("queue metadata: unknown version");
  }
  if (value.size() < kChecksumBytes) return damaged;
  std::string_view in = value.substr(0, value.size() - kChecksumBytes);
  if (Crc32c(in, Crc32c(key)) != ReadChecksum(value.substr(in.size()))) {
    return Damaged("queue metadata: checksum does not match");
  }
  QueueMetadata metadata;
  std::uint8_t version = 0;
  std::int32_t subqueues = 0;
  if (!TakeOrdered8(in, version) || !TakeOrdered64(in, metadata.range_id.value) ||
      !TakeOrdered64(in, metadata.update_time.ns) || !TakeOrdered32(in, subqueues) ||
      subqueues < 0 || static_cast<std::size_t>(subqueues) > kSubqueuesMax ||
      metadata.range_id.value <= 0) {
    return damaged;
  }
  for (std::int32_t i = 0; i < subqueues; ++i) {
    SubqueueMetadata subqueue;
    if (!TakeOrdered64(in, subqueue.ack_level.pass) ||
        !TakeOrdered64(in, subqueue.ack_level.id.value) ||
        !TakeOrdered64(in, subqueue.approximate_count)) {
      return damaged;
    }
    metadata.subqueues.push_back(subqueue);
  }
  std::uint16_t state_size = 0;
  if (!TakeOrdered16(in, state_size) || in.size() != state_size) return damaged;
  metadata.owner_state.assign(in);
  return metadata;
}

void EncodeTaskHeader(const TaskRow& row, std::string& out) {
  out.clear();
  AppendOrdered8(kTaskVersion, out);
  AppendOrdered8(row.expiry_time.is_set() ? kTaskHasExpiry : 0, out);
  AppendOrdered64(row.create_time.ns, out);
  if (row.expiry_time.is_set()) AppendOrdered64(row.expiry_time.ns, out);
}

Status DecodeTask(std::string_view value, TaskRow& row) {
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  if (!TakeOrdered8(value, version)) return Damaged("task row");
  if (version != kTaskVersion) return Damaged("task row: unknown version");
  if (!TakeOrdered8(value, flags) || (flags & ~kTaskHasExpiry) != 0 ||
      !TakeOrdered64(value, row.create_time.ns)) {
    return Damaged("task row");
  }
  row.expiry_time = WallTime{};
  if ((flags & kTaskHasExpiry) != 0 &&
      (!TakeOrdered64(value, row.expiry_time.ns) || !row.expiry_time.is_set())) {
    return Damaged("task row");
  }
  row.payload.assign(value);
  return {};
}

void EncodeSideHeader(std::string& out) {
  out.clear();
  AppendOrdered8(kSideVersion, out);
}

Status DecodeSide(std::string_view value, std::string& out) {
  std::uint8_t version = 0;
  if (!TakeOrdered8(value, version)) return Damaged("side row");
  if (version != kSideVersion) return Damaged("side row: unknown version");
  out.assign(value);
  return {};
}

}  // namespace millrace::store
