#include "millrace/base/time.h"

#include <ctime>

namespace millrace {
namespace {

std::int64_t Read(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

Instant SystemClock::Now() const { return {Read(CLOCK_MONOTONIC)}; }
WallTime SystemClock::WallNow() const { return {Read(CLOCK_REALTIME)}; }

}  // namespace millrace
