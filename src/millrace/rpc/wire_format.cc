#include "millrace/rpc/wire_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace millrace::rpc {
namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> MakeBase64Values() {
  std::array<std::int8_t, 256> values{};
  for (std::int8_t& value : values) value = -1;
  for (std::size_t i = 0; i < kBase64Alphabet.size(); ++i) {
    values[static_cast<unsigned char>(kBase64Alphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}
constexpr std::array<std::int8_t, 256> kBase64Values = MakeBase64Values();

struct TimeoutUnit {
  char letter;
  std::int64_t ns;
};
constexpr std::array<TimeoutUnit, 6> kTimeoutUnits = {{{'n', 1},
                                                       {'u', 1'000},
                                                       {'m', 1'000'000},
                                                       {'S', 1'000'000'000},
                                                       {'M', 60'000'000'000},
                                                       {'H', 3'600'000'000'000}}};
constexpr std::int64_t kTimeoutMaxNs = 100LL * 365 * 24 * 3'600'000'000'000;
constexpr std::int64_t kTimeoutDigitsEnd = 100'000'000;

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<Duration> ParseTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  std::int64_t number = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  for (const TimeoutUnit& unit : kTimeoutUnits) {
    if (unit.letter != text.back()) continue;
    if (number > kTimeoutMaxNs / unit.ns) return Duration(kTimeoutMaxNs);
    return Duration(number * unit.ns);
  }
  return std::nullopt;
}

std::string FormatTimeout(Duration timeout) {
  const std::int64_t ns = std::clamp<std::int64_t>(timeout.count(), 1, kTimeoutMaxNs);
  for (const TimeoutUnit& unit : kTimeoutUnits) {
    const std::int64_t number = ns / unit.ns + (ns % unit.ns != 0 ? 1 : 0);
    if (number < kTimeoutDigitsEnd) return std::to_string(number) + unit.letter;
  }
  return "99999999H";
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7e && c != '%') {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = HexValue(text[i + 1]);
      const int low = HexValue(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out.push_back(static_cast<char>(high * 16 + low));
        i += 2;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

std::string Base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    count += 8;
    while (count >= 6) {
      count -= 6;
      out.push_back(kBase64Alphabet[(bits >> count) & 63]);
    }
  }
  if (count > 0) out.push_back(kBase64Alphabet[(bits << (6 - count)) & 63]);
  return out;
}

std::optional<std::string> Base64Decode(std::string_view text) {
  if (text.size() % 4 == 0 && text.ends_with('=')) {
    text.remove_suffix(text.ends_with("==") ? 2 : 1);
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kBase64Values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 255));
    }
  }
  return out;
}

Code ParseStatusCode(std::string_view text) {
  if (text.empty() || text.size() > 2) return Code::kUnknown;
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return Code::kUnknown;
    number = number * 10 + (c - '0');
  }
  return number <= 16 ? static_cast<Code>(number) : Code::kUnknown;
}

Code CodeOfHttpStatus(int http_status) {
  switch (http_status) {
    case 400:
      return Code::kInternal;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return Code::kUnavailable;
    default:
      return Code::kUnknown;
  }
}

bool IsBinaryHeader(std::string_view name) { return name.ends_with("-bin"); }

bool IsSendableMetadata(std::string_view name, std::string_view value) {
  if (name.empty() || name.starts_with("grpc-")) return false;
  for (const char c : name) {
    const bool legal =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!legal) return false;
  }
  for (const std::string_view reserved :
       {"te", "content-type", "content-length", "user-agent", "connection", "keep-alive", "host",
        "proxy-connection", "transfer-encoding", "upgrade"}) {
    if (name == reserved) return false;
  }
  if (IsBinaryHeader(name)) return true;
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool AppendReceivedMetadata(std::string_view name, std::string_view value, Metadata* out) {
  if (!IsBinaryHeader(name)) {
    out->emplace_back(name, value);
    return true;
  }
  Metadata decoded;
  for (;;) {
    const std::size_t comma = value.find(',');
    std::optional<std::string> bytes = Base64Decode(value.substr(0, comma));
    if (!bytes) return false;
    decoded.emplace_back(name, *std::move(bytes));
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
  }
  for (auto& pair : decoded) out->push_back(std::move(pair));
  return true;
}

bool ListsToken(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (entry == token) return true;
  }
  return false;
}

bool IsGrpcContentType(std::string_view value) {
  constexpr std::string_view kType = "application/grpc";
  if (!value.starts_with(kType)) return false;
  value.remove_prefix(kType.size());
  return value.empty() || value.front() == '+' || value.front() == ';';
}

}  // namespace millrace::rpc
