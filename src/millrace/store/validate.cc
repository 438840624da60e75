#include "millrace/store/validate.h"

#include <string>

namespace millrace::store {
namespace {

Status Invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

Status ValidateSideKey(std::string_view key) {
  if (key.empty() || key.size() > kSideKeyBytesMax)
    return Invalid("side row key must be 1 to 255 bytes");
  return {};
}

}  // namespace

Status ValidateQueueKey(const PhysicalQueueKey& queue) {
  if (queue.namespace_id.size() > kNamespaceIdBytesMax)
    return Invalid("namespace id is longer than 255 bytes");
  if (queue.persistence_name.empty()) return Invalid("queue name is empty");
  if (queue.persistence_name.size() > kPersistenceNameBytesMax) {
    return Invalid("queue name is longer than 1000 bytes");
  }
  return {};
}

Status ValidateWrite(const QueueWrite& write) {
  MR_RETURN_IF_ERROR(ValidateQueueKey(write.queue));
  for (const TaskRow& row : write.creates) {
    if (row.payload.size() > kValueBytesMax) return Invalid("task payload is larger than 16 MiB");
  }
  for (const SideRow& row : write.side_puts) {
    MR_RETURN_IF_ERROR(ValidateSideKey(row.key));
    if (row.value.size() > kValueBytesMax) return Invalid("side row is larger than 16 MiB");
  }
  for (const std::string& key : write.side_deletes) MR_RETURN_IF_ERROR(ValidateSideKey(key));
  if (write.keep_owner_state && (!write.metadata || write.expected_range_id.value == 0)) {
    return Invalid("only an existing metadata row can keep its owner state");
  }
  if (write.metadata) {
    if (write.metadata->range_id.value <= 0) return Invalid("metadata needs a range id above 0");
    if (write.metadata->owner_state.size() > kOwnerStateBytesMax) {
      return Invalid("owner state is larger than 4 KiB");
    }
    if (write.metadata->subqueues.size() > kSubqueuesMax) {
      return Invalid("metadata has more than 1048576 subqueues");
    }
  } else if (write.expected_range_id.value == 0) {
    return Invalid("a write that creates its queue needs metadata");
  }
  return {};
}

Status FencedStatus(RangeId expected, RangeId stored) {
  return {StatusCode::kFenced, "range id is " + std::to_string(stored.value) + ", expected " +
                                   std::to_string(expected.value)};
}

Status ValidateLimit(std::size_t limit) {
  if (limit == 0) return Invalid("limit must be above 0");
  return {};
}

}  // namespace millrace::store
