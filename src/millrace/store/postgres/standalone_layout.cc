#include <cstddef>

#include "millrace/store/crc32c.h"
#include "millrace/store/key_encoding.h"
#include "millrace/store/postgres/row_layout.h"
#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

using namespace std::string_view_literals;

// Where Temporal has a namespace's UUID: one that no namespace has.
constexpr std::string_view kIdPrefix = "\x00Millrace queue\x00"sv;
static_assert(kIdPrefix.size() == 16);

// No farm hash: all queues of this kind lie together in the index, in the order of their names, and
// all rows of a queue as well.
constexpr std::int64_t kRangeHash = -1;

constexpr std::string_view kEncoding = "Millrace";
constexpr std::uint8_t kQueueVersion = 1;
constexpr std::uint8_t kTaskVersion = 1;
constexpr std::uint8_t kTaskHasExpiry = 1;
// Version and update time: outside the checksum, so that a lease can replace the time in place.
constexpr std::size_t kUncheckedBytes = 9;

Status Damaged(std::string_view what) {
  return {StatusCode::kCorruption, "damaged " + std::string(what)};
}

void AppendVarint(std::uint32_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

class Standalone final : public RowLayout {
 public:
  [[nodiscard]] std::string_view queues_table() const override { return "task_queues_v2"; }
  [[nodiscard]] std::string_view tasks_table() const override { return "tasks_v2"; }
  [[nodiscard]] bool has_pass() const override { return true; }
  [[nodiscard]] std::int32_t number() const override { return 0; }
  [[nodiscard]] bool keeps_state() const override { return false; }
  [[nodiscard]] std::string_view encoding() const override { return kEncoding; }

  [[nodiscard]] Result<Place> PlaceOfQueue(const PhysicalQueueKey& queue) const override {
    Place place;
    place.task_queue_id = kIdPrefix;
    AppendQueueKey(queue, place.task_queue_id);
    place.range_hash = kRangeHash;
    return place;
  }

  [[nodiscard]] Place PlaceOfTasks(const Place& of, Subqueue subqueue) const override {
    Place place = of;
    if (subqueue != 0) AppendVarint(static_cast<std::uint32_t>(subqueue), place.task_queue_id);
    return place;
  }

  [[nodiscard]] std::optional<PhysicalQueueKey> QueueAt(std::string_view id) const override {
    if (!id.starts_with(kIdPrefix)) return std::nullopt;
    id.remove_prefix(kIdPrefix.size());
    PhysicalQueueKey queue;
    if (!TakeQueueKey(id, queue) || !id.empty()) return std::nullopt;
    return queue;
  }

  [[nodiscard]] std::string first_id() const override { return std::string(kIdPrefix); }
  [[nodiscard]] std::string end_id() const override { return AfterAllOf(kIdPrefix); }
  [[nodiscard]] std::int64_t first_hash() const override { return kRangeHash; }
  [[nodiscard]] std::int64_t last_hash() const override { return kRangeHash; }
  [[nodiscard]] std::string EndOfAllTasks(const Place& of) const override {
    return AfterAllOf(of.task_queue_id);
  }

  void EncodeQueue(const PhysicalQueueKey& /*queue*/, const Place& place,
                   const QueueMetadata& metadata, std::string& data) const override {
    data.clear();
    AppendOrdered8(kQueueVersion, data);
    AppendOrdered64(metadata.update_time.ns, data);
    AppendOrdered32(static_cast<std::int32_t>(metadata.subqueues.size()), data);
    for (const SubqueueMetadata& subqueue : metadata.subqueues) {
      AppendOrdered64(subqueue.ack_level.pass, data);
      AppendOrdered64(subqueue.ack_level.id.value, data);
      AppendOrdered64(subqueue.approximate_count, data);
    }
    AppendOrdered16(static_cast<std::uint16_t>(metadata.owner_state.size()), data);
    data.append(metadata.owner_state);
    AppendChecksum(Checksum(place, std::string_view(data).substr(kUncheckedBytes)), data);
  }

  [[nodiscard]] std::string EncodeUpdateTime(WallTime time) const override {
    std::string out;
    AppendOrdered64(time.ns, out);
    return out;
  }

  Result<QueueMetadata> DecodeQueue(const Place& place, const QueueRow& row) const override {
    std::string_view in = row.data;
    QueueMetadata metadata;
    metadata.range_id = RangeId{row.range_id};
    std::uint8_t version = 0;
    if (row.encoding != kEncoding) return Damaged("queue row: unknown encoding");
    if (!TakeOrdered8(in, version)) return Damaged("queue row");
    if (version != kQueueVersion) return Damaged("queue row: unknown version");
    if (!TakeOrdered64(in, metadata.update_time.ns) || in.size() < kChecksumBytes ||
        row.range_id <= 0) {
      return Damaged("queue row");
    }
    const std::string_view checksum = in.substr(in.size() - kChecksumBytes);
    in.remove_suffix(kChecksumBytes);
    if (Checksum(place, in) != ReadChecksum(checksum)) {
      return Damaged("queue row: checksum does not match");
    }
    std::int32_t subqueues = 0;
    if (!TakeOrdered32(in, subqueues) || subqueues < 0 ||
        static_cast<std::size_t>(subqueues) > kSubqueuesMax) {
      return Damaged("queue row");
    }
    for (std::int32_t i = 0; i < subqueues; ++i) {
      SubqueueMetadata subqueue;
      if (!TakeOrdered64(in, subqueue.ack_level.pass) ||
          !TakeOrdered64(in, subqueue.ack_level.id.value) ||
          !TakeOrdered64(in, subqueue.approximate_count)) {
        return Damaged("queue row");
      }
      metadata.subqueues.push_back(subqueue);
    }
    std::uint16_t state_size = 0;
    if (!TakeOrdered16(in, state_size) || in.size() != state_size) return Damaged("queue row");
    metadata.owner_state.assign(in);
    return metadata;
  }

  Status EncodeTask(const TaskRow& row, std::string& out) const override {
    AppendOrdered8(kTaskVersion, out);
    AppendOrdered8(row.expiry_time.is_set() ? kTaskHasExpiry : 0, out);
    AppendOrdered64(row.create_time.ns, out);
    if (row.expiry_time.is_set()) AppendOrdered64(row.expiry_time.ns, out);
    out.append(row.payload);
    return {};
  }

  Status DecodeTask(std::string_view data, std::string_view encoding, TaskRow& row) const override {
    std::uint8_t version = 0;
    std::uint8_t flags = 0;
    if (encoding != kEncoding) return Damaged("task row: unknown encoding");
    if (!TakeOrdered8(data, version)) return Damaged("task row");
    if (version != kTaskVersion) return Damaged("task row: unknown version");
    if (!TakeOrdered8(data, flags) || (flags & ~kTaskHasExpiry) != 0 ||
        !TakeOrdered64(data, row.create_time.ns)) {
      return Damaged("task row");
    }
    row.expiry_time = WallTime{};
    if ((flags & kTaskHasExpiry) != 0 && !TakeOrdered64(data, row.expiry_time.ns)) {
      return Damaged("task row");
    }
    row.payload.assign(data);
    return {};
  }

 private:
  static std::uint32_t Checksum(const Place& place, std::string_view data) {
    return Crc32c(data, Crc32c(place.task_queue_id));
  }
};

}  // namespace

const RowLayout& StandaloneLayout() {
  static const Standalone layout;
  return layout;
}

}  // namespace millrace::store
