#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/base/status.h"
#include "millrace/base/time.h"
#include "millrace/server/config.h"

namespace millrace::server {

enum class SettingType : std::uint8_t { kString, kBool, kInt, kSize, kDuration, kEnum };

// Integers and sizes as they are, durations in nanoseconds, enums as the index into
// Setting::choices.
using SettingValue = std::variant<std::string, bool, std::int64_t>;

// One setting: all that flags, environment, file, help and printing need to know about it.
struct Setting {
  std::string_view name;  // "section.key", or "key" for the few that stand alone.
  SettingType type;
  std::string_view help;  // One line.
  SettingValue (*read)(const ServerConfig&);
  void (*write)(ServerConfig&, const SettingValue&);
  std::vector<std::string_view> choices = {};  // kEnum only, in the order of the enum.
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();

  // "data-dir", "log-level".
  [[nodiscard]] std::string FlagName() const;
  // "MILLRACE_LOG_LEVEL".
  [[nodiscard]] std::string EnvName() const;
  // "duration", "size", "text|json" and so on, for help texts.
  [[nodiscard]] std::string TypeName() const;
  // The default as a person would write it.
  [[nodiscard]] std::string DefaultText() const;
};

// The one table, in the order in which it is printed.
std::span<const Setting> ServerSettings();

// Null when there is none.
const Setting* FindSetting(std::string_view name);
const Setting* FindSettingByEnv(std::string_view env_name);

// Reads `text` as this setting's value and checks its bounds. kInvalidArgument: the message says
// what is expected, not where the text came from.
Result<SettingValue> ParseSetting(const Setting& setting, std::string_view text);

// The text that ParseSetting would read back as this value.
std::string FormatSetting(const Setting& setting, const SettingValue& value);

// The config's present value of the setting, as text.
std::string SettingText(const Setting& setting, const ServerConfig& config);

}  // namespace millrace::server
