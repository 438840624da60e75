#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace millrace {

// Whole nanoseconds. All arithmetic on instants and wall times saturates nothing: callers keep
// within +-100 years.
using Duration = std::chrono::nanoseconds;

// A point on the monotonic clock: leases, waits and timers. Meaningless across processes; never
// stored.
struct Instant {
  std::int64_t ns = 0;

  static constexpr Instant Max() { return {std::numeric_limits<std::int64_t>::max()}; }
  friend constexpr auto operator<=>(Instant, Instant) = default;
};

constexpr Instant operator+(Instant t, Duration d) {
  return t == Instant::Max() ? t : Instant{t.ns + d.count()};
}
constexpr Instant operator-(Instant t, Duration d) {
  return t == Instant::Max() ? t : Instant{t.ns - d.count()};
}
constexpr Duration operator-(Instant a, Instant b) { return Duration(a.ns - b.ns); }

// A point in calendar time, nanoseconds since the Unix epoch: stored stamps and expiry. It may
// jump. 0 = not set.
struct WallTime {
  std::int64_t ns = 0;

  [[nodiscard]] constexpr bool is_set() const { return ns != 0; }
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
};

constexpr WallTime operator+(WallTime t, Duration d) { return {t.ns + d.count()}; }
constexpr WallTime operator-(WallTime t, Duration d) { return {t.ns - d.count()}; }
constexpr Duration operator-(WallTime a, WallTime b) { return Duration(a.ns - b.ns); }

// Source of both kinds of time. Thread: any.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant Now() const = 0;
  [[nodiscard]] virtual WallTime WallNow() const = 0;
};

// The machine's clocks: CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override;
  [[nodiscard]] WallTime WallNow() const override;
};

}  // namespace millrace
