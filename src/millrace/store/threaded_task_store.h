#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/metrics.h"
#include "millrace/base/time.h"
#include "millrace/store/async_task_store.h"
#include "millrace/store/task_store.h"

namespace millrace::store {

struct ThreadedTaskStoreConfig {
  int read_threads = 2;
  // Finished tasks are deleted (DeleteTasksThrough) by a thread of its own, while others commit:
  // for a store whose deletions take long and do not disturb its commits. No row of theirs is ever
  // written again, so that no order is needed.
  bool deletes_apart = false;
  // Rows, payloads and names of one commit group. One write alone may be larger.
  std::size_t group_bytes_max = 8u << 20;
  std::size_t group_writes_max = 4'096;
  // How long a relaxed write waits for a synced one to ride along with before it is written alone.
  Duration relaxed_write_delay = std::chrono::milliseconds(5);
};

// AsyncTaskStore over a blocking TaskStore: one thread commits, a few read.
//
// The commit thread takes whatever writes of all its queues gathered while the last group was being
// made durable and commits them together, so the group grows with the load and a lone write never
// waits. DeleteQueue takes its place in the same order, and so does DeleteTasksThrough unless it
// has a thread of its own.
//
// Thread: any. Construct before and destroy after every strand user; the strands must still run or
// accept posts.
// Bounds: none of its own, as AsyncTaskStore says. A group by bytes and writes.
// Fails: passes on what the store says.
// Invariants: the destructor answers everything handed over before it.
class ThreadedTaskStore final : public AsyncTaskStore {
 public:
  ThreadedTaskStore(TaskStore& store, const ThreadedTaskStoreConfig& config, Metrics& metrics);
  ~ThreadedTaskStore() override;
  ThreadedTaskStore(const ThreadedTaskStore&) = delete;
  ThreadedTaskStore& operator=(const ThreadedTaskStore&) = delete;

  [[nodiscard]] StoreTraits traits() const override;
  void Commit(QueueWrite write, exec::Strand& strand, CommitCallback done) override;
  void ReadMetadata(const PhysicalQueueKey& queue, exec::Strand& strand,
                    Callback<QueueMetadata> done) override;
  void ReadRangeIds(std::vector<PhysicalQueueKey> queues, exec::Strand& strand,
                    UniqueFunction<void(std::vector<Result<RangeId>>)> done) override;
  void ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                 TaskLevel through, std::size_t limit, std::size_t max_bytes, exec::Strand& strand,
                 Callback<TaskPage> done) override;
  void DeleteTasksThrough(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel through,
                          std::size_t limit, exec::Strand& strand,
                          Callback<std::optional<std::int64_t>> done) override;
  void ReadSideRows(const PhysicalQueueKey& queue, std::string prefix, std::string after,
                    std::size_t limit, exec::Strand& strand, Callback<SidePage> done) override;
  void ListQueues(std::string page_token, std::size_t limit, exec::Strand& strand,
                  Callback<QueuePage> done) override;
  void DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id, exec::Strand& strand,
                   StatusCallback done) override;
  Status Health() override;

 private:
  TaskStore& store_;
  std::unique_ptr<class CommitThread> commits_;
  std::unique_ptr<class ReadThreads> reads_;
  std::unique_ptr<class ReadThreads> deletes_;  // Null: commits_ deletes.
};

}  // namespace millrace::store
