#include "millrace/server/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "millrace/server/json_text.h"

namespace millrace::server {
namespace {

std::string NumberText(double value) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc() ? std::string(buffer.data(), end) : "0";
}

bool Plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != '=';
  });
}

void AppendTextWord(std::string& out, std::string_view text) {
  if (Plain(text)) {
    out += text;
  } else {
    AppendJsonString(out, text);
  }
}

void AppendValue(std::string& out, const LogField& field, bool json) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    json ? AppendJsonString(out, *text) : AppendTextWord(out, *text);
  } else if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*number);
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    const std::string digits = NumberText(*real);
    // JSON has no words for infinity and not-a-number.
    json && !std::isfinite(*real) ? AppendJsonString(out, digits) : void(out += digits);
  } else {
    out += std::get<bool>(field.value) ? "true" : "false";
  }
}

// A message is text for people and stays unquoted, but must not start a new line.
void AppendMessage(std::string& out, std::string_view message) {
  const bool clean = std::none_of(message.begin(), message.end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (clean) {
    out += message;
  } else {
    AppendJsonString(out, message);
  }
}

}  // namespace

std::string Rfc3339(WallTime time) {
  std::int64_t seconds = time.ns / 1'000'000'000;
  std::int64_t rest = time.ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  const std::time_t t = seconds;
  std::tm utc{};
  gmtime_r(&t, &utc);
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ",
                utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                utc.tm_sec, static_cast<int>(rest / 1'000));
  return buffer.data();
}

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      break;
  }
  return "error";
}

std::string FormatLogLine(LogFormat format, WallTime time, LogLevel level,
                          std::string_view component, std::string_view message,
                          std::initializer_list<LogField> fields) {
  const bool json = format == LogFormat::kJson;
  std::string out;
  out.reserve(160);
  if (json) {
    out += "{\"ts\":\"" + Rfc3339(time) + "\",\"level\":\"";
    out += LogLevelName(level);
    out += "\",\"component\":";
    AppendJsonString(out, component);
    out += ",\"msg\":";
    AppendJsonString(out, message);
  } else {
    std::string name(LogLevelName(level));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    name.resize(5, ' ');
    out += Rfc3339(time) + " " + name + " ";
    out += component;
    out += ": ";
    AppendMessage(out, message);
  }
  for (const LogField& field : fields) {
    if (json) {
      out.push_back(',');
      AppendJsonString(out, field.name);
      out.push_back(':');
    } else {
      out.push_back(' ');
      out += field.name;
      out.push_back('=');
    }
    AppendValue(out, field, json);
  }
  out += json ? "}\n" : "\n";
  return out;
}

}  // namespace millrace::server
