#include "millrace/server/metric_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace millrace::server {
namespace {

bool Letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool Digit(char c) { return c >= '0' && c <= '9'; }

// `quotes`: label values escape the quote too, help texts do not.
std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

bool ValidLabelName(std::string_view name) {
  return !name.empty() && !Digit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return Letter(c) || Digit(c); });
}

bool ValidMetricName(std::string_view name) {
  return !name.empty() && !Digit(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return Letter(c) || Digit(c) || c == ':';
  });
}

std::string LabelText(const MetricLabels& labels) {
  MetricLabels sorted = labels;
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (const auto& [name, value] : sorted) {
    if (!out.empty()) out.push_back(',');
    out += name + "=\"" + Escaped(value, true) + "\"";
  }
  return out;
}

std::string SampleText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 9.0e15)
    return std::to_string(static_cast<long long>(value));
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc() ? std::string(buffer.data(), end) : "NaN";
}

std::string FamilyHeader(std::string_view name, std::string_view help, std::string_view type) {
  std::string out = "# HELP " + std::string(name) + " " + Escaped(help, false) + "\n";
  return out + "# TYPE " + std::string(name) + " " + std::string(type) + "\n";
}

std::string SampleLine(std::string_view name, std::string_view labels, double value) {
  std::string out(name);
  if (!labels.empty()) out += "{" + std::string(labels) + "}";
  return out + " " + SampleText(value) + "\n";
}

}  // namespace millrace::server
