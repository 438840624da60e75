#pragma once

#include "millrace/base/time.h"

namespace millrace::core {

// A task is expired from its expiry time on; one without expiry time never is.
[[nodiscard]] constexpr bool IsExpired(WallTime expiry_time, WallTime now) {
  return expiry_time.is_set() && expiry_time <= now;
}

// Age of the task at the head; a clock that was set back makes no negative ages.
[[nodiscard]] constexpr Duration AgeOf(WallTime create_time, WallTime now) {
  if (!create_time.is_set() || create_time >= now) return Duration::zero();
  return now - create_time;
}

}  // namespace millrace::core
