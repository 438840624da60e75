#include "millrace/store/postgres/temporal_layout.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "millrace/store/validate.h"
#include "temporal/server/api/persistence/v1/task_queues.pb.h"

namespace millrace::store {
namespace {

namespace pb = temporal::server::api::persistence::v1;

constexpr std::string_view kEncoding = "Proto3";
constexpr std::size_t kUuidBytes = 16;
constexpr std::size_t kUuidChars = 36;
constexpr char kHasSubqueue = static_cast<char>(0x80);
constexpr std::int32_t kDefaultPriority = 3;
constexpr std::int64_t kSecond = 1'000'000'000;

Status Damaged(std::string_view what) {
  return {StatusCode::kCorruption, "damaged " + std::string(what)};
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool IsDash(std::size_t at) { return at == 8 || at == 13 || at == 18 || at == 23; }

std::optional<std::string> UuidBytes(std::string_view text) {
  if (text.size() != kUuidChars) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size();) {
    if (IsDash(i)) {
      if (text[i++] != '-') return std::nullopt;
      continue;
    }
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return bytes;
}

std::string UuidText(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    if (IsDash(text.size())) text.push_back('-');
    text.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return text;
}

// Nanoseconds and seconds so that the former are never negative, as Timestamp wants it.
void SetTime(WallTime time, google::protobuf::Timestamp& out) {
  std::int64_t seconds = time.ns / kSecond;
  std::int64_t nanos = time.ns % kSecond;
  if (nanos < 0) {
    nanos += kSecond;
    --seconds;
  }
  out.set_seconds(seconds);
  out.set_nanos(static_cast<std::int32_t>(nanos));
}

// Times that we cannot count with are as good as not set: in nanoseconds they are too many, or
// nothing could happen then (Go's zero time is the year 1).
WallTime GetTime(const google::protobuf::Timestamp& time) {
  constexpr std::int64_t kSecondsMax = 9'223'372'035;
  if (time.seconds() < 0 || time.seconds() > kSecondsMax) return {};
  if (time.nanos() < 0 || time.nanos() >= kSecond) return {};
  return {time.seconds() * kSecond + time.nanos()};
}

// How long after its last update a row expires; never when that is further off than anybody meant.
Duration TimeToLive(const pb::TaskQueueInfo& info) {
  constexpr Duration kMax = std::chrono::hours(24) * 365 * 100;
  const WallTime expires = GetTime(info.expiry_time());
  if (!expires.is_set()) return Duration::zero();
  const Duration time_to_live = expires - GetTime(info.last_update_time());
  return time_to_live > kMax ? Duration::zero() : time_to_live;
}

void SetLevel(TaskLevel level, temporal::server::api::taskqueue::v1::FairLevel& out) {
  out.set_task_pass(level.pass);
  out.set_task_id(level.id.value);
}

TaskLevel GetLevel(const temporal::server::api::taskqueue::v1::FairLevel& level) {
  return {level.task_pass(), TaskId{level.task_id()}};
}

class Temporal final : public RowLayout {
 public:
  Temporal(TemporalTables tables, TemporalFactsOf facts)
      : fair_(tables == TemporalTables::kFair), facts_(std::move(facts)) {}

  [[nodiscard]] std::string_view queues_table() const override {
    return fair_ ? "task_queues_v2" : "task_queues";
  }
  [[nodiscard]] std::string_view tasks_table() const override {
    return fair_ ? "tasks_v2" : "tasks";
  }
  [[nodiscard]] bool has_pass() const override { return fair_; }
  [[nodiscard]] std::int32_t number() const override { return fair_ ? 2 : 1; }
  [[nodiscard]] bool keeps_state() const override { return true; }
  [[nodiscard]] std::string_view encoding() const override { return kEncoding; }

  [[nodiscard]] Result<Place> PlaceOfQueue(const PhysicalQueueKey& queue) const override {
    std::optional<std::string> id = UuidBytes(queue.namespace_id);
    if (!id) return Status(StatusCode::kInvalidArgument, "namespace id is not a UUID");
    if (queue.task_type < 1 || queue.task_type > 3) {
      return Status(StatusCode::kInvalidArgument, "task type is not one of Temporal's");
    }
    Place place;
    place.task_queue_id = std::move(*id) + queue.persistence_name;
    place.task_queue_id.push_back(static_cast<char>(queue.task_type));
    place.range_hash = RangeHash(place.task_queue_id);
    return place;
  }

  [[nodiscard]] Place PlaceOfTasks(const Place& of, Subqueue subqueue) const override {
    if (subqueue == 0) return of;
    Place place = of;
    place.task_queue_id.back() = static_cast<char>(place.task_queue_id.back() | kHasSubqueue);
    auto rest = static_cast<std::uint32_t>(subqueue);
    for (; rest >= 0x80; rest >>= 7) place.task_queue_id.push_back(static_cast<char>(rest | 0x80));
    place.task_queue_id.push_back(static_cast<char>(rest));
    place.range_hash = RangeHash(place.task_queue_id);
    return place;
  }

  [[nodiscard]] std::optional<PhysicalQueueKey> QueueAt(std::string_view id) const override {
    if (id.size() < kUuidBytes + 2 || id.back() < 1 || id.back() > 3) return std::nullopt;
    PhysicalQueueKey queue;
    queue.namespace_id = UuidText(id.substr(0, kUuidBytes));
    queue.persistence_name = id.substr(kUuidBytes, id.size() - kUuidBytes - 1);
    queue.task_type = static_cast<std::uint8_t>(id.back());
    return queue;
  }

  [[nodiscard]] std::string first_id() const override { return {}; }
  [[nodiscard]] std::string end_id() const override { return std::string(2'000, '\xff'); }
  [[nodiscard]] std::int64_t first_hash() const override { return 0; }
  [[nodiscard]] std::int64_t last_hash() const override { return 0xffff'ffff; }
  [[nodiscard]] std::string EndOfAllTasks(const Place& /*of*/) const override { return {}; }

  void EncodeQueue(const PhysicalQueueKey& queue, const Place& /*place*/,
                   const QueueMetadata& metadata, std::string& data) const override {
    pb::TaskQueueInfo info;
    // It parsed when it was read. Were it damaged since, the row would be as of a new queue.
    if (!info.ParseFromString(metadata.carried)) info.Clear();
    const bool is_new = metadata.carried.empty();
    const TemporalQueueFacts facts = facts_ ? facts_(queue) : TemporalQueueFacts();
    info.set_namespace_id(queue.namespace_id);
    info.set_name(queue.persistence_name);
    info.set_task_type(queue.task_type);
    Duration time_to_live = facts.time_to_live;
    if (facts_ || is_new) {
      info.set_kind(facts.kind);
      info.set_other_has_tasks(facts.other_has_tasks);
    } else if (info.has_expiry_time()) {
      time_to_live = TimeToLive(info);
    }
    SetTime(metadata.update_time, *info.mutable_last_update_time());
    info.clear_expiry_time();
    if (time_to_live > Duration::zero()) {
      SetTime(metadata.update_time + time_to_live, *info.mutable_expiry_time());
    }
    for (std::size_t i = 0; i < metadata.subqueues.size(); ++i) {
      if (static_cast<int>(i) == info.subqueues_size()) {
        info.add_subqueues()->mutable_key()->set_priority(
            i < facts.priorities.size() ? facts.priorities[i] : kDefaultPriority);
      }
      EncodeSubqueue(metadata.subqueues[i], *info.mutable_subqueues(static_cast<int>(i)));
    }
    if (info.subqueues_size() > 0) {
      info.set_ack_level(info.subqueues(0).ack_level());
      info.set_approximate_backlog_count(info.subqueues(0).approximate_backlog_count());
    }
    info.SerializeToString(&data);
  }

  [[nodiscard]] std::string EncodeUpdateTime(WallTime /*time*/) const override { return {}; }

  Result<QueueMetadata> DecodeQueue(const Place& /*place*/, const QueueRow& row) const override {
    pb::TaskQueueInfo info;
    if (row.encoding != kEncoding) return Damaged("queue row: unknown encoding");
    if (!info.ParseFromArray(row.data.data(), static_cast<int>(row.data.size()))) {
      return Damaged("queue row");
    }
    if (row.range_id <= 0 || static_cast<std::size_t>(info.subqueues_size()) > kSubqueuesMax) {
      return Damaged("queue row");
    }
    QueueMetadata metadata;
    metadata.range_id = RangeId{row.range_id};
    metadata.carried.assign(row.data);
    metadata.update_time = GetTime(info.last_update_time());
    for (const pb::SubqueueInfo& from : info.subqueues()) {
      SubqueueMetadata to;
      to.ack_level =
          fair_ ? GetLevel(from.fair_ack_level()) : TaskLevel{0, TaskId{from.ack_level()}};
      to.approximate_count = from.approximate_backlog_count();
      metadata.subqueues.push_back(to);
    }
    // Rows from before there were subqueues.
    if (metadata.subqueues.empty()) {
      metadata.subqueues.push_back(
          {TaskLevel{0, TaskId{info.ack_level()}}, info.approximate_backlog_count()});
    }
    if (row.state && row.state_range_id == row.range_id) {
      metadata.owner_state.assign(*row.state);
      metadata.update_time = WallTime{row.state_update_time};
    }
    return metadata;
  }

  Status EncodeTask(const TaskRow& row, std::string& out) const override {
    if (!fair_ && row.key.level.pass != 0) {
      return {StatusCode::kInvalidArgument, "the table tasks has no pass"};
    }
    pb::TaskInfo task;
    if (!task.ParseFromString(row.payload)) {
      return {StatusCode::kInvalidArgument, "a task's payload is not a TaskInfo"};
    }
    pb::AllocatedTaskInfo allocated;
    allocated.set_task_pass(row.key.level.pass);
    allocated.set_task_id(row.key.level.id.value);
    const bool same = GetTime(task.create_time()) == row.create_time &&
                      GetTime(task.expiry_time()) == row.expiry_time;
    if (same) {
      allocated.set_data(row.payload);
    } else {
      task.clear_create_time();
      task.clear_expiry_time();
      if (row.create_time.is_set()) SetTime(row.create_time, *task.mutable_create_time());
      if (row.expiry_time.is_set()) SetTime(row.expiry_time, *task.mutable_expiry_time());
      task.SerializeToString(allocated.mutable_data());
    }
    allocated.AppendToString(&out);
    return {};
  }

  Status DecodeTask(std::string_view data, std::string_view encoding, TaskRow& row) const override {
    if (encoding != kEncoding) return Damaged("task row: unknown encoding");
    pb::AllocatedTaskInfo allocated;
    pb::TaskInfo task;
    if (!allocated.ParseFromArray(data.data(), static_cast<int>(data.size())) ||
        !task.ParseFromString(allocated.data())) {
      return Damaged("task row");
    }
    row.create_time = GetTime(task.create_time());
    row.expiry_time = GetTime(task.expiry_time());
    row.payload = std::move(*allocated.mutable_data());
    return {};
  }

 private:
  void EncodeSubqueue(const SubqueueMetadata& from, pb::SubqueueInfo& to) const {
    to.set_approximate_backlog_count(from.approximate_count);
    if (!fair_) return to.set_ack_level(from.ack_level.id.value);
    // Temporal leaves out what is zero.
    to.clear_fair_ack_level();
    if (from.ack_level == TaskLevel()) return;
    SetLevel(from.ack_level, *to.mutable_fair_ack_level());
    if (GetLevel(to.fair_max_read_level()) < from.ack_level) {
      SetLevel(from.ack_level, *to.mutable_fair_max_read_level());
    }
  }

  const bool fair_;
  const TemporalFactsOf facts_;
};

}  // namespace

std::unique_ptr<RowLayout> MakeTemporalLayout(TemporalTables tables, TemporalFactsOf facts) {
  return std::make_unique<Temporal>(tables, std::move(facts));
}

}  // namespace millrace::store
