#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "millrace/base/ids.h"

namespace millrace::core {

// Position of a task within a subqueue. Classic queues leave pass at 0; fair ones order by (pass,
// id).
struct TaskLevel {
  std::int64_t pass = 0;
  TaskId id;

  static constexpr TaskLevel Min() {
    return {std::numeric_limits<std::int64_t>::min(),
            TaskId{std::numeric_limits<std::int64_t>::min()}};
  }
  static constexpr TaskLevel Max() {
    return {std::numeric_limits<std::int64_t>::max(),
            TaskId{std::numeric_limits<std::int64_t>::max()}};
  }
  friend constexpr auto operator<=>(const TaskLevel&, const TaskLevel&) = default;
};

// What ack and read level are until the lease is held.
inline constexpr TaskLevel kUnknownLevel{0, TaskId{-1}};

}  // namespace millrace::core
