#include "millrace/store/postgres/row_layout.h"

#include <farmhash.h>

#include "millrace/base/check.h"
#include "millrace/store/crc32c.h"

namespace millrace::store {
namespace {

constexpr char kStateVersion = 2;

}  // namespace

std::int64_t RangeHash(std::string_view task_queue_id) {
  return util::Fingerprint32(task_queue_id.data(), task_queue_id.size());
}

std::string StatePrefix(std::string_view data) {
  std::string prefix(1, kStateVersion);
  AppendChecksum(Crc32c(data), prefix);
  return prefix;
}

std::optional<std::string_view> OwnerStateIn(std::string_view stored, std::string_view data) {
  if (stored.empty()) return stored;
  const std::string prefix = StatePrefix(data);
  if (!stored.starts_with(prefix)) return std::nullopt;
  return stored.substr(prefix.size());
}

std::string AfterAllOf(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  MR_CHECK(!end.empty());
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace millrace::store
