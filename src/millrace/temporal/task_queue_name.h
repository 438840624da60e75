#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/base/status.h"
#include "millrace/store/types.h"
#include "temporal/api/taskqueue/v1/message.pb.h"
#include "temporal/server/api/taskqueue/v1/message.pb.h"

namespace millrace::temporal {

// Numbers as on the wire and in stored rows.
enum class TaskType : std::uint8_t { kWorkflow = 1, kActivity = 2, kNexus = 3 };
enum class QueueKind : std::uint8_t { kNormal = 1, kSticky = 2, kWorkerCommands = 3 };

inline constexpr std::size_t kTaskQueueNameBytesMax = 1'000;
inline constexpr int kPartitionMax = 1'000'000;

// One partition of a task queue: what a call between services is about. The queue's user knows only
// its base name; partition 0 is the root.
//
//   normal:           base name, or /_sys/<base name>/<n> for n > 0
//   sticky:           a name of its own; its base name is that of the normal queue beside it
//   worker commands:  base name; nexus tasks only
//
// Thread: any; plain values. Invariants of one that a function here gave: the type is one of the
// three; only a normal queue has partition > 0; a base name does not begin with /_sys/.
struct Partition {
  std::string namespace_id;
  std::string base_name;  // Sticky: may be empty.
  std::string sticky_name;
  TaskType type = TaskType::kWorkflow;
  QueueKind kind = QueueKind::kNormal;
  int number = 0;

  [[nodiscard]] bool is_root() const { return kind == QueueKind::kNormal && number == 0; }
  [[nodiscard]] bool is_child() const { return number > 0; }
  // What calls between services name it.
  [[nodiscard]] std::string RpcName() const;
  // What stored rows name its unversioned queue.
  [[nodiscard]] std::string PersistenceName() const { return RpcName(); }
  [[nodiscard]] store::PhysicalQueueKey UnversionedQueue() const;
  // Another partition of the same normal queue.
  [[nodiscard]] Partition Sibling(int other) const;
  // Of a child. `degree` > 0.
  [[nodiscard]] Partition Parent(int degree) const;
  // Spreads partitions over matching hosts.
  [[nodiscard]] std::string RoutingKey() const;
  // "workflow", "sticky" and so on, for logs and metrics.
  [[nodiscard]] std::string_view KindName() const;

  friend auto operator<=>(const Partition&, const Partition&) = default;
};

// kInvalidArgument: no namespace, no name, one too long or malformed, or a kind, type or partition
// that do not go together.
Result<Partition> PartitionOf(const ::temporal::api::taskqueue::v1::TaskQueue& queue,
                              std::string_view namespace_id, TaskType type);
Result<Partition> PartitionOf(
    const ::temporal::server::api::taskqueue::v1::TaskQueuePartition& partition,
    std::string_view namespace_id);
// kInvalidArgument: not one of the three numbers.
Result<TaskType> TaskTypeOf(int number);
std::string_view TaskTypeName(TaskType type);

// How a call names the partition.
::temporal::api::taskqueue::v1::TaskQueue ToTaskQueue(const Partition& partition);

// Number of the parent of partition `child` > 0 in a tree where each has up to `degree` > 0.
int ParentPartition(int child, int degree);

// Persistence names of the queues of one normal partition that a version of a worker has to itself.
std::string PersistenceNameOfBuildId(const Partition& partition, std::string_view build_id);
std::string PersistenceNameOfDeployment(const Partition& partition,
                                        std::string_view deployment_name,
                                        std::string_view build_id);
std::string PersistenceNameOfVersionSet(const Partition& partition, std::string_view version_set);

}  // namespace millrace::temporal
