#include "millrace/server/setting.h"

#include <algorithm>
#include <cctype>

#include "millrace/server/suggest.h"
#include "millrace/server/value_text.h"

namespace millrace::server {
namespace {

std::string FormatNumber(SettingType type, std::int64_t value) {
  if (type == SettingType::kDuration) return FormatDuration(Duration(value));
  if (type == SettingType::kSize) return FormatSize(value);
  return std::to_string(value);
}

Result<SettingValue> InBounds(const Setting& setting, std::int64_t value) {
  if (value >= setting.min && value <= setting.max) return SettingValue(value);
  std::string message = FormatNumber(setting.type, value) + " is out of range: ";
  if (value < setting.min) {
    message += "at least " + FormatNumber(setting.type, setting.min);
  } else {
    message += "at most " + FormatNumber(setting.type, setting.max);
  }
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

Result<SettingValue> ParseChoice(const Setting& setting, std::string_view text) {
  const auto it = std::find(setting.choices.begin(), setting.choices.end(), text);
  if (it != setting.choices.end()) return SettingValue(std::int64_t{it - setting.choices.begin()});
  std::string message = "expected " + setting.TypeName() + ", got \"" + std::string(text) + "\"";
  const std::string nearest = NearestName(text, setting.choices);
  if (!nearest.empty()) message += " (did you mean " + nearest + "?)";
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

}  // namespace

std::string Setting::FlagName() const {
  std::string out(name);
  std::replace_if(out.begin(), out.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return out;
}

std::string Setting::EnvName() const {
  std::string out = "MILLRACE_";
  for (const char c : name)
    out.push_back(c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return out;
}

std::string Setting::TypeName() const {
  switch (type) {
    case SettingType::kString:
      return "text";
    case SettingType::kBool:
      return "true|false";
    case SettingType::kInt:
      return "number";
    case SettingType::kSize:
      return "size";
    case SettingType::kDuration:
      return "duration";
    case SettingType::kEnum:
      break;
  }
  std::string out;
  for (const std::string_view choice : choices)
    out += (out.empty() ? "" : "|") + std::string(choice);
  return out;
}

std::string Setting::DefaultText() const { return SettingText(*this, ServerConfig()); }

const Setting* FindSetting(std::string_view name) {
  for (const Setting& setting : ServerSettings()) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

const Setting* FindSettingByEnv(std::string_view env_name) {
  for (const Setting& setting : ServerSettings()) {
    if (setting.EnvName() == env_name) return &setting;
  }
  return nullptr;
}

Result<SettingValue> ParseSetting(const Setting& setting, std::string_view text) {
  switch (setting.type) {
    case SettingType::kString:
      return SettingValue(std::string(text));
    case SettingType::kBool: {
      const Result<bool> value = ParseBool(text);
      if (!value.ok()) return value.status();
      return SettingValue(*value);
    }
    case SettingType::kInt: {
      const Result<std::int64_t> value = ParseInteger(text);
      return value.ok() ? InBounds(setting, *value) : Result<SettingValue>(value.status());
    }
    case SettingType::kSize: {
      const Result<std::int64_t> value = ParseSize(text);
      return value.ok() ? InBounds(setting, *value) : Result<SettingValue>(value.status());
    }
    case SettingType::kDuration: {
      const Result<Duration> value = ParseDuration(text);
      return value.ok() ? InBounds(setting, value.value().count())
                        : Result<SettingValue>(value.status());
    }
    case SettingType::kEnum:
      break;
  }
  return ParseChoice(setting, text);
}

std::string FormatSetting(const Setting& setting, const SettingValue& value) {
  if (setting.type == SettingType::kString) return std::get<std::string>(value);
  if (setting.type == SettingType::kBool) return std::get<bool>(value) ? "true" : "false";
  const std::int64_t number = std::get<std::int64_t>(value);
  if (setting.type == SettingType::kEnum)
    return std::string(setting.choices[static_cast<std::size_t>(number)]);
  return FormatNumber(setting.type, number);
}

std::string SettingText(const Setting& setting, const ServerConfig& config) {
  return FormatSetting(setting, setting.read(config));
}

}  // namespace millrace::server
