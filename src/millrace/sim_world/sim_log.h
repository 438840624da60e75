#pragma once

#include <functional>
#include <string>

#include "millrace/base/log.h"
#include "millrace/sim/sim_scheduler.h"

namespace millrace::sim {

// Shows the engine's log lines among the trace of a simulation. Thread: one at a time.
class SimLog final : public Log {
 public:
  // An empty `sink` drops everything.
  SimLog(const SimScheduler& scheduler, std::function<void(const std::string&)> sink);

  [[nodiscard]] bool Enabled(LogLevel) const override { return static_cast<bool>(sink_); }
  void Write(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields) override;

 private:
  const SimScheduler& scheduler_;
  const std::function<void(const std::string&)> sink_;
};

// "12.345678901" seconds since the start of the simulation.
std::string FormatSimTime(Instant at);

}  // namespace millrace::sim
