#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace millrace {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };

// One named value of a log line. Views must live until the call returns.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double, bool> value;
};

// Where log lines go. Never a payload in a field. Thread: any. Fails: never; a line that cannot be
// written is lost.
class Log {
 public:
  virtual ~Log() = default;
  [[nodiscard]] virtual bool Enabled(LogLevel level) const = 0;
  // component: short stable name of the speaking part ("backlog", "store"). Implementations may
  // rate-limit repeats.
  virtual void Write(LogLevel level, std::string_view component, std::string_view message,
                     std::initializer_list<LogField> fields) = 0;
};

// Drops everything.
class NullLog final : public Log {
 public:
  [[nodiscard]] bool Enabled(LogLevel) const override { return false; }
  void Write(LogLevel, std::string_view, std::string_view,
             std::initializer_list<LogField>) override {}
};

}  // namespace millrace
