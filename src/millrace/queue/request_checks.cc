#include "millrace/queue/request_checks.h"

#include <string_view>

namespace millrace::queue {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
// More than any setting allows, and far from overflowing nanoseconds.
constexpr std::int64_t kSecondsMax = 100LL * 366 * 24 * 3600;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string Seconds(Duration d) {
  const double seconds = std::chrono::duration<double>(d).count();
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "s";
}

}  // namespace

std::optional<Duration> FromProto(const google::protobuf::Duration& duration) {
  const std::int64_t seconds = duration.seconds();
  const std::int32_t nanos = duration.nanos();
  if (nanos <= -kNanosPerSecond || nanos >= kNanosPerSecond) return std::nullopt;
  if ((seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0)) return std::nullopt;
  if (seconds > kSecondsMax * 100 || seconds < -kSecondsMax * 100) return std::nullopt;
  if (seconds > kSecondsMax) return Duration(std::chrono::seconds(kSecondsMax));
  if (seconds < -kSecondsMax) return Duration(std::chrono::seconds(-kSecondsMax));
  return Duration(seconds * kNanosPerSecond + nanos);
}

void ToProto(Duration duration, google::protobuf::Duration* out) {
  out->set_seconds(duration.count() / kNanosPerSecond);
  out->set_nanos(static_cast<std::int32_t>(duration.count() % kNanosPerSecond));
}

void ToProto(WallTime time, google::protobuf::Timestamp* out) {
  out->set_seconds(time.ns / kNanosPerSecond);
  out->set_nanos(static_cast<std::int32_t>(time.ns % kNanosPerSecond));
}

void CheckQueue(const std::string& name, FieldErrors& errors) {
  std::string wrong = CheckQueueName(name);
  if (!wrong.empty()) errors.Add("queue", std::move(wrong));
}

void CheckItemCount(const char* field, int count, std::size_t max, FieldErrors& errors) {
  if (count < 1 || static_cast<std::size_t>(count) > max) {
    errors.Add(field,
               "1 to " + std::to_string(max) + " items are allowed, not " + std::to_string(count));
  }
}

Duration CheckDuration(const char* field, bool is_set, const google::protobuf::Duration& value,
                       Duration fallback, Duration min, Duration max, FieldErrors& errors) {
  if (!is_set) return fallback;
  const std::optional<Duration> duration = FromProto(value);
  if (!duration) {
    errors.Add(field, "not a valid duration");
    return fallback;
  }
  if (*duration < min || *duration > max) {
    errors.Add(field,
               Seconds(min) + " to " + Seconds(max) + " is allowed, not " + Seconds(*duration));
    return fallback;
  }
  return *duration;
}

std::size_t CheckPageSize(std::int32_t value, std::size_t fallback, std::size_t max,
                          FieldErrors& errors) {
  if (value == 0) return fallback;
  if (value < 0 || static_cast<std::size_t>(value) > max) {
    errors.Add("page_size",
               "0 to " + std::to_string(max) + " is allowed, not " + std::to_string(value));
    return fallback;
  }
  return static_cast<std::size_t>(value);
}

std::string EncodePageToken(const std::string& bytes) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) out.push_back(kAlphabet[bits >> (count - 6) & 63]);
  }
  if (count > 0) out.push_back(kAlphabet[bits << (6 - count) & 63]);
  return out;
}

std::optional<std::string> DecodePageToken(const std::string& token) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : token) {
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      out.push_back(static_cast<char>(bits >> (count - 8)));
      count -= 8;
    }
  }
  if (EncodePageToken(out) != token) return std::nullopt;
  return out;
}

}  // namespace millrace::queue
