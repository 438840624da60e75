#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/base/mutex.h"
#include "millrace/store/task_store.h"

namespace millrace::store {

// A TaskStore in ordered maps: for tests, simulation and servers that need not remember. Its
// contents are as durable as the object: an owner that is "restarted" over the same object finds
// everything.
//
// Thread: any.
// Bounds: none but memory.
// Fails: kFenced, kNotFound and kInvalidArgument only.
class MemoryTaskStore final : public TaskStore {
 public:
  MemoryTaskStore() = default;

  [[nodiscard]] StoreTraits traits() const override {
    return {.exclusive = true, .counts_deletes = true};
  }
  std::vector<Status> Commit(std::span<const QueueWrite> writes) override;
  Result<QueueMetadata> ReadMetadata(const PhysicalQueueKey& queue) override;
  Result<TaskPage> ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                             TaskLevel through, std::size_t limit, std::size_t max_bytes) override;
  Result<std::optional<std::int64_t>> DeleteTasksThrough(const PhysicalQueueKey& queue,
                                                         Subqueue subqueue, TaskLevel through,
                                                         std::size_t limit) override;
  Result<SidePage> ReadSideRows(const PhysicalQueueKey& queue, std::string_view prefix,
                                std::string_view after, std::size_t limit) override;
  Result<QueuePage> ListQueues(std::string_view page_token, std::size_t limit) override;
  Status DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id) override;
  Status Health() override { return {}; }

 private:
  struct Queue {
    PhysicalQueueKey key;
    QueueMetadata metadata;
    std::map<TaskKey, TaskRow> tasks;
    std::map<std::string, std::string, std::less<>> side_rows;
  };

  Status CommitOne(const QueueWrite& write) MR_REQUIRES(mutex_);
  Queue* Find(const PhysicalQueueKey& queue) MR_REQUIRES(mutex_);

  Mutex mutex_;
  // By encoded key (key_encoding.h): a queue is here exactly when it has a metadata row.
  std::map<std::string, Queue, std::less<>> queues_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
