#include "millrace/cli/task_environment.h"

#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>

#include "millrace/cli/utf8.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kHeaderPrefix = "MILLRACE_HEADER_";
constexpr std::array<std::string_view, 5> kNames = {
    "MILLRACE_TASK_ID=", "MILLRACE_ATTEMPT=", "MILLRACE_MAX_ATTEMPTS=", "MILLRACE_QUEUE=",
    "MILLRACE_ENQUEUE_TIME="};

bool IsTaskVariable(const std::string& entry) {
  if (entry.starts_with(kHeaderPrefix)) return true;
  for (const std::string_view name : kNames) {
    if (entry.starts_with(name)) return true;
  }
  return false;
}

}  // namespace

std::string HeaderVariable(std::string_view header) {
  std::string name(kHeaderPrefix);
  for (const char c : header) {
    const auto byte = static_cast<unsigned char>(c);
    name += byte < 0x80 && std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return name;
}

std::vector<std::string> TaskEnvironment(const std::vector<std::string>& base,
                                         const std::string& queue, const v1::LeasedTask& task) {
  std::vector<std::string> environment;
  environment.reserve(base.size() + kNames.size() + static_cast<std::size_t>(task.headers_size()));
  for (const std::string& entry : base) {
    if (!IsTaskVariable(entry)) environment.push_back(entry);
  }
  environment.push_back(std::string(kNames[0]) + task.task_id());
  environment.push_back(std::string(kNames[1]) + std::to_string(task.attempt()));
  environment.push_back(std::string(kNames[2]) + std::to_string(task.max_attempts()));
  environment.push_back(std::string(kNames[3]) + queue);
  environment.push_back(std::string(kNames[4]) + TimestampText(task.enqueue_time()));
  for (const auto& [name, value] : task.headers()) {
    if (value.find('\0') == std::string::npos)
      environment.push_back(HeaderVariable(name) + "=" + value);
  }
  return environment;
}

std::string TimestampText(const google::protobuf::Timestamp& time) {
  const std::time_t seconds = time.seconds();
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  std::array<char, 64> date;
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 80> text;
  std::snprintf(text.data(), text.size(), "%s.%03dZ", date.data(), time.nanos() / 1'000'000);
  return text.data();
}

std::string CutToUtf8(std::string text, std::size_t bytes_max) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8Length(std::string_view(text).substr(at));
    clean += length == 0 ? "?" : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  if (clean.size() <= bytes_max) return clean;
  const auto starts_character = [&clean](std::size_t at) {
    return (static_cast<unsigned char>(clean[at]) & 0xC0u) != 0x80u;
  };
  constexpr std::string_view kGap = " ... ";
  std::size_t front = std::min<std::size_t>(bytes_max / 10, clean.size());
  while (front > 0 && !starts_character(front)) --front;
  std::size_t back = clean.size() - (bytes_max - kGap.size() - front);
  while (back < clean.size() && !starts_character(back)) ++back;
  return clean.substr(0, front) + std::string(kGap) + clean.substr(back);
}

}  // namespace millrace::cli
