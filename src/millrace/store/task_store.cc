#include "millrace/store/task_store.h"

namespace millrace::store {

std::vector<Result<RangeId>> TaskStore::ReadRangeIds(std::span<const PhysicalQueueKey> queues) {
  std::vector<Result<RangeId>> ids;
  ids.reserve(queues.size());
  for (const PhysicalQueueKey& queue : queues) {
    Result<QueueMetadata> metadata = ReadMetadata(queue);
    if (metadata.ok()) {
      ids.emplace_back(metadata->range_id);
    } else {
      ids.emplace_back(metadata.status());
    }
  }
  return ids;
}

}  // namespace millrace::store
