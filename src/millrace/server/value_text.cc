#include "millrace/server/value_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace millrace::server {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// Largest first: FormatDuration walks down.
constexpr std::array<Unit, 7> kTimeUnits{{{"d", 86'400'000'000'000},
                                          {"h", 3'600'000'000'000},
                                          {"m", 60'000'000'000},
                                          {"s", 1'000'000'000},
                                          {"ms", 1'000'000},
                                          {"us", 1'000},
                                          {"ns", 1}}};

constexpr std::array<Unit, 9> kSizeUnits{{{"TiB", std::int64_t{1} << 40},
                                          {"GiB", std::int64_t{1} << 30},
                                          {"MiB", std::int64_t{1} << 20},
                                          {"KiB", std::int64_t{1} << 10},
                                          {"TB", 1'000'000'000'000},
                                          {"GB", 1'000'000'000},
                                          {"MB", 1'000'000},
                                          {"KB", 1'000},
                                          {"B", 1}}};

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

bool NumberChar(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// Takes "<number>" off the front of `text`; false when there is none.
bool TakeNumber(std::string_view& text, double& out) {
  std::size_t n = 0;
  while (n < text.size() && NumberChar(text[n])) ++n;
  if (n == 0) return false;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + n, out, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + n) return false;
  text.remove_prefix(n);
  return true;
}

std::string_view TakeWord(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && !NumberChar(text[n])) ++n;
  const std::string_view word = text.substr(0, n);
  text.remove_prefix(n);
  return word;
}

// False when the product does not fit.
bool Scale(double number, std::int64_t factor, std::int64_t& out) {
  const double product = number * static_cast<double>(factor);
  if (!(product < 9.2e18)) return false;
  // Whole numbers stay exact beyond the 53 bits of the product.
  if (number == std::floor(number) && number < 9.0e15)
    return !__builtin_mul_overflow(static_cast<std::int64_t>(number), factor, &out);
  out = std::llround(product);
  return true;
}

Status Expected(std::string_view what, std::string_view text) {
  return Status(StatusCode::kInvalidArgument,
                "expected " + std::string(what) + ", got \"" + std::string(text) + "\"");
}

constexpr std::string_view kDurationForm = "a duration such as 250ms, 30s or 5m";
constexpr std::string_view kSizeForm = "a size such as 65536, 64KiB or 1MiB";

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest == "0") return Duration::zero();
  if (rest.empty()) return Expected(kDurationForm, text);
  std::int64_t total = 0;
  while (!rest.empty()) {
    double number = 0;
    if (!TakeNumber(rest, number)) return Expected(kDurationForm, text);
    const std::string_view word = TakeWord(rest);
    const auto* unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                    [&](const Unit& u) { return u.name == word; });
    if (unit == kTimeUnits.end()) return Expected(kDurationForm, text);
    std::int64_t part = 0;
    if (!Scale(number, unit->factor, part) || __builtin_add_overflow(total, part, &total)) {
      return Status(StatusCode::kInvalidArgument,
                    "duration \"" + std::string(text) + "\" is too long");
    }
  }
  return Duration(total);
}

std::string FormatDuration(Duration value) {
  std::int64_t left = value.count();
  if (left == 0) return "0s";
  std::string out;
  if (left < 0) {
    out = "-";
    left = -left;
  }
  for (const Unit& unit : kTimeUnits) {
    if (left >= unit.factor && unit.name != "d") {
      out += std::to_string(left / unit.factor) + std::string(unit.name);
      left %= unit.factor;
    }
  }
  return out;
}

Result<std::int64_t> ParseSize(std::string_view text) {
  std::string_view rest = Trim(text);
  double number = 0;
  if (!TakeNumber(rest, number)) return Expected(kSizeForm, text);
  const std::string word = Lower(Trim(rest));
  std::int64_t factor = 0;
  if (word.empty()) factor = 1;
  for (const Unit& unit : kSizeUnits) {
    if (Lower(unit.name) == word) factor = unit.factor;
  }
  if (factor == 0) return Expected(kSizeForm, text);
  std::int64_t bytes = 0;
  if (!Scale(number, factor, bytes)) {
    return Status(StatusCode::kInvalidArgument, "size \"" + std::string(text) + "\" is too large");
  }
  return bytes;
}

std::string FormatSize(std::int64_t bytes) {
  for (const Unit& unit : kSizeUnits) {
    if (unit.name.ends_with("iB") && bytes >= unit.factor && bytes % unit.factor == 0) {
      return std::to_string(bytes / unit.factor) + std::string(unit.name);
    }
  }
  return std::to_string(bytes) + "B";
}

Result<std::int64_t> ParseInteger(std::string_view text) {
  std::string digits;
  for (const char c : Trim(text)) {
    if (c != '_') digits.push_back(c);
  }
  std::string_view body = digits;
  if (body.starts_with('+')) body.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Status(StatusCode::kInvalidArgument,
                  "number \"" + std::string(text) + "\" is too large");
  }
  if (error != std::errc() || end != body.data() + body.size())
    return Expected("a whole number", text);
  return value;
}

Result<bool> ParseBool(std::string_view text) {
  const std::string word = Lower(Trim(text));
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return Expected("true or false", text);
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> out;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    std::string part = text.substr(start, comma - start);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) out.push_back(std::move(part));
    start = comma + 1;
  }
  return out;
}

}  // namespace millrace::server
