#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/base/time.h"
#include "millrace/core/task_level.h"

namespace millrace::core {

// What moving the ack level settled.
struct Acked {
  std::int64_t count = 0;    // Counted ids the ack level passed.
  std::int64_t dropped = 0;  // Those of them that were dropped, not finished.
};

// Tracks which tasks of a subqueue are read and not finished. The ack level is the highest finished
// id at or below which everything is finished; when nothing is outstanding it is the read level.
//
// Bounds: one entry per outstanding task, and one per run of finished ones between two of those:
// millions may finish behind an old one at no cost. Adding and finishing take logarithmic time.
// Invariants: ack level <= read level; neither goes back. Finishing twice, or what was never read,
// changes nothing.
class AckManager {
 public:
  // A finished id's part in the counts of Acked.
  enum class Counting : std::uint8_t {
    kNone,  // Counted elsewhere: by the write that deleted its row.
    kDone,
    kDropped,
  };

  // Both levels become `level`; nothing is outstanding. Once: levels are kUnknownLevel before.
  void Begin(TaskLevel level);

  // A task came in. `level` > read level, which moves there.
  void Add(TaskLevel level, WallTime create_time);
  // A task came in that is finished at once.
  Acked AddFinished(TaskLevel level, Counting counting);
  // There is nothing more up to `level` (>= read level).
  Acked AdvanceRead(TaskLevel level);

  // Something is on its way that will finish the task. False when the task is not outstanding, or
  // is so marked already.
  bool BeginEnd(TaskLevel level);
  // It did not come to that.
  void CancelEnd(TaskLevel level);

  // False when the task was not outstanding. Marked ones finish like others.
  bool Finish(TaskLevel level, Counting counting, Acked* acked);

  [[nodiscard]] bool IsOutstanding(TaskLevel level) const;
  [[nodiscard]] TaskLevel ack_level() const { return ack_level_; }
  [[nodiscard]] TaskLevel read_level() const { return read_level_; }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }
  // Create time of the lowest outstanding task; not set when there is none.
  [[nodiscard]] WallTime head_create_time() const;
  // Entries held, for tests of the bound.
  [[nodiscard]] std::size_t entries() const { return entries_.size() - head_; }

 private:
  enum class State : std::uint8_t { kOutstanding, kEnding, kFinished };
  // A task, or a run of finished ones of which `level` is the highest.
  struct Entry {
    TaskLevel level;
    std::int64_t
        aux;  // Not finished: its create time. Finished: how many of the counted ones were dropped.
    std::int64_t counted : 62;
    std::uint64_t state : 2;

    [[nodiscard]] bool finished() const { return static_cast<State>(state) == State::kFinished; }
  };

  [[nodiscard]] std::size_t FindUnfinished(TaskLevel level) const;
  static Entry FinishedEntry(TaskLevel level, Counting counting);
  void Push(Entry entry);
  // Moves the ack level over the finished entries at the head.
  Acked PopFinished();
  void Compact();
  void MoveAck(TaskLevel level);

  // Ascending by level; the first `head_` are spent.
  std::vector<Entry> entries_;
  std::size_t head_ = 0;
  std::size_t outstanding_ = 0;
  TaskLevel ack_level_ = kUnknownLevel;
  TaskLevel read_level_ = kUnknownLevel;
};

}  // namespace millrace::core
