#pragma once

#include "millrace/base/mutation.h"
#include "millrace/base/time.h"

namespace millrace::core {

// A task is expired from its expiry time on; one without expiry time never is.
[[nodiscard]] inline bool IsExpired(WallTime expiry_time, WallTime now) {
  if (MR_MUTANT(expiry_one_tick_late) && expiry_time == now) return false;
  return expiry_time.is_set() && expiry_time <= now && !MR_MUTANT(expiry_ignored);
}

// Age of the task at the head; a clock that was set back makes no negative ages, and a time before
// 1970 is none that a task was made at.
[[nodiscard]] constexpr Duration AgeOf(WallTime create_time, WallTime now) {
  if (create_time.ns <= 0 || create_time >= now) return Duration::zero();
  return now - create_time;
}

}  // namespace millrace::core
