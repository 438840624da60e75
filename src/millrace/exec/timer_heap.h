#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/time.h"
#include "millrace/exec/executor.h"

namespace millrace::exec {

// Pending timers in the order they come due: a 4-ary heap whose entries know their places, so that
// arming and cancelling cost O(log n) and no allocation once the heap has grown.
//
// Thread: one at a time.
// Bounds: 2^28 pending timers; one more stops the process.
// Invariants: an id is never given out twice. Timers of the same instant come due in the order they
// were armed.
class TimerHeap {
 public:
  TimerId Arm(Instant when, Closure closure);
  // Moves the closure out, so that the caller destroys it where it holds no lock. Empty when not
  // pending.
  Closure Cancel(TimerId id);
  // The next timer's closure when it is due at `now`, else empty.
  Closure PopDue(Instant now);
  // Any pending timer's closure, empty when none is left.
  Closure PopAny();

  // Instant::Max() when none is pending.
  [[nodiscard]] Instant NextDue() const {
    return heap_.empty() ? Instant::Max() : heap_.front().when;
  }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  static constexpr std::uint32_t kSlotBits = 28;
  static constexpr std::uint32_t kSlotMask = (1u << kSlotBits) - 1;
  static constexpr std::uint64_t kGenerationMax = (std::uint64_t{1} << (64 - kSlotBits)) - 1;

  struct Entry {
    Instant when;
    std::uint64_t order;
    std::uint32_t slot;
  };
  struct Slot {
    Closure closure;
    std::uint64_t generation = 1;
    std::uint32_t place = 0;  // Index in heap_ while pending.
    bool pending = false;
  };

  static bool Before(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when < b.when : a.order < b.order;
  }
  void Place(std::size_t at, const Entry& entry);
  void SiftUp(std::size_t at, Entry entry);
  void SiftDown(std::size_t at, Entry entry);
  Closure Remove(std::size_t at);

  std::vector<Entry> heap_;
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t last_order_ = 0;
};

}  // namespace millrace::exec
