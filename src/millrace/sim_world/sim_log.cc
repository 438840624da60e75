#include "millrace/sim_world/sim_log.h"

#include <cstdio>
#include <sstream>
#include <utility>
#include <variant>

namespace millrace::sim {

std::string FormatSimTime(Instant at) {
  char text[40];
  const std::int64_t ns = at.ns - 1'000'000'000;
  std::snprintf(text, sizeof(text), "%6lld.%09lld", static_cast<long long>(ns / 1'000'000'000),
                static_cast<long long>(ns % 1'000'000'000));
  return text;
}

SimLog::SimLog(const SimScheduler& scheduler, std::function<void(const std::string&)> sink)
    : scheduler_(scheduler), sink_(std::move(sink)) {}

void SimLog::Write(LogLevel, std::string_view component, std::string_view message,
                   std::initializer_list<LogField> fields) {
  if (!sink_) return;
  std::ostringstream line;
  line << FormatSimTime(scheduler_.now()) << " log " << component << ": " << message;
  for (const LogField& field : fields) {
    line << ' ' << field.name << '=';
    std::visit([&line](const auto& value) { line << value; }, field.value);
  }
  sink_(line.str());
}

}  // namespace millrace::sim
