#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/base/ids.h"
#include "millrace/base/time.h"
#include "millrace/core/task_level.h"

namespace millrace::store {

// Names one physical task queue: one stream of tasks with one owner at a time.
struct PhysicalQueueKey {
  std::string namespace_id;      // At most 255 bytes.
  std::string persistence_name;  // 1 to 1,000 bytes; any bytes. Base name, partition and version,
                                 // already joined.
  std::uint8_t task_type =
      0;  // 0 = standalone queue; 1 workflow, 2 activity, 3 nexus as Temporal numbers them.

  friend auto operator<=>(const PhysicalQueueKey&, const PhysicalQueueKey&) = default;
};

using TaskLevel = core::TaskLevel;

// Subqueues are numbered from 0; a priority level is a subqueue.
using Subqueue = std::int32_t;

struct TaskKey {
  Subqueue subqueue = 0;
  TaskLevel level;

  friend constexpr auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

// One stored task. Times are calendar time since they outlive processes.
struct TaskRow {
  TaskKey key;
  WallTime create_time;
  WallTime expiry_time;  // Not set = never expires.
  std::string payload;   // Opaque to the store and the engine.

  friend bool operator==(const TaskRow&, const TaskRow&) = default;
};

// A small row of the queue's owner that lives and dies with the queue: leases remembered, dead
// tasks, counters. Keys order by bytes; the first byte says the kind and belongs to the module that
// writes it.
struct SideRow {
  std::string key;  // 1 to 255 bytes.
  std::string value;

  friend bool operator==(const SideRow&, const SideRow&) = default;
};

struct SubqueueMetadata {
  TaskLevel ack_level;
  std::int64_t approximate_count = 0;

  friend bool operator==(const SubqueueMetadata&, const SubqueueMetadata&) = default;
};

// The metadata row. Whoever wrote it last owns the queue.
struct QueueMetadata {
  RangeId range_id;                         // > 0 in a stored row.
  std::vector<SubqueueMetadata> subqueues;  // Indexed by subqueue number.
  WallTime update_time;                     // When the writer wrote it.
  std::string owner_state;                  // Opaque: totals of the module above. At most 4 KiB.
  // Opaque: what else the stored row says, to whom the store shares its rows with. As it was read,
  // to be given back with every write of the row; empty for a new one.
  std::string carried;

  friend bool operator==(const QueueMetadata&, const QueueMetadata&) = default;
};

}  // namespace millrace::store
