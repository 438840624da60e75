#include "millrace/temporal/task_queue_name.h"

#include <charconv>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::temporal {
namespace {

namespace enums = ::temporal::api::enums::v1;

constexpr std::string_view kPrefix = "/_sys/";

Status Invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

Status CheckName(std::string_view name) {
  if (name.empty()) return Invalid("task queue name is not set");
  if (name.size() > kTaskQueueNameBytesMax) return Invalid("task queue name is too long");
  return {};
}

struct RpcNameParts {
  std::string_view base_name;
  int number = 0;
};

Result<RpcNameParts> ParseRpcName(std::string_view name) {
  MR_RETURN_IF_ERROR(CheckName(name));
  RpcNameParts parts{name, 0};
  if (name.starts_with(kPrefix)) {
    const std::size_t slash = name.rfind('/');
    if (slash <= kPrefix.size()) return Invalid("malformed task queue partition name");
    parts.base_name = name.substr(kPrefix.size(), slash - kPrefix.size());
    const std::string_view digits = name.substr(slash + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), parts.number);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (!whole || digits.front() == '0' || parts.number <= 0 || parts.number > kPartitionMax) {
      return Invalid("malformed task queue partition name");
    }
  }
  if (parts.base_name.starts_with(kPrefix)) {
    return Invalid("task queue name begins with the reserved /_sys/");
  }
  return parts;
}

std::string Base64Url(std::string_view bytes, bool padded) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  std::uint32_t bits = 0;
  int waiting = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (waiting += 8; waiting >= 6; waiting -= 6) text += kDigits[bits >> (waiting - 6) & 63];
  }
  if (waiting > 0) text += kDigits[bits << (6 - waiting) & 63];
  while (padded && text.size() % 4 != 0) text += '=';
  return text;
}

std::string VersionedName(const Partition& partition, const std::string& version, char delimiter) {
  std::string name(kPrefix);
  name += partition.base_name + '/' + version + delimiter + std::to_string(partition.number);
  return name;
}

Status CheckKind(const Partition& partition) {
  if (partition.kind == QueueKind::kNormal) return {};
  if (partition.number != 0) return Invalid("only a normal task queue has partitions");
  if (partition.kind == QueueKind::kSticky && partition.type != TaskType::kWorkflow) {
    return Invalid("a sticky task queue has workflow tasks only");
  }
  if (partition.kind == QueueKind::kWorkerCommands && partition.type != TaskType::kNexus) {
    return Invalid("a worker commands task queue has nexus tasks only");
  }
  return {};
}

}  // namespace

std::string Partition::RpcName() const {
  if (kind == QueueKind::kSticky) return sticky_name;
  if (number == 0) return base_name;
  return std::string(kPrefix) + base_name + '/' + std::to_string(number);
}

store::PhysicalQueueKey Partition::UnversionedQueue() const {
  return {namespace_id, PersistenceName(), static_cast<std::uint8_t>(type)};
}

Partition Partition::Sibling(int other) const {
  MR_CHECK(kind == QueueKind::kNormal);
  Partition sibling = *this;
  sibling.number = other;
  return sibling;
}

Partition Partition::Parent(int degree) const { return Sibling(ParentPartition(number, degree)); }

std::string Partition::RoutingKey() const {
  return namespace_id + ':' + RpcName() + ':' + std::to_string(static_cast<int>(type));
}

std::string_view Partition::KindName() const {
  switch (kind) {
    case QueueKind::kNormal:
      return "normal";
    case QueueKind::kSticky:
      return "sticky";
    case QueueKind::kWorkerCommands:
      return "worker_commands";
  }
  return "";
}

Result<TaskType> TaskTypeOf(int number) {
  if (number < 1 || number > 3) return Invalid("unknown task queue type " + std::to_string(number));
  return static_cast<TaskType>(number);
}

std::string_view TaskTypeName(TaskType type) {
  switch (type) {
    case TaskType::kWorkflow:
      return "workflow";
    case TaskType::kActivity:
      return "activity";
    case TaskType::kNexus:
      return "nexus";
  }
  return "";
}

