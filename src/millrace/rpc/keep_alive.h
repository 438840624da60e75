#pragma once

#include <cstdint>

#include "millrace/base/time.h"

namespace millrace::rpc {

// Decides when a silent peer is asked for a sign of life, and when it is given up. Pure: no clock,
// no timer.
//
// Any byte is a sign of life. The peer is asked after one to two times `time` of silence, and given
// up when `timeout` more has passed; activity costs one store, no look at a clock.
class KeepAlive {
 public:
  enum class Step : std::uint8_t { kWait, kPing, kGiveUp };

  KeepAlive(Duration time, Duration timeout) : time_(time), timeout_(timeout) {}

  [[nodiscard]] bool enabled() const { return time_ > Duration::zero(); }
  void OnBytes() { heard_ = true; }
  // What to do now that wait() has passed since the last call, or since the start.
  Step OnTimer();
  [[nodiscard]] Duration wait() const { return asked_ ? timeout_ : time_; }

 private:
  const Duration time_;
  const Duration timeout_;
  bool heard_ = false;
  bool asked_ = false;
};

}  // namespace millrace::rpc
