#include "millrace/cli/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace millrace::cli {
namespace {

std::string Format(const char* format, double value) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

}  // namespace

std::string ShowDuration(Duration duration) {
  const double ns = static_cast<double>(duration.count());
  if (ns < 0) return "-" + ShowDuration(-duration);
  if (ns == 0) return "0s";
  if (ns < 1e3) return Format("%.0fns", ns);
  if (ns < 1e6) return Format("%.0fus", ns / 1e3);
  if (ns < 1e9) return Format(ns < 10e6 ? "%.1fms" : "%.0fms", ns / 1e6);
  if (ns < 60e9) return Format(ns < 10e9 ? "%.1fs" : "%.0fs", ns / 1e9);
  const std::int64_t seconds = std::llround(ns / 1e9);
  std::array<char, 64> buffer;
  const auto two = [&buffer](std::int64_t major, const char* format, std::int64_t minor) {
    std::snprintf(buffer.data(), buffer.size(), format, static_cast<long long>(major),
                  static_cast<long long>(minor));
    return std::string(buffer.data());
  };
  if (seconds < 3600) return two(seconds / 60, "%lldm%02llds", seconds % 60);
  if (seconds < 2 * 86400) return two(seconds / 3600, "%lldh%02lldm", seconds / 60 % 60);
  return two(seconds / 86400, "%lldd%lldh", seconds / 3600 % 24);
}

std::string ShowCount(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string ShowRate(double per_second) {
  const auto scaled = [](double value, const char* suffix) {
    const char* format = value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f";
    return Format(format, value) + suffix;
  };
  if (per_second < 100) return Format("%.1f", per_second);
  if (per_second < 1000) return Format("%.0f", per_second);
  if (per_second < 1e6) return scaled(per_second / 1e3, "k");
  return scaled(per_second / 1e6, "M");
}

std::string ShowBytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  const std::array<const char*, 5> units = {" KiB", " MiB", " GiB", " TiB", " PiB"};
  std::size_t unit = 0;
  value /= 1024;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return Format("%.2f", value) + units[unit];
}

}  // namespace millrace::cli
