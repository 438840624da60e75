#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace millrace {

// A 64-bit integer that cannot be mixed up with another kind of number. Tag is any type, used for
// its name only.
template <typename Tag>
struct StrongId {
  std::int64_t value = 0;

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

// The lease of a physical task queue: owning the queue = having written it last. 0 = no such row
// yet.
using RangeId = StrongId<struct RangeIdTag>;

// Number of one task row within a physical task queue and subqueue. First valid id is 1; -1 = level
// not known yet.
using TaskId = StrongId<struct TaskIdTag>;

}  // namespace millrace

template <typename Tag>
struct std::hash<millrace::StrongId<Tag>> {
  std::size_t operator()(millrace::StrongId<Tag> id) const noexcept {
    return std::hash<std::int64_t>()(id.value);
  }
};
