#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "millrace/core/task_level.h"

namespace millrace::core {

// Inclusive at both ends.
struct ReadRange {
  TaskLevel from;
  TaskLevel through;

  friend bool operator==(const ReadRange&, const ReadRange&) = default;
};

// Cuts what is to be read into ranges, and says when a reader that only meets gaps should let
// others run.
class ReadPlanner {
 public:
  ReadPlanner(std::int64_t range_ids_max, int empty_per_turn_max)
      : range_ids_max_(range_ids_max), empty_per_turn_max_(empty_per_turn_max) {}

  // What follows `read_level`, up to `through` and at most range_ids_max ids long. Empty when there
  // is nothing.
  [[nodiscard]] std::optional<ReadRange> Next(TaskLevel read_level, TaskId through) const {
    if (read_level.id >= through) return std::nullopt;
    const std::int64_t last = through.value - read_level.id.value > range_ids_max_
                                  ? read_level.id.value + range_ids_max_
                                  : through.value;
    return ReadRange{{read_level.pass, TaskId{read_level.id.value + 1}},
                     {read_level.pass, TaskId{last}}};
  }

  // A range had no rows; true when the turn is over. A range with rows ends a row of empty ones.
  bool OnEmptyRange() {
    if (++empty_ < empty_per_turn_max_) return false;
    empty_ = 0;
    return true;
  }
  void OnRows() { empty_ = 0; }

 private:
  const std::int64_t range_ids_max_;
  const int empty_per_turn_max_;
  int empty_ = 0;
};

}  // namespace millrace::core
