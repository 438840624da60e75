#include "millrace/queue/lease_token.h"

#include "millrace/queue/bytes.h"

namespace millrace::queue {
namespace {
constexpr char kFormat = 1;  // Below 4: base64 then begins with 'A'.
}  // namespace

std::string EncodeLeaseToken(const LeaseToken& token) {
  std::string out;
  out.reserve(kLeaseTokenBytes);
  out.push_back(kFormat);
  AppendFixed64(out, token.queue_uid);
  AppendFixed64(out, static_cast<std::uint64_t>(token.epoch.value));
  AppendFixed64(out, token.counter);
  AppendFixed64(out, static_cast<std::uint64_t>(token.task.value));
  return out;
}

std::optional<LeaseToken> DecodeLeaseToken(std::string_view bytes) {
  if (bytes.size() != kLeaseTokenBytes || bytes.front() != kFormat) return std::nullopt;
  ByteReader reader(bytes.substr(1));
  LeaseToken token;
  std::uint64_t epoch = 0;
  std::uint64_t task = 0;
  reader.Fixed64(&token.queue_uid);
  reader.Fixed64(&epoch);
  reader.Fixed64(&token.counter);
  reader.Fixed64(&task);
  token.epoch.value = static_cast<std::int64_t>(epoch);
  token.task.value = static_cast<std::int64_t>(task);
  return token;
}

}  // namespace millrace::queue