Result<Partition> PartitionOf(const ::temporal::api::taskqueue::v1::TaskQueue& queue,
                              std::string_view namespace_id, TaskType type) {
  if (namespace_id.empty()) return Invalid("namespace id is not set");
  Result<RpcNameParts> parts = ParseRpcName(queue.name());
  if (!parts.ok()) return parts.status();
  Partition partition;
  partition.namespace_id = namespace_id;
  partition.type = type;
  partition.number = parts->number;
  partition.base_name = parts->base_name;
  switch (queue.kind()) {
    case enums::TASK_QUEUE_KIND_UNSPECIFIED:
    case enums::TASK_QUEUE_KIND_NORMAL:
      break;
    case enums::TASK_QUEUE_KIND_STICKY:
      partition.kind = QueueKind::kSticky;
      partition.sticky_name = std::exchange(partition.base_name, queue.normal_name());
      break;
    case enums::TASK_QUEUE_KIND_WORKER_COMMANDS:
      partition.kind = QueueKind::kWorkerCommands;
      break;
    default:
      return Invalid("unknown task queue kind " + std::to_string(queue.kind()));
  }
  if (partition.kind != QueueKind::kSticky && !queue.normal_name().empty()) {
    return Invalid("only a sticky task queue has a normal name");
  }
  if (partition.base_name.size() > kTaskQueueNameBytesMax) {
    return Invalid("task queue name is too long");
  }
  MR_RETURN_IF_ERROR(CheckKind(partition));
  return partition;
}

Result<Partition> PartitionOf(
    const ::temporal::server::api::taskqueue::v1::TaskQueuePartition& from,
    std::string_view namespace_id) {
  if (namespace_id.empty()) return Invalid("namespace id is not set");
  Result<TaskType> type = TaskTypeOf(from.task_queue_type());
  if (!type.ok()) return type.status();
  Partition partition;
  partition.namespace_id = namespace_id;
  partition.type = *type;
  partition.base_name = from.task_queue();
  if (from.has_sticky_name()) {
    partition.kind = QueueKind::kSticky;
    partition.sticky_name = from.sticky_name();
    MR_RETURN_IF_ERROR(CheckName(partition.sticky_name));
  } else {
    if (from.has_worker_commands()) partition.kind = QueueKind::kWorkerCommands;
    partition.number = from.normal_partition_id();
    MR_RETURN_IF_ERROR(CheckName(partition.base_name));
  }
  if (partition.base_name.starts_with(kPrefix) || partition.sticky_name.starts_with(kPrefix)) {
    return Invalid("task queue name begins with the reserved /_sys/");
  }
  if (partition.base_name.size() > kTaskQueueNameBytesMax) {
    return Invalid("task queue name is too long");
  }
  if (partition.number < 0 || partition.number > kPartitionMax) {
    return Invalid("no such partition");
  }
  MR_RETURN_IF_ERROR(CheckKind(partition));
  return partition;
}

::temporal::api::taskqueue::v1::TaskQueue ToTaskQueue(const Partition& partition) {
  ::temporal::api::taskqueue::v1::TaskQueue queue;
  queue.set_name(partition.RpcName());
  queue.set_kind(static_cast<enums::TaskQueueKind>(partition.kind));
  if (partition.kind == QueueKind::kSticky) queue.set_normal_name(partition.base_name);
  return queue;
}

int ParentPartition(int child, int degree) {
  MR_CHECK(child > 0 && degree > 0);
  return (child - 1) / degree;
}

std::string PersistenceNameOfBuildId(const Partition& partition, std::string_view build_id) {
  return VersionedName(partition, Base64Url(build_id, true), '#');
}

std::string PersistenceNameOfDeployment(const Partition& partition,
                                        std::string_view deployment_name,
                                        std::string_view build_id) {
  return VersionedName(partition,
                       Base64Url(deployment_name, false) + '|' + Base64Url(build_id, false), '#');
}

std::string PersistenceNameOfVersionSet(const Partition& partition, std::string_view version_set) {
  return VersionedName(partition, std::string(version_set), ':');
}

}  // namespace millrace::temporal
