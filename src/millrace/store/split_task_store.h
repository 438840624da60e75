#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/store/task_store.h"

namespace millrace::store {

// Two stores as one: queues with a task type (Temporal's) in one of them, those without in the
// other. For a database where each kind has tables of its own.
//
// Thread: any. Bounds, Fails: as the two.
class SplitTaskStore final : public TaskStore {
 public:
  SplitTaskStore(std::unique_ptr<TaskStore> without_type, std::unique_ptr<TaskStore> with_type);

  [[nodiscard]] StoreTraits traits() const override;
  std::vector<Status> Commit(std::span<const QueueWrite> writes) override;
  Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) override;
  std::vector<Result<RangeId>> ReadRangeIds(std::span<const PhysicalQueueKey> queues) override;
  Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                             TaskLevel through, std::size_t limit, std::size_t max_bytes) override;
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                         Subqueue subqueue, TaskLevel through,
                                                         std::size_t limit) override;
  Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                std::string_view after, std::size_t limit) override;
  // Queues without a type first.
  Result<QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override;
  Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) override;
  // Ok when both are.
  Status Health() override;

 private:
  TaskStore& Of(const PhysicalQueueKey& queue) {
    return queue.task_type == 0 ? *without_type_ : *with_type_;
  }

  const std::unique_ptr<TaskStore> without_type_;
  const std::unique_ptr<TaskStore> with_type_;
};

}  // namespace millrace::store
