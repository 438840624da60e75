#include "millrace/exec/timer_heap.h"

#include <algorithm>
#include <utility>

#include "millrace/base/check.h"

namespace millrace::exec {

TimerId TimerHeap::Arm(Instant when, Closure closure) {
  std::uint32_t slot;
  if (free_.empty()) {
    MR_CHECK(slots_.size() < kSlotMask);
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Slot& s = slots_[slot];
  s.closure = std::move(closure);
  s.pending = true;
  heap_.emplace_back();
  SiftUp(heap_.size() - 1, Entry{when, ++last_order_, slot});
  return (s.generation << kSlotBits) | slot;
}

Closure TimerHeap::Cancel(TimerId id) {
  const auto slot = static_cast<std::uint32_t>(id & kSlotMask);
  if (slot >= slots_.size()) return {};
  const Slot& s = slots_[slot];
  if (!s.pending || s.generation != id >> kSlotBits) return {};
  return Remove(s.place);
}

Closure TimerHeap::PopDue(Instant now) {
  if (heap_.empty() || heap_.front().when > now) return {};
  return Remove(0);
}

Closure TimerHeap::PopAny() {
  if (heap_.empty()) return {};
  return Remove(heap_.size() - 1);
}

Closure TimerHeap::Remove(std::size_t at) {
  const std::uint32_t slot = heap_[at].slot;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (at < heap_.size()) {
    if (at > 0 && Before(last, heap_[(at - 1) / 4])) {
      SiftUp(at, last);
    } else {
      SiftDown(at, last);
    }
  }
  Slot& s = slots_[slot];
  s.pending = false;
  // A slot whose generations are used up is given up for good rather than naming two timers alike.
  if (s.generation < kGenerationMax) {
    ++s.generation;
    free_.push_back(slot);
  }
  return std::move(s.closure);
}

void TimerHeap::Place(std::size_t at, const Entry& entry) {
  heap_[at] = entry;
  slots_[entry.slot].place = static_cast<std::uint32_t>(at);
}

void TimerHeap::SiftUp(std::size_t at, Entry entry) {
  while (at > 0) {
    const std::size_t parent = (at - 1) / 4;
    if (!Before(entry, heap_[parent])) break;
    Place(at, heap_[parent]);
    at = parent;
  }
  Place(at, entry);
}

void TimerHeap::SiftDown(std::size_t at, Entry entry) {
  for (;;) {
    const std::size_t first = at * 4 + 1;
    if (first >= heap_.size()) break;
    const std::size_t end = std::min(first + 4, heap_.size());
    std::size_t least = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (Before(heap_[child], heap_[least])) least = child;
    }
    if (!Before(heap_[least], entry)) break;
    Place(at, heap_[least]);
    at = least;
  }
  Place(at, entry);
}

}  // namespace millrace::exec
