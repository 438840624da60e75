#include "millrace/store/key_encoding.h"

#include <cstddef>

#include "millrace/base/check.h"
#include "millrace/store/validate.h"

namespace millrace::store {
namespace {

constexpr std::string_view kTokenPrefix = "mrq1.";
constexpr std::string_view kHexDigits = "0123456789abcdef";

template <typename U>
void AppendBigEndian(U value, std::string& out) {
  char bytes[sizeof(U)];
  for (std::size_t i = 0; i < sizeof(U); ++i) {
    bytes[i] = static_cast<char>(value >> (8 * (sizeof(U) - 1 - i)));
  }
  out.append(bytes, sizeof(U));
}

template <typename U>
bool TakeBigEndian(std::string_view& in, U& value) {
  if (in.size() < sizeof(U)) return false;
  std::uint64_t read = 0;
  for (std::size_t i = 0; i < sizeof(U); ++i) {
    read = read << 8 | static_cast<unsigned char>(in[i]);
  }
  value = static_cast<U>(read);
  in.remove_prefix(sizeof(U));
  return true;
}

constexpr std::uint32_t kSign32 = 1u << 31;
constexpr std::uint64_t kSign64 = std::uint64_t{1} << 63;

bool TakeBytes(std::string_view& in, std::size_t size, std::string& out) {
  if (in.size() < size) return false;
  out.assign(in.substr(0, size));
  in.remove_prefix(size);
  return true;
}

}  // namespace

void AppendOrdered8(std::uint8_t value, std::string& out) {
  out.push_back(static_cast<char>(value));
}
void AppendOrdered16(std::uint16_t value, std::string& out) { AppendBigEndian(value, out); }
void AppendOrdered32(std::int32_t value, std::string& out) {
  AppendBigEndian(static_cast<std::uint32_t>(value) ^ kSign32, out);
}
void AppendOrdered64(std::int64_t value, std::string& out) {
  AppendBigEndian(static_cast<std::uint64_t>(value) ^ kSign64, out);
}

bool TakeOrdered8(std::string_view& in, std::uint8_t& value) { return TakeBigEndian(in, value); }
bool TakeOrdered16(std::string_view& in, std::uint16_t& value) { return TakeBigEndian(in, value); }
bool TakeOrdered32(std::string_view& in, std::int32_t& value) {
  std::uint32_t raw = 0;
  if (!TakeBigEndian(in, raw)) return false;
  value = static_cast<std::int32_t>(raw ^ kSign32);
  return true;
}
bool TakeOrdered64(std::string_view& in, std::int64_t& value) {
  std::uint64_t raw = 0;
  if (!TakeBigEndian(in, raw)) return false;
  value = static_cast<std::int64_t>(raw ^ kSign64);
  return true;
}

void AppendQueueKey(const PhysicalQueueKey& queue, std::string& out) {
  MR_CHECK(queue.namespace_id.size() <= kNamespaceIdBytesMax);
  MR_CHECK(queue.persistence_name.size() <= kPersistenceNameBytesMax);
  AppendOrdered8(static_cast<std::uint8_t>(queue.namespace_id.size()), out);
  out.append(queue.namespace_id);
  AppendOrdered16(static_cast<std::uint16_t>(queue.persistence_name.size()), out);
  out.append(queue.persistence_name);
  AppendOrdered8(queue.task_type, out);
}

std::string EncodeQueueKey(const PhysicalQueueKey& queue) {
  std::string out;
  out.reserve(queue.namespace_id.size() + queue.persistence_name.size() + 4);
  AppendQueueKey(queue, out);
  return out;
}

bool TakeQueueKey(std::string_view& in, PhysicalQueueKey& queue) {
  std::uint8_t namespace_size = 0;
  std::uint16_t name_size = 0;
  return TakeOrdered8(in, namespace_size) && TakeBytes(in, namespace_size, queue.namespace_id) &&
         TakeOrdered16(in, name_size) && name_size >= 1 && name_size <= kPersistenceNameBytesMax &&
         TakeBytes(in, name_size, queue.persistence_name) && TakeOrdered8(in, queue.task_type);
}

void AppendTaskKey(const TaskKey& key, std::string& out) {
  AppendOrdered32(key.subqueue, out);
  AppendOrdered64(key.level.pass, out);
  AppendOrdered64(key.level.id.value, out);
}

bool TakeTaskKey(std::string_view& in, TaskKey& key) {
  return TakeOrdered32(in, key.subqueue) && TakeOrdered64(in, key.level.pass) &&
         TakeOrdered64(in, key.level.id.value);
}

std::string EncodePageToken(std::string_view encoded_queue_key) {
  std::string token(kTokenPrefix);
  token.reserve(token.size() + 2 * encoded_queue_key.size());
  for (const char c : encoded_queue_key) {
    const auto byte = static_cast<unsigned char>(c);
    token.push_back(kHexDigits[byte >> 4]);
    token.push_back(kHexDigits[byte & 15]);
  }
  return token;
}

Result<std::string> DecodePageToken(std::string_view token) {
  if (token.empty()) return std::string();
  const Status bad(StatusCode::kInvalidArgument, "page token was not made by this store");
  if (!token.starts_with(kTokenPrefix)) return bad;
  token.remove_prefix(kTokenPrefix.size());
  if (token.empty() || token.size() % 2 != 0) return bad;
  std::string key;
  key.reserve(token.size() / 2);
  for (std::size_t i = 0; i < token.size(); i += 2) {
    const std::size_t high = kHexDigits.find(token[i]);
    const std::size_t low = kHexDigits.find(token[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return bad;
    key.push_back(static_cast<char>(high << 4 | low));
  }
  std::string_view rest = key;
  PhysicalQueueKey queue;
  if (!TakeQueueKey(rest, queue) || !rest.empty()) return bad;
  return key;
}

}  // namespace millrace::store
