#include "millrace/store/postgres/row_layout.h"

#include <farmhash.h>

#include "millrace/base/check.h"

namespace millrace::store {

std::int64_t RangeHash(std::string_view task_queue_id) {
  return util::Fingerprint32(task_queue_id.data(), task_queue_id.size());
}

std::string AfterAllOf(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  MR_CHECK(!end.empty());
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace millrace::store
