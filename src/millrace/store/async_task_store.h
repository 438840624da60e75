#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/function.h"
#include "millrace/base/status.h"
#include "millrace/exec/strand.h"
#include "millrace/store/task_store.h"
#include "millrace/store/types.h"

namespace millrace::store {

template <typename T>
using Callback = UniqueFunction<void(Result<T>)>;
inline constexpr std::size_t kRangeIdsMax = 1'000;
using StatusCallback = UniqueFunction<void(Status)>;
// Gives the write back, so that the rows just stored can be used without a copy or a read.
using CommitCallback = UniqueFunction<void(Status, QueueWrite)>;

// TaskStore for code that may not block: same operations and errors, answered by a callback on the
// given strand.
//
// Thread: any. The strand must outlive the callback; the callback itself holds the caller's Gate.
// Bounds: callers bound their own calls in flight (an engine has at most one write and one read per
// queue). Invariants: every callback runs exactly once, never inside the call. Writes of one queue
// are applied in the order they were handed over.
class AsyncTaskStore {
 public:
  virtual ~AsyncTaskStore() = default;

  [[nodiscard]] virtual StoreTraits traits() const = 0;

  // The waiting writes of all queues are committed together. A relaxed write does not by itself
  // start a commit at once: it rides along with the next one, or is written alone after a short
  // wait (a setting, a few milliseconds).
  virtual void Commit(QueueWrite write, exec::Strand& strand, CommitCallback done) = 0;
  virtual void ReadMetadata(const PhysicalQueueKey& queue, exec::Strand& strand,
                            Callback<QueueMetadata> done) = 0;
  // Of each queue, in their order. Callers ask for at most kRangeIdsMax at once.
  virtual void ReadRangeIds(std::vector<PhysicalQueueKey> queues, exec::Strand& strand,
                            UniqueFunction<void(std::vector<Result<RangeId>>)> done) = 0;
  virtual void ReadTasks(const PhysicalQueueKey& queue, Subqueue subqueue, TaskLevel from,
                         TaskLevel through, std::size_t limit, std::size_t max_bytes,
                         exec::Strand& strand, Callback<TaskPage> done) = 0;
  virtual void DeleteTasksThrough(const PhysicalQueueKey& queue, Subqueue subqueue,
                                  TaskLevel through, std::size_t limit, exec::Strand& strand,
                                  Callback<std::optional<std::int64_t>> done) = 0;
  virtual void ReadSideRows(const PhysicalQueueKey& queue, std::string prefix, std::string after,
                            std::size_t limit, exec::Strand& strand, Callback<SidePage> done) = 0;
  virtual void ListQueues(std::string page_token, std::size_t limit, exec::Strand& strand,
                          Callback<QueuePage> done) = 0;
  virtual void DeleteQueue(const PhysicalQueueKey& queue, RangeId expected_range_id,
                           exec::Strand& strand, StatusCallback done) = 0;
  virtual Status Health() = 0;
};

}  // namespace millrace::store
